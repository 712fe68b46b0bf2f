"""Both clients with a real service."""

import asyncio
import datetime
import inspect
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict
from pyarrow.parquet import read_table

from benchmarks.service.server import Server, serving
from glcb import (
    Bandit,
    ClosedDecision,
    DuplicateDecision,
    DuplicateReward,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    LogError,
    ModelFileError,
    NotRunning,
    Unauthorized,
    UnknownArm,
    UnknownDecision,
    UnknownExperiment,
)
from glcb._api.responses import Counts
from glcb.client import AsyncClient, Client, Decision, Experiment, Ranking
from tests.client.conftest import ARMS

pytestmark = pytest.mark.live


def test_decisions_and_rewards(experiment: Experiment) -> None:
    assert experiment.arms() == tuple(ARMS)
    decision = experiment.decide({"country": "FR", "age": 31}, eligible=ARMS[:2])
    assert isinstance(decision, Decision)
    assert decision.arm in ARMS[:2]
    assert decision.arms == tuple(ARMS)
    assert decision.propensity == decision.probabilities[decision.arm]
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert experiment.reward(decision.id, 1)
    info = experiment.info()
    assert info.counts == Counts(decisions=1, rewarded=1, timed_out=0, evicted=0, removed=0, pending=0)
    assert info.reward_counts[decision.arm] == 1
    with pytest.raises(AttributeError):
        decision.arm = "other"  # type: ignore[misc]


def test_an_experiment_has_the_signatures_of_a_bandit(experiment: Experiment) -> None:
    for method in ("decide", "rank", "reward", "explain", "add_arm", "remove_arm", "set_arms"):
        ours = inspect.signature(getattr(Experiment, method)).parameters
        theirs = inspect.signature(getattr(Bandit, method)).parameters
        positional = [name for name, p in theirs.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [name for name, p in ours.items() if p.kind is p.POSITIONAL_OR_KEYWORD] == positional
    bandit = Bandit(ARMS, policy="linucb", seed=3)
    for one in (bandit, experiment):
        assert one.reward(one.decide([0.5, 2]).id, 1)
    assert bandit.counts == asdict(experiment.info().counts)


def test_arms_with_features_candidates_and_rankings(client: Client) -> None:
    catalog = {f"m{number}": {"price": float(number), "topic": np.array([0.5, 0.1])} for number in range(120)}
    movies = client.create("movies", catalog, policy="linucb", slots=3)
    assert sorted(movies.arms()) == sorted(catalog)
    new = {"m99": {"tags": {"new"}, "published": datetime.date(2026, 11, 17)}, "other": None}
    decision = movies.decide({"age": 31}, arms=new, eligible=["other"])
    assert (decision.arm, decision.propensity) == ("other", 1.0)
    assert {one.arm for one in movies.decide_many([{"age": 31}] * 2, arms=new)} <= new.keys()  # type: ignore[union-attr]
    ranking = movies.rank({"age": 31}, k=3, idempotency_key="page 7")
    assert isinstance(ranking, Ranking)
    assert movies.rank({"age": 31}, k=3, idempotency_key="page 7") == ranking
    assert len(set(ranking.arms)) == len(ranking.propensities) == 3
    assert movies.reward(ranking.id, 1, slot=1, examined=2)
    rankings = movies.rank_many([{"age": 31}, [1]], k=2, arms=list(new.items()))
    assert isinstance(rankings[1], InvalidContext)
    assert sorted(rankings[0].arms) == sorted(new)  # type: ignore[union-attr]
    reports = [{"id": rankings[0].id, "value": 0, "examined": 1}, (decision.id, 1)]  # type: ignore[union-attr]
    assert movies.reward_many(reports) == [True, True]  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="slot"):
        movies.reward_many([{"id": decision.id, "value": 0, "place": 1}])
    with pytest.raises(InvalidInput, match="number of candidates"):
        movies.rank({"age": 31}, k=3, arms=new)
    assert {arm.arm for arm in movies.explain({"age": 31}, arms=new).arms} == new.keys()
    page = movies.list_arms(search="m11", sort="name", order="asc", offset=1, limit=2)
    assert ([row.arm for row in page.arms], page.total) == (["m110", "m111"], 11)
    assert page.arms[0].features == {"price": 110.0, "topic": [0.5, 0.1]}
    assert movies.add_arm("m500", features={"price": 1.0}).arm_count == 121
    assert movies.change_arms({"m500": {"price": 2.0}}, remove=["m0"]).arm_count == 120
    assert movies.set_arms({"m1": {"price": 3.0}}).settings.arms == {"m1": {"price": 3.0}}
    assert movies.remove_arm("m1").arm_count == 0


def test_decide_many_accepts_data_frames(experiment: Experiment, frames: Any) -> None:
    contexts = frames.DataFrame({"age": [31, 40], "country": ["FR", "DE"]})
    assert [type(decision) for decision in experiment.decide_many(contexts)] == [Decision] * 2


def test_idempotency_keys_of_the_caller(experiment: Experiment) -> None:
    first = experiment.decide({"x": 1}, idempotency_key="visit 7")
    assert experiment.decide({"x": 1}, idempotency_key="visit 7") == first
    assert experiment.decide({"x": 1}).id != first.id
    with pytest.raises(InvalidInput, match="visit 7"):
        experiment.decide({"x": 2}, idempotency_key="visit 7")
    assert experiment.reward(first.id, 1, idempotency_key="order 1")
    assert not experiment.reward(first.id, 1, idempotency_key="order 1")
    second = experiment.decide({"x": 1}).id
    assert experiment.reward_many([(second, 1, "order 2"), (second, 1, "order 2")]) == [True, False]


def test_refused_requests_raise_library_exceptions(experiment: Experiment, client: Client) -> None:
    decision = experiment.decide({"x": 1})
    with pytest.raises(UnknownArm):
        experiment.decide({"x": 1}, eligible=["missing"])
    with pytest.raises(InvalidContext):
        experiment.decide([1, 2, 3])
    with pytest.raises(InvalidContext):
        experiment.decide("text")
    with pytest.raises(InvalidContext, match="valid Unicode"):
        experiment.decide({"x": "\ud800"})
    with pytest.raises(UnknownDecision):
        experiment.reward("999-00000000", 1)
    with pytest.raises(UnknownDecision):
        experiment.reward("../../../healthz", 1)
    for wrong in (decision, 7, None):
        with pytest.raises(UnknownDecision, match=r"pass d\.id"):
            experiment.reward(wrong, 1)  # type: ignore[arg-type]
        with pytest.raises(UnknownDecision, match=r"pass d\.id"):
            experiment.reward_many([(wrong, 1)])  # type: ignore[list-item]
    for value in (7, math.nan, math.inf, "much", "1", b"1", None):
        with pytest.raises(InvalidReward):
            experiment.reward(decision.id, value)  # type: ignore[arg-type]
    assert experiment.reward(decision.id, 1)
    with pytest.raises(DuplicateReward):
        experiment.reward(decision.id, 1)
    with pytest.raises(UnknownExperiment):
        client.experiment("nowhere").decide({})
    with pytest.raises(InvalidSettings, match="an experiment name"):
        client.experiment("../..").info()
    with pytest.raises(InvalidSettings, match="different settings"):
        client.create(experiment.name, ARMS)
    with pytest.raises(InvalidSettings):
        client.create("other", ARMS, exploration=7)
    with pytest.raises(InvalidSettings) as rejected:
        client.create("other", ARMS, control="none")
    assert rejected.value.field == "control"
    with pytest.raises(TypeError):
        client.create("other", ARMS, nonsense=7)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="representable as JSON"):
        client.create("other", ARMS, policy_settings={"x": object()})
    with pytest.raises(InvalidSettings):
        experiment.add_arm(ARMS[0])
    with pytest.raises(UnknownArm):
        experiment.remove_arm("missing")


def test_arms_are_added_and_removed(experiment: Experiment) -> None:
    experiment.decide({"x": 1}, eligible=[ARMS[2]])
    pending = experiment.decide({"x": 1}, eligible=[ARMS[2]])
    assert "weather" in experiment.add_arm("weather", like="news").settings.arms
    assert experiment.remove_arm(ARMS[2]).settings.arms == ["sports", "news", "weather"]
    with pytest.raises(ClosedDecision):
        experiment.reward(pending.id, 1)


def test_an_experiment_is_paused_changed_archived_and_deleted(experiment: Experiment, client: Client) -> None:
    decision = experiment.decide({"x": 1})
    assert experiment.pause().state == "paused"
    with pytest.raises(NotRunning, match="paused"):
        experiment.decide({"x": 1})
    assert experiment.reward(decision.id, 1)
    assert experiment.resume().state == "running"
    assert experiment.change(exploration=0.2, holdout=0.0).settings.exploration == 0.2
    assert experiment.archive().state == "archived"
    with pytest.raises(NotRunning, match="archived"):
        experiment.reward(decision.id, 1)
    assert experiment.name in [info.name for info in client.experiments()]
    experiment.delete()
    assert experiment.name not in [info.name for info in client.experiments()]


def test_a_batch_returns_a_result_or_an_error_for_each_item(experiment: Experiment) -> None:
    decisions = experiment.decide_many([{"x": 1}, [1, 2], {"x": 3}], eligible=["news"])
    assert [type(one) for one in decisions] == [Decision, InvalidContext, Decision]
    assert {one.arm for one in decisions if isinstance(one, Decision)} == {"news"}
    ids = [one.id for one in decisions if isinstance(one, Decision)]
    accepted = experiment.reward_many([(ids[0], 1), ("1-00000000", 1), (ids[1], 0)])
    assert [type(one) for one in accepted] == [bool, UnknownDecision, bool]
    assert experiment.decide_many([]) == []


def test_a_large_batch_is_split_into_several_requests(experiment: Experiment) -> None:
    long = [{"x": number, "text": "long " * 400} for number in range(1200)]
    decisions = experiment.decide_many(long)
    assert all(isinstance(decision, Decision) for decision in decisions)
    assert experiment.info().counts.decisions == 1200


def test_explanations_and_statistics(experiment: Experiment) -> None:
    for step in range(30):
        experiment.reward(experiment.decide({"age": step, "country": "FR"}).id, step % 2)
    explanation = experiment.explain({"age": 3, "country": "FR"}, eligible=ARMS[:2])
    assert str(explanation) == explanation.text
    for arm in explanation.arms:
        parts = sum(part.contribution for part in arm.contributions)
        assert arm.value == pytest.approx(arm.base + parts, abs=1e-6)
    assert [arm.probability for arm in explanation.arms][2] == 0
    stats = experiment.stats()
    assert stats.counts.rewarded == 30
    assert {arm.arm for arm in stats.arms} == set(ARMS)
    assert stats.lift.bandit.n + stats.lift.holdout.n == 30
    assert sum(block.decisions for block in stats.blocks) == 30
    assert stats.blocks[0].start.tzinfo is not None


def test_models_are_downloaded_and_uploaded(experiment: Experiment, client: Client, tmp_path: Path) -> None:
    experiment.reward(experiment.decide({"age": 31}).id, 1)
    file = tmp_path / "model.glcb"
    experiment.save_model(file)
    assert Bandit.load(file).counts["rewarded"] == 1
    other = client.create("other-home", ["x", "y"], policy="linucb")
    assert other.load_model(file).settings.arms == ARMS
    assert other.info().counts.rewarded == 1
    file.write_bytes(b"nonsense")
    with pytest.raises(ModelFileError):
        other.load_model(file)
    with pytest.raises(ModelFileError, match="cannot read"):
        other.load_model(tmp_path / "nowhere")
    with pytest.raises(UnknownExperiment):
        client.experiment("nowhere").save_model(tmp_path / "none.glcb")
    with pytest.raises(ModelFileError, match="cannot write"):
        other.save_model(tmp_path / "no folder" / "model.glcb")
    with pytest.raises(LogError, match="cannot write"):
        other.export(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.glcb"]


def test_a_bandit_learns_from_an_export(experiment: Experiment, tmp_path: Path) -> None:
    for step in range(20):
        experiment.reward(experiment.decide({"age": step}).id, 1)
    experiment.export(tmp_path / "log.jsonl")
    _header, *rows = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert [row["event"] for row in rows] == ["decision", "reward"] * 20
    bandit = Bandit(ARMS, policy="linucb")
    assert bandit.learn_from(tmp_path / "log.jsonl").learned == 20
    experiment.export(tmp_path / "late.jsonl", after=rows[-3]["sequence"])
    assert len((tmp_path / "late.jsonl").read_text().splitlines()) == 3
    experiment.export(tmp_path / "log.parquet", format="parquet")
    assert read_table(tmp_path / "log.parquet").num_rows == 40


def test_api_keys_and_roles(tmp_path: Path) -> None:
    store = ("--data", str(tmp_path / "keys.db"))
    made, command = {}, [sys.executable, "-m", "glcb", "keys", "add"]
    for role in ("admin", "decide"):
        ran = subprocess.run(
            [*command, role, "--role", role, *store], capture_output=True, text=True, check=True
        )
        made[role] = next(word for word in ran.stdout.split() if word.startswith("glcb_"))
    with serving(store) as running:
        with Client(running.url, made["admin"]) as admin:
            admin.create("e", ARMS, policy="linucb")
        with Client(running.url, made["decide"]) as decider:
            assert decider.experiment("e").decide({"x": 1}).arm in ARMS
            with pytest.raises(Unauthorized, match="admin"):
                decider.experiment("e").delete()
            assert made["decide"] not in repr(decider) + repr(decider.experiment("e"))
        for key in (None, "wrong"):
            with Client(running.url, key) as unauthorized, pytest.raises(Unauthorized, match="api_key=…"):
                unauthorized.experiments()


def test_the_asynchronous_client(server: Server, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncClient(server.url) as client:
            experiment = await client.create("awaited", ARMS, policy="linucb")
            decisions = await asyncio.gather(*(experiment.decide({"x": step}) for step in range(20)))
            assert len({decision.id for decision in decisions}) == 20
            assert await experiment.reward(decisions[0].id, 1)
            info = await experiment.info()
            assert info.counts == Counts(
                decisions=20, rewarded=1, timed_out=0, evicted=0, removed=0, pending=19
            )
            assert sum(info.reward_counts.values()) == 1
            await experiment.save_model(tmp_path / "model.glcb")
            with pytest.raises(DuplicateReward):
                await experiment.reward(decisions[0].id, 1)
            assert await experiment.arms() == tuple(ARMS)
            assert "awaited" in [info.name for info in await client.experiments()]

    asyncio.run(scenario())
    assert Bandit.load(tmp_path / "model.glcb").counts["decisions"] == 20


def test_the_caller_can_choose_the_id_of_a_decision(experiment: Experiment) -> None:
    assert experiment.decide({"age": 31}, id="order-17").id == "order-17"
    with pytest.raises(DuplicateDecision, match="already a decision 'order-17'"):
        experiment.decide({"age": 31}, id="order-17")
    with pytest.raises(InvalidInput):
        experiment.decide({"age": 31}, id="order 17")
    assert experiment.reward("order-17", 1)

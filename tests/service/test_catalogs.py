"""Experiments whose arms have features, over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest

from glcb._api.errors import ERROR_CODES
from glcb._api.requests import CatalogChanges, DecisionRequest, RankingRequest, RewardItem
from glcb.bandit import Bandit, recorded
from glcb.service.core import forecasts
from glcb.service.core.forecasts import CatalogForecasts
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.records import SlotRecord
from glcb.service.core.tally import Tally
from glcb.service.engine.engine import Engine
from glcb.service.http import export
from tests.support.asgi import CREATION, E, Service, create_experiment, running_service
from tests.support.builders import settings
from tests.support.engine_harness import FailingDatabase, digest, run_engine, verified

MOVIES: dict[str, Any] = {
    "m17": {"genre": "noir", "price": 3.0},
    "m4": {"genre": "comedy", "price": 2.0, "topic": [0.1, 0.9]},
    "m9": {"genre": "noir", "tags": ["new"], "published": {"date": "2026-11-17"}},
    "m1": None,
}
CONTEXT = {"context": {"age": 31, "country": "FR"}}
OCTETS = "application/octet-stream"


async def test_decisions_among_a_catalog_and_among_candidates(service: Service) -> None:
    await create_experiment(service, arms=MOVIES, policy="glcb", holdout=0.0)
    assert (await service.ask("PUT", E, {**CREATION, "arms": MOVIES, "policy": "glcb"})).status == 409
    decided = (await service.ask("POST", f"{E}/decisions", CONTEXT)).data
    assert decided["probabilities"].keys() == MOVIES.keys()
    assert decided["propensity"] == decided["probabilities"][decided["arm"]]
    new = {"m99": {"genre": "comedy"}, "m4": MOVIES["m4"]}
    for arms in (new, [{"arm": arm, "features": features} for arm, features in new.items()]):
        decided = (await service.ask("POST", f"{E}/decisions", {**CONTEXT, "arms": arms})).data
        assert decided["probabilities"].keys() == new.keys()
    only = {**CONTEXT, "arms": new, "eligible": ["m99"]}
    decided = (await service.ask("POST", f"{E}/decisions", only)).data
    assert (decided["arm"], decided["propensity"]) == ("m99", 1.0)
    rewarded = await service.ask("POST", f"{E}/decisions/{decided['id']}/reward", {"value": 1})
    assert rewarded.data["status"] == "accepted"
    explained = (await service.ask("POST", f"{E}/explanations", {**CONTEXT, "arms": new})).data["arms"]
    assert {arm["arm"] for arm in explained} == new.keys()
    assert sum(arm["probability"] for arm in explained) == pytest.approx(1)
    values = {one["feature"]: one["value"] for one in explained[0]["contributions"]}
    assert values["arm.genre"] == "comedy"


REFUSED: list[tuple[str, str, Any, str]] = [
    ("decisions", "invalid_request", {**CONTEXT, "arms": {}}, "no candidates"),
    ("decisions", "invalid_request", {**CONTEXT, "arms": []}, "no candidates"),
    ("decisions", "invalid_request", {**CONTEXT, "arms": [{"arm": "a"}, {"arm": "a"}]}, "more than once"),
    ("decisions", "invalid_request", {**CONTEXT, "arms": {"a": 3}}, "object"),
    ("decisions", "invalid_request", {**CONTEXT, "arms": ["a"]}, "object"),
    ("decisions", "invalid_request", {**CONTEXT, "arms": [{"name": "a"}]}, "fields are arm, features"),
    ("rankings/batch", "invalid_request", {"rankings": [{"arms": [{"x": 1}]}]}, "fields are arm, features"),
    ("decisions", "invalid_request", {**CONTEXT, "arms": {"": {}}}, "length"),
    ("decisions", "invalid_json", b'{"context": {}, "arms": {"a": {"v": [0.5, NaN]}}}', "send null"),
    ("decisions", "unknown_arm", {**CONTEXT, "arms": {"a": {}}, "eligible": ["m4"]}, "candidate"),
    ("decisions", "unknown_arm", {**CONTEXT, "eligible": []}, "at least one arm"),
    ("decisions", "too_many", {**CONTEXT, "arms": {str(n): None for n in range(21)}}, "20 candidates"),
    ("decisions", "too_many", {**CONTEXT, "arms": {"a": {"v": [0.5] * 31}}}, "30 features of an arm"),
    ("decisions", "too_many", {**CONTEXT, "arms": {"a": {"v": "x" * 500}}}, "features of an arm, got 5"),
    ("rankings", "invalid_request", {**CONTEXT, "k": 5}, "number of candidates, which is 4"),
    ("rankings", "invalid_request", {**CONTEXT, "k": 2, "arms": {"a": {}}}, "which is 1"),
    ("rankings", "invalid_request", {**CONTEXT, "k": 0}, "k"),
    ("rankings", "invalid_request", {**CONTEXT, "k": "2"}, "int"),
    ("rankings", "invalid_request", CONTEXT, "k"),
    ("rankings", "too_many", {**CONTEXT, "k": 11}, "10 slots"),
    ("rankings", "unknown_arm", {**CONTEXT, "k": 1, "eligible": ["m99"]}, "candidate"),
    ("rankings/batch", "too_many", {"rankings": [{**CONTEXT, "k": 1}] * 1001}, "1,000"),
    ("decisions/page/reward", "invalid_request", {"value": 1, "slot": 2}, "from 0 to 1"),
    ("decisions/page/reward", "invalid_request", {"value": 1, "slot": -1}, "slot"),
    ("decisions/page/reward", "invalid_request", {"value": 1, "slot": 1.5}, "int"),
    ("decisions/page/reward", "invalid_request", {"value": 1, "slot": 1, "examined": 1}, "at least 2"),
    ("decisions/page/reward", "invalid_request", {"value": 1, "examined": 3}, "from 0 to 2"),
    ("decisions/page/reward", "invalid_reward", {"value": 2, "slot": 0}, "0 or 1"),
    ("decisions/none/reward", "unknown_decision", {"value": 1, "slot": 0}, "none"),
    ("explanations", "unknown_arm", {**CONTEXT, "arms": {"a": {}}, "eligible": ["b"]}, "candidate"),
    ("explanations", "invalid_request", {**CONTEXT, "arms": {}}, "no candidates"),
    ("explanations", "too_many", {**CONTEXT, "eligible": ["m4"] * 101}, "100 arms to explain"),
    ("arms", "arm_exists", {"name": "m4", "features": {}}, "m4"),
    ("arms", "invalid_request", {"name": "new", "like": "m4"}, "features instead of like"),
    ("arms", "invalid_request", {"name": "new", "features": 3}, "object"),
]


async def test_bad_input_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    limits = {"max_candidates": 20, "max_slots": 10, "max_features": 30, "max_catalog": 100}
    async with running_service(tmp_path, **limits, max_context_bytes=500) as service:
        await create_experiment(service, arms=MOVIES)
        page = {**CONTEXT, "k": 2, "id": "page"}
        assert (await service.ask("POST", f"{E}/rankings", page)).status == 200
        experiment = service.engine.loaded["home"].experiment
        before = digest(experiment)
        for path, code, body, expected in REFUSED:
            answer = await service.ask("POST", f"{E}/{path}", body)
            assert (answer.code, answer.status) == (code, ERROR_CODES[code].status), (body, answer.content)
            assert expected in answer.message, (body, answer.message)
            assert digest(experiment) == before, body
        for change, code in (
            ({"remove": ["none"]}, "unknown_arm"),
            ({"arms": {"m4": {}}, "remove": ["m4"]}, "invalid_request"),
            ({"arms": {str(n): None for n in range(97)}}, "too_many"),
        ):
            assert (await service.ask("PATCH", f"{E}/arms", change)).code == code
        assert (await service.ask("PUT", f"{E}/arms", {"arms": ["a"]})).code == "invalid_request"
        for query in ("sort=age", "order=up", "limit=0", "limit=1001", "offset=-1", "page=2"):
            assert (await service.ask("GET", f"{E}/arms", query=query)).code == "invalid_request"
        assert digest(experiment) == before


async def test_arms_without_features_take_no_candidates(service: Service) -> None:
    await create_experiment(service)
    for path in ("decisions", "explanations"):
        answer = await service.ask("POST", f"{E}/{path}", {**CONTEXT, "arms": {"a": {}}})
        assert answer.code == "invalid_request"
        assert "eligible" in answer.message
    assert (await service.ask("PUT", f"{E}/arms", {"arms": {"a": {}}})).code == "invalid_request"
    assert (await service.ask("PATCH", f"{E}/arms", {"remove": ["a"]})).code == "invalid_request"
    ranking = (await service.ask("POST", f"{E}/rankings", {**CONTEXT, "k": 3})).data
    assert sorted(ranking["arms"]) == ["a", "b", "c"]
    assert ranking["propensities"][-1] == 1.0
    rows = (await service.ask("GET", f"{E}/arms", query="sort=name&order=asc")).data
    assert [(row["arm"], row["features"]) for row in rows["arms"]] == [(arm, None) for arm in "abc"]


async def test_a_catalog_changes_and_can_be_empty(service: Service) -> None:
    await create_experiment(service, arms={})
    assert (await service.ask("POST", f"{E}/decisions", CONTEXT)).code == "invalid_request"
    added = await service.ask("POST", f"{E}/arms", {"name": "m1", "features": {"price": 1.0}})
    assert (added.status, added.data["settings"]["arms"]) == (201, {"m1": {"price": 1.0}})
    changed = await service.ask("PATCH", f"{E}/arms", {"arms": {"m1": {"price": 2.0}, "m2": {}}})
    assert changed.data["settings"]["arms"] == {"m1": {"price": 2.0}, "m2": {}}
    sequence = changed.data["sequence"]
    same = await service.ask("PUT", f"{E}/arms", {"arms": {"m1": {"price": 2.0}, "m2": None}})
    assert same.data["sequence"] == sequence  # nothing has changed
    removed = await service.ask("DELETE", f"{E}/arms/m2")
    assert (removed.data["arm_count"], removed.data["reward_counts"]) == (1, {"m1": 0})
    assert (await service.ask("DELETE", f"{E}/arms/m2")).status == 404
    replaced = await service.ask("PUT", f"{E}/arms", {"arms": {"m7": {}}})
    assert list(replaced.data["settings"]["arms"]) == ["m7"]


async def test_thousands_of_arms_are_searched_sorted_and_paged(service: Service) -> None:
    catalog = {f"m{number}": {"price": float(number)} for number in range(2500)}
    await create_experiment(service, arms=catalog)
    choice = {**CONTEXT, "eligible": ["m7", "m70"]}
    for value in (0, 1, 1):
        decided = (await service.ask("POST", f"{E}/decisions", choice)).data
        await service.ask("POST", f"{E}/decisions/{decided['id']}/reward", {"value": value})
    await service.ask("POST", f"{E}/decisions", {**CONTEXT, "arms": {"Unlisted M7": {}}})
    found = (await service.ask("GET", f"{E}/arms", query="search=m7&sort=name&order=asc&limit=3")).data
    assert found["total"] == 112  # m7, m70 to m79, m700 to m799, and one that is not in the catalog
    assert [row["arm"] for row in found["arms"]] == ["Unlisted M7", "m7", "m70"]
    assert [row["in_catalog"] for row in found["arms"]] == [False, True, True]
    assert found["arms"][1]["features"] == {"price": 7.0}
    assert sum(row["decisions"] for row in found["arms"]) == 4
    best = (await service.ask("GET", f"{E}/arms", query="sort=reward_mean&order=asc&limit=2")).data
    assert all(row["reward_mean"] is not None for row in best["arms"][:1])
    last = (await service.ask("GET", f"{E}/arms", query="sort=reward_mean&offset=2490&limit=50")).data
    assert (last["total"], len(last["arms"])) == (2501, 11)
    assert all(row["reward_mean"] is None for row in last["arms"])
    for path in (E, f"{E}/stats", "/v1/experiments"):
        assert len((await service.ask("GET", path)).content) < 30_000
    stats = (await service.ask("GET", f"{E}/stats")).data
    assert (len(stats["arms"]), stats["arm_count"], stats["other_arms"]["arms"]) == (100, 2500, 2401)
    assert sum(arm["share"] for arm in stats["arms"]) + stats["other_arms"]["share"] == pytest.approx(1)
    decided = (await service.ask("POST", f"{E}/decisions", CONTEXT)).data
    assert len(decided["probabilities"]) == 100
    assert decided["arm"] in decided["probabilities"]


def test_the_sums_of_names_that_were_not_chosen_for_long_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "MAX_NAMES", 10)
    names = CatalogForecasts()
    tally = Tally(catalog=names)
    for number in range(100):
        for arm, predicted, is_likeliest in ((f"m{number}", 0.5, number % 4 > 0), ("favorite", 0.25, True)):
            slot = SlotRecord(arm, 0.5, 0.1, 1.0, [predicted], [0.75], is_likeliest, None)
            tally.add_decision(float(number), [slot], False, (), {})
        for arm in ("m0", "favorite"):
            decision = OpenDecision(arm, False, float(number), None, None)
            tally.add_reward(float(number), decision, 1.0, 1.0, None)
    arms, others = tally.whole.arms, tally.whole.others
    assert arms.keys() == names.predicted.keys()
    assert len(arms) <= 10
    assert arms["favorite"].decisions == 100
    assert names.predicted["favorite"] == 0.25
    assert others.decisions == 200 - sum(arm.decisions for arm in arms.values())
    assert (names.chosen, names.expected) == (175, 150.0)
    rewards = others.rewards + sum(arm.rewards for arm in arms.values())
    assert rewards == 200


async def _traffic(engine: Engine) -> None:
    for number in range(12):
        context = {"age": number, "country": "FR" if number % 2 else "DE"}
        new = {f"n{number}": {"genre": "noir", "price": float(number)}, "m4": MOVIES["m4"]}
        decided = await engine.apply(
            "home", "decide", DecisionRequest(context=context, arms=new if number % 3 else None)
        )
        await engine.apply("home", "reward", RewardItem(id=json.loads(decided)["id"], value=number % 2))
        key = f"page {number}"
        request = RankingRequest(
            context=context, k=3, arms={**MOVIES, **new} if number % 2 else None, idempotency_key=key
        )
        ranked = json.loads(await engine.apply("home", "rank", request))
        assert json.loads(await engine.apply("home", "rank", request)) == ranked
        slot, examined = (None, None) if number % 4 == 0 else (number % 2, 2)
        await engine.apply(
            "home",
            "reward",
            RewardItem(id=ranked["id"], value=1, slot=slot, examined=examined, idempotency_key=key),
        )
        if number == 6:
            await engine.apply("home", "change_arms", CatalogChanges(arms={"m2": {}}, remove=["m17"]))


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "glcb"},
        {"slots": 3, "holdout": 0.5},
        {"reward_timeout": 5.0, "default_reward": 0.0},
        {"reward_timeout": 5.0, "reward_aggregation": "max"},
    ],
    ids=["default", "positions", "labels", "aggregation"],
)
async def test_a_killed_service_is_restored_exactly(tmp_path: Path, changes: dict[str, Any]) -> None:
    digests = []
    times = iter(range(10_000))

    def clock() -> float:
        return float(next(times))

    async with run_engine(tmp_path, stop=False, snapshot_seconds=1e-9, clock=clock) as (engine, _):
        await engine.create("home", settings(arms=MOVIES, **changes))
        await _traffic(engine)
        digests.append(digest(engine.loaded["home"].experiment))
    async with run_engine(tmp_path, clock=clock) as (engine, database):
        digests.append(await engine.read("home", digest))
        repeated = RankingRequest(context={"age": 0, "country": "DE"}, k=3, idempotency_key="page 0")
        assert len(json.loads(await engine.apply("home", "rank", repeated))["arms"]) == 3
        ranking = await engine.apply("home", "rank", RankingRequest(context={"age": 1}, k=2))
        await engine.apply("home", "reward", RewardItem(id=json.loads(ranking)["id"], value=0, examined=0))
        verified(database)
    assert digests[0] == digests[1]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_a_bandit_learns_from_an_export_what_the_experiment_has_learned(
    engine: Engine, database: FailingDatabase, tmp_path: Path, form: str
) -> None:
    await engine.create("home", settings(arms=MOVIES))
    await _traffic(engine)
    chunks = [chunk async for chunk in export.stream(database, 1, form, 0)]
    (tmp_path / f"log.{form}").write_bytes(b"".join(chunks))
    bandit = Bandit(arms={}, policy="linucb")
    report = bandit.learn_from(tmp_path / f"log.{form}")
    assert not report.refused, report
    experiment = engine.loaded["home"].experiment
    assert recorded.catalog(bandit) == recorded.catalog(experiment.bandit)
    assert bandit.counts == experiment.bandit.counts
    assert bandit.reward_counts == experiment.bandit.reward_counts
    ours, theirs = (one.explain({"age": 3, "country": "FR"}) for one in (bandit, experiment.bandit))
    assert ours.arms == theirs.arms
    assert ours.values.tolist() == theirs.values.tolist()


async def test_a_model_with_a_catalog_is_downloaded_and_uploaded(tmp_path: Path) -> None:
    bandit = Bandit(
        arms={f"m{n}": {"price": float(n), "genre": "noir"} for n in range(2000)}, policy="linucb"
    )
    bandit.decide({"age": 31}, arms={"seen": {"price": 3.0}})
    bandit.save(tmp_path / "model.glcb")

    async with running_service(tmp_path) as service:
        await create_experiment(service)
        model = (tmp_path / "model.glcb").read_bytes()
        uploaded = await service.ask("PUT", f"{E}/model", model, media=OCTETS)
        assert (uploaded.status, uploaded.data["arm_count"]) == (200, 2000), uploaded.content[:500]
        assert len(uploaded.data["settings"]["arms"]) == 100
        assert (await service.ask("POST", f"{E}/rankings", {**CONTEXT, "k": 2})).status == 200
        downloaded = (await service.ask("GET", f"{E}/model")).content
        (tmp_path / "again.glcb").write_bytes(downloaded)
        again = Bandit.load(tmp_path / "again.glcb")
        assert recorded.catalog(again) == recorded.catalog(bandit)
        assert again.counts["pending"] == 3
        chunks = [chunk async for chunk in export.stream(service.storage, 1, "jsonl", 0)]
        lines = [json.loads(line) for line in b"".join(chunks).splitlines()]
        assert [line.get("event") for line in lines] == [None, "arms", "ranking"]
        assert len(lines[1]["arms"]) == 2000


async def test_requests_for_many_rankings_and_rewards_are_answered_one_by_one(service: Service) -> None:
    await create_experiment(service, arms=MOVIES)
    batch = {"rankings": [{**CONTEXT, "k": 2}, {**CONTEXT, "k": 9}, {**CONTEXT, "k": 4}]}
    results = (await service.ask("POST", f"{E}/rankings/batch", batch)).data["results"]
    assert [len(one.get("arms", ())) for one in results] == [2, 0, 4]
    assert results[1]["error"]["code"] == "invalid_request"
    rewards = [
        {"id": results[0]["id"], "value": 1, "slot": 0, "examined": 1},
        {"id": results[2]["id"], "value": 1},
        {"id": results[2]["id"], "value": 1},
        {"id": results[0]["id"], "value": 1, "slot": 1},
    ]
    answers = (await service.ask("POST", f"{E}/rewards", {"rewards": rewards})).data["results"]
    assert [one.get("status") or one["error"]["code"] for one in answers] == [
        "accepted",
        "accepted",
        "duplicate_reward",
        "closed_decision",
    ]
    counts = (await service.ask("GET", E)).data["counts"]
    assert (counts["decisions"], counts["rewarded"], counts["removed"]) == (6, 5, 1)

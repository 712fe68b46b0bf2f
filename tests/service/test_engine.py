"""The engine: every answer is on disk, and memory never runs ahead of the disk."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glcb import _validation
from glcb._api.requests import DecisionRequest, ExperimentChanges, NewArm, RewardItem
from glcb._api.responses import Decision
from glcb._errors import ModelFileError, StorageError
from glcb.bandit import Bandit
from glcb.service.core import models
from glcb.service.core.experiment import Experiment
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.views.responses import experiment_info
from tests.support.bandits import counts_of
from tests.support.builders import findings, rejected, settings, sql
from tests.support.engine_harness import (
    FailingDatabase,
    decide,
    decide_and_reward,
    digest,
    recovered,
    reward,
    run_engine,
    verified,
    wait_for_snapshots,
)


async def test_every_answered_decision_survives_a_kill(tmp_path: Path) -> None:
    digests: list[str] = []

    async with run_engine(tmp_path, stop=False, snapshot_seconds=1e-9) as (engine, _):
        await engine.create("home", settings(policy="glcb"))
        await decide_and_reward(engine, 60)
        digests.append(await engine.read("home", digest))
    async with run_engine(tmp_path) as (engine, database):
        assert await engine.read("home", digest) == digests[0]
        (line,) = verified(database)
        assert "121 events" in line


async def test_a_failed_commit_rolls_back_unanswered_requests(
    engine: Engine, database: FailingDatabase
) -> None:
    await engine.create("home", settings())
    await decide_and_reward(engine, 20)
    good, counts = await engine.read("home", digest), await engine.read("home", lambda e: e.bandit.counts)
    database.fails = True
    asked = [decide(engine, {"age": 1}, idempotency_key=f"k{number}") for number in range(10)]
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(error, StorageError) for error in errors)
    with pytest.raises(StorageError):
        await decide(engine, {"age": 1})
    database.fails = False
    await recovered(engine.journal)
    assert await engine.read("home", digest) == good
    assert await engine.read("home", lambda e: e.bandit.counts) == counts
    again = await decide(engine, {"age": 1}, idempotency_key="k0")
    await reward(engine, again.id, 1)
    verified(database)


async def test_an_error_waits_for_the_events_it_depends_on(engine: Engine, database: FailingDatabase) -> None:
    """A reward must not be reported as a duplicate of one that is then lost."""
    await engine.create("home", settings())
    decision = await decide(engine, {"age": 1})
    database.fails = True
    both = await asyncio.gather(
        reward(engine, decision.id, 1), reward(engine, decision.id, 1), return_exceptions=True
    )
    assert [type(error) for error in both] == [StorageError, StorageError]
    database.fails = False
    await recovered(engine.journal)
    await reward(engine, decision.id, 1)
    with rejected("duplicate_reward"):
        await reward(engine, decision.id, 1)


async def test_an_unexpected_error_reloads_the_experiment_from_disk(
    engine: Engine, database: FailingDatabase
) -> None:
    await engine.create("home", settings())
    await decide_and_reward(engine, 5)
    good = await engine.read("home", digest)
    loaded = engine.loaded["home"]
    loaded.experiment.state.tally = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        await decide(engine, {"age": 1})
    assert await engine.read("home", digest) == good
    assert engine.loaded["home"] is not loaded
    await decide_and_reward(engine, 5)
    verified(database)


@pytest.mark.settings(snapshot_seconds=1e-9, keep_snapshots=2, event_retention_days=1e-9)
async def test_audit_starts_from_a_snapshot_if_old_events_were_pruned(
    engine: Engine, database: FailingDatabase
) -> None:
    await engine.create("home", settings())
    for _ in range(4):
        await decide_and_reward(engine, 20)
        await wait_for_snapshots(engine)
    await decide_and_reward(engine, 3)
    number = engine.experiment_id("home")
    assert next(database.events(number, 0)).sequence > 1
    (line,) = verified(database)
    assert "snapshots are identical" in line


async def test_audit_detects_altered_events(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
    altered = "cast(replace(request, ':1.0}', ':0.0}') AS BLOB)"
    sql(tmp_path, f"UPDATE glcb_events SET request = {altered} WHERE kind = 'reward'")
    (finding,) = findings(tmp_path)
    assert not finding.ok
    assert "DAMAGED" in finding.line


async def test_a_model_that_cannot_be_stored_is_rejected_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_validation, "is_unicode", lambda text: True)
    Bandit(["a", "Stra\udcdfe"], policy="linucb").save(tmp_path / "model")

    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 2)
        before = await engine.read("home", digest)
        with pytest.raises(ModelFileError, match="settings that the service does not support"):
            await engine.upload("home", (tmp_path / "model").read_bytes())
        assert await engine.read("home", digest) == before


@pytest.mark.settings(snapshot_seconds=1e-9)
async def test_concurrent_retries_count_once(engine: Engine, database: FailingDatabase) -> None:
    await engine.create("home", settings(policy="glcb"))

    async def visitor(number: int) -> None:
        for step in range(5):
            decision = await decide(engine, {"age": number}, idempotency_key=f"{number} {step}")
            assert await decide(engine, {"age": number}, idempotency_key=f"{number} {step}") == decision
            await reward(engine, decision.id, 1, idempotency_key="r")
            await reward(engine, decision.id, 1, idempotency_key="r")

    await asyncio.gather(*(visitor(number) for number in range(30)))
    info = await engine.read("home", experiment_info)
    assert (info.counts.decisions, info.counts.rewarded) == (150, 150)
    verified(database)


async def arrive(engine: Engine, *arrivals: tuple[str, Any]) -> list[Any]:
    """Return the answer or the error of each request; all arrive at the same time."""
    applied = (engine.apply("home", kind, request) for kind, request in arrivals)
    return await asyncio.gather(*applied, return_exceptions=True)


async def test_requests_that_arrive_together_share_a_commit(
    engine: Engine, database: FailingDatabase
) -> None:
    await engine.create("home", settings())
    (first,) = await arrive(engine, ("decide", DecisionRequest(context={"age": 1})))
    await reward(engine, msgspec.json.decode(first, type=Decision).id, 1)
    known = (await decide(engine, {"age": 1})).id
    before = engine.metrics.commits.count
    own = DecisionRequest(context={"age": 2}, id="own")
    rewards = [RewardItem(id=name, value=1) for name in ("own", "unknown", known)]
    answers = await arrive(engine, ("decide", own), *(("reward", one) for one in rewards))
    assert engine.metrics.commits.count == before + 1
    assert [type(answer) for answer in answers] == [bytes, bytes, ApiError, bytes]
    assert engine.activity["home"].events == {"decide": 3, "reward": 3}
    assert "7 events" in verified(database)[0]


async def test_a_repeated_request_gets_the_stored_answer_even_before_its_commit(engine: Engine) -> None:
    await engine.create("home", settings())
    await decide(engine, {"age": 1})
    request = DecisionRequest(context={"age": 2}, idempotency_key="k")
    answers = await arrive(engine, *[("decide", request)] * 40)
    assert len(set(answers)) == 1
    assert (await engine.read("home", lambda e: e.bandit.counts))["decisions"] == 2


async def test_a_failed_commit_fails_every_request_in_it(engine: Engine, database: FailingDatabase) -> None:
    await engine.create("home", settings())
    await decide(engine, {"age": 1})
    database.fails = True
    answers = await arrive(engine, *[("decide", DecisionRequest(context={"age": 2}))] * 3)
    assert [type(answer) for answer in answers] == [StorageError] * 3
    database.fails = False
    await recovered(engine.journal)
    assert (await engine.read("home", lambda e: e.bandit.counts))["decisions"] == 1


async def test_a_request_that_fails_unexpectedly_does_not_affect_others(
    engine: Engine, database: FailingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = Experiment.apply

    def fail(self: Experiment, kind: str, request: Any, *more: Any, **named: Any) -> Any:
        answer = genuine(self, kind, request, *more, **named)
        if kind == "decide" and "poison" in request.context:
            raise ZeroDivisionError
        return answer

    await engine.create("home", settings())
    await decide(engine, {"age": 1})
    monkeypatch.setattr(Experiment, "apply", fail)
    contexts = ({"age": 2}, {"poison": 1}, {"age": 3})
    answers = await arrive(engine, *(("decide", DecisionRequest(context=one)) for one in contexts))
    assert [type(answer) for answer in answers] == [bytes, ZeroDivisionError, bytes]
    assert await engine.read("home", lambda experiment: experiment.bandit.counts["decisions"]) == 3
    verified(database)


async def test_a_batch_is_answered_in_order(engine: Engine) -> None:
    await engine.create("home", settings())
    asked = [
        DecisionRequest(context={"age": 1}, eligible=["unknown"] if number % 10 == 3 else None)
        for number in range(40)
    ]
    results = await engine.apply_many("home", "decide", asked)
    rejected = [number for number, result in enumerate(results) if isinstance(result, ApiError)]
    assert rejected == [3, 13, 23, 33]
    made = [msgspec.json.decode(result, type=Decision) for result in results if isinstance(result, bytes)]
    assert [int(decision.id.split("-")[1]) for decision in made] == list(range(1, 37))


@pytest.mark.settings(max_experiments=2)
async def test_creating_an_existing_experiment_returns_it_or_fails_if_settings_differ(engine: Engine) -> None:
    both = await asyncio.gather(engine.create("home", settings()), engine.create("home", settings()))
    assert sorted(new for _info, new in both) == [False, True]
    await engine.apply("home", "add_arm", NewArm(name="d"))
    _info, new = await engine.create("home", settings())
    assert not new
    with rejected("experiment_exists"):
        await engine.create("home", settings(seed=3))
    await engine.create("other", settings())
    with rejected("too_many"):
        await engine.create("third", settings())
    await engine.delete("home")
    info, new = await engine.create("home", settings(seed=3))
    assert new
    assert info.counts.decisions == 0


async def test_a_clock_set_back_is_counted_and_keeps_the_order_of_events(tmp_path: Path) -> None:
    times = [1000.0]

    async with run_engine(tmp_path, clock=lambda: times[0]) as (engine, database):
        await engine.create("home", settings(reward_timeout=50.0, default_reward=0.0))
        times[0] = 2000.0
        decision = await decide(engine, {"age": 1})
        times[0] = 10.0
        await decide(engine, {"age": 1})
        assert engine.metrics.clock_regressions == 1
        at = [event.at for event in database.events(engine.experiment_id("home"), 0)]
        assert at == [1000.0, 2000.0, 2000.0]
        await reward(engine, decision.id, 1)
        times[0] = 2051.0
        await engine.tick()
        counts = await engine.read("home", lambda experiment: experiment.bandit.counts)
        assert counts == counts_of(decisions=2, rewarded=1, timed_out=1)
        verified(database)


async def test_a_default_reward_that_is_learned_before_the_timeout_is_an_event(tmp_path: Path) -> None:
    times = [1000.0]

    async with run_engine(tmp_path, clock=lambda: times[0]) as (engine, database):
        await engine.create("home", settings(reward_timeout=1000.0, default_reward=0.0))
        first = await decide(engine, {"age": 1})
        times[0] += 1
        await reward(engine, first.id, 1)  # from now on, decisions are labeled at the age of a second
        await decide(engine, {"age": 1})
        times[0] += 5
        await engine.tick()
        assert [event.kind for event in database.events(1, 0)][-1] == "settle"
        await decide(engine, {"age": 1})
    verified(FailingDatabase(tmp_path))


@pytest.mark.settings(max_arms=5, max_features=5)
async def test_requests_beyond_the_limits_are_rejected(engine: Engine) -> None:
    for wrong in (
        settings(arms=["a", "b", "c", "d", "e", "f"]),
        settings(schema={"x": list("abcdef")}),
        settings(spare_slots=9),
        settings(max_pending=2_000_000),
    ):
        with rejected("too_many"):
            await engine.create("home", wrong)
    await engine.create("home", settings(arms=["a", "b", "c", "d", "e"]))
    with rejected("too_many"):
        await decide(engine, dict.fromkeys("abcdef", 1))
    with rejected("too_many"):
        await engine.apply("home", "add_arm", NewArm(name="f"))


async def test_the_first_context_cannot_create_an_oversized_model(tmp_path: Path) -> None:
    async with run_engine(tmp_path, max_cells=3 * 17**2) as (engine, database):
        await engine.create("home", settings())
        for large in ({"city": "Rome"}, {"a": 1, "b": 2}):  # 28 and 18 slots
            with pytest.raises(ApiError, match="arms") as caught:
                await decide(engine, large)
            assert caught.value.code == "too_many"
        assert [event.kind for event in database.events(1, 0)] == ["create"]
        await decide(engine, {"a": 1})  # 17 slots
        await decide(engine, {"a": 1, "b": 2, "city": "Rome"})  # later features share these slots
        with pytest.raises(ApiError, match="arms") as caught:
            await engine.apply("home", "add_arm", NewArm(name="d"))
        assert caught.value.code == "too_many"


def threads_of_events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Return a list that will have the kind of each event, and whether it blocked the event loop."""
    applied: list[tuple[str, bool]] = []
    apply = Experiment.apply

    def recorded(self: Experiment, kind: str, *arguments: Any) -> Any:
        applied.append((kind, threading.current_thread() is threading.main_thread()))
        return apply(self, kind, *arguments)

    monkeypatch.setattr(Experiment, "apply", recorded)
    return applied


async def test_the_first_event_of_a_kind_can_compile_and_does_not_block_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = threads_of_events(monkeypatch)

    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        for _ in range(2):
            await reward(engine, (await decide(engine, {"age": 31})).id, 1)
        assert applied == [("decide", False), ("reward", False), ("decide", True), ("reward", True)]
        await engine.cache.unload(engine.loaded["home"])
        applied.clear()
        for _ in range(2):
            await decide(engine, {"age": 31})
        assert applied == [("take_over", False), ("decide", False), ("decide", True)]


async def test_batches_and_large_models_do_not_block_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = threads_of_events(monkeypatch)

    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await engine.create("large", settings())
        context = {f"f{number}": 0.5 for number in range(600)}
        for _ in range(2):
            await decide(engine, {"age": 31})
            await decide(engine, context, "large")
        assert [blocks for _, blocks in applied] == [False, False, True, False]
        await engine.apply_many("home", "decide", [DecisionRequest(context={"age": 31})] * 2)
        await engine.apply("home", "add_arm", NewArm(name="d"))
        await decide(engine, {"age": 31})
        assert [blocks for _, blocks in applied[4:]] == [False] * 4


async def test_many_decisions_are_settled_outside_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = threads_of_events(monkeypatch)
    times = [1000.0]

    async with run_engine(tmp_path, clock=lambda: times[0]) as (engine, _):
        await engine.create("home", settings(reward_timeout=60, default_reward=0))
        for _ in range(50):
            await decide(engine, {"age": 31})
        times[0] += 61
        applied.clear()
        for _ in range(50):
            await decide(engine, {"age": 31})
        assert applied == [("decide", False), *[("decide", True)] * 49]
        times[0] += 10
        latest = await decide(engine, {"age": 31})
        times[0] += 1
        applied.clear()
        await reward(engine, latest.id, 1)  # from now on, the others are learned at the age of a second
        for _ in range(2):
            await decide(engine, {"age": 31})
        assert applied == [("reward", False), ("decide", False), ("decide", True)]
        learned = await engine.read("home", lambda one: one.bandit.reward_counts)
        assert sum(learned.values()) == 101


@pytest.mark.parametrize("kind", ["replace_model", "remove_arm", "change"])
async def test_events_that_grow_with_the_experiment_do_not_block_the_event_loop(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    await engine.create("home", settings())
    await decide_and_reward(engine, 10)
    model = await engine.read("home", lambda one: models.model_file(one.bandit._snapshot()))
    requests = {
        "replace_model": model,
        "remove_arm": NewArm(name="b"),
        "change": ExperimentChanges(schema={"age": "number"}),
    }
    applied = threads_of_events(monkeypatch)
    await engine.apply("home", kind, requests[kind])
    assert applied == [(kind, False)]

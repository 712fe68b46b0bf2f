"""All experiments of a process: what is answered is on disk, and memory follows the disk."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from glcb import _validation
from glcb._api.requests import DecisionRequest, NewArm
from glcb._api.responses import Decision
from glcb._errors import ModelFileError, StorageError
from glcb.bandit import Bandit
from glcb.service import views
from glcb.service.audit import verify
from glcb.service.core.engine import Engine
from glcb.service.errors import Problem
from glcb.service.storage import journal as journal_module
from glcb.service.storage.storage import Storage
from tests.service.engines import Fragile, agreed, decide, digest, idle, reward, some_pairs, with_engine
from tests.service.made import settings


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    seen: list[str] = []

    async def before(engine: Engine, _: Storage) -> None:
        await engine.create("home", settings(policy="glcb"))
        await some_pairs(engine, 60)
        seen.append(await engine.look("home", digest))

    async def after(engine: Engine, storage: Storage) -> None:
        assert await engine.look("home", digest) == seen[0]
        (line,) = agreed(storage)
        assert "121 events" in line

    with_engine(tmp_path, before, stop=False, snapshot_events=50)
    with_engine(tmp_path, after)


def test_a_failed_commit_takes_back_what_was_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_PROBE_SECONDS", 0.01)

    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 20)
        good, counts = await engine.look("home", digest), await engine.look("home", lambda e: e.bandit.counts)
        storage.fails = True
        asked = [decide(engine, {"age": 1}, idempotency_key=f"k{number}") for number in range(10)]
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(error, StorageError) for error in refused)
        with pytest.raises(StorageError):
            await decide(engine, {"age": 1})
        storage.fails = False
        while engine.journal.trouble is not None:
            await asyncio.sleep(0.01)
        assert await engine.look("home", digest) == good
        assert await engine.look("home", lambda e: e.bandit.counts) == counts
        again = await decide(engine, {"age": 1}, idempotency_key="k0")
        await reward(engine, again.id, 1)
        agreed(storage)

    with_engine(tmp_path, play)


def test_a_refusal_waits_for_what_it_rests_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward that is a duplicate of one that is then lost must not be called a duplicate."""
    monkeypatch.setattr(journal_module, "_PROBE_SECONDS", 0.01)

    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        decision = await decide(engine, {"age": 1})
        storage.fails = True
        both = await asyncio.gather(
            reward(engine, decision.id, 1), reward(engine, decision.id, 1), return_exceptions=True
        )
        assert [type(error) for error in both] == [StorageError, StorageError]
        storage.fails = False
        while engine.journal.trouble is not None:
            await asyncio.sleep(0.01)
        await reward(engine, decision.id, 1)
        with pytest.raises(Problem) as caught:
            await reward(engine, decision.id, 1)
        assert caught.value.code == "duplicate_reward"

    with_engine(tmp_path, play)


def test_an_unexpected_error_takes_memory_back_to_the_disk(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 5)
        good = await engine.look("home", digest)
        live = engine.loaded["home"]
        live.experiment.around.tally = None  # type: ignore[assignment]
        with pytest.raises(AttributeError):
            await decide(engine, {"age": 1})
        assert await engine.look("home", digest) == good
        assert engine.loaded["home"] is not live
        await some_pairs(engine, 5)
        agreed(storage)

    with_engine(tmp_path, play)


def test_verify_begins_with_a_snapshot_where_old_events_are_gone(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        for _ in range(4):
            await some_pairs(engine, 20)
            await idle(engine)
        await some_pairs(engine, 3)
        number = engine.number("home")
        assert next(storage.events(number, 0)).sequence > 1
        (line,) = agreed(storage)
        assert "snapshots agree" in line

    with_engine(tmp_path, play, snapshot_events=30, keep_snapshots=2, keep_days=1e-9)


def test_verify_finds_what_was_altered(tmp_path: Path) -> None:
    async def play(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 10)

    with_engine(tmp_path, play)
    storage = Fragile(tmp_path)
    with storage.write() as connection:
        connection.exec_driver_sql(
            "UPDATE glcb_events SET request = cast(replace(request, ':1.0}', ':0.0}') AS BLOB) "
            "WHERE kind = 'reward'"
        )
    findings = list(verify(storage))
    assert [finding.ok for finding in findings] == [False]
    assert "DIFFERENT" in findings[0].line


def test_a_model_that_cannot_be_put_on_record_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_validation, "is_unicode", lambda text: True)
    Bandit(["a", "Stra\udcdfe"], policy="linucb").save(tmp_path / "model")

    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 2)
        before = await engine.look("home", digest)
        with pytest.raises(ModelFileError, match="settings that the service cannot have"):
            await engine.upload("home", (tmp_path / "model").read_bytes())
        assert await engine.look("home", digest) == before

    with_engine(tmp_path, play)


def test_many_at_once_count_each_once(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings(policy="glcb"))

        async def visitor(number: int) -> None:
            for step in range(5):
                decision = await decide(engine, {"age": number}, idempotency_key=f"{number} {step}")
                assert await decide(engine, {"age": number}, idempotency_key=f"{number} {step}") == decision
                await reward(engine, decision.id, 1, idempotency_key="r")
                await reward(engine, decision.id, 1, idempotency_key="r")

        await asyncio.gather(*(visitor(number) for number in range(30)))
        view = await engine.look("home", views.experiment)
        assert (view.counts.decisions, view.counts.rewarded) == (150, 150)
        agreed(storage)

    with_engine(tmp_path, play, snapshot_events=40)


def test_a_batch_answers_each_in_order(tmp_path: Path) -> None:
    async def play(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings())
        asked = [
            DecisionRequest(context={"age": 1}, eligible=["nobody"] if number % 10 == 3 else None)
            for number in range(40)
        ]
        results = await engine.happen("home", "decide", asked)
        refused = [number for number, result in enumerate(results) if isinstance(result, Problem)]
        assert refused == [3, 13, 23, 33]
        made = [msgspec.json.decode(result, type=Decision) for result in results if isinstance(result, bytes)]
        assert [int(decision.id.partition("-")[0]) for decision in made] == list(range(1, 37))

    with_engine(tmp_path, play)


def test_creating_twice_is_the_same_or_refused(tmp_path: Path) -> None:
    async def play(engine: Engine, _: Fragile) -> None:
        both = await asyncio.gather(engine.create("home", settings()), engine.create("home", settings()))
        assert sorted(new for _view, new in both) == [False, True]
        await engine.happens("home", "add_arm", NewArm(name="d"))
        _view, new = await engine.create("home", settings())
        assert not new
        with pytest.raises(Problem) as caught:
            await engine.create("home", settings(seed=3))
        assert caught.value.code == "experiment_exists"
        await engine.create("other", settings())
        with pytest.raises(Problem) as caught:
            await engine.create("third", settings())
        assert caught.value.code == "too_many"
        await engine.delete("home")
        view, new = await engine.create("home", settings(seed=3))
        assert new
        assert view.counts.decisions == 0

    with_engine(tmp_path, play, max_experiments=2)


def test_a_clock_that_is_set_back_is_noted_and_changes_no_order(tmp_path: Path) -> None:
    times = [1000.0]

    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings(reward_timeout=50.0, default_reward=0.0))
        times[0] = 2000.0
        decision = await decide(engine, {"age": 1})
        times[0] = 10.0
        await decide(engine, {"age": 1})
        assert engine.metrics.clock_back == 1
        at = [event.at for event in storage.events(engine.number("home"), 0)]
        assert at == [1000.0, 2000.0, 2000.0]
        await reward(engine, decision.id, 1)
        times[0] = 2051.0
        await engine.tick()
        counts = await engine.look("home", lambda experiment: experiment.bandit.counts)
        assert counts == {
            "decisions": 2,
            "rewarded": 1,
            "timed_out": 1,
            "evicted": 0,
            "removed": 0,
            "pending": 0,
        }
        agreed(storage)

    with_engine(tmp_path, play, clock=lambda: times[0])


def test_too_much_is_refused(tmp_path: Path) -> None:
    async def play(engine: Engine, _: Fragile) -> None:
        for wrong in (
            settings(arms=["a", "b", "c", "d", "e", "f"]),
            settings(schema={"x": list("abcdef")}),
            settings(spare_slots=9),
            settings(max_pending=2_000_000),
        ):
            with pytest.raises(Problem) as caught:
                await engine.create("home", wrong)
            assert caught.value.code == "too_many"
        await engine.create("home", settings(arms=["a", "b", "c", "d", "e"]))
        with pytest.raises(Problem) as caught:
            await decide(engine, dict.fromkeys("abcdef", 1))
        assert caught.value.code == "too_many"
        with pytest.raises(Problem) as caught:
            await engine.happens("home", "add_arm", NewArm(name="f"))
        assert caught.value.code == "too_many"

    with_engine(tmp_path, play, max_arms=5, max_features=5)


def test_a_first_context_cannot_make_a_model_of_any_size(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        for large in ({"city": "Rome"}, {"a": 1, "b": 2}):  # 28 and 18 slots
            with pytest.raises(Problem, match="arms") as caught:
                await decide(engine, large)
            assert caught.value.code == "too_many"
        assert [event.kind for event in storage.events(1, 0)] == ["create"]
        await decide(engine, {"a": 1})  # 17 slots
        await decide(engine, {"a": 1, "b": 2, "city": "Rome"})  # what comes later finds its place in these
        with pytest.raises(Problem, match="arms") as caught:
            await engine.happens("home", "add_arm", NewArm(name="d"))
        assert caught.value.code == "too_many"

    with_engine(tmp_path, play, max_cells=3 * 17**2)

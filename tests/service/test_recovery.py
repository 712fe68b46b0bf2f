"""Recovery applies what was recorded. It draws and estimates nothing, and does not depend on rounding."""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glcb import Bandit
from glcb._api.guardrails import Guardrail, Metric
from glcb._api.requests import DecisionRequest, ExperimentChanges, RankingRequest, RewardItem, SetAside
from glcb._environment import environment
from glcb._errors import MissingExtra, ModelFileError, StorageError
from glcb.bandit import recorded as recording
from glcb.policies.base import Policy
from glcb.policies.glcb.policy import GLCB
from glcb.service.core import deciding
from glcb.service.core.experiment import Experiment
from glcb.service.core.models import ExperimentSnapshot, model_file
from glcb.service.core.records import decode_record, encode_record
from glcb.service.engine.audit import DAMAGED, DIFFERENT, NOT_AUDITED, Finding, audit_database
from glcb.service.engine.engine import Engine
from glcb.service.engine.snapshots import from_first_event
from glcb.service.errors import ApiError
from glcb.service.events import Event
from glcb.service.storage.chain import Head
from glcb.service.storage.database import Database
from glcb.service.storage.rows import SnapshotRow
from tests.support.builders import RecordedExperiment, findings, open_test_database, replay, settings, sql
from tests.support.engine_harness import decide, decide_and_reward, own_engine, reward, run_service, verified

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"policy": "glcb", "holdout": 0.2},
    "random scores": {"policy": "lints", "holdout": 0.2},
    "steered": {
        "policy": "glcb",
        "control": "a",
        "baseline": "control",
        "traffic": 0.6,
        "shares": {"b": (0.1, 0.6)},
        "metrics": {"revenue": Metric(range=(0.0, 5.0), default=0.0)},
        "guardrails": [Guardrail(metric="revenue", max_fall=0.2, pauses="arm")],
        "reward_timeout": 30.0,
        "default_reward": 0.0,
    },
    "shadow": {"policy": "linucb", "control": "a", "shadow": True},
    "positions": {"policy": "glcb", "slots": 2, "reward_timeout": 10.0, "default_reward": 0.0},
    "features": {"policy": "glcb", "arms": {f"m{n}": {"price": float(n)} for n in range(8)}, "holdout": 0.2},
}


def filled(kind: str, steps: int = 40) -> RecordedExperiment:
    """Return an experiment after many events, with its events."""
    made = RecordedExperiment(**KINDS[kind])
    for step in range(steps):
        context = {"age": step % 7, "country": "ABC"[step % 3], **({"new": step} if step > 20 else {})}
        request = DecisionRequest(context=context, unit=f"u{step}" if step % 4 == 0 else None)
        if kind == "features" and step % 5 == 0:
            request.arms = {f"x{step}": {"price": 2.0}, "m1": {"price": 9.0, "new": "yes"}}
        chosen = msgspec.json.decode(made.apply("decide", request))
        if step % 3:
            made.apply("reward", RewardItem(id=chosen["id"], value=step % 2))
        made.apply("rank", RankingRequest(context=context, k=2, idempotency_key=f"k{step}"))
        if step == 25:
            made.apply("change", ExperimentChanges(exploration=0.2), author="me")
        if step == 30:
            made.apply("replace_model", model_file(made.experiment.bandit._snapshot()), author="me")
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_recovery_draws_nothing_and_estimates_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(kind)
    before = made.experiment.snapshot()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a decision is made again")

    own = GLCB.estimate  # corrections of single arms learn what the shared values do not explain
    for owner, name in ((Policy, "choose"), (GLCB, "choose"), (Policy, "drawing_from")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(Policy, "estimate", own if kind == "features" else refuse)
    monkeypatch.setattr(Experiment, "fraction", refuse)
    assert replay(made.events).snapshot().digest() == before.digest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_decision_can_be_made_again_from_the_state_before_it(kind: str) -> None:
    made = filled(kind, steps=33)
    experiment = from_first_event(made.events[0])
    for event in made.events[1:]:
        if event.kind in ("decide", "rank"):
            answer, record = experiment.preview(event)
            assert (answer, encode_record(record)) == (event.outcome, event.record)
        experiment.recover(event)
    assert experiment.snapshot().digest() == made.experiment.snapshot().digest()


def test_statistics_do_not_depend_on_what_the_model_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled("steered")
    learn = Policy.learn

    def learn_something_else(policy: Policy, x: Any, arm: Any, reward: float, **more: Any) -> None:
        learn(policy, x, arm, 1 - reward, **more)

    monkeypatch.setattr(Policy, "learn", learn_something_else)
    other = replay(made.events)
    bandits = [one.bandit._snapshot().arrays for one in (other, made.experiment)]
    different = [name for name, array in bandits[0].items() if array.tobytes() != bandits[1][name].tobytes()]
    assert different
    assert all(name.startswith("policy.") for name in different)
    assert other.snapshot().state == made.experiment.snapshot().state


def test_random_numbers_depend_on_the_number_of_the_decision_only() -> None:
    chosen, copy = (
        Bandit(arms=list("abc"), policy="lints", seed=10_000),
        Bandit(arms=list("abc"), policy="lints"),
    )
    copy.set_params(seed=10_000)
    for step in range(50):
        made = chosen.decide({"age": step})
        recording.add_decision(copy, {"age": step}, [(made.arm, made.propensity)], id=made.id)
        for bandit in (chosen, copy):
            bandit.reward(made.id, step % 2)
    assert copy._snapshot().generator == chosen._snapshot().generator
    first, second = (bandit.decide({"age": 3}) for bandit in (chosen, copy))
    assert (first.id, first.arm, first.probabilities) == (second.id, second.arm, second.probabilities)


def test_an_uploaded_model_does_not_repeat_the_random_numbers() -> None:
    made = RecordedExperiment(policy="uniform")
    model = model_file(made.experiment.bandit._snapshot())
    before = [made.decide({"age": 1}).arm for _ in range(40)]
    made.apply("replace_model", model)
    assert [made.decide({"age": 1}).arm for _ in range(40)] != before


# ---- audit --------------------------------------------------------------------------------------


def audited(folder: Path, events: list[Event], snapshot: ExperimentSnapshot | None = None) -> Finding:
    """Store events as they are, and audit them."""
    with contextlib.closing(open_test_database(folder)) as database:
        number = database.create("home", events[0])
        database.append([(number, *event) for event in events[1:]])
        if snapshot is not None:
            row = SnapshotRow(snapshot.sequence, 0.0, snapshot.digest(), 0)
            database.save_snapshot(number, row, snapshot.pack(), b"")
        (finding,) = audit_database(database)
        return finding


def changed(event: Event, difference: float) -> Event:
    """Return a decision that was recorded with other values."""
    record = decode_record(event.record)
    record.slots[0].values[0] += difference
    return event._replace(record=encode_record(record))


def with_writer(events: list[Event], writer: dict[str, str]) -> list[Event]:
    """Return events that a process with this processor and these versions has written."""
    creation = msgspec.json.decode(events[0].request) | {"writer": writer}
    return [events[0]._replace(request=msgspec.json.encode(creation)), *events[1:]]


@pytest.mark.parametrize(
    ("cpu", "difference", "code", "text"),
    [
        ("here", 0.0, 0, "60 events and 0 snapshots are identical"),
        ("here", 1e-6, 0, "are identical within rounding, at most 1e-06"),
        ("here", 0.1, DIFFERENT, "1 are DIFFERENT; event 20: expected"),
        ("there", 0.0, 0, "60 events and 0 snapshots are identical; written with cpu there"),
        ("there", 1e-6, 0, "are identical within rounding, at most 1e-06; written with cpu there"),
        ("there", 0.1, 0, "1 are DIFFERENT; event 20: expected"),
    ],
)
def test_the_audit_tells_rounding_from_differences_and_names_who_wrote(
    tmp_path: Path, cpu: str, difference: float, code: int, text: str
) -> None:
    events = filled("random scores", steps=23).events[:60]
    writer = environment() if cpu == "here" else {**environment(), "cpu": cpu}
    place = 19
    assert events[place].kind in ("decide", "rank")
    events[place] = changed(events[place], difference)
    finding = audited(tmp_path, with_writer(events, writer))
    assert finding.exit_code == code
    assert text in finding.line
    assert ("cpu there" in finding.line) == (cpu == "there")


def test_one_difference_does_not_cause_others(tmp_path: Path) -> None:
    """The audit continues with the arm that was recorded."""
    events = filled("plain").events
    place = next(place for place, event in enumerate(events) if event.kind == "decide" and place > 30)
    record = decode_record(events[place].record)
    record.slots[0].arm = next(arm for arm in "abc" if arm != record.slots[0].arm)
    events[place] = events[place]._replace(record=encode_record(record))
    finding = audited(tmp_path, with_writer(events[: place + 1], environment()))
    assert finding.exit_code == DIFFERENT
    assert f": 1 are DIFFERENT; event {place + 1}: " in finding.line


def test_the_audit_compares_the_whole_answer(tmp_path: Path) -> None:
    events = filled("plain", steps=10).events
    place = next(place for place, event in enumerate(events) if b'"holdout":false' in event.outcome)
    outcome = events[place].outcome.replace(b'"holdout":false', b'"holdout":true')
    events[place] = events[place]._replace(outcome=outcome)
    finding = audited(tmp_path, with_writer(events, environment()))
    assert finding.exit_code == DIFFERENT
    assert f": 1 are DIFFERENT; event {place + 1}: " in finding.line


def test_a_library_that_is_missing_for_the_audit_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MissingExtra("NeuralUCB needs jax")

    monkeypatch.setattr(deciding, "recover", refuse)
    finding = audited(tmp_path, filled("plain", steps=3).events)
    assert finding.exit_code == NOT_AUDITED
    assert finding.line == "home: cannot be audited here: NeuralUCB needs jax"


def test_a_request_that_could_not_be_read_again_is_rejected() -> None:
    made = filled("plain", steps=3)
    ranking = RankingRequest(context={"age": 1, "country": "A"}, k=2, id="r" * 99)
    made.apply("rank", ranking)
    before = made.experiment.snapshot().digest()
    with pytest.raises(ApiError, match="cannot be stored: Expected `str` of length <= 100"):
        made.apply("reward", RewardItem(id=f"{ranking.id}.1", value=1.0))
    assert made.experiment.snapshot().digest() == before
    made.apply("reward", RewardItem(id=ranking.id or "", value=1.0, slot=1))
    assert replay(made.events).snapshot().digest() == made.experiment.snapshot().digest()


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_differences_here_fail_the_audit_after_a_snapshot_of_another_writer(
    tmp_path: Path, has_snapshot: bool
) -> None:
    writer, made = {**environment(), "cpu": "there"}, filled("plain", steps=10)
    state = made.experiment.state
    state.creation, state.writer = msgspec.structs.replace(state.creation, writer=writer), writer
    before, snapshot = with_writer(made.events, writer), made.experiment.snapshot()
    _, takeover = made.experiment.take_over("later-", made.events[-1].at)
    made.decide({"age": 1, "country": "A"})
    events = [*before, takeover, changed(made.events[-1], 0.1)]
    finding = audited(tmp_path, events, snapshot if has_snapshot else None)
    assert finding.exit_code == (DIFFERENT if has_snapshot else 0)
    assert ": 1 are DIFFERENT" in finding.line


# ---- damage -------------------------------------------------------------------------------------


async def fill(engine: Engine, _: Database) -> None:
    for name in ("home", "other"):
        await engine.create(name, settings())
        await decide_and_reward(engine, 10, name)


@pytest.mark.parametrize(
    ("statement", "last_good", "aside", "reason"),
    [
        (
            "UPDATE glcb_events SET record = x'00' WHERE experiment = 1 AND sequence = 12",
            11,
            10,
            "event 12 was altered",
        ),
        (
            "UPDATE glcb_events SET kind = CAST(x'ff64' AS TEXT) WHERE experiment = 1 AND sequence = 12",
            11,
            10,
            "event 12 is damaged",
        ),
        (
            "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 13",
            12,
            9,
            "event 13 was altered",
        ),
        (
            "DELETE FROM glcb_events WHERE experiment = 1 AND sequence = 8",
            7,
            13,
            "events 8 to 8 were deleted",
        ),
        ("DELETE FROM glcb_events WHERE experiment = 1 AND sequence > 15", 15, 0, "events 16 to 21"),
        (
            "UPDATE glcb_events SET request = 'text' WHERE experiment = 1 AND sequence = 8",
            7,
            14,
            "event 8 is damaged",
        ),
    ],
    ids=["record", "kind", "request", "gap", "lost", "type"],
)
async def test_a_damaged_experiment_continues_from_its_last_good_state(
    tmp_path: Path, statement: str, last_good: int, aside: int, reason: str
) -> None:
    ids: list[str] = []

    async with own_engine(tmp_path) as (engine, database):
        await fill(engine, database)
        ids.extend(loaded_ids(engine))
    sql(tmp_path, statement)
    async with own_engine(tmp_path) as (engine, database):
        with pytest.raises(ApiError, match=reason) as broken:
            await decide(engine, {"age": 1, "country": "A"})
        assert broken.value.code == "experiment_broken"
        with pytest.raises(ApiError, match="is not damaged") as caught:
            await engine.recover("other", "me")
        assert caught.value.code == "not_broken"
        info = await engine.recover("home", "me")
        assert (info.sequence, info.state) == (last_good + 1, "running")
        assert info.counts.decisions == last_good // 2
        event = database.event(1, last_good + 1)
        assert event is not None
        stored = msgspec.json.decode(event.request, type=SetAside)
        assert (stored.events, stored.last) == (aside, 21)
        assert database.digest_after(1, last_good + 1)[0] == 0
        new = await decide(engine, {"age": 1, "country": "A"})
        assert new.id not in ids
        await reward(engine, new.id, 1.0)
        later = [one for one in ids if int(one.split("-")[-2]) > last_good // 2]
        for one in later:
            with pytest.raises(ApiError, match="is unknown"):
                await reward(engine, one, 1.0)
        await decide_and_reward(engine, 5)
    kept = sql(tmp_path, "SELECT min(sequence), count(*) FROM glcb_set_aside GROUP BY recovery")
    assert kept == ([(22 - aside, aside)] if aside else [])
    async with own_engine(tmp_path) as (engine, database):
        await decide_and_reward(engine, 5)
        for loaded in list(engine.loaded.values()):
            await engine.cache.unload(loaded)
        verified(database)


def loaded_ids(engine: Engine) -> list[str]:
    """Return the ids of all decisions of an experiment."""
    return list(engine.loaded["home"].experiment.bandit._core.pending._settled)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 1",
        "UPDATE glcb_experiments SET name = 'else' WHERE id = 1",
    ],
    ids=["creation", "name"],
)
async def test_where_there_is_nothing_to_continue_nothing_changes(tmp_path: Path, statement: str) -> None:
    async with own_engine(tmp_path) as (engine, database):
        await fill(engine, database)
    sql(tmp_path, statement)
    async with own_engine(tmp_path) as (engine, database):
        name = next(name for name in engine.cache.rows if name != "other")
        with pytest.raises(ApiError, match="cannot be loaded"):
            await decide(engine, {"age": 1}, name)
        with pytest.raises(ApiError, match=r"cannot continue: |created with the name") as caught:
            await engine.recover(name, "me")
        assert caught.value.code == "experiment_broken"
        assert database.last_sequence(1) == 21
        await decide_and_reward(engine, 2, "other")


def test_a_missing_library_sets_no_event_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MissingExtra("NeuralUCB needs jax")

    async def after(engine: Engine, database: Database) -> None:
        with pytest.raises(ApiError, match="needs jax") as caught:
            await decide(engine, {"age": 1})
        assert "/recover" not in str(caught.value)
        with pytest.raises(ApiError, match="cannot continue: "):
            await engine.recover("home")
        assert database.last_sequence(1) == 21

    run_service(tmp_path, fill)
    with monkeypatch.context() as patch:
        patch.setattr(deciding, "recover", refuse)
        run_service(tmp_path, after)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError("no space left on device"), RuntimeError("RESOURCE_EXHAUSTED: no space left")],
)
def test_a_lack_of_resources_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        if isinstance(error, MemoryError):
            raise ModelFileError("the model is not complete") from error
        raise error

    async def without(engine: Engine, _: Database) -> None:
        with pytest.raises(StorageError, match=r"not enough memory|no space left"):
            await decide(engine, {"age": 1})
        assert not engine.cache.broken

    async def later(engine: Engine, _: Database) -> None:
        await decide(engine, {"age": 1})

    run_service(tmp_path, fill)
    with monkeypatch.context() as patch:
        patch.setattr(deciding, "recover", refuse)
        run_service(tmp_path, without)
    run_service(tmp_path, later)


async def test_an_altered_event_is_never_applied(tmp_path: Path) -> None:
    """A record that can be decoded, with another arm: it must not become part of a snapshot."""

    async with own_engine(tmp_path) as (engine, database):
        await fill(engine, database)
    place = "WHERE experiment = 1 AND sequence = 12"
    ((stored,),) = sql(tmp_path, f"SELECT record FROM glcb_events {place}")
    record = decode_record(stored)
    record.slots[0].overlap = 1e30
    sql(tmp_path, f"UPDATE glcb_events SET record = x'{encode_record(record).hex()}' {place}")
    async with own_engine(tmp_path) as (engine, _):
        with pytest.raises(ApiError, match="event 12 was altered"):
            await decide(engine, {"age": 1})


async def recover(engine: Engine, _: Database) -> None:
    await engine.recover("home")
    await decide_and_reward(engine, 3)


def test_the_same_place_can_be_damaged_again(tmp_path: Path) -> None:
    run_service(tmp_path, fill)
    for _ in range(2):
        sql(tmp_path, "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 12")
        run_service(tmp_path, recover)
    with contextlib.closing(open_test_database(tmp_path)) as database:
        assert len(verified(database)) == 2
    sql(tmp_path, "UPDATE glcb_set_aside SET outcome = x'00' WHERE sequence = 15")
    home, _ = findings(tmp_path)
    assert home.exit_code == DAMAGED
    assert "set aside by event 12 are missing or altered" in home.line


async def test_a_gap_around_the_newest_snapshot_ends_before_it(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, database):
        await fill(engine, database)
        await engine.cache.unload(engine.loaded["home"])
        await decide_and_reward(engine, 5)
    sql(tmp_path, "DELETE FROM glcb_events WHERE experiment = 1 AND sequence BETWEEN 20 AND 24")
    async with own_engine(tmp_path) as (engine, database):
        assert (await engine.recover("home")).sequence == 20
        assert database.snapshots(1) == []


async def test_the_high_water_mark_is_set_before_a_recovery_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a kill in between would make the events that were set aside look lost."""
    marked: list[bool] = []

    async with own_engine(tmp_path) as (engine, database):
        await fill(engine, database)
    sql(tmp_path, "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 12")
    async with own_engine(tmp_path) as (engine, database):
        note = database._note

        def watch(experiment: int, head: Head) -> None:
            note(experiment, head)
            query = "SELECT count(*) FROM glcb_events WHERE experiment = 1 AND kind = 'set_aside'"
            marked.append(sql(tmp_path, query) == [(0,)])

        monkeypatch.setattr(database, "_note", watch)
        await engine.recover("home")
    assert marked == [True]

"""The ids of decisions: never issued twice, and optionally chosen by the caller."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from glcb import ClosedDecision, DuplicateDecision
from glcb._api.errors import ERROR_CODES, code_of
from glcb.bandit.recorded import is_pending
from glcb.service.core import models
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from tests.support.builders import RecordedExperiment, rejected, settings
from tests.support.engine_harness import FailingDatabase, decide, reward, run_engine, verified, with_engine

CONTEXT = {"device": "mobile", "country": "FR"}


async def test_a_new_experiment_takes_no_rewards_of_a_deleted_one_with_its_name(
    engine: Engine, database: FailingDatabase
) -> None:
    await engine.create("home", settings())
    old = [(await decide(engine, CONTEXT)).id for _ in range(20)]
    await engine.delete("home")
    await engine.create("home", settings())
    new = [(await decide(engine, CONTEXT)).id for _ in range(20)]
    assert not set(old) & set(new)
    for decision in old:
        with rejected("unknown_decision"):
            await reward(engine, decision, 1)
    verified(database)


@pytest.mark.parametrize("loss", ["backup", "events", "backup before an upload"])
def test_ids_of_lost_decisions_are_not_issued_again(tmp_path: Path, loss: str) -> None:
    """A restored backup, or events that were lost: rewards of lost decisions must not count for others."""
    restored = tmp_path / "restored"
    restored.mkdir()
    issued: list[str] = []

    async def decide_often(engine: Engine, _: FailingDatabase) -> None:
        if "home" not in engine.cache.rows:
            await engine.create("home", settings())
        elif "upload" in loss:
            model = await engine.read("home", lambda one: models.model_file(one.bandit._snapshot()))
            await engine.upload("home", model)
        issued.extend([(await decide(engine, CONTEXT)).id for _ in range(10)])

    def copy() -> None:
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as source,
            contextlib.closing(sqlite3.connect(restored / "glcb.db")) as target,
        ):
            source.backup(target)

    with_engine(tmp_path, decide_often)
    kept = list(issued)
    copy()
    with_engine(tmp_path, decide_often)
    lost = issued[len(kept) :]
    if loss == "events":
        copy()
        with contextlib.closing(sqlite3.connect(restored / "glcb.db")) as connection, connection:
            connection.execute("DELETE FROM glcb_snapshots WHERE sequence > 11")
            connection.execute("DELETE FROM glcb_events WHERE sequence > 11")

    async def continue_without(engine: Engine, opened: FailingDatabase) -> None:
        await decide_often(engine, opened)
        assert len(set(issued)) == len(issued) == 30
        for decision in lost:
            with rejected("unknown_decision"):
                await reward(engine, decision, 1)
        for decision in kept:
            await reward(engine, decision, 1)
        verified(opened)

    with_engine(restored, continue_without)


async def test_a_rejected_or_repeated_decision_writes_no_event(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide(engine, CONTEXT, idempotency_key="k")
    async with run_engine(tmp_path) as (engine, database):
        before = await engine.read("home", lambda one: one.snapshot().digest())
        with pytest.raises(ApiError):
            await decide(engine, CONTEXT, id="not valid")
        await decide(engine, CONTEXT, idempotency_key="k")
        assert await engine.read("home", lambda one: one.snapshot().digest()) == before
        assert database.last_sequence(1) == 2
        await decide(engine, CONTEXT)
        assert database.last_sequence(1) == 4
        verified(database)


def test_an_idempotency_key_is_remembered_after_an_upload() -> None:
    recorded = RecordedExperiment()
    model = models.model_file(recorded.experiment.bandit._snapshot())
    decision = recorded.decide(CONTEXT, idempotency_key="k")
    recorded.apply("replace_model", model)
    assert recorded.decide(CONTEXT, idempotency_key="k") == decision


def test_the_order_of_the_features_does_not_matter_for_an_idempotency_key() -> None:
    recorded = RecordedExperiment()
    decision = recorded.decide(CONTEXT, idempotency_key="k")
    reordered = dict(reversed(CONTEXT.items()))
    assert recorded.decide(reordered, idempotency_key="k") == decision
    with pytest.raises(ApiError, match="different request"):
        recorded.decide({**CONTEXT, "country": "DE"}, idempotency_key="k")


def test_a_decision_has_the_id_that_the_caller_chose() -> None:
    recorded = RecordedExperiment()
    assert recorded.decide(CONTEXT, id="order-17").id == "order-17"
    for _ in range(2):
        with pytest.raises(DuplicateDecision, match="already a decision 'order-17'") as caught:
            recorded.decide(CONTEXT, id="order-17")
        assert ERROR_CODES[code_of(caught.value)].status == 409
        assert recorded.experiment.bandit.counts["decisions"] == 1
        if is_pending(recorded.experiment.bandit, "order-17"):
            recorded.reward("order-17", 1)


def test_a_chosen_id_and_its_idempotency_key_can_be_sent_again() -> None:
    recorded = RecordedExperiment()
    decision = recorded.decide(CONTEXT, id="order-17", idempotency_key="k")
    assert recorded.decide(CONTEXT, id="order-17", idempotency_key="k") == decision


@pytest.mark.parametrize("chosen", ["", "a b", "a/b", "Zoë", "x" * 101])
def test_an_invalid_id_is_rejected(chosen: str) -> None:
    recorded = RecordedExperiment()
    with pytest.raises(ApiError, match="cannot be stored"):
        recorded.decide(CONTEXT, id=chosen)


def test_a_chosen_id_never_collides_with_one_of_the_service() -> None:
    twin = RecordedExperiment()
    expected = [twin.decide(CONTEXT).id for _ in range(3)]
    recorded = RecordedExperiment(max_pending=3)
    recorded.decide(CONTEXT, id=expected[1])
    assert recorded.decide(CONTEXT).id != expected[1]
    recorded.decide(CONTEXT)
    recorded.decide(CONTEXT)
    with pytest.raises(ClosedDecision):
        recorded.reward(expected[1], 1)

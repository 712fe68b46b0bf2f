"""The events of an experiment as the log of an evaluation."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from glcb._api.requests import Activation, NewArm
from glcb._errors import LogError, StorageError
from glcb.bandit.reward_rules import RewardRules
from glcb.evaluate.log import survey_rows
from glcb.service.core import models
from glcb.service.evaluations import worker
from glcb.service.evaluations.event_log import EventLog
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from tests.support.builders import RecordedExperiment, open_test_database
from tests.support.evaluation_jobs import job, recorded, stored_in


def rules_of(experiment: RecordedExperiment, **changes: Any) -> RewardRules:
    return replace(RewardRules.from_config(experiment.experiment.state.settings), **changes)


def log_of(folder: Path, experiment: RecordedExperiment, late: float = 0.0, **bounds: Any) -> EventLog:
    database = open_test_database(folder)
    number = stored_in(database, experiment)
    rules = rules_of(experiment)
    return EventLog(database, number, rules, experiment.now + late, **bounds)


def rewards(log: EventLog) -> dict[float, float]:
    """Return the reward of each evaluated decision, by the number in its context."""
    return {row.decision.context["n"]: row.decision.reward for row in log.rows() if row.decision is not None}


def decisions(experiment: RecordedExperiment, values: Sequence[Sequence[float]]) -> None:
    """Make decisions and report the rewards of each."""
    for number, own in enumerate(values):
        decision = experiment.decide({"n": number})
        for key, value in enumerate(own):
            experiment.reward(decision.id, value, idempotency_key=str(key))


def test_decisions_without_a_reward_are_left_out_or_get_the_default(tmp_path: Path) -> None:
    experiment = RecordedExperiment()
    decisions(experiment, [[1], [], [0]])
    log = log_of(tmp_path, experiment)
    assert rewards(log) == {0: 1, 2: 0}
    assert [row.reason for row in log.rows() if row.decision is None] == ["no reward"]
    with_default = EventLog(
        open_test_database(tmp_path),
        1,
        rules_of(experiment, default_reward=0.0),
        0.0,
    )
    assert rewards(with_default) == {0: 1, 1: 0, 2: 0}


@pytest.mark.parametrize(
    ("late", "expected"), [(0.0, {}), (98.5, {0: 1, 1: 0.25}), (200.0, {0: 1, 1: 0.25, 2: 1})]
)
def test_a_decision_counts_once_its_timeout_has_passed(
    tmp_path: Path, late: float, expected: dict[int, float]
) -> None:
    experiment = RecordedExperiment(reward_timeout=100, default_reward=0.25, rewards=(0, 1))
    decisions(experiment, [[1], [], [1]])  # one second per decision and per reward
    assert rewards(log_of(tmp_path, experiment, late=late)) == expected


@pytest.mark.parametrize(("aggregation", "expected"), [("last", 2), ("max", 3), ("sum", 5)])
def test_several_rewards_are_combined_as_in_the_experiment(
    tmp_path: Path, aggregation: str, expected: float
) -> None:
    experiment = RecordedExperiment(reward_timeout=100, rewards=(0, 5), reward_aggregation=aggregation)
    decisions(experiment, [[1, 3, 2]])
    assert rewards(log_of(tmp_path, experiment, late=200)) == {0: expected}


def test_decisions_that_lost_their_arm_or_their_model_get_no_default(tmp_path: Path) -> None:
    experiment = RecordedExperiment(reward_timeout=100, default_reward=0)
    experiment.decide({"n": 0}, eligible=["c"])
    for number in (1, 2):
        experiment.decide({"n": number}, eligible=["a", "b"])
    experiment.apply("remove_arm", NewArm(name="c"))
    kept = log_of(tmp_path, experiment, late=200)
    assert len(rewards(kept)) == 2
    experiment.apply("replace_model", models.model_file(experiment.experiment.bandit._snapshot()))
    (tmp_path / "later").mkdir()
    with pytest.raises(LogError, match="no decisions with a reward"):
        survey_rows(log_of(tmp_path / "later", experiment, late=200).rows(), "the experiment")


@pytest.mark.parametrize("timeout", [None, 100])
def test_a_deferred_decision_counts_only_from_its_activation(tmp_path: Path, timeout: float | None) -> None:
    experiment = RecordedExperiment(reward_timeout=timeout, default_reward=timeout and 0)
    for number, name in enumerate(("shown", "hidden", "late")):
        experiment.decide({"n": number}, id=name, deferred=name != "shown")
    experiment.now += 50
    experiment.apply("activate", Activation(id="late"))
    experiment.reward("late", 1)
    log = log_of(tmp_path, experiment, late=60)  # the timeout of the last decision begins when it is shown
    assert rewards(log) == ({2: 1} if timeout is None else {0: 0})
    database = open_test_database(tmp_path)
    later = EventLog(
        database,
        1,
        rules_of(experiment, default_reward=0.0),
        2e6,
    )
    assert rewards(later) == {0: 0, 2: 1}


def test_a_range_of_decisions_by_sequence_number_or_by_time(tmp_path: Path) -> None:
    experiment = RecordedExperiment()
    decisions(experiment, [[0], [0], [0], [0]])  # events 2 to 9, one second each
    start = 1_000_000.0

    def between(folder: str, after: Any, before: Any) -> list[float]:
        (tmp_path / folder).mkdir()
        return list(rewards(log_of(tmp_path / folder, experiment, after=after, before=before)))

    assert between("all", 0, None) == [0, 1, 2, 3]
    assert between("after", 3, None) == [1, 2, 3]
    assert between("before", None, 6) == [0, 1]
    assert between("both", 3, 8) == [1, 2]
    times = [datetime.fromtimestamp(start + seconds, UTC) for seconds in (3, 7)]
    assert between("times", *times) == [1, 2]
    assert between("future", datetime.fromtimestamp(start + 99, UTC), None) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM glcb_events WHERE sequence = 5", "events 5 to 5 were deleted"),
        ("UPDATE glcb_events SET request = X'7b7d' WHERE sequence = 5", "event 5 was altered"),
        ("UPDATE glcb_experiments SET pruned_sequence = 5", "its link differs"),
    ],
)
def test_damaged_events_are_noticed(tmp_path: Path, damage: str, message: str) -> None:
    experiment = recorded(5)
    database = open_test_database(tmp_path)
    number = stored_in(database, experiment)
    with database.write() as connection:
        connection.execute(text(damage))
    with pytest.raises(StorageError, match=message):
        worker.evaluate(job(database, number, experiment, policies=["uniform"]))


def test_pruning_during_an_evaluation_is_reported_as_such(tmp_path: Path) -> None:
    experiment = recorded(5)
    log = log_of(tmp_path, experiment)
    with open_test_database(tmp_path).write() as connection:
        connection.execute(text("DELETE FROM glcb_events WHERE sequence <= 4"))
        connection.execute(text("UPDATE glcb_experiments SET pruned_sequence = 4"))
    with pytest.raises(StorageError, match="pruned during the evaluation"):
        list(log.rows())


def test_a_read_only_database_cannot_be_written_or_created(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    reader = Database(sqlite_url(tmp_path / "glcb.db"), read_only=True)
    assert reader.experiments() == []
    with pytest.raises(StorageError, match="readonly"):
        stored_in(reader, recorded(1))
    with pytest.raises(StorageError, match="unable to open"):
        Database(sqlite_url(tmp_path / "missing.db"), read_only=True).experiments()
    assert not (tmp_path / "missing.db").exists()
    database.close()

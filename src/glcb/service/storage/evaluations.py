"""Stored evaluations: what was asked for, what became of it, and the result."""

from typing import NamedTuple

from sqlalchemy import delete, insert, select, update

from glcb.service.errors import ApiError
from glcb.service.storage.database import Database
from glcb.service.storage.tables import DELETED_PREFIX, evaluations, experiments

_UNFINISHED = ("queued", "running")


class EvaluationRow(NamedTuple):
    """A stored evaluation."""

    id: int
    experiment: int
    state: str
    info: bytes
    """An encoded ``EvaluationInfo`` without its id, progress and result."""
    result: bytes | None = None
    """An encoded ``EvaluationResult``; None in lists."""


_COLUMNS = (evaluations.c.id, evaluations.c.experiment, evaluations.c.state, evaluations.c.info)


def add(database: Database, experiment: int, state: str, info: bytes, keep: int) -> int:
    """Insert an evaluation and return its id; delete the oldest finished ones of its experiment.

    Raises
    ------
    ApiError
        The experiment has been deleted.
    """
    own = evaluations.c.experiment == experiment
    exists = select(experiments.c.id).where(
        experiments.c.id == experiment, ~experiments.c.name.startswith(DELETED_PREFIX)
    )
    with database.write() as connection:
        if connection.execute(exists).first() is None:
            raise ApiError("unknown_experiment", "the experiment has been deleted")
        values = {"experiment": experiment, "state": state, "info": info}
        key = connection.execute(insert(evaluations).values(values)).inserted_primary_key
        assert key is not None
        newest = select(evaluations.c.id).where(own).order_by(evaluations.c.id.desc())
        last_kept = connection.execute(newest.offset(keep - 1).limit(1)).scalar()
        if last_kept is not None:
            old = delete(evaluations).where(own, evaluations.c.id < last_kept)
            connection.execute(old.where(evaluations.c.state.not_in(_UNFINISHED)))
        return int(key[0])


def save(database: Database, evaluation: int, state: str, info: bytes, result: bytes | None = None) -> None:
    """Replace what is stored about an evaluation, if it still exists."""
    values = {"state": state, "info": info, "result": result}
    with database.write() as connection:
        connection.execute(update(evaluations).where(evaluations.c.id == evaluation).values(values))


def remove(database: Database, evaluation: int) -> None:
    """Delete an evaluation."""
    with database.write() as connection:
        connection.execute(delete(evaluations).where(evaluations.c.id == evaluation))


def load(database: Database, experiment: int, evaluation: int) -> EvaluationRow | None:
    """Return an evaluation of an experiment with its result, or None."""
    query = select(*_COLUMNS, evaluations.c.result).where(
        evaluations.c.experiment == experiment, evaluations.c.id == evaluation
    )
    with database.read() as connection:
        row = connection.execute(query).first()
    return None if row is None else EvaluationRow._make(row)


def page(database: Database, experiment: int, before: int | None, limit: int) -> list[EvaluationRow]:
    """Return the newest evaluations of an experiment with ids below ``before``, newest first."""
    query = select(*_COLUMNS).where(evaluations.c.experiment == experiment)
    if before is not None:
        query = query.where(evaluations.c.id < before)
    with database.read() as connection:
        rows = connection.execute(query.order_by(evaluations.c.id.desc()).limit(limit)).all()
    return [EvaluationRow._make(row) for row in rows]


def unfinished(database: Database) -> list[EvaluationRow]:
    """Return the evaluations that the service was running, or had queued, when it ended."""
    query = select(*_COLUMNS).where(evaluations.c.state.in_(_UNFINISHED))
    with database.read() as connection:
        return [EvaluationRow._make(row) for row in connection.execute(query)]

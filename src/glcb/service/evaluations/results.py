"""The result of an evaluation as a response of the API."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from glcb._api import responses
from glcb.evaluate.diagnostics import Diagnostic
from glcb.evaluate.result import Evaluation, Interval, Point, PolicyResult, Quantity
from glcb.evaluate.rows import CHUNK_ROWS

MAX_POINTS = 200


def result(
    evaluation: Evaluation, times: Sequence[float], notes: Sequence[str]
) -> responses.EvaluationResult:
    """Return the result of an evaluation.

    Parameters
    ----------
    evaluation
        The result of the library.
    times
        The times of the first decision, and of the last one of every chunk.
    notes
        What else the reader should know.
    """
    return responses.EvaluationResult(
        conclusion=evaluation.conclusion,
        level=evaluation.level,
        rows=evaluation.rows,
        first_at=_time(times[0]),
        last_at=_time(times[-1]),
        arms={str(arm): count for arm, count in evaluation.arms.items()},
        reference=evaluation.reference,
        policies=tuple(_policy(own, times) for own in evaluation.policies),
        replays=tuple(_policy(own, times) for own in evaluation.replays),
        diagnostics=_diagnostics(evaluation.diagnostics),
        refused=dict(evaluation.refused),
        examples=dict(evaluation.examples),
        notes=(*evaluation.notes, *notes),
    )


def _policy(own: PolicyResult, times: Sequence[float]) -> responses.PolicyEvaluation:
    step = -(-len(own.curve) // MAX_POINTS) or 1
    points = own.curve[::-1][::step][::-1]  # the last one stays
    return responses.PolicyEvaluation(
        name=own.name,
        level=own.level,
        estimates=_estimates(own.estimates),
        differences=_estimates(own.differences),
        interval=_interval(own.sequence),
        difference_interval=_interval(own.difference_sequence),
        betting_interval=_interval(own.betting_sequence),
        rows=own.rows,
        effective_rows=own.effective_rows,
        largest_weight=own.largest_weight,
        match_rate=own.match_rate,
        shares={str(arm): share for arm, share in own.shares.items()},
        curve=tuple(_point(point, times) for point in points),
        diagnostics=_diagnostics(own.diagnostics),
    )


def _estimates(quantities: Mapping[str, Quantity]) -> dict[str, responses.Estimate]:
    return {
        name: responses.Estimate(
            value=own.value,
            error=_finite(own.error),
            low=_finite(own.normal.low),
            high=_finite(own.normal.high),
        )
        for name, own in quantities.items()
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _interval(ends: Interval | None) -> responses.Interval | None:
    return None if ends is None else responses.Interval(*map(float, ends))


def _point(point: Point, times: Sequence[float]) -> responses.CurvePoint:
    chunks = -(-point.rows // CHUNK_ROWS)
    return responses.CurvePoint(
        rows=point.rows,
        at=_time(times[chunks]),
        value=float(point.value),
        low=float(point.low),
        high=float(point.high),
    )


def _diagnostics(checks: Sequence[Diagnostic]) -> tuple[responses.Diagnostic, ...]:
    return tuple(responses.Diagnostic(*check) for check in checks)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

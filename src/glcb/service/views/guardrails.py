"""What is known about the guardrails of an experiment."""

from collections.abc import Mapping, Sequence

from glcb._api.guardrails import Guardrail, GuardrailStatus
from glcb.service.core.guard import Guard, GuardSums, Margin, level, margins, series_of


def statuses(
    guard: Guard, ranges: Mapping[str, tuple[float, float]], arms: Sequence[str]
) -> tuple[GuardrailStatus, ...]:
    """Return what is known about each guardrail."""
    result = []
    for sums in guard.guardrails:
        guardrail, named = sums.guardrail, series_of(sums)
        error = level(len(guard.guardrails), guardrail, len(arms))
        for (arm, one), margin in zip(named.items(), margins(list(named.values()), error), strict=True):
            result.append(_status(guardrail, arm, one, margin, ranges[guardrail.metric]))
    return tuple(result)


def _status(
    guardrail: Guardrail, arm: str | None, sums: GuardSums, margin: Margin, limits: tuple[float, float]
) -> GuardrailStatus:
    low, high = limits
    unit = high - low
    value = reference = mean = lowest = highest = None
    if sums.exposure > 0:
        reference = low + unit * sums.reference / sums.exposure
        mean, lowest, highest = (part * unit for part in margin)
        tolerated = guardrail.tolerated * reference if guardrail.relative else guardrail.tolerated
        above = mean - tolerated  # by how much the metric is better than the reference
        value = reference - above if guardrail.rises else reference + above
    return GuardrailStatus(
        metric=guardrail.metric,
        against=guardrail.against,
        max_fall=guardrail.max_fall,
        max_rise=guardrail.max_rise,
        relative=guardrail.relative,
        pauses=guardrail.pauses,
        arm=arm,
        n=sums.n,
        value=value,
        reference=reference,
        margin=mean,
        low=lowest,
        high=highest,
        broken=sums.broken,
    )

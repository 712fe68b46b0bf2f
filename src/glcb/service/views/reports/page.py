"""A report as one self-contained page, for people without access to the service."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from glcb._api.guardrails import or_default
from glcb._api.reports import Report
from glcb._api.responses import ExperimentInfo
from glcb._api.statistics import ArmMean, Curves, LiftEstimate
from glcb._document.document import (
    Document,
    Fact,
    Figure,
    Gallery,
    Group,
    Listing,
    Row,
    Section,
    Table,
    TableCell,
)
from glcb._document.html import render
from glcb.service.views.reports.summary import (
    RewardFormat,
    interval_in_words,
    percent,
    period_in_words,
    reference_in_words,
    relative_in_words,
    reward_format,
    verdict,
)

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 620, 240, 92, 26, 12
_TICKS = 5


def report_page(info: ExperimentInfo, report: Report, curves: Curves, now: datetime) -> str:
    """Return the page.

    Parameters
    ----------
    info
        The experiment.
    report
        The summary of the period.
    curves
        The experiment over the period.
    now
        The time at which the page is made.
    """
    settings, rewards = info.settings, reward_format(info.settings)
    period = period_in_words(report.start, report.end)
    sentence = verdict(info, report.over, report.lift, report.anytime_valid)
    about = [f"{len(report.arms)} arms", f"policy {settings.policy}", f"{percent(settings.holdout)} holdout"]
    traffic = or_default(settings.traffic, 1.0)
    if traffic < 1:
        about.append(f"the bandit decides {percent(traffic)} of the traffic")
    if settings.shadow:
        about.append("shadow mode")
    if settings.owner:
        about.insert(0, f"owner: {settings.owner}")
    purpose = [
        _sentence(settings.description) if settings.description else "",
        _sentence(f"Hypothesis: {settings.hypothesis}") if settings.hypothesis else "",
        f"The experiment is {info.state}:",
    ]
    introduction = " ".join([*filter(None, purpose), f"{', '.join(about)}."])
    over = reference_in_words(info, report.over)
    overview = Section("overview", f"Lift over {over}", _lift_blocks(report.over, curves, rewards))
    checks = report.failed_checks or ("All health checks pass.",)
    sections = (
        overview,
        Section("arms", "Arms", (_arms_table(info, report.arms, rewards),)),
        Section("changes", "Changes", (Listing(report.changes or ("Nothing was changed in this period.",)),)),
        Section("checks", "Health checks", (Listing(checks),)),
        Section("method", "How to read this", _method(info, report)),
    )
    title = f"{info.name}: {period}"
    conclusion = sentence[:1].upper() + sentence[1:]
    document = Document(
        title, conclusion, f"{introduction} Made on {_moment(now)}.", _facts(report, rewards), sections
    )
    return render(document)


def _facts(report: Report, rewards: RewardFormat) -> tuple[Fact, ...]:
    lift = report.lift
    facts = [Fact(f"{report.decisions:,}", "decisions"), Fact(f"{report.rewards:,}", "rewards")]
    if lift is not None:
        difference = Fact(rewards.difference(lift.difference), "lift per decision")
        amount, _, change = rewards.gained(lift.extra_rewards).rpartition(" ")
        facts = [Fact(amount, change), difference, *facts]
        if lift.relative is not None:
            facts.insert(0, Fact(relative_in_words(lift.relative), "relative lift"))
    return tuple(facts)


def _arms_table(info: ExperimentInfo, arms: Sequence[ArmMean], rewards: RewardFormat) -> Table:
    notes = dict.fromkeys(or_default(info.settings.paused_arms, []), " (paused)")
    if info.settings.control:
        notes[info.settings.control] = " (control)"
    rows = tuple(
        Row(
            TableCell(arm.arm + notes.get(arm.arm, "")),
            (
                TableCell(percent(arm.share)),
                TableCell("" if arm.reward_mean is None else rewards.value(arm.reward_mean)),
                TableCell(
                    "" if arm.low is None or arm.high is None else _interval(arm.low, arm.high, rewards)
                ),
                TableCell(f"{arm.decisions:,}"),
                TableCell(f"{arm.rewards:,}"),
            ),
        )
        for arm in arms
    )
    columns = ("arm", "share", "mean reward", "95% interval", "decisions", "rewards")
    caption = "Mean reward of each arm when it was chosen. The bandit chooses arms for different people, so "
    return Table(f"{caption}these means do not rank the arms for everybody.", columns, (Group("", rows),))


def _interval(low: float, high: float, rewards: RewardFormat) -> str:
    return f"{rewards.value(low)} to {rewards.value(high)}"


def _method(info: ExperimentInfo, report: Report) -> tuple[str, ...]:
    lift = report.lift
    interval = "" if lift is None else f"Here, it is: {interval_in_words(info, lift)}."
    validity = (
        "The interval holds at all times at once, however often somebody looks."
        if report.anytime_valid
        else "The intervals of this period, those of the arms included, hold only if its start was chosen in "
        "advance. They do not hold for a period that was picked because of its rewards: the best week of "
        "many looks better than it is."
    )
    decisions = "all decisions" if lift is None else f"{lift.n:,} decisions"
    return (
        "The lift is the mean reward of the decisions of the bandit minus the mean reward that the reference "
        f"would have had for the same people, estimated from the logged probabilities of {decisions}.",
        f"{validity} {interval}",
        "The figure shows the lift from the start of the period to each point, so the interval narrows.",
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC).day} {time.astimezone(UTC):%b %Y, %H:%M} UTC"


# ---- the figure -----------------------------------------------------------------------------------


def _lift_blocks(over: str, curves: Curves, rewards: RewardFormat) -> tuple[str | Gallery, ...]:
    points = [
        (point.end.timestamp(), lift)
        for point in curves.points
        if (lift := point.control if over == "control" else point.lift) is not None
    ]
    if len(points) < 2:
        return ("There is no lift to draw yet.",)
    svg = _lift_svg(points, rewards)
    return (Gallery("", (Figure("lift", "Lift over time with its 95% interval", svg),)),)


def _lift_svg(points: list[tuple[float, LiftEstimate]], rewards: RewardFormat) -> str:
    """Return the lift with its band. The first quarter of the bands may be cut off: they are very wide."""
    bands = [
        (at, lift.difference, _or(lift.low, lift.difference), _or(lift.high, lift.difference))
        for at, lift in points
    ]
    settled = bands[len(bands) // 4 :]
    low = min(0.0, *(band[2] for band in settled), *(band[1] for band in bands))
    high = max(0.0, *(band[3] for band in settled), *(band[1] for band in bands))
    margin = 0.06 * (high - low or 1.0)
    low, high = low - margin, high + margin
    first, last = bands[0][0], bands[-1][0]

    def x(at: float) -> float:
        return _LEFT + (at - first) / (last - first or 1.0) * (_WIDTH - _LEFT - 8)

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return _HEIGHT - _BOTTOM - (inside - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)

    upper = [f"{x(at):.1f},{y(top):.1f}" for at, _, _, top in bands]
    lower = [f"{x(at):.1f},{y(bottom):.1f}" for at, _, bottom, _ in reversed(bands)]
    line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value, _, _ in bands)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="12" fill="currentColor">'
    ]
    for step in range(_TICKS):
        value = low + margin + (high - low - 2 * margin) * step / (_TICKS - 1)
        parts.append(_horizontal(y(value), 0.15))
        text = escape(rewards.difference(value))
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(_horizontal(y(0.0), 0.8))
    parts.append(f'<polygon points="{" ".join(upper + lower)}" fill="#0f766e" fill-opacity="0.2"/>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="#0f8f85" stroke-width="2.5"/>')
    for at, anchor in ((first, "start"), ((first + last) / 2, "middle"), (last, "end")):
        text = time_label(datetime.fromtimestamp(at, UTC), last - first)
        parts.append(f'<text x="{x(at):.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{text}</text>')
    return "".join([*parts, "</svg>"])


def time_label(time: datetime, span: float) -> str:
    """Return the time of a label, as precise as the seconds from the first label to the last require."""
    if span < 600:
        return f"{time:%H:%M:%S} UTC"
    if span < 5 * 86_400:
        return f"{time.day} {time:%b, %H:%M} UTC"
    return f"{time.day} {time:%b %Y}"


def _horizontal(y: float, opacity: float) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
        f'stroke-opacity="{opacity}"/>'
    )


def _or(value: float | None, other: float) -> float:
    return other if value is None else value

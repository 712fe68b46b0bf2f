"""Experiments over time and by segment: sums that events alone determine, and that stay small."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from glcb._api.requests import ExperimentChanges, NewArm
from glcb._api.responses import Decision
from glcb._api.statistics import SegmentStats
from glcb.service.core import models
from glcb.service.core.experiment import Experiment
from glcb.service.core.history import History, floor_time
from glcb.service.core.lift import Weights
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.sums import Sums
from glcb.service.errors import ApiError
from glcb.service.views import curves, reports, segments
from glcb.service.views import lift as lifts
from glcb.service.views.arms import Arms
from glcb.service.views.curves import CurvesQuery
from tests.support.builders import RecordedExperiment, replay

DAY = 86_400.0


class Shop(RecordedExperiment):
    """An experiment in which arm a is best in France, and arm b elsewhere."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"holdout": 0.2, **settings})
        self.visits: list[tuple[dict[str, Any], Decision]] = []


def shop(decisions: int, recorded: Shop | None = None, **settings: Any) -> Shop:
    """Make decisions and reward them, in a new experiment or in one that has decisions already."""
    recorded, rng = recorded or Shop(**settings), random.Random(10_000)
    for number in range(decisions):
        country = rng.choice(["FR", "DE", "US"])
        context = {
            "country": country,
            "user": f"u{number}",
            "age": rng.randrange(18, 70),
            "new": number % 2 > 0,
        }
        if number % 10 == 5:
            del context["age"]
        decision = recorded.decide(context)
        good = decision.arm == ("a" if country == "FR" else "b")
        recorded.reward(decision.id, float(rng.random() < (0.6 if good else 0.1)))
        recorded.visits.append((context, decision))
    return recorded


@pytest.fixture(scope="module")
def recorded() -> RecordedExperiment:
    return shop(1300)


# ---- history ----------------------------------------------------------------------------------------


def test_periods_become_longer_as_they_age_and_lose_nothing() -> None:
    history, rewards = History(0.0), 0
    times = [30 * DAY + 21_600.0 * step for step in range(4 * 900)]  # two and a half years
    times += [times[-1] + 7.0 * step for step in range(1, 400)]
    for at in times:
        decision = OpenDecision("a", False, at, None, Weights(0.5, 1.0, -1.0, 1.0))
        history.sums_now(at).add_decision("a")
        history.sums_at(at).add_reward(decision, 1.0, 1.0)
        rewards += 1
    lengths = [period.end - period.start for period in history.periods]
    assert lengths == sorted(lengths, reverse=True)
    assert set(lengths) == {1.0, 60.0, 3600.0, DAY, 7 * DAY}
    assert len(lengths) < 1300
    assert all(
        first.end <= second.start for first, second in zip(history.periods, history.periods[1:], strict=False)
    )
    for period in history.periods[:-1]:
        assert period.start == floor_time(period.start, period.end - period.start)
    assert sum(period.sums.decisions for period in history.periods) == len(times)
    assert sum(period.sums.lift.n for period in history.periods) == rewards
    assert sum(period.sums.arms["a"].rewards for period in history.periods) == rewards


def test_the_oldest_weeks_are_merged_in_the_end() -> None:
    history = History(0.0)
    for week in range(900):
        history.sums_now(7 * DAY * week).add_decision("a")
    assert len(history.periods) < 1300
    for week in range(900, 2000):
        history.sums_now(7 * DAY * week).add_decision("a")
    assert len(history.periods) < 1300
    assert sum(period.sums.decisions for period in history.periods) == 2000


def test_the_points_add_up_to_the_statistics(recorded: RecordedExperiment) -> None:
    experiment = recorded.experiment
    found = curves.curves(experiment, CurvesQuery())
    whole = experiment.state.tally.whole
    assert found.since == datetime.fromtimestamp(1_000_000, UTC)
    assert sum(point.decisions for point in found.points) == 1300
    assert found.lift.n == whole.lift.n == sum(point.rewards for point in found.points)
    assert found.lift.difference == pytest.approx(whole.lift.lift / whole.lift.n)
    last = found.points[-1].lift
    assert last is not None
    assert last.n == found.lift.n
    assert last.low == pytest.approx(found.lift.low)
    assert last.high == pytest.approx(found.lift.high)
    widths = [
        point.lift.high - point.lift.low
        for point in found.points
        if point.lift and point.lift.high and point.lift.low
    ]
    assert widths[-1] < 0.5 * widths[0]  # the band narrows
    stats, _ = Arms(experiment).listed()
    for arm, own in zip(stats, sorted(found.arms, key=lambda one: one.arm), strict=True):
        assert arm.reward_mean is not None
        assert own.reward_mean == pytest.approx(arm.reward_mean)
        assert (own.low, own.high, own.decisions) == (arm.low, arm.high, arm.decisions)
        assert arm.low is not None
        assert arm.fixed_low is not None
        assert arm.low < arm.fixed_low < arm.reward_mean


CATALOG = {f"m{number}": {"price": number} for number in range(9)}


@pytest.mark.parametrize("settings", [{"control": "c"}, {"arms": CATALOG}], ids=["control", "catalog"])
def test_periods_and_segments_add_up_to_the_sums_of_the_experiment(settings: dict[str, Any]) -> None:
    tally = shop(400, segments=["country"], **settings).experiment.state.tally
    whole, (country,) = tally.whole, tally.segments.features.values()
    periods = Sums.of(one.sums for one in tally.history.periods)
    for total in (periods, Sums.of(one.sums for one in tally.segments.of(country))):
        assert total.decisions == whole.decisions == 400
        assert (total.bandit, total.holdout) == (whole.bandit, whole.holdout)
        assert (total.lift.n, total.control.n) == (whole.lift.n, whole.control.n)
        counts = [
            {arm: (one.decisions, one.total) for arm, one in sums.arms.items()} for sums in (total, whole)
        ]
        assert counts[0] == counts[1]
    assert periods.lift.lift == pytest.approx(whole.lift.lift)
    assert periods.control.lift == pytest.approx(whole.control.lift)
    for arm, sums in periods.arms.items():
        assert sums.squares == pytest.approx(whole.arms[arm].squares)


def test_late_rewards_of_a_removed_arm_do_not_count_for_a_new_one_of_its_name() -> None:
    recorded = RecordedExperiment(policy="uniform", reward_timeout=1000.0, default_reward=0.0)
    first = recorded.decide({"x": 1})
    later = [recorded.decide({"x": 1}) for _ in range(20)]
    removed = next(decision for decision in later if decision.arm != first.arm).arm
    for decision in later:
        recorded.reward(decision.id, 1.0)  # they wait for the first decision
    recorded.apply("remove_arm", NewArm(name=removed))
    recorded.apply("add_arm", NewArm(name=removed))
    recorded.reward(first.id, 0.0)
    stats, _ = Arms(recorded.experiment).listed()
    assert {one.arm: one.reward_mean for one in stats}[removed] is None
    whole = recorded.experiment.state.tally.whole
    assert whole.bandit.n == 21
    assert whole.others.rewards == sum(decision.arm == removed for decision in later)


def test_a_range_has_the_decisions_of_its_periods_only(recorded: RecordedExperiment) -> None:
    whole = curves.curves(recorded.experiment, CurvesQuery(points=500))
    start, end = whole.points[2].start, whole.points[4].end
    query = CurvesQuery(start.timestamp(), end.timestamp(), points=500, arm="a")
    part = curves.curves(recorded.experiment, query)
    assert (part.start, part.end) == (start, end)
    assert sum(point.decisions for point in part.points) == sum(p.decisions for p in whole.points[2:5])
    of_arm = [point.arm for point in part.points if point.arm is not None]
    assert sum(one.decisions for one in of_arm) == next(one.decisions for one in part.arms if one.arm == "a")
    assert len(curves.curves(recorded.experiment, CurvesQuery(points=3)).points) <= 3
    assert curves.curves(recorded.experiment, CurvesQuery(start=1e9)).points == ()
    with pytest.raises(ApiError, match="no arm 'x'"):
        curves.curves(recorded.experiment, CurvesQuery(arm="x"))


def test_intervals_are_valid_at_any_time_only_if_the_range_starts_with_the_history(
    recorded: RecordedExperiment,
) -> None:
    first, middle = recorded.events[0].at, recorded.now - 500
    queries = {
        CurvesQuery(): True,
        CurvesQuery(start=first - DAY): True,
        CurvesQuery(end=middle): True,
        CurvesQuery(start=middle): False,
        CurvesQuery(start=middle, end=middle + 60): False,
        CurvesQuery(start=recorded.now + DAY): False,
    }
    for query, valid in queries.items():
        assert curves.curves(recorded.experiment, query).anytime_valid is valid, query
    assert curves.curves(RecordedExperiment().experiment, CurvesQuery()).anytime_valid


def test_a_report_says_that_a_start_picked_later_has_no_interval_at_all_times(
    recorded: RecordedExperiment,
) -> None:
    whole = reports.reader(CurvesQuery())(recorded.experiment)
    assert "95% interval" in whole.summary.text
    assert "chosen in advance" not in whole.summary.text + whole.page()
    assert "holds at all times" in whole.page()
    picked = reports.reader(CurvesQuery(start=recorded.now - 1800))(recorded.experiment)
    assert "95% interval" in picked.summary.text
    assert "if the start of the period was chosen in advance)" in picked.summary.text
    assert picked.page().count("chosen in advance") == 2, "in the conclusion and in the method"
    assert "holds at all times" not in picked.page()


def test_a_reward_belongs_to_the_period_of_its_decision_which_is_incomplete_until_then() -> None:
    recorded = RecordedExperiment(reward_timeout=1000.0, default_reward=0.0, holdout=0.0)
    first = recorded.decide({"age": 1})
    recorded.now += 100
    later = recorded.decide({"age": 2})
    recorded.reward(later.id, 1.0)
    points = curves.curves(recorded.experiment, CurvesQuery()).points
    assert [(one.decisions, one.rewards, one.complete) for one in points] == [(1, 0, False), (1, 0, False)]
    recorded.reward(first.id, 0.0)
    points = curves.curves(recorded.experiment, CurvesQuery()).points
    assert [(one.decisions, one.rewards, one.complete) for one in points] == [(1, 1, True), (1, 1, True)]
    assert [one.bandit_mean for one in points] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"form": "now"}, "the query must be from=TIME"),
        ({"points": "501"}, "points=1 to 500"),
        ({"from": "yesterday"}, "from must be a time with a time zone"),
        ({"to": "2026-11-17T09:00:00"}, "to must be a time with a time zone"),
        ({"from": "2026-11-17T09:00:00Z", "to": "2026-11-17T08:00:00Z"}, "from must be before to"),
    ],
)
def test_an_invalid_range_is_refused(query: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError, match=message):
        curves.parse_query(query)


# ---- segments ---------------------------------------------------------------------------------------


def test_segments_show_for_whom_the_bandit_is_better(recorded: RecordedExperiment) -> None:
    found = segments.segments(recorded.experiment)
    features = {one.feature: one for one in found.features}
    assert list(features) == ["country", "new", "age"]  # users have too many values
    countries = {one.value: one for one in features["country"].segments}
    assert {value: one.best_arm for value, one in countries.items()} == {"FR": "a", "DE": "b", "US": "b"}
    assert sum(one.decisions for one in countries.values()) == 1300
    for one in countries.values():
        assert one.lift is not None
        assert one.lift.low is not None
        assert one.lift.high is not None
        assert one.lift.low < one.lift.difference < one.lift.high
        assert one.lift.confidence == pytest.approx(1 - 0.05 / features["country"].comparisons)
        assert one.most_chosen in [arm.arm for arm in one.arms]
    age = features["age"]
    assert [one.kind for one in age.segments] == ["range"] * 5 + ["missing"]
    assert age.segments[0].range == (None, age.segments[1].range[0])  # type: ignore[index]
    assert age.segments[-1].decisions == 130


def test_rare_values_become_one_segment() -> None:
    recorded, rng = RecordedExperiment(policy="uniform"), random.Random(10_001)
    for number in range(1100):
        page = f"p{number}" if number % 4 == 0 else f"often{rng.randrange(25)}"
        context = {"page": page, "fixed": "x", "tags": ["a", "b"], "long": "y" * (50 + number % 2 * 100)}
        decision = recorded.decide(context)
        recorded.reward(decision.id, float(rng.random() < 0.5))
    found = {one.feature: one for one in segments.segments(recorded.experiment).features}
    assert list(found) == ["page", "long"]
    shown = found["page"].segments
    assert len(shown) == 19
    assert shown[-1].kind == "other"
    assert all(one.value.startswith("often") for one in shown[:-1])
    assert sum(one.decisions for one in shown) == 1100
    assert sum(one.lift.n for one in shown if one.lift) == 1100
    assert [one.kind for one in found["long"].segments] == ["value", "other"]


def test_declared_features_are_the_segments_and_a_change_starts_them_anew() -> None:
    recorded = shop(30, segments=["device", "country", "country"])
    (country,) = segments.segments(recorded.experiment).features
    assert (country.feature, country.comparisons) == ("country", 80)
    assert sum(one.decisions for one in country.segments) == 30
    waiting = recorded.decide({"country": "FR"})
    recorded.apply("change", ExperimentChanges(segments=["new"]))
    recorded.reward(waiting.id, 1.0)  # it belongs to segments that are gone
    recorded.decide({"country": "FR", "new": True})
    (new,) = segments.segments(recorded.experiment).features
    assert [(one.value, one.decisions, one.lift) for one in new.segments] == [("true", 1, None)]
    recorded.apply("change", ExperimentChanges(segments=None))
    recorded.decide({"country": "FR", "new": True})
    own = recorded.experiment.state.tally.segments
    assert list(own.features) == ["country", "new"]


def test_the_lift_over_the_control_has_a_history_and_segments() -> None:
    recorded = shop(60, control="c", segments=["country"])
    control = recorded.experiment.state.tally.whole.control
    found = curves.curves(recorded.experiment, CurvesQuery())
    assert found.control is not None
    assert found.control.n == control.n > 0
    assert found.control.difference == pytest.approx(control.lift / control.n)
    assert found.points[-1].control == found.control
    (country,) = segments.segments(recorded.experiment).features
    assert sum(one.control.n for one in country.segments if one.control) == control.n


@pytest.fixture(scope="module")
def late_control() -> Shop:
    """An experiment whose control is set after three quarters of its decisions."""
    recorded = shop(600, segments=["country", "age"])
    recorded.apply("change", ExperimentChanges(control="c"))
    return shop(200, recorded)


def test_rewards_gained_over_the_control_count_from_the_decisions_that_have_one(
    late_control: Shop,
) -> None:
    experiment = late_control.experiment
    control = lifts.control_lift(experiment)
    assert control is not None
    assert control.difference is not None
    assert control.n == 200
    bandit = sum(not decision.holdout for _, decision in late_control.visits[-200:])
    assert 0 < bandit < 200
    assert control.extra_rewards == pytest.approx(control.difference * bandit)

    found = curves.curves(experiment, CurvesQuery())
    later = curves.curves(experiment, CurvesQuery(start=late_control.now - 500))
    for one in (found.control, found.points[-1].control, later.control):
        assert one is not None
        assert one.extra_rewards == pytest.approx(control.extra_rewards)
    summary = reports.reader(CurvesQuery())(experiment).summary
    assert summary.lift is not None
    assert summary.lift.extra_rewards == pytest.approx(control.extra_rewards)


def test_rewards_gained_in_segments_count_from_the_decisions_that_have_a_control(
    late_control: Shop,
) -> None:
    latest = late_control.visits[-200:]
    (country, age) = segments.segments(late_control.experiment).features
    for feature, segment in [(one, part) for one in (country, age) for part in one.segments]:
        members = [
            decision for context, decision in latest if _belongs(context.get(feature.feature), segment)
        ]
        assert segment.control is not None
        assert segment.control.n == len(members)
        bandit = sum(not decision.holdout for decision in members)
        assert segment.control.extra_rewards == pytest.approx(segment.control.difference * bandit)


def _belongs(value: Any, segment: SegmentStats) -> bool:
    if value is None or segment.range is None:
        return segment.kind == "missing" if value is None else value == segment.value
    low, high = segment.range
    return (low is None or value >= low) and (high is None or value < high)


def test_rewards_gained_over_random_assignment_count_from_the_decisions_with_a_holdout() -> None:
    """Without exploration and holdout, no decision says what random assignment would have gained."""
    recorded = shop(300, holdout=0.0, exploration=0.0)
    before = lifts.lift(recorded.experiment)
    assert before.n < 30
    recorded.apply("change", ExperimentChanges(holdout=0.2))
    shop(200, recorded)
    lift = lifts.lift(recorded.experiment)
    bandit = lift.n - sum(decision.holdout for _, decision in recorded.visits)
    assert bandit < lift.bandit.n - 250
    assert lift.difference is not None
    assert lift.extra_rewards == pytest.approx(lift.difference * bandit)
    found = curves.curves(recorded.experiment, CurvesQuery())
    assert found.lift.extra_rewards == pytest.approx(lift.extra_rewards)


# ---- events -----------------------------------------------------------------------------------------


def test_history_and_segments_are_restored_and_replayed_bit_for_bit() -> None:
    recorded = shop(230, reward_timeout=50.0, default_reward=0.0)
    recorded.apply("remove_arm", NewArm(name="c"))
    middle = Experiment.from_snapshot(recorded.experiment.snapshot())
    count = len(recorded.events)
    for number in range(20):
        recorded.decide({"country": "FR", "age": number})
    replayed = replay(recorded.events)
    for event in recorded.events[count:]:
        middle.recover(event)
    expected = recorded.experiment.snapshot().digest()
    assert replayed.snapshot().digest() == middle.snapshot().digest() == expected


def test_an_upload_restarts_the_history(recorded: RecordedExperiment) -> None:
    other = RecordedExperiment()
    other.decide({"age": 3})
    other.apply("replace_model", _model(recorded.experiment))
    found = curves.curves(other.experiment, CurvesQuery())
    assert found.points == ()
    assert found.since == datetime.fromtimestamp(other.now, UTC)


def _model(experiment: Experiment) -> bytes:
    return models.model_file(experiment.bandit._snapshot())

"""Who is served what: control, ramp, shadow mode, units, guardrails and the trail of changes."""

import asyncio
import json
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from glcb import InvalidInput, InvalidReward, InvalidSettings, UnknownArm
from glcb._api.guardrails import ArmPause, Guardrail, Metric, Pauses
from glcb._api.requests import DecisionRequest, ExperimentChanges, ExplanationRequest, NewArm, RankingRequest
from glcb.bandit.recorded import is_pending
from glcb.service.core import export
from glcb.service.core.experiment import Experiment
from glcb.service.core.models import model_file
from glcb.service.core.steering import steered_slots
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.process.metrics import Activity
from glcb.service.views import responses
from glcb.service.views.stats import stats
from tests.support.builders import RecordedExperiment, replay, settings
from tests.support.engine_harness import FailingDatabase, decide, reward, verified, with_engine

REVENUE = {"revenue": Metric(range=(0.0, 10.0), default=0.0, unit="€")}
SCORE = {"score": Metric(range=(-1.0, 1.0))}
GUARDRAILS = [
    Guardrail(metric="revenue", max_fall=0.1),
    Guardrail(max_fall=0.05, against="random", pauses="experiment"),
    Guardrail(max_fall=0.2, relative=False, pauses="nothing"),
    Guardrail(metric="revenue", max_rise=2.0, pauses="experiment"),
]


def _drive(recorded: RecordedExperiment, count: int, **more: Any) -> None:
    rng = random.Random(recorded.experiment.state.sequence)
    recent: list[str] = []
    for _ in range(count):
        decision = recorded.decide({"age": rng.randrange(80)}, unit=f"u{rng.randrange(9)}", **more)
        recent.append(decision.id)
        chosen = rng.choice(recent[-5:])
        if rng.random() < 0.7 and is_pending(recorded.experiment.bandit, chosen):
            recorded.reward(chosen, float(rng.random() < 0.4), metrics={"revenue": 10 * rng.random()})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"reward_timeout": 20.0, "default_reward": 0.0},
        {"arms": {"a": {"price": 1}, "b": {"price": 2}, "c": {}}},
    ],
)
def test_a_replay_with_everything_is_exact(changes: dict[str, Any]) -> None:
    guardrails = GUARDRAILS[1:] if "arms" in changes else GUARDRAILS
    recorded = RecordedExperiment(
        control="a",
        baseline="control",
        traffic=0.6,
        shares={"b": (0.1, 0.4)},
        metrics=REVENUE,
        guardrails=guardrails,
        **changes,
    )
    _drive(recorded, 60)
    for number in range(10):
        recorded.apply("rank", RankingRequest(context={"age": number}, k=2, control=["b", "c"]))
    recorded.apply("change", ExperimentChanges(shadow=True, reason="first look"), "team")
    _drive(recorded, 20, control="b")
    final = ExperimentChanges(
        shadow=None,
        baseline=None,
        shares={"b": (0.2, 1.0)},
        reward_timeout=30.0,
        exploration=0.2,
        owner="Ada",
    )
    recorded.apply("change", final, "team")
    recorded.apply("change_arm", ArmPause(name="c", paused=True, reason="sold out"), "team")
    _drive(recorded, 40)
    if "arms" not in changes:
        recorded.apply("add_arm", NewArm(name="d"), "team")
        recorded.apply("remove_arm", NewArm(name="b"), "team")
        _drive(recorded, 20)
    _, breach = recorded.experiment.find_breach(0)
    assert breach is None
    for restart in (0, len(recorded.events) // 2):
        assert replay(recorded.events, restart).snapshot().digest() == recorded.experiment.snapshot().digest()
    found = stats(recorded.experiment, Activity())
    assert found.control_lift is not None
    assert found.control_lift.n > 20
    assert found.metrics["revenue"].n > 40
    assert found.shadow is not None
    assert found.shadow.decisions == 20
    assert {one.metric for one in found.guardrails} == {one.metric for one in guardrails}


def test_the_trail_says_who_changed_what_and_why() -> None:
    recorded = RecordedExperiment()
    recorded.apply("change", ExperimentChanges(holdout=0.1, reward_unit="€", reason="more data"), "team")
    recorded.apply("change", ExperimentChanges(state="paused"), "local")
    recorded.apply("change_arm", ArmPause(name="c", paused=True), "team")
    recorded.apply("add_arm", NewArm(name="d"), "team")
    recorded.apply("replace_model", model_file(recorded.experiment.bandit._snapshot()), "team")
    newest, *_, oldest = responses.changes(recorded.experiment, 20, 0).changes
    assert (newest.action, oldest.by, oldest.reason) == ("model_uploaded", "team", "more data")
    assert json.loads(json.dumps([(one.setting, one.before, one.after) for one in oldest.changes])) == [
        ["reward_unit", None, "€"],
        ["holdout", 0.05, 0.1],
    ]
    page = responses.changes(recorded.experiment, 2, newest.sequence).changes
    assert [(one.action, one.arm) for one in page] == [("arm_added", "d"), ("arm_paused", "c")]
    assert recorded.experiment.state.settings.paused_arms == ["c"]  # kept by the upload


def test_a_ramp_only_moves_units_from_the_control_to_the_bandit() -> None:
    recorded = RecordedExperiment(control="a", baseline="control", holdout=0.0, traffic=0.2)
    groups = []
    for traffic in (0.2, 0.5, 1.0):
        recorded.apply("change", ExperimentChanges(traffic=traffic))
        decisions = {unit: recorded.decide({"x": 1}, unit=f"user {unit}") for unit in range(100)}
        groups.append({unit for unit, decision in decisions.items() if decision.holdout})
        for unit in groups[-1]:
            assert (decisions[unit].arm, decisions[unit].propensity) == ("a", 1.0)
    assert groups[0] > groups[1] > groups[2] == set()
    assert 65 < len(groups[0]) < 95


def test_the_overall_propensity_is_exported_and_matches_frequencies() -> None:
    recorded = RecordedExperiment(
        control="a", baseline="control", holdout=0.3, exploration=0.3, policy="uniform"
    )
    decisions = [recorded.decide({"x": 1}) for _ in range(600)]
    overall = {decision.arm: decision.overall_propensity for decision in decisions}
    assert overall == {
        "a": pytest.approx(0.3 + 0.7 / 3),
        "b": pytest.approx(0.7 / 3),
        "c": pytest.approx(0.7 / 3),
    }
    counts = Counter(decision.arm for decision in decisions)
    assert counts["a"] / 600 == pytest.approx(0.3 + 0.7 / 3, abs=0.08)
    (row,) = export.rows(recorded.events[-1])
    assert (row["propensity"], row["control"]) == (decisions[-1].overall_propensity, "a")


def test_shadow_mode_serves_the_control_and_logs_the_bandit() -> None:
    recorded = RecordedExperiment(shadow=True)
    with pytest.raises(InvalidInput, match="send the choice of the existing system"):
        recorded.decide({"x": 1})
    for number in range(40):
        decision = recorded.decide({"x": number}, control="abc"[number % 3])
        assert (decision.arm, decision.propensity) == ("abc"[number % 3], 1.0)
        assert decision.shadow in ("a", "b", "c")
        recorded.reward(decision.id, float(decision.arm == "b"))
    assert recorded.experiment.bandit.reward_counts["b"] > 10
    shadows = Counter(recorded.decide({"x": number}, control="a").shadow for number in range(20))
    assert shadows.most_common(1)[0][0] == "b"


def test_a_control_that_is_not_eligible_gives_way_to_random_assignment() -> None:
    recorded = RecordedExperiment(control="a", baseline="control", holdout=1.0)
    assert recorded.decide({"x": 1}).arm == "a"
    decision = recorded.decide({"x": 1}, eligible=["b", "c"])
    assert (decision.propensity, decision.control) == (0.5, None)
    with pytest.raises(UnknownArm):
        recorded.decide({"x": 1}, control="z")


def test_a_paused_arm_is_not_chosen_and_not_forgotten() -> None:
    recorded = RecordedExperiment(control="a")
    for _ in range(20):
        decision = recorded.decide({"x": 1})
        recorded.reward(decision.id, 1)
    learned = recorded.experiment.bandit.reward_counts["c"]
    recorded.apply("change_arm", ArmPause(name="c", paused=True))
    assert all(recorded.decide({"x": 1}).probabilities["c"] == 0 for _ in range(20))
    assert recorded.experiment.bandit.reward_counts["c"] == learned
    with pytest.raises(ApiError, match="all eligible arms are paused"):
        recorded.decide({"x": 1}, eligible=["c"])
    with pytest.raises(InvalidSettings, match="is the control"):
        recorded.apply("change_arm", ArmPause(name="a", paused=True))
    recorded.apply("change_arm", ArmPause(name="c", paused=False))
    assert recorded.decide({"x": 1}).probabilities["c"] > 0


def test_decisions_outside_the_schedule_are_refused() -> None:
    start = datetime.fromtimestamp(1_000_010, UTC)
    recorded = RecordedExperiment(start_at=start, end_at=datetime.fromtimestamp(1_000_020, UTC))
    for now, message in ((0.0, "starts at 1970-01-12T13:46:50"), (1_000_020.0, "ended at")):
        recorded.now = now or recorded.now
        with pytest.raises(ApiError, match=message) as refused:
            recorded.decide({"x": 1})
        assert refused.value.code == "experiment_paused"
    recorded.now = 1_000_012.0
    assert recorded.decide({"x": 1}).arm


def test_random_assignment_keeps_the_bounds_of_shares_also_in_what_is_recorded() -> None:
    recorded = RecordedExperiment(arms=["a", "b"], shares={"a": (0.0, 0.1)}, holdout=0.5)
    steering = recorded.experiment.steering
    request = DecisionRequest(context={"x": 1})
    found = set()
    for number in range(200):
        recorded.decide({"x": 1})  # random numbers depend on the number of decisions of the experiment
        held_out = number % 2 == 0
        decision = recorded.experiment.bandit.rank({"x": 1}, k=1, uniform=held_out)
        assignment = steering.assign(request, lambda _: 0.0, 1)._replace(held_out=held_out)
        ((record, shares),) = steering.records(steered_slots(decision), decision.candidates, assignment)
        assert shares.random.tolist() == pytest.approx([0.1, 0.9])
        assert shares.logged == pytest.approx((shares.own + shares.random) / 2)
        if assignment.held_out:
            assert decision.slot_probabilities[0] == pytest.approx(shares.random)
        found.add(record.arm)
    assert found == {"a", "b"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"control": "z"}, "control has 'z', which is not an arm"),
        ({"guardrails": [Guardrail(metric="margin", max_fall=0.1)]}, "no metric 'margin'"),
        ({"guardrails": [Guardrail(max_fall=2.0)]}, "a share of at most 1"),
        ({"guardrails": [Guardrail()]}, "either max_fall or max_rise"),
        ({"guardrails": [Guardrail(max_fall=0.1, max_rise=0.1)]}, "either max_fall or max_rise"),
        ({"metrics": SCORE, "guardrails": [Guardrail(metric="score", max_rise=0.1)]}, "a rise has no share"),
        ({"metrics": {"reward": Metric(range=(0.0, 1.0))}}, "the reward itself"),
        ({"metrics": {"revenue": Metric(range=(1.0, 0.0))}}, "the range of 'revenue'"),
        ({"metrics": {"revenue": Metric(range=(0.0, 1.0), default=2.0)}}, "the default of 'revenue'"),
        ({"shares": {"a": (0.7, 1.0), "b": (0.7, 1.0)}}, "minimum shares"),
        ({"half_life": 1}, "half_life must be"),
        ({"default_reward": 0.0}, "requires reward_timeout"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_change_nothing(
    changes: dict[str, Any], message: str
) -> None:
    recorded = RecordedExperiment()
    recorded.decide({"x": 1})
    before = recorded.experiment.snapshot().digest()
    with pytest.raises(InvalidSettings, match=message):
        recorded.apply("change", ExperimentChanges(**changes), "team")
    assert recorded.experiment.snapshot().digest() == before


def test_metrics_are_checked() -> None:
    recorded = RecordedExperiment(metrics=REVENUE)
    decision = recorded.decide({"x": 1})
    for metrics in ({"revenue": 11.0}, {"margin": 1.0}):
        with pytest.raises(InvalidReward):
            recorded.reward(decision.id, 1, metrics=metrics)
    recorded.reward(decision.id, 1, metrics={"revenue": 2.5})
    assert stats(recorded.experiment, Activity()).metrics["revenue"].mean == 2.5


KEPT, LEFT = Guardrail(metric="kept", max_fall=0.05), Guardrail(metric="left", max_rise=0.05)


@pytest.mark.parametrize(
    ("guardrail", "harm", "harmless", "reason"),
    [
        (KEPT, 0.05, 0.9, "kept of 'c' is more than 5% below that of the control"),
        (LEFT, 0.9, 0.1, "left of 'c' is more than 5% above that of the control"),
    ],
    ids=["fall", "rise"],
)
def test_a_guardrail_pauses_the_arm_that_harms_and_leaves_an_event(
    guardrail: Guardrail, harm: float, harmless: float, reason: str, tmp_path: Path
) -> None:
    name, guardrails = guardrail.metric, [guardrail]
    steering = {"control": "a", "baseline": "control", "traffic": 0.5, "policy": "uniform"}
    metrics = {name: Metric(range=(0.0, 1.0))}
    rng = random.Random(0)

    async def scenario(engine: Engine, _: FailingDatabase) -> None:
        await engine.create("home", settings(**steering, metrics=metrics, guardrails=guardrails), "team")
        for _number in range(2000):
            decision = await decide(engine, {"x": 1})
            value = float(rng.random() < (harm if decision.arm == "c" else harmless))
            await reward(engine, decision.id, 1, metrics={name: value})
            info = await engine.read("home", responses.experiment_info)
            if info.settings.paused_arms == ["c"]:
                break
        changes = await engine.read("home", lambda one: responses.changes(one, 20, 0).changes)
        assert [(one.by, one.action, one.arm) for one in changes] == [
            ("guardrail", "arm_paused", "c"),
            ("team", "created", None),
        ]
        assert reason in str(changes[0].reason)
        assert "c" not in {(await decide(engine, {"x": 1})).arm for _number in range(20)}

    with_engine(tmp_path, scenario, stop=False)
    database = FailingDatabase(tmp_path)
    assert verified(database)
    events = list(database.events(1, 0))
    assert [event.author for event in events if event.kind in ("create", "breach")] == ["team", "guardrail"]
    with_engine(tmp_path, lambda engine, _: _assert_paused(engine))


@pytest.mark.parametrize("pauses", get_args(Pauses)[:2])
def test_a_guardrail_against_rises_is_that_against_falls_mirrored(pauses: Pauses) -> None:
    """What must not rise, and what is left of it, which must not fall, have the same margins."""
    guardrails = [
        Guardrail(metric="kept", max_fall=0.1, relative=False, pauses=pauses),
        Guardrail(metric="left", max_rise=0.1, relative=False, pauses=pauses),
    ]
    metrics = {name: Metric(range=(0.0, 4.0)) for name in ("kept", "left")}
    recorded = RecordedExperiment(
        control="a", baseline="control", traffic=0.5, metrics=metrics, guardrails=guardrails
    )
    rng = random.Random(1)
    for _ in range(200):
        value = 4 * rng.random()
        recorded.reward(recorded.decide({"x": 1}).id, 1, metrics={"kept": value, "left": 4 - value})
    found = stats(recorded.experiment, Activity()).guardrails
    for kept, left in zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True):
        assert (kept.max_fall, kept.max_rise, left.max_fall, left.max_rise) == (0.1, None, None, 0.1)
        assert kept.margin is not None
        assert kept.value is not None
        assert (left.margin, left.low, left.high) == pytest.approx((kept.margin, kept.low, kept.high))
        assert left.value == pytest.approx(4 - kept.value)


def test_the_value_of_a_guardrail_is_the_mean_of_the_metric() -> None:
    for fall, rise in ((0.1, None), (None, 0.1)):
        rule = Guardrail(metric="revenue", max_fall=fall, max_rise=rise, pauses="experiment")
        recorded = RecordedExperiment(control="a", policy="uniform", metrics=REVENUE, guardrails=[rule])
        rng = random.Random(2)
        for _ in range(600):
            decision = recorded.decide({"x": 1})
            recorded.reward(decision.id, 1, metrics={"revenue": 4 + 2 * (decision.arm != "a") * rng.random()})
        (found,) = stats(recorded.experiment, Activity()).guardrails
        assert found.value == pytest.approx(4 + 2 / 3, abs=0.3)
        assert found.reference == pytest.approx(4, abs=0.3)


async def _assert_paused(engine: Engine) -> None:
    await asyncio.sleep(0)
    info = await engine.read("home", responses.experiment_info)
    assert info.settings.paused_arms == ["c"]


@pytest.mark.parametrize("unit", [None, "u-1"])
@pytest.mark.parametrize("held_out", [False, True])
def test_propensities_of_a_ranking_are_conditional_on_the_slots_above(
    unit: str | None, held_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = RecordedExperiment(baseline="control", holdout=0.5, exploration=0.0)
    monkeypatch.setattr(Experiment, "group_fraction", lambda *_: 0.0 if held_out else 0.99)
    request = RankingRequest(context={"x": 1}, k=2, control=["a", "b"], unit=unit)
    ranking = json.loads(recorded.apply("rank", request))
    assert ranking["holdout"] == held_out
    _, second = ranking["overall_propensities"]
    if held_out:
        assert second > 0.7, "whoever is served the control is likely to be in the holdout"
    assert 0.5 <= second <= 1


def test_an_arm_that_is_not_eligible_bounds_nothing() -> None:
    recorded = RecordedExperiment(shares={"a": (0.1, 1.0)}, holdout=0.0)
    assert not recorded.decide({"x": 1}, eligible=["b", "c"]).bounded
    recorded.apply("change_arm", ArmPause(name="a", paused=True), "team")
    assert not recorded.decide({"x": 1}).bounded


@pytest.mark.parametrize("arms", [["a", "b", "c"], {"a": {"price": 1}, "b": {"price": 2}, "c": {}}])
def test_explanations_have_the_arms_and_probabilities_of_decisions(arms: Any) -> None:
    recorded = RecordedExperiment(arms=arms, holdout=0.0)
    for number in range(20):
        recorded.reward(recorded.decide({"x": number}).id, number % 2)
    recorded.apply("change_arm", ArmPause(name="a", paused=True), "team")
    explained = responses.explanation(recorded.experiment, ExplanationRequest(context={"x": 3}))
    expected = recorded.decide({"x": 3}).probabilities
    found = {one.arm: one.probability for one in explained.arms}
    assert {"a": 0.0} | found == pytest.approx({"a": 0.0} | expected)
    with pytest.raises(ApiError, match="all eligible arms are paused"):
        responses.explanation(recorded.experiment, ExplanationRequest(context={"x": 3}, eligible=["a"]))

"""Decisions with scores from a copy of the model: they differ from others only in who estimates the arms."""

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from glcb._api.requests import DecisionRequest, ExperimentChanges, NewArm
from glcb._api.responses import Decision
from glcb._errors import InvalidContext, InvalidInput, StorageError
from glcb.bandit import Bandit
from glcb.bandit.scorer import Scorer, freeze
from glcb.service import export
from glcb.service.core import models
from glcb.service.core.engine import Engine
from glcb.service.core.experiment import CorruptLog, Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.core.scoring import (
    ModelScorer,
    ScoreCheck,
    ScoredRequest,
    model_of,
    split,
    without_old_scores,
)
from tests.service.builders import RecordedExperiment, settings
from tests.service.engine_harness import FailingDatabase, decide_and_reward, verified, with_engine

CONTEXTS = [{"age": 20 + 7 * step % 50, "country": "FRIT"[step % 2 :: 2]} for step in range(40)]


def trained(**changes: Any) -> RecordedExperiment:
    recorded = RecordedExperiment(id_prefix="p-", **changes)
    for step, context in enumerate(CONTEXTS):
        recorded.reward(recorded.decide(context).id, step % 3 == 0)
    return recorded


def scorer_of(recorded: RecordedExperiment) -> ModelScorer:
    model = model_of(recorded.experiment)
    assert model is not None
    return ModelScorer(pickle.loads(pickle.dumps(model)))


def decide(recorded: RecordedExperiment, request: DecisionRequest) -> Decision:
    return msgspec.json.decode(recorded.apply("decide", request), type=Decision)


def digest(recorded: RecordedExperiment) -> str:
    return recorded.experiment.snapshot().digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "glcb"},
        {"holdout": 0.5},
        {"holdout": 0.5, "control": "b", "baseline": "control", "traffic": 0.6},
        {"control": "a", "shadow": True, "shares": {"b": (0.1, 0.6)}},
    ],
)
def test_scores_from_the_current_model_change_nothing(changes: dict[str, Any]) -> None:
    plain, scored = trained(**changes), trained(**changes)
    for step, context in enumerate(CONTEXTS[:10]):
        eligible = ["a", "b"] if step % 2 else None
        request = DecisionRequest(context=context, eligible=eligible, unit=None if step % 3 else "u")
        first = decide(plain, request)
        assert decide(scored, scorer_of(scored).scored(request, seed=step)) == first
        assert digest(plain) == digest(scored)
        plain.reward(first.id, 1)
        scored.reward(first.id, 1)


@pytest.mark.parametrize("policy", ["glcb", "linucb", "lints"])
def test_older_scores_decide_as_the_older_model_would_and_replay_exactly(policy: str) -> None:
    recorded = trained(policy=policy, exploration=0.2)
    scorer = scorer_of(recorded)
    for step, context in enumerate(CONTEXTS[:10]):
        request = scorer.scored(DecisionRequest(context=context), seed=step)
        assert request.scores is not UNSET
        estimates = request.scores.estimates()
        best = recorded.experiment.bandit.arms[int((estimates.values + estimates.bonuses).argmax())]
        decision = decide(recorded, request)
        assert decision.probabilities[str(best)] == pytest.approx(0.8)
        recorded.reward(decision.id, step % 2)
    snapshot = recorded.experiment.snapshot()
    restored = Experiment.from_snapshot(ExperimentSnapshot.unpack(snapshot.pack(), snapshot.digest()))
    again = RecordedExperiment(id_prefix="p-", policy=policy, exploration=0.2)
    check = ScoreCheck(recorded.events)
    for event in recorded.events[1:]:
        check.keep(again.experiment)
        check.compare(event)
        again.experiment.replay(event)
    assert digest(again) == digest(recorded) == restored.snapshot().digest()
    assert (check.unknown, check._scorers) == (0, {})


def test_a_randomized_policy_draws_with_the_seed() -> None:
    scorer = scorer_of(trained(policy="lints"))
    first = scorer.scores(CONTEXTS[0], 1)
    assert scorer.scores(CONTEXTS[0], 2) != first
    assert scorer.scores(CONTEXTS[0], 1) == first


def test_scores_are_not_used_if_they_are_old_or_of_another_experiment() -> None:
    recorded = trained()
    request = scorer_of(recorded).scored(DecisionRequest(context=CONTEXTS[0]), seed=1)

    def uses(request: ScoredRequest, max_lag: int = 100) -> bool:
        return without_old_scores(recorded.experiment, request, max_lag) is request

    assert uses(request, max_lag=0)
    decide(recorded, request)
    assert not uses(request, max_lag=0)
    assert uses(request, max_lag=1)
    assert request.scores is not UNSET
    elsewhere = msgspec.structs.replace(request.scores, origin="q-")
    assert not uses(msgspec.structs.replace(request, scores=elsewhere))
    later = msgspec.structs.replace(request.scores, version=recorded.experiment.state.sequence + 1)
    assert not uses(msgspec.structs.replace(request, scores=later))
    recorded.experiment = Experiment.from_snapshot(recorded.experiment.snapshot())
    assert not uses(request)  # what was changed before the snapshot is not known
    for kind, change in [
        ("add_arm", NewArm(name="d")),
        ("change", ExperimentChanges(exploration=0.2)),
        ("replace_model", models.model_file(recorded.experiment.bandit.snapshot())),
    ]:
        request = scorer_of(recorded).scored(DecisionRequest(context=CONTEXTS[0]), seed=1)
        assert uses(request)
        recorded.apply(kind, change, "team")
        assert not uses(request)
    plain = without_old_scores(recorded.experiment, request, 100)
    assert decide(recorded, plain).arm in "abcd"


def test_an_idempotency_key_stands_for_the_same_request_with_and_without_scores() -> None:
    recorded = trained()
    plain = DecisionRequest(context=CONTEXTS[0], idempotency_key="K")
    scored = scorer_of(recorded).scored(plain, seed=1)
    assert split(scored)[0] == msgspec.structs.replace(scored, scores=UNSET)
    first = decide(recorded, scored)
    events = len(recorded.events)
    assert decide(recorded, plain) == decide(recorded, scored) == first
    assert len(recorded.events) == events


def test_only_models_without_arm_features_and_positions_can_be_copied() -> None:
    assert model_of(RecordedExperiment().experiment) is None  # no model yet
    for changes in ({"slots": 2}, {"arms": {"a": {"x": 1}, "b": {"x": 2}}}):
        bandit = Bandit(**{"arms": ["a", "b"], "policy": "linucb", **changes})  # type: ignore[arg-type]
        bandit.decide({"age": 31})
        assert freeze(bandit) is None


def test_estimates_must_be_those_of_all_arms() -> None:
    bandit, other = (Bandit(arms=arms, policy="linucb") for arms in (["a", "b"], ["a", "b", "c"]))
    bandit.decide({"age": 31})
    model = freeze(bandit)
    assert model is not None
    scorer = Scorer(model)
    with pytest.raises(InvalidContext):
        scorer.estimate("no context", 0)
    with pytest.raises(InvalidInput, match="each of the 3 arms"):
        other.decide({"age": 31}, estimates=scorer.estimate({"age": 31}, 0))
    assert other.counts["decisions"] == 0


def test_a_stored_event_with_the_scores_of_other_arms_does_not_replay() -> None:
    recorded = trained()
    request = scorer_of(trained(arms=["a", "b"])).scored(DecisionRequest(context=CONTEXTS[0]), seed=1)
    event = recorded.events[-2]._replace(
        sequence=recorded.experiment.state.sequence + 1, request=msgspec.json.encode(request)
    )
    with pytest.raises(CorruptLog, match="InvalidInput"):
        recorded.experiment.replay(event)


def test_exports_contain_decisions_with_scores() -> None:
    recorded = trained()
    decision = decide(recorded, scorer_of(recorded).scored(DecisionRequest(context=CONTEXTS[0]), seed=1))
    (row,) = export.rows(recorded.events[-1])
    assert (row["id"], row["arm"], row["context"]) == (decision.id, decision.arm, CONTEXTS[0])


def test_scores_of_another_model_are_found() -> None:
    recorded = trained()
    request = scorer_of(recorded).scored(DecisionRequest(context=CONTEXTS[0]), seed=1)
    assert request.scores is not UNSET
    wrong = msgspec.structs.replace(request.scores, version=request.scores.version - 1)
    recorded.apply("decide", msgspec.structs.replace(request, scores=wrong))
    again = RecordedExperiment(id_prefix="p-")
    check = ScoreCheck(recorded.events)
    for event in recorded.events[1:-1]:
        check.keep(again.experiment)
        check.compare(event)
        again.experiment.replay(event)
    check.keep(again.experiment)
    with pytest.raises(StorageError, match=r"the scores of event \d+ are not those"):
        check.compare(recorded.events[-1])


def test_the_audit_computes_scores_again_unless_the_events_of_their_model_were_pruned(tmp_path: Path) -> None:
    report: list[str] = []

    async def scenario(engine: Engine, database: FailingDatabase) -> None:
        await engine.create("home", settings())
        await decide_and_reward(engine, 5)
        model = await engine.read("home", model_of)
        assert model is not None
        request = ModelScorer(model).scored(DecisionRequest(context=CONTEXTS[0]), seed=1)
        await engine.apply("home", "decide", request)
        await engine.cache.save(engine.loaded["home"])
        await engine.apply("home", "decide", request)
        await engine.apply("home", "decide", request)  # it is now three events behind
        stored = [b"scores" in event.request for event in database.events(1, 11)]
        assert stored == [True, True, False]
        report.extend(verified(database))
        database.prune(1, 1, before=float("inf"), now=0.0)
        report.extend(verified(database))

    with_engine(tmp_path, scenario, max_lag=1)
    assert report[0] == "home: 14 events and 1 snapshots agree"
    assert report[1].endswith("; the scores of 1 decisions are from models of pruned events")

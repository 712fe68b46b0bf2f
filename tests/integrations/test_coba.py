"""Learners in experiments of coba."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from glcb import InvalidReward, InvalidSettings, UnknownArm

pytest.importorskip("coba")

import coba

from glcb.integrations.coba import BanditLearner


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger, coba.CobaContext.logger = coba.CobaContext.logger, coba.NullLogger()
    yield
    coba.CobaContext.logger = logger


def mean_rewards(result: Any) -> dict[str, float]:
    """Return the mean reward of each learner, by family."""
    families = {row["learner_id"]: row["family"] for row in result.learners.to_dicts()}
    rewards: dict[str, list[float]] = {}
    for row in result.interactions.to_dicts():
        rewards.setdefault(families[row["learner_id"]], []).append(row["reward"])
    return {family: float(np.mean(values)) for family, values in rewards.items()}


def test_a_policy_learns_in_an_experiment_of_coba() -> None:
    rng = np.random.default_rng(10_000)
    features = rng.random((600, 3)).tolist()
    labels = [["low", "middle", "high"][int(row[0] * 3)] for row in features]
    environments = coba.Environments.from_supervised(features, labels).materialize()
    learners = [BanditLearner("linucb"), coba.RandomLearner()]
    result = coba.Experiment(environments, learners).run(quiet=True)
    means = mean_rewards(result)
    assert means.pop("glcb") > 0.6
    assert max(means.values()) < 0.4
    (row,) = [row for row in result.learners.to_dicts() if row["family"] == "glcb"]
    assert (row["policy"], row["exploration"]) == ("linucb", 0.05)


@pytest.mark.parametrize("context", [None, 0.5, "FR", (0.5, "FR"), [0.5, 1], {"age": 31}])
@pytest.mark.parametrize("actions", [[0, 1, 2], ["a", "b"], [(1, 0), (0, 1)]])
def test_contexts_and_actions_have_the_forms_of_coba(context: Any, actions: list[Any]) -> None:
    learner = BanditLearner("linucb", seed=3)
    action, probability = learner.predict(context, actions)
    assert action in actions
    assert learner.score(context, actions, action) == pytest.approx(probability)
    assert sum(learner.score(context, actions, each) for each in actions) == pytest.approx(1)
    learner.learn(context, action, 1, probability)
    learner.learn(context, actions[0], 0, None)
    twin = pickle.loads(pickle.dumps(BanditLearner("linucb", seed=3)))
    assert twin.predict(context, actions) == (action, probability)


def test_later_interactions_can_offer_fewer_actions() -> None:
    learner = BanditLearner("linucb")
    learner.predict(None, ["a", "b", "c"])
    assert {learner.predict(None, ["c", "a"])[0] for _ in range(30)} <= {"a", "c"}
    assert learner.score(None, ["b"], "b") == 1
    with pytest.raises(UnknownArm, match="'d'"):
        learner.predict(None, ["a", "d"])


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="exploration"):
        BanditLearner(exploration=2)
    learner = BanditLearner("linucb")
    with pytest.raises(UnknownArm, match="predict first"):
        learner.learn(None, "a", 1, 1.0)
    learner.predict(None, ["a", "b"])
    with pytest.raises(InvalidReward):
        learner.learn(None, "a", 0.3, 1.0)

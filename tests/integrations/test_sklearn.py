"""The estimator, used by scikit-learn, pandas and Polars."""

import pickle
from typing import Any

import numpy as np
import pytest

from glcb import (
    Bandit,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    UnknownArm,
)
from tests.support.bandits import full_state

pytest.importorskip("sklearn")
pytest.importorskip("polars")

import pandas as pd
import polars as pl
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from glcb.integrations.sklearn import BanditEstimator

RNG = np.random.default_rng(10_000)
X = RNG.random((300, 3))
ARMS = RNG.choice(["sports", "news"], 300)
REWARDS = ((X[:, 0] > 0.5) == (ARMS == "news")).astype(float)
COLUMNS = {"age": X[:, 0], "b": X[:, 1], "c": X[:, 2], "arm": ARMS, "reward": REWARDS}


def estimator(**settings: Any) -> BanditEstimator:
    return BanditEstimator(Bandit(arms=["sports", "news"], policy="linucb"), **settings)


def accuracy(trained: Any, contexts: Any) -> float:
    expected = np.where(X[:, 0] > 0.5, "news", "sports")
    return float(np.mean(trained.predict(contexts) == expected))


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_frame_with_arms_and_rewards_is_learned_in_parts(library: Any) -> None:
    frame = library.DataFrame(COLUMNS)
    whole, parts = estimator().fit(frame), estimator()
    for start in range(0, 300, 100):
        parts.partial_fit(frame[start : start + 100])
    assert full_state(parts.bandit_) == full_state(whole.bandit_)
    assert accuracy(whole, frame) > 0.9
    assert whole.bandit_.schema is not None
    assert set(whole.bandit_.schema.features) == {"age", "b", "c"}
    assert whole.fit(frame[:100]).bandit_.counts["rewarded"] == 100


def test_arms_and_rewards_can_be_passed_apart() -> None:
    trained = estimator().partial_fit(X, ARMS, REWARDS.astype(bool))
    assert accuracy(trained, X) > 0.9
    assert trained.bandit.counts["decisions"] == 0


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_decisions_for_a_frame_are_a_frame(library: Any) -> None:
    frame = library.DataFrame(COLUMNS)
    trained = estimator().fit(frame)
    twin = pickle.loads(pickle.dumps(trained))
    expected = twin.decide_many([{"age": age, "b": b, "c": c} for age, b, c in X])
    decisions = trained.decide_many(frame)
    assert isinstance(decisions, library.DataFrame)
    assert list(decisions.columns) == ["id", "arm", "propensity"]
    for name, values in expected.items():
        assert decisions[name].to_list() == values.tolist()
    trained.reward_many(decisions["id"], REWARDS)
    assert trained.bandit_.counts["rewarded"] == 600


def test_a_frame_of_decisions_has_the_index_of_its_contexts() -> None:
    frame = pd.DataFrame({"age": [31, 45]}, index=["anna", "bert"])
    assert list(estimator().decide_many(frame).index) == ["anna", "bert"]


@pytest.mark.parametrize(("output", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_the_type_of_the_frame_can_be_chosen(output: Any, kind: type) -> None:
    chosen = estimator().set_output(transform=output)
    assert isinstance(chosen.decide_many([{"age": 31}]), kind)
    assert isinstance(chosen.set_output().decide_many([{"age": 31}]), kind)
    assert isinstance(chosen.set_output(transform="default").decide_many([{"age": 31}]), dict)
    with pytest.raises(InvalidSettings, match="default, pandas, polars"):
        chosen.set_output(transform="arrow")  # type: ignore[arg-type]


def test_the_probabilities_are_those_of_the_decisions() -> None:
    trained = estimator().fit(X, ARMS, REWARDS)
    before = full_state(trained.bandit_)
    probabilities = trained.predict_proba(X[:20])
    trained.predict(X[:20])
    assert full_state(trained.bandit_) == before
    assert trained.predict_proba(X[:0]).shape == (0, 2)
    for row, decision in zip(probabilities, trained.bandit_.decide_many(X[:20]), strict=True):
        assert row.tolist() == decision.arm_probabilities.tolist()
    assert trained.classes_.tolist() == ["sports", "news"]


def test_a_clone_is_untrained_and_parameters_reach_the_bandit() -> None:
    trained = estimator(arm_column="shown").fit(X, ARMS, REWARDS)
    twin = clone(trained).set_params(bandit__exploration=0.2)
    assert not hasattr(twin, "bandit_")
    assert twin.arm_column == "shown"
    assert twin.get_params()["bandit__exploration"] == 0.2
    assert trained.get_params()["bandit__exploration"] == 0.05
    assert "BanditEstimator" in trained._repr_html_()


def test_a_pipeline_ends_in_a_bandit() -> None:
    pipeline = make_pipeline(MinMaxScaler(), estimator())
    pipeline.fit(X * 1000, ARMS, banditestimator__rewards=REWARDS)
    assert accuracy(pipeline, X * 1000) > 0.9
    assert clone(pipeline).steps[1][1].get_params()["bandit__policy"] == "linucb"
    assert accuracy(pickle.loads(pickle.dumps(pipeline)), X * 1000) > 0.9


@pytest.mark.parametrize(
    ("contexts", "arms", "rewards", "error", "message"),
    [
        (X[:3], ["news", "news", "weather"], [1, 1, 1], UnknownArm, "row 2: .*weather"),
        (X[:3], ["news"] * 3, [1, 7, 1], InvalidReward, "row 1: "),
        (X[:3], ["news"] * 3, [1, float("nan"), 1], InvalidReward, "row 1: "),
        ([[1, 2, 3], [1, 2]], ["news"] * 2, [1, 1], InvalidContext, "row 1: "),
        (X[:3], ["news"] * 2, [1, 1, 1], InvalidInput, "expected 3, got 2"),
        (X[:3], None, None, InvalidInput, "no column 'arm'"),
    ],
)
def test_an_invalid_row_changes_nothing(
    contexts: Any, arms: Any, rewards: Any, error: type[Exception], message: str
) -> None:
    trained = estimator().fit(X, ARMS, REWARDS)
    before = full_state(trained.bandit_)
    for learn in (trained.fit, trained.partial_fit):
        with pytest.raises(error, match=message):
            learn(contexts, arms, rewards)
    assert full_state(trained.bandit_) == before


def test_arms_with_features_can_be_decided_and_learned() -> None:
    catalog = BanditEstimator(Bandit(arms={"m1": {"genre": "noir"}, "m2": {}}, policy="linucb"))
    catalog.fit(X, np.where(ARMS == "news", "m1", "m2"), REWARDS)
    assert set(catalog.decide_many(X[:9])["arm"]) <= {"m1", "m2"}
    assert set(catalog.predict(X[:9])) <= {"m1", "m2"}

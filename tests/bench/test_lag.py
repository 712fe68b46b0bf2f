"""Decisions that are made with an older model."""

from pathlib import Path

import pytest

from glcb import LinUCB
from glcb.bench.simulation import simulate
from glcb.bench.studies import lag
from glcb.bench.studies.lag import Lag, run_with_lag
from glcb.tasks import get
from tests.bench.test_bandit_studies import run_study

WHEEL = get("wheel")


class Recorder(LinUCB):
    """A policy that notes how many rewards it has learned before each decision."""

    def __init__(self) -> None:
        super().__init__(WHEEL.arms, WHEEL.features, rewards=WHEEL.rewards, seed=10_000)
        self.learned = 0
        self.known: list[int] = []

    def decide(self, context: object, **more: object) -> object:  # type: ignore[override]
        self.known.append(self.learned)
        return super().decide(context, **more)  # type: ignore[arg-type]

    def learn(self, *arguments: object, **more: object) -> None:
        super().learn(*arguments, **more)  # type: ignore[arg-type]
        self.learned += 1


@pytest.mark.parametrize("steps_behind", [0, 1, 7, 100])
def test_a_decision_knows_all_but_the_last_decisions(steps_behind: int) -> None:
    policy = Recorder()
    run_with_lag(policy, WHEEL.stream(10_000, 40), steps_behind)
    assert policy.known == [max(0, step - steps_behind) for step in range(40)]


def test_without_lag_the_result_is_that_of_the_simulation() -> None:
    stream = WHEEL.stream(10_000, 200)
    assert run_with_lag(Recorder(), stream, 0) == pytest.approx(simulate(Recorder(), stream).total)


def test_the_lag_study_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "TASKS", ("wheel",))
    monkeypatch.setattr(lag, "POLICIES", ("linucb",))
    study = Lag(seeds=2, steps=150)
    expected = ("wheel", "linucb, lag 1", "linucb, lag 1,000", "2 seeds")
    assert run_study(study, tmp_path, *expected)[-1] == (2, 2)
    monkeypatch.setattr(lag, "run_with_lag", None)
    run_study(study, tmp_path, *expected)

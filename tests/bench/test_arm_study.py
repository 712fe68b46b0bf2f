"""The study of arms with features."""

from pathlib import Path

import numpy as np
import pytest

from glcb._arrays import Bool, Float64
from glcb.bench import studies
from glcb.bench.studies.arm_learners import ADD_ARM, KINDS, Kind, available_arms, run_learner
from glcb.bench.studies.arms import WINDOW, ArmFeatures, follow_newcomer
from glcb.tasks.arm_features import ArmNewcomer
from tests.bench.test_bandit_studies import run_study


def test_the_study_runs_without_data_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    study = ArmFeatures(seeds=2, steps=40, newcomer_steps=60)
    expected = ("arm-catalog", "glcb, per arm", "lints, shared", "add_arm", "2 seeds", "model-routing")
    reported = run_study(study, tmp_path, *expected)
    assert reported[-1][0] == reported[-1][1]
    stored = (tmp_path / "results.jsonl").read_bytes()
    run_study(study, tmp_path, *expected)
    assert (tmp_path / "results.jsonl").read_bytes() == stored, "nothing is measured again"
    assert "arms" in studies.names()


@pytest.mark.parametrize("kind", [*KINDS, ADD_ARM], ids=lambda kind: kind.name)
def test_learners_choose_available_arms(kind: Kind) -> None:
    if kind.policy.startswith("vw"):
        pytest.importorskip("vowpalwabbit")
    task = ArmNewcomer()
    stream = task.stream(10_000, 60)
    arms = run_learner(kind.make(stream, task.rewards, 0), stream)
    assert all(arm in available_arms(stream, step) for step, arm in enumerate(arms))
    assert len(set(arms.tolist())) > 3


def test_an_added_arm_is_explored_at_once() -> None:
    task = ArmNewcomer()
    stream = task.stream(10_000, 60)
    arms = run_learner(ADD_ARM.make(stream, task.rewards, 0), stream)
    assert task.newcomer in arms[30:35]


def expected_rewards(best: Bool) -> Float64:
    """Return those of an arm with 0.5, and of a new one with 0.9 or 0.1."""
    return np.stack([np.full(best.size, 0.5), np.where(best, 0.9, 0.1)], axis=1)


def test_a_new_arm_reaches_its_share() -> None:
    steps, arrival = 1000, 400
    rng = np.random.default_rng(0)
    best = rng.random(steps) < 0.3
    chosen = best & (np.arange(steps) >= arrival + 200)
    found = follow_newcomer(chosen.astype(int), expected_rewards(best), arrival)
    assert found.share == pytest.approx(best[700:].mean())
    assert found.curve[:200].max() == 0
    assert 200 < found.share_after <= 200 + WINDOW
    assert (found.advantage, found.advantages[-1]) == (1, 1)
    assert 200 < found.advantage_after(found.advantage) <= 200 + WINDOW
    assert found.advantage_after(2.0) == steps - arrival, "never reached"
    assert found.shares[0] == 0
    assert found.regrets[0] == pytest.approx(0.4 * best[arrival : arrival + 100].sum())
    assert found.regrets[2] == pytest.approx(0.4 * best[arrival : arrival + 200].sum())


def test_an_arm_that_is_always_chosen_has_a_share_but_no_advantage() -> None:
    best = np.arange(1000) % 4 == 0
    found = follow_newcomer((np.arange(1000) >= 500).astype(int), expected_rewards(best), 500)
    assert (found.share, found.advantage) == (1, 0)
    assert found.share_after == pytest.approx(0.9 * WINDOW, abs=1)

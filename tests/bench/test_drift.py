"""The drift study and its measurements."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from glcb.bench import studies
from glcb.bench.studies import drift
from glcb.bench.studies.drift import (
    ChangeCurve,
    DriftStudy,
    HalfLifeVariant,
    change_curve,
    recovery_steps,
    windowed_shares,
)
from glcb.tasks import get


@pytest.mark.live
def test_the_drift_study_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(drift, "GLCBS", (HalfLifeVariant("glcb", None), HalfLifeVariant("glcb", 100)))
    monkeypatch.setattr(drift, "VARIANTS", (*drift.GLCBS, HalfLifeVariant("linucb", 100)))
    heard: list[tuple[int, int]] = []
    context = studies.StudyContext(tmp_path / "runs", 1, lambda done, total: heard.append((done, total)))
    study_result = DriftStudy(seeds=2, steps=400).run(context)
    assert heard[-1] == (2 * 3 * 3, 2 * 3 * 3)
    console = Console(width=200)
    with console.capture() as capture:
        for table in study_result.tables:
            console.print(table)
    text = capture.get() + "".join(study_result.remarks)
    for expected in ("smooth-switch", "smooth-drift", "smooth-newcomer", "linucb, 100", "glcb, none"):
        assert expected in text, expected
    assert "Skipped" in study_result.remarks[-1]
    assert "statlog, covertype, statlog-switch" in study_result.remarks[-1]
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_smooth_tasks_use_expected_rewards() -> None:
    curve = change_curve(get("smooth-switch"), HalfLifeVariant("linucb", None), 10_000, 400)
    assert len(np.unique(curve.received)) > 300, "not the binary rewards"
    assert (curve.received <= curve.best).all()
    assert curve.change == 200


def test_the_half_life_is_passed_to_the_policy() -> None:
    forgetting, remembering = (
        change_curve(get("smooth-switch"), HalfLifeVariant("linucb", half_life), 10_000, 400)
        for half_life in (20, None)
    )
    assert not np.array_equal(forgetting.received, remembering.received)
    assert np.array_equal(forgetting.best, remembering.best)


def test_recovery_is_relative_to_the_best_possible_reward() -> None:
    received = np.repeat([0.5, 0.5, 0.9], 1000)
    possible = np.repeat([0.5, 0.5, 1.0], 1000)
    assert recovery_steps(ChangeCurve(received, np.ones(3000))) == 200, "no reward was lost"
    late = ChangeCurve(np.repeat([0.5, 0.5, 1.0], [1500, 700, 800]), np.repeat([0.5, 1.0], 1500))
    assert recovery_steps(late) == 700 + 160, "half of what is possible is not enough"
    assert ChangeCurve(received, possible).share_before == 1
    assert ChangeCurve(received, possible).before.size == 300


def test_only_full_windows_are_drawn() -> None:
    curve = ChangeCurve(np.repeat([1.0, 0.5, 0.0], [200, 200, 50]), np.full(450, 2.0))
    assert windowed_shares(curve).tolist() == [0.5, 0.25]

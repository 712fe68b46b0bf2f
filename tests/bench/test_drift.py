"""The study of changing worlds in a tiny form, and how it measures."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from glcb.bench import studies
from glcb.bench.studies import drift
from glcb.bench.studies.drift import Drift, Variant, follow
from glcb.bench.studies.recovery import Course, in_windows, steps_until_back
from glcb.tasks import get


def test_drift_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(drift, "GLCBS", (Variant("glcb", None), Variant("glcb", 100)))
    monkeypatch.setattr(drift, "VARIANTS", (*drift.GLCBS, Variant("linucb", 100)))
    heard: list[tuple[int, int]] = []
    place = studies.Workplace(tmp_path / "runs", 1, lambda done, total: heard.append((done, total)))
    findings = Drift(seeds=2, steps=400).carry_out(place)
    assert heard[-1] == (2 * 3 * 3, 2 * 3 * 3)
    console = Console(width=200)
    with console.capture() as capture:
        for table in findings.tables:
            console.print(table)
    text = capture.get() + "".join(findings.remarks)
    for expected in ("smooth-switch", "smooth-drift", "smooth-newcomer", "linucb, 100", "glcb, for ever"):
        assert expected in text, expected
    assert "Left out" in findings.remarks[-1]
    assert "statlog, covertype, statlog-switch" in findings.remarks[-1]
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_earned_is_expected_where_that_is_known() -> None:
    course = follow(get("smooth-switch"), Variant("linucb", None), 10_000, 400)
    assert len(np.unique(course.earned)) > 300, "not the zeros and ones that came"
    assert (course.earned <= course.best).all()
    assert course.change == 200


def test_memory_reaches_the_policy() -> None:
    forgetful, faithful = (
        follow(get("smooth-switch"), Variant("linucb", memory), 10_000, 400) for memory in (20, None)
    )
    assert not np.array_equal(forgetful.earned, faithful.earned)
    assert np.array_equal(forgetful.best, faithful.best)


def test_back_is_measured_against_what_was_possible() -> None:
    earned = np.repeat([0.5, 0.5, 0.9], 1000)
    possible = np.repeat([0.5, 0.5, 1.0], 1000)
    assert steps_until_back(Course(earned, np.ones(3000))) == 200, "nothing was lost"
    late = Course(np.repeat([0.5, 0.5, 1.0], [1500, 700, 800]), np.repeat([0.5, 1.0], 1500))
    assert steps_until_back(late) == 700 + 160, "half of what is possible is not enough"
    assert Course(earned, possible).share_before == 1
    assert Course(earned, possible).before.size == 300


def test_the_picture_shows_whole_windows() -> None:
    course = Course(np.repeat([1.0, 0.5, 0.0], [200, 200, 50]), np.full(450, 2.0))
    assert in_windows(course).tolist() == [0.5, 0.25]

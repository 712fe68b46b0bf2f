"""Short versions of the studies behind tables of docs/results.md."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.studies.__main__ import NAMES
from benchmarks.studies.homepage import ARTICLES, LearnedAt, Setup, lift, make_homepage
from benchmarks.studies.stored import StoredResults
from glcb import Uniform

LENGTHS = {"ablation": 30, "arms": 40, "drift": 200, "homepage": 30, "routing": 40}


@pytest.mark.live
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.data if name == "routing" else ()) for name in NAMES]
)
def test_a_study_prints_its_tables_and_resumes(name: str, tmp_path: Path) -> None:
    study, folder = import_module(f"benchmarks.studies.{name}"), tmp_path / name
    tables = list(study.tables(StoredResults(folder), 2, LENGTHS[name]))
    assert all(table.row_count for table in tables)
    Console(quiet=True).print(*tables)
    measured = (folder / "results.jsonl").read_bytes()
    list(study.tables(StoredResults(folder), 2, LENGTHS[name]))
    assert (folder / "results.jsonl").read_bytes() == measured, "nothing is measured again"


def test_an_incomplete_result_is_measured_again(tmp_path: Path) -> None:
    for key in ("1", "2"):
        StoredResults(tmp_path).get("linucb", key, lambda: 1.0)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    assert [StoredResults(tmp_path).get("linucb", key, lambda: 3.0) for key in ("1", "2")] == [1, 3]


@pytest.mark.parametrize("learned_at", ["label age", "timeout", "as known"])
def test_the_time_of_learning_decides_what_is_learned(
    learned_at: LearnedAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the clicks are known at once, the others after 1,000 seconds; the window is 2,000 seconds."""
    visits = make_homepage(10_000, 0.5, 300, loss_rate=0.0)
    delays = np.where(np.arange(300) % 2, 0.0, 1000.0)[:, None] * np.ones(len(ARTICLES))
    learned: list[float] = []
    monkeypatch.setattr(Uniform, "_learn", lambda self, x, arm, reward: learned.append(reward))
    lift(replace(visits, delays=delays), Setup("uniform", 2000.0, adds=False, learned_at=learned_at), 1)
    first = {"label age": 0.3, "timeout": 0.3, "as known": 1.0}[learned_at]
    assert np.mean(learned[:20]) >= first
    assert (min(learned[:20]) == 0) == (learned_at != "as known")

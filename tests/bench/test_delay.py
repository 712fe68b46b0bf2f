"""The study of late and lost rewards: what it feeds the bandit, and what it tells."""

from pathlib import Path

import numpy as np
import pytest

from glcb import Bandit, DataError
from glcb.bench.studies import exploration
from glcb.bench.studies.delay import AT_ONCE, Delay, Way, played_late
from glcb.bench.studies.exploration import bandit_for
from glcb.bench.studies.pairs import through_bandit
from glcb.tasks import get
from glcb.tasks.base import Stream
from tests.bench.test_bandit_studies import shown, workplace


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "POLICY", "linucb")


def test_at_once_is_as_without_this_study() -> None:
    task = get("wheel")
    stream = task.stream(10_000, 300)
    plain = through_bandit(bandit_for(task, 1, 0.0, "gap"), stream.contexts, stream.rewards)
    assert played_late(bandit_for(task, 1, 0.0, "gap"), stream, AT_ONCE, seed=1) == plain


@pytest.mark.parametrize(("way", "rewarded"), [(Way("late", delay=40), 260), (Way("never", delay=1000), 0)])
def test_a_late_reward_comes_after_so_many_decisions(way: Way, rewarded: int) -> None:
    task = get("wheel")
    bandit = bandit_for(task, 1, 0.0, "gap")
    played_late(bandit, task.stream(10_000, 300), way, seed=1)
    assert bandit.counts == {"issued": 300, "rewarded": rewarded, "expired": 0, "waiting": 300 - rewarded}


def test_a_lost_reward_counts_but_is_not_learnt() -> None:
    bandit = Bandit(2, policy="uniform", rewards=(0.0, 9.0))
    stream = Stream(np.full((1000, 3), 0.5, np.float32), np.full((1000, 2), 2.0))
    assert played_late(bandit, stream, Way("lost", lost=0.3), seed=1) == 2000
    assert 650 < bandit.counts["rewarded"] < 750


@pytest.mark.data
def test_the_study_in_small(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    findings = Delay(seeds=2, steps=150).carry_out(workplace(tmp_path, heard))
    assert heard[-1] == (4, 4)
    text = shown(findings)
    for expected in ("statlog", "covertype", "10 late", "1000 late", "30 % lost", "2 seeds"):
        assert expected in text, expected
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_study_needs_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    with pytest.raises(DataError, match="needs the data of statlog or covertype"):
        Delay(seeds=1, steps=10).carry_out(workplace(tmp_path, []))

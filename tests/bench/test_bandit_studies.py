"""The studies of the bandit in a tiny form, and what they feed it."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from glcb import DataError, LinUCB
from glcb.bandit import Bandit
from glcb.bench import studies
from glcb.bench.studies import bandits, contexts
from glcb.bench.studies.bandits import bandit_for, through_bandit
from glcb.bench.studies.contexts import Contexts, raw_rows
from glcb.bench.studies.delay import Delay, Way
from glcb.bench.studies.exploration import Exploration
from glcb.bench.studies.pairs import Pair
from glcb.tasks import get
from glcb.tasks.base import min_max
from glcb.tasks.file_task import LabeledFileTask


def shown(findings: studies.Findings) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in findings.tables:
            console.print(table)
    return capture.get() + "".join(findings.remarks)


def workplace(folder: Path, heard: list[tuple[int, int]]) -> studies.Workplace:
    return studies.Workplace(folder, 1, lambda done, total: heard.append((done, total)))


def in_small(study: studies.Study, folder: Path, *expected: str) -> list[tuple[int, int]]:
    """Carry out a study, look for words in what it says, let it draw; return how far it said to be."""
    heard: list[tuple[int, int]] = []
    findings = study.carry_out(workplace(folder, heard))
    text = shown(findings)
    for word in expected:
        assert word in text, word
    findings.draw(folder / "picture.png")
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    return heard


def test_exploration_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(bandits, "POLICY", "linucb")
    expected = ("wheel", "gap", "uniform", "2 seeds", "Left out", "adult")
    assert in_small(Exploration(seeds=2, steps=200), tmp_path, *expected)[-1] == (2, 2)


def test_without_exploration_a_bandit_plays_as_its_policy_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandits, "POLICY", "linucb")
    task = get("wheel")
    stream = task.stream(10_000, 300)
    alone = LinUCB(task.arms, task.features, rewards=task.rewards, seed=1)
    bandit = bandit_for(task, 1)
    for x, rewards in zip(stream.contexts, stream.rewards, strict=True):
        thought = alone.estimate(x)
        scores = thought.values + thought.bonuses
        best = np.flatnonzero(scores == scores.max())
        decision = bandit.decide(x)
        assert int(decision.arm) in best
        assert decision.propensity == pytest.approx(1 / best.size)
        bandit.reward(decision.id, rewards[int(decision.arm)])
        alone.learn(x, decision.arm, rewards[int(decision.arm)])


def test_all_rewards_are_added_up() -> None:
    bandit = Bandit(2, policy="uniform", rewards=(0.0, 9.0))
    assert through_bandit(bandit, [{"age": 1}, {"age": 2}], np.array([[3.0, 3.0], [5.0, 5.0]])) == 8
    assert bandit.counts["rewarded"] == 2


@pytest.mark.parametrize(
    ("delay", "rewarded"), [(0, 300), (40, 260), (1000, 0)], ids=["at once", "late", "never"]
)
def test_a_late_reward_comes_after_so_many_decisions(
    delay: int, rewarded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandits, "POLICY", "linucb")
    task = get("wheel")
    stream = task.stream(10_000, 300)
    bandit = bandit_for(task, 1)
    through_bandit(bandit, stream.contexts, stream.rewards, delay=delay)
    assert bandit.counts == {
        "decisions": 300,
        "rewarded": rewarded,
        "timed_out": 0,
        "evicted": 0,
        "removed": 0,
        "pending": 300 - rewarded,
    }


def test_a_lost_reward_counts_but_is_not_learned() -> None:
    bandit = Bandit(2, policy="uniform", rewards=(0.0, 9.0))
    lost = Way("lost", lost=0.3).losses(seed=1, steps=1000)
    contexts, rewards = np.full((1000, 3), 0.5, np.float32), np.full((1000, 2), 2.0)
    assert through_bandit(bandit, contexts, rewards, lost=lost) == 2000
    assert bandit.counts["rewarded"] == lost.count(False)
    assert 650 < lost.count(False) < 750


@pytest.mark.data
def test_delay_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandits, "POLICY", "linucb")
    expected = ("statlog", "covertype", "10 late", "1000 late", "30 % lost", "2 seeds")
    assert in_small(Delay(seeds=2, steps=150), tmp_path, *expected)[-1] == (4, 4)


@pytest.mark.data
def test_contexts_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "POLICIES", ("linucb",))
    expected = ("adult", "statlog", "covertype", "own scaling", "raw dicts", "smallest ratio")
    assert in_small(Contexts(seeds=1, steps=200), tmp_path, *expected)[-1] == (3, 3)


@pytest.mark.parametrize("study", [Contexts, Delay])
def test_without_any_data_there_is_nothing_to_play(
    study: type[Contexts | Delay], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    with pytest.raises(DataError, match=r"needs the data of .*statlog or covertype"):
        study(seeds=1, steps=10).carry_out(workplace(tmp_path, []))


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "statlog"])
def test_raw_rows_are_those_of_the_stream(name: str) -> None:
    task = get(name)
    assert isinstance(task, LabeledFileTask)
    table = task.data.table
    rows = list(raw_rows(task, 10_000, 50))
    stream = task.stream(10_000, 50)
    numbers = np.array([[row[column] for column in table.number_names] for row in rows], np.float64)
    assert np.array_equal(min_max(numbers), stream.contexts[:, : numbers.shape[1]])
    levels = [
        (name, level) for name, own in zip(table.category_names, table.levels, strict=True) for level in own
    ]
    hot = np.array([[row[name] == level for name, level in levels] for row in rows], np.float64)
    if levels:
        assert np.array_equal(min_max(hot), stream.contexts[:, numbers.shape[1] :])


def test_a_pair_compares() -> None:
    pair = Pair("task", "policy", [10.0, 20.0], [11.0, 22.0])
    assert pair.ratio == pytest.approx(1.1)
    assert pair.difference.startswith("+2 [+1, +2]")

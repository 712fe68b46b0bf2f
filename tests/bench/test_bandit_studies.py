"""The studies of the bandit in a tiny form, and what they feed it."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from glcb import DataError, LinUCB
from glcb.bandit import Bandit
from glcb.bench import studies
from glcb.bench.studies import contexts, exploration
from glcb.bench.studies.contexts import Contexts, raw_rows
from glcb.bench.studies.exploration import Exploration
from glcb.bench.studies.pairs import Pair, through_bandit
from glcb.tasks import get
from glcb.tasks.base import min_max
from glcb.tasks.file_task import LabelledFileTask


def shown(findings: studies.Findings) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in findings.tables:
            console.print(table)
    return capture.get() + "".join(findings.remarks)


def workplace(folder: Path, heard: list[tuple[int, int]]) -> studies.Workplace:
    return studies.Workplace(folder, 1, lambda done, total: heard.append((done, total)))


def test_exploration_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(exploration, "POLICY", "linucb")
    heard: list[tuple[int, int]] = []
    findings = Exploration(seeds=2, steps=200).carry_out(workplace(tmp_path, heard))
    assert heard[-1] == (2, 2)
    text = shown(findings)
    for expected in ("wheel", "gap", "uniform", "2 seeds", "Left out", "adult"):
        assert expected in text, expected
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_without_exploration_a_bandit_plays_as_its_policy_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "POLICY", "linucb")
    task = get("wheel")
    stream = task.stream(10_000, 300)
    alone = LinUCB(task.arms, task.features, rewards=task.rewards, seed=1)
    bandit = exploration.bandit_for(task, 1, 0.0, "gap")
    for x, rewards in zip(stream.contexts, stream.rewards, strict=True):
        scores = alone.estimate(x)
        best = (scores.values + scores.bonuses).argmax()
        decision = bandit.decide(x)
        assert decision.propensity == 1 or decision.scores.max() == decision.scores[int(decision.arm)]
        assert decision.scores[best] == decision.scores.max()
        bandit.reward(decision.id, rewards[int(decision.arm)])
        alone.learn(x, decision.arm, rewards[int(decision.arm)])


def test_all_rewards_are_added_up() -> None:
    bandit = Bandit(2, policy="uniform", rewards=(0.0, 9.0))
    assert through_bandit(bandit, [{"age": 1}, {"age": 2}], np.array([[3.0, 3.0], [5.0, 5.0]])) == 8
    assert bandit.counts["rewarded"] == 2


@pytest.mark.data
def test_contexts_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "POLICIES", ("linucb",))
    heard: list[tuple[int, int]] = []
    findings = Contexts(seeds=1, steps=200).carry_out(workplace(tmp_path, heard))
    text = shown(findings)
    for expected in ("adult", "statlog", "covertype", "own scaling", "raw dicts", "smallest ratio"):
        assert expected in text, expected
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_contexts_needs_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    with pytest.raises(DataError, match="needs the data"):
        Contexts(seeds=1, steps=10).carry_out(workplace(tmp_path, []))


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "statlog"])
def test_raw_rows_are_those_of_the_stream(name: str) -> None:
    task = get(name)
    assert isinstance(task, LabelledFileTask)
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

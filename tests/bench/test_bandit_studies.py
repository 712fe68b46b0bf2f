"""Studies of ``Bandit``."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from glcb import DataError, LinUCB, Uniform
from glcb.bandit import Bandit
from glcb.bench import studies
from glcb.bench.studies import bandit_comparison, contexts, delay, homepage
from glcb.bench.studies.bandit_comparison import Pair, make_bandit, run_bandit
from glcb.bench.studies.contexts import Contexts, raw_rows
from glcb.bench.studies.delay import Condition, DelayStudy
from glcb.bench.studies.exploration import Exploration
from glcb.bench.studies.homepage import HomepageStudy
from glcb.bench.studies.homepage_visits import (
    ADDED,
    ARTICLES,
    MODEL,
    REMOVED,
    LearnedAt,
    Setup,
    lift,
    make_homepage,
)
from glcb.bench.studies.stored import StoredResults
from glcb.tasks import get
from glcb.tasks.base import min_max
from glcb.tasks.classification import LabeledFileTask


def shown(study_result: studies.StudyResult) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in study_result.tables:
            console.print(table)
    return capture.get() + "".join(study_result.remarks)


def study_context(folder: Path, reported: list[tuple[int, int]]) -> studies.StudyContext:
    return studies.StudyContext(folder, 1, lambda done, total: reported.append((done, total)))


def run_study(study: studies.Study, folder: Path, *expected: str) -> list[tuple[int, int]]:
    """Run a study, check its output and figure, and return the reported progress."""
    reported: list[tuple[int, int]] = []
    study_result = study.run(study_context(folder, reported))
    text = shown(study_result)
    for word in expected:
        assert word in text, word
    study_result.draw(folder / "figure.png")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    return reported


def test_the_exploration_study_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(bandit_comparison, "POLICY", "linucb")
    expected = ("wheel", "gap", "uniform", "2 seeds", "Skipped", "adult")
    assert run_study(Exploration(seeds=2, steps=200), tmp_path, *expected)[-1] == (2, 2)


def test_without_exploration_a_bandit_follows_its_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_comparison, "POLICY", "linucb")
    task = get("wheel")
    stream = task.stream(10_000, 300)
    alone = LinUCB(task.arms, task.features, rewards=task.rewards, seed=1)
    bandit = make_bandit(task, 1)
    for x, rewards in zip(stream.contexts, stream.rewards, strict=True):
        estimate = alone.estimate(x)
        scores = estimate.values + estimate.bonuses
        best = np.flatnonzero(scores == scores.max())
        decision = bandit.decide(x)
        assert int(decision.arm) in best
        assert decision.propensity == pytest.approx(1 / best.size)
        bandit.reward(decision.id, rewards[int(decision.arm)])
        alone.learn(x, decision.arm, rewards[int(decision.arm)])


def test_run_bandit_returns_the_sum_of_all_rewards() -> None:
    bandit = Bandit(2, policy="uniform", rewards=(0.0, 9.0))
    assert run_bandit(bandit, [{"age": 1}, {"age": 2}], np.array([[3.0, 3.0], [5.0, 5.0]])) == 8
    assert bandit.counts["rewarded"] == 2


@pytest.mark.parametrize(
    ("delay", "rewarded"), [(0, 300), (40, 260), (1000, 0)], ids=["immediate", "delayed", "never"]
)
def test_a_delayed_reward_is_reported_after_that_many_decisions(
    delay: int, rewarded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandit_comparison, "POLICY", "linucb")
    task = get("wheel")
    stream = task.stream(10_000, 300)
    bandit = make_bandit(task, 1)
    run_bandit(bandit, stream.contexts, stream.rewards, delay=delay)
    assert bandit.counts == {
        "decisions": 300,
        "rewarded": rewarded,
        "timed_out": 0,
        "evicted": 0,
        "removed": 0,
        "pending": 300 - rewarded,
    }


def test_a_lost_reward_counts_but_is_not_lreceived() -> None:
    bandit = Bandit(2, policy="uniform", rewards=(0.0, 9.0))
    lost = Condition("lost", loss_rate=0.3).losses(seed=1, steps=1000)
    contexts, rewards = np.full((1000, 3), 0.5, np.float32), np.full((1000, 2), 2.0)
    assert run_bandit(bandit, contexts, rewards, lost=lost) == 2000
    assert bandit.counts["rewarded"] == lost.count(False)
    assert 650 < lost.count(False) < 750


@pytest.mark.data
def test_the_delay_study_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_comparison, "POLICY", "linucb")
    monkeypatch.setattr(delay, "CLICK_POLICIES", ("linucb", "epsilon-greedy"))
    study = DelayStudy(seeds=2, steps=150, visits=30)
    expected = ("statlog", "covertype", "delay 10", "delay 1000", "30% lost", "2 seeds", "lift over random")
    assert run_study(study, tmp_path, *expected)[-1] == (2 * 15 * 2, 2 * 15 * 2)
    monkeypatch.setattr(delay, "lift", None)
    monkeypatch.setattr(delay, "run_bandit", None)
    run_study(study, tmp_path, *expected)


def test_the_homepage_study_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homepage, "available_policies", lambda: (["linucb", "epsilon-greedy"], ["a remark"]))
    study = HomepageStudy(seeds=2, visits=30)
    expected = ("no delay", "24 h", "click rate 20%", "linucb", "like=", "timeout", "4,000", "a remark")
    run_study(study, tmp_path, *expected)
    monkeypatch.setattr(homepage, "lift", None)
    run_study(study, tmp_path, *expected)


def test_an_incomplete_result_is_measured_again(tmp_path: Path) -> None:
    for result in (1.0, 2.0):
        assert StoredResults(tmp_path).get("linucb", str(result), partial(float, result)) == result
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    stored = StoredResults(tmp_path)
    assert [stored.get("linucb", key, lambda: 3.0) for key in ("1.0", "2.0")] == [1, 3]
    assert StoredResults(tmp_path).get("linucb", "2.0", lambda: 4.0) == 3


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


@pytest.mark.parametrize("click_rate", [0.05, 0.2])
def test_a_homepage_has_the_described_properties(click_rate: float) -> None:
    visits = make_homepage(10_000, click_rate, similarity=1.0, delay_ratio=16.0)
    assert visits.probabilities.mean() == pytest.approx(click_rate)
    assert visits.clicks.mean() == pytest.approx(click_rate, rel=0.05)
    model, added = ARTICLES.index(MODEL), ARTICLES.index(ADDED)
    assert visits.probabilities[:, model] == pytest.approx(visits.probabilities[:, added])
    assert np.mean([row["age"] is None for row in visits.contexts]) == pytest.approx(0.3, abs=0.02)
    assert np.isinf(visits.delays).mean() == pytest.approx(0.05, abs=0.005)
    means = [own[np.isfinite(own)].mean() for own in visits.delays.T]
    assert max(means) / min(means) == pytest.approx(16, rel=0.1)
    assert np.exp(np.mean(np.log(means))) == pytest.approx(300, rel=0.05)
    shown = [[ARTICLES[index] for index in visits.eligible(step, adds=True)] for step in (0, 10_000, 20_000)]
    assert [len(articles) for articles in shown] == [6, 7, 6]
    assert ADDED not in shown[0]
    assert REMOVED not in shown[2]


@pytest.mark.parametrize("policy", ["linucb", "epsilon-greedy"])
@pytest.mark.parametrize("window", [None, 600.0])
def test_the_lift_of_a_homepage_is_repeatable(policy: str, window: float | None) -> None:
    visits = make_homepage(10_000, 0.2, 600)
    assert lift(visits, Setup(policy, window), 1) == lift(visits, Setup(policy, window), 1)


def test_random_articles_have_no_lift() -> None:
    assert abs(lift(make_homepage(10_000, 0.2, 3000), Setup("uniform"), 1)) < 0.05


@pytest.mark.data
def test_the_contexts_study_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "POLICIES", ("linucb",))
    expected = ("adult", "statlog", "covertype", "scaled in advance", "raw dicts", "smallest ratio")
    assert run_study(Contexts(seeds=1, steps=200), tmp_path, *expected)[-1] == (3, 3)


@pytest.mark.parametrize("study", [Contexts, DelayStudy])
def test_a_study_without_its_data_is_an_error(
    study: type[Contexts | DelayStudy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))
    with pytest.raises(DataError, match=r"needs the data of .*statlog or covertype"):
        study(seeds=1, steps=10).run(study_context(tmp_path, []))


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "statlog"])
def test_raw_rows_are_the_rows_of_the_stream(name: str) -> None:
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


def test_a_pair_computes_ratio_and_difference() -> None:
    pair = Pair("task", "policy", [10.0, 20.0], [11.0, 22.0])
    assert pair.ratio == pytest.approx(1.1)
    assert pair.difference.startswith("+2 [+1, +2]")

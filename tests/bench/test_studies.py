"""Studies in a tiny form, from end to end, and what they calculate."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from glcb import GlcbError, InvalidSettings
from glcb.bench import play, studies
from glcb.bench.run import Failure, Record, Run
from glcb.bench.studies import ablation, course, depth, gating, records
from glcb.bench.studies.ablation import Ablation
from glcb.bench.studies.convergence import Convergence, verdict
from glcb.bench.studies.depth import Depth
from glcb.bench.studies.gating import Gating
from glcb.cli import app
from glcb.gln import Gates
from glcb.policies.glcb_paper import GLCBPaper
from glcb.tasks import get
from glcb.tasks.smooth import Smooth

Heard = list[tuple[int, int]]


def workplace(folder: Path, heard: Heard) -> studies.Workplace:
    return studies.Workplace(folder, 1, lambda done, total: heard.append((done, total)))


def shown(findings: studies.Findings) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in findings.tables:
            console.print(table)
    return capture.get()


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))


# ---- from end to end --------------------------------------------------------------------------------


def test_every_study_is_known_by_its_name() -> None:
    assert {"ablation", "convergence", "depth", "gating"} <= set(studies.names())
    for name in studies.names():
        kind = studies.get(name)
        assert kind.name == name
        assert kind.quick().seeds <= kind().seeds
    with pytest.raises(InvalidSettings, match="no study 'weather'; the studies are ablation, "):
        studies.get("weather")
    with pytest.raises(InvalidSettings, match="seeds"):
        Gating(seeds=0)


def test_convergence_in_small(tmp_path: Path) -> None:
    heard: Heard = []
    findings = Convergence(seeds=2, steps=300).carry_out(workplace(tmp_path / "runs", heard))
    assert heard[-1][0] == heard[-1][1] == 2 * 300 * 9
    text = shown(findings)
    for expected in ("Distance", "slower decay", "2 seeds", "t = 300", "100–10–1 units"):
        assert expected in text + "".join(findings.remarks), expected
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_gating_in_small(tmp_path: Path) -> None:
    heard: Heard = []
    findings = Gating(seeds=2, resolution=8).carry_out(workplace(tmp_path / "runs", heard))
    assert heard[-1] == (8, 8)
    assert "2 seeds" in shown(findings)
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_data")
def test_depth_in_small_without_data_and_then_again(tmp_path: Path) -> None:
    heard: Heard = []
    study, place = Depth(seeds=2, steps=40), workplace(tmp_path / "runs", heard)
    findings = study.carry_out(place)
    assert heard[0] == (0, 20)
    assert heard[-1] == (20, 20)
    text = shown(findings)
    assert "wheel" in text
    assert "linear" in text
    assert "financial" not in text
    assert "financial, jester, financial-binary" in findings.remarks[-1]
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")

    recorded = (tmp_path / "runs" / "runs.jsonl").read_bytes()
    heard.clear()
    assert shown(study.carry_out(place)) == text
    assert heard == [(20, 20)], "finished runs are not run again"
    assert (tmp_path / "runs" / "runs.jsonl").read_bytes() == recorded


@pytest.mark.usefixtures("no_data")
def test_ablation_in_small(tmp_path: Path) -> None:
    heard: Heard = []
    findings = Ablation(seeds=2, steps=30).carry_out(workplace(tmp_path / "runs", heard))
    runs = 2 * 3 * len(ablation.VARIANTS)  # the wheel and the two linear tasks need no data
    assert heard[-1] == (runs, runs)
    text = shown(findings)
    for expected in ("plain steps", "paper's settings", "sparse-linear", "2 seeds"):
        assert expected in text
    assert "covertype" in findings.remarks[-1]
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_variant_measures_its_bonus_in_the_range_of_the_task() -> None:
    in_reward = next(v for v in ablation.VARIANTS if v.changes.get("bonus_unit") == "reward")
    assert in_reward.settings("binary")["bonus_scale"] == pytest.approx(0.03)
    assert in_reward.settings((-35.0, 5.0))["bonus_scale"] == pytest.approx(1.2)
    start = next(v for v in ablation.VARIANTS if "start" in v.changes)
    assert start.settings("binary") == {}
    assert start.settings((0.0, 1.0)) == {"start": "inputs"}


@pytest.mark.data
def test_depth_in_small_with_data(tmp_path: Path) -> None:
    heard: Heard = []
    findings = Depth(seeds=1, steps=30).carry_out(workplace(tmp_path / "runs", heard))
    # Four tasks at five depths; four policies on two versions of financial, of which one run is the same; and
    # one variant.
    assert heard[-1] == (28, 28)
    text = shown(findings)
    for expected in ("jester", "financial-binary", "linfullpost", "rank"):
        assert expected in text
    findings.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_data")
def test_a_failed_run_ends_the_study_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, jobs: int) -> None: ...

        def run(self, runs: Sequence[Run]) -> Iterator[Failure]:
            for run in runs:
                yield Failure(**asdict(run), error="OSError: no room")

    monkeypatch.setattr(records, "LocalEngine", Broken)
    with pytest.raises(GlcbError, match=r"10 of 10 runs failed, such as wheel, .* no room"):
        Depth(seeds=1, steps=10).carry_out(workplace(tmp_path, []))


def test_the_command_line_prints_a_table_and_names_the_picture(tmp_path: Path) -> None:
    arguments = ["study", "gating", "--quick", "--seeds", "1", "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "hyperplanes" in result.output
    assert "gating.png" in result.output.replace("\n", "")
    assert (tmp_path / "new" / "gating.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_line_lists_the_studies() -> None:
    result = CliRunner().invoke(app, ["study"])
    assert result.exit_code == 0
    for name in studies.names():
        assert name in result.output


def test_a_study_does_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["study", "gating", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "pip install 'glcb[report]'" in result.output


# ---- tasks ------------------------------------------------------------------------------------------


def test_the_smooth_task_pays_as_often_as_it_says() -> None:
    task = Smooth()
    stream = task.stream(seed=4, steps=40_000)
    expected = task.expected(stream.contexts)
    assert expected.min() >= 0.1 - 1e-9
    assert expected.max() <= 0.9 + 1e-9
    assert set(np.unique(stream.rewards)) == {0.0, 1.0}
    for arm in task.arms:
        for low in np.arange(0.1, 0.9, 0.2):
            here = (expected[:, arm] >= low) & (expected[:, arm] < low + 0.2)
            share, truth = stream.rewards[here, arm].mean(), expected[here, arm].mean()
            assert abs(share - truth) < 4 * np.sqrt(0.25 / here.sum())
    best = np.bincount(expected.argmax(axis=1), minlength=3) / len(expected)
    assert best.min() > 0.2, "every arm is the best somewhere"


def test_the_smooth_task_gives_the_same_bytes() -> None:
    one, two = Smooth().stream(3, 50), Smooth().stream(3, 50)
    assert one.contexts.tobytes() == two.contexts.tobytes()
    assert one.rewards.tobytes() == two.rewards.tobytes()
    assert one.contexts.tobytes() != Smooth().stream(4, 50).contexts.tobytes()


@pytest.mark.data
def test_binary_financial_pays_the_best_portfolio_only() -> None:
    graded, binary = get("financial").stream(5, 200), get("financial-binary").stream(5, 200)
    assert get("financial-binary").rewards == "binary"
    np.testing.assert_array_equal(graded.contexts, binary.contexts)
    np.testing.assert_array_equal(binary.rewards, graded.rewards == 1.0)
    assert (binary.rewards.sum(axis=1) == 1).all()


# ---- courses ----------------------------------------------------------------------------------------


def test_watching_a_bandit_changes_nothing() -> None:
    task, steps = Smooth(), 250
    watched = course.bandit_course(GLCBPaper(3, 2, seed=6), task, 6, steps, lambda _: None)
    stream = task.stream(6, steps)
    arms = play(GLCBPaper(3, 2, seed=6), stream).arms
    lost = course.regret_of(task.expected(stream.contexts), arms)
    assert watched.regret[-1] == pytest.approx(lost.mean())
    np.testing.assert_array_equal(watched.plays.sum(axis=(0, 1)), np.bincount(arms, minlength=3))


def test_a_taught_bandit_learns_all_arms_equally_often() -> None:
    bandit = GLCBPaper(3, 2)
    heard: list[int] = []
    taught = course.taught_course(bandit, Smooth(), 0, 240, heard.append)
    assert bandit.plays == {0: 80, 1: 80, 2: 80}
    assert taught.marks.tolist() == [100, 155, 240]
    assert heard == [100, 55, 85]
    assert taught.pseudocounts[-1] > taught.pseudocounts[0] > 0


def test_the_first_look_sees_an_untrained_bandit() -> None:
    bandit, task = GLCBPaper(3, 2), Smooth()
    side = (np.arange(20) + 0.5) / 20
    grid = [(x, y) for x in side for y in side]
    values = np.array([bandit.decide(x).values for x in grid])
    error, pseudocount = course.look(bandit, task)
    assert error == pytest.approx(np.abs(values - task.expected(np.array(grid))).mean(), abs=1e-6)
    assert pseudocount == 0


def test_sub_optimal_plays_are_counted_between_marks() -> None:
    hits = np.array([1, 1, 1, 0, 1, 0, 0, 0], bool)
    np.testing.assert_allclose(course.shares_between(hits, np.array([2, 4, 8])), [1.0, 0.5, 0.25])


def test_plays_are_counted_by_quarter_and_region() -> None:
    corner, other = [0.0, 0.0], [1.0, 0.3]
    contexts = np.array([corner, corner, other, corner, other, other, other, corner], np.float32)
    arms = np.array([0, 1, 1, 1, 0, 0, 1, 0])
    plays = course.plays_by_quarter(contexts, arms, 2)
    assert plays.shape == (4, 16, 2)
    assert plays.sum() == 8
    assert plays[0, 0].tolist() == [1, 1]
    assert plays[1, 0].tolist() == [0, 1]
    assert plays[1, 13].tolist() == [0, 1]
    assert plays[2, 13].tolist() == [2, 0]
    nothing = np.zeros(1)
    one = course.Course(np.ones(1, np.int64), nothing, nothing, nothing, nothing, plays)
    np.testing.assert_allclose(one.tried, np.array([2, 2, 1, 2]) / 32)


def test_a_verdict_names_the_settings_that_it_holds_with() -> None:
    assert verdict("So", [True, True, True]) == "So: yes."
    assert verdict("So", [True, False, False]) == "So: with paper's settings only."
    assert verdict("So", [False, False, False]) == "So: no."


# ---- gating -----------------------------------------------------------------------------------------


def test_half_spaces_in_common() -> None:
    gates = Gates(2, [2, 2, 2], 0.0, np.random.default_rng(0))
    mirrored = (1 - gating.POINT).astype(np.float32)
    shares = gating.shared_half_spaces(gates, np.stack([gating.POINT, mirrored]))
    np.testing.assert_array_equal(shares, [1.0, 0.0])


def test_training_changes_most_at_the_point_and_nothing_where_no_weights_are_shared() -> None:
    few, many = gating.imprint(1, 0, 20), gating.imprint(8, 0, 20)
    at = tuple((gating.POINT[::-1] * 20).astype(int))
    for one in (few, many):
        first, last = (float(change[at]) for change in one.changes)
        assert 0 < first < last
        assert last > np.quantile(one.changes[-1], 0.9)
        assert one.change(0.9, 1.0) > one.change(0.5, 0.9) > one.change(0.0, 0.5)
    assert (many.changes[-1][many.shared < 0.2] == 0).all()
    assert few.change(0.0, 0.5) > many.change(0.0, 0.5)


# ---- depth ------------------------------------------------------------------------------------------


def record(task: str, policy: str, seed: int, total: float) -> Record:
    empty: list[float] = []
    return Record(
        task=task,
        policy=policy,
        seed=seed,
        steps=10,
        settings={},
        version=1,
        played=10,
        total=total,
        optimum=10.0,
        rewards=empty,
        best=empty,
        decide_us=empty,
        learn_us=empty,
        seconds=0.0,
        environment="",
    )


def test_gains_are_paired_by_seed() -> None:
    by_depth = {
        ("wheel", 3): [record("wheel", "glcb-paper", seed, total) for seed, total in enumerate((5.0, 7.0))],
        ("wheel", 4): [record("wheel", "glcb-paper", seed, total) for seed, total in enumerate((6.0, 6.5))],
    }
    assert depth.gains(by_depth, "wheel", 4) == [1.0, -0.5]
    assert depth.gains(by_depth, "wheel", 3) == [0.0, 0.0]


def test_policies_are_ranked_by_their_mean() -> None:
    totals = {"glcb-paper": (4.0, 8.0), "linucb": (7.0, 7.0), "lints": (1.0, 1.0), "linfullpost": (1.0, 2.0)}
    by_policy = {
        ("financial", policy): [record("financial", policy, seed, total) for seed, total in enumerate(own)]
        for policy, own in totals.items()
    }
    expected = {"linucb": 1, "glcb-paper": 2, "linfullpost": 3, "lints": 4}
    assert depth.policy_ranks(by_policy, "financial") == expected

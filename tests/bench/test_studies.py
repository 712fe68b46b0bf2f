"""Short versions of the studies, end to end."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from glcb import GlcbError, InvalidSettings
from glcb.bench import studies
from glcb.bench.run import Failure, Run
from glcb.bench.studies import ablation, base
from glcb.bench.studies.ablation import Ablation
from glcb.bench.studies.convergence import Convergence
from glcb.bench.studies.depth import Depth
from glcb.bench.studies.gating import Gating
from glcb.cli import app

Reported = list[tuple[int, int]]


def study_context(folder: Path, reported: Reported) -> studies.StudyContext:
    return studies.StudyContext(folder, 1, lambda done, total: reported.append((done, total)))


def shown(study_result: studies.StudyResult) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in study_result.tables:
            console.print(table)
    return capture.get()


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "empty"))


def test_studies_are_registered_by_name() -> None:
    assert {"ablation", "convergence", "depth", "gating"} <= set(studies.names())
    for name in studies.names():
        kind = studies.get(name)
        assert kind.name == name
        assert kind.quick().seeds <= kind().seeds
    with pytest.raises(InvalidSettings, match="no study 'weather'; the studies are ablation, "):
        studies.get("weather")
    with pytest.raises(InvalidSettings, match="seeds"):
        Gating(seeds=0)


def test_the_convergence_study_runs(tmp_path: Path) -> None:
    reported: Reported = []
    study_result = Convergence(seeds=2, steps=300).run(study_context(tmp_path / "runs", reported))
    assert reported[-1][0] == reported[-1][1] == 2 * 300 * 9
    text = shown(study_result)
    for expected in ("Error of the values", "slower decay", "2 seeds", "t = 300", "100–10–1 units"):
        assert expected in text + "".join(study_result.remarks), expected
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_gating_study_runs(tmp_path: Path) -> None:
    reported: Reported = []
    study_result = Gating(seeds=2, resolution=8).run(study_context(tmp_path / "runs", reported))
    assert reported[-1] == (8, 8)
    assert "2 seeds" in shown(study_result)
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_data")
@pytest.mark.live
def test_the_depth_study_runs_without_data_and_resumes(tmp_path: Path) -> None:
    reported: Reported = []
    study, context = Depth(seeds=2, steps=40), study_context(tmp_path / "runs", reported)
    study_result = study.run(context)
    assert reported[0] == (0, 20)
    assert reported[-1] == (20, 20)
    text = shown(study_result)
    assert "wheel" in text
    assert "linear" in text
    assert "financial" not in text
    assert "financial, jester, financial-binary" in study_result.remarks[-1]
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")

    recorded = (tmp_path / "runs" / "runs.jsonl").read_bytes()
    reported.clear()
    assert shown(study.run(context)) == text
    assert reported == [(20, 20)], "finished runs are not run again"
    assert (tmp_path / "runs" / "runs.jsonl").read_bytes() == recorded


@pytest.mark.usefixtures("no_data")
@pytest.mark.live
def test_the_ablation_study_runs(tmp_path: Path) -> None:
    reported: Reported = []
    study_result = Ablation(seeds=2, steps=30).run(study_context(tmp_path / "runs", reported))
    runs = 2 * 3 * len(ablation.VARIANTS)  # the wheel and the two linear tasks need no data
    assert reported[-1] == (runs, runs)
    text = shown(study_result)
    for expected in ("gradient steps", "paper settings", "sparse-linear", "2 seeds"):
        assert expected in text
    assert "covertype" in study_result.remarks[-1]
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_variant_scales_its_bonus_by_the_reward_range() -> None:
    in_reward = next(v for v in ablation.VARIANTS if v.changes.get("bonus_unit") == "reward")
    assert in_reward.settings("binary")["bonus_scale"] == pytest.approx(0.03)
    assert in_reward.settings((-35.0, 5.0))["bonus_scale"] == pytest.approx(1.2)
    start = next(v for v in ablation.VARIANTS if "initialization" in v.changes)
    assert start.settings("binary") == {}
    assert start.settings((0.0, 1.0)) == {"initialization": "inputs"}


@pytest.mark.data
@pytest.mark.live
def test_the_depth_study_runs_with_data(tmp_path: Path) -> None:
    reported: Reported = []
    study_result = Depth(seeds=1, steps=30).run(study_context(tmp_path / "runs", reported))
    # Four tasks at five depths; four policies on two versions of financial, of which one run is the same; and
    # one variant.
    assert reported[-1] == (28, 28)
    text = shown(study_result)
    for expected in ("jester", "financial-binary", "linfullpost", "rank"):
        assert expected in text
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_data")
def test_a_failed_run_fails_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, jobs: int) -> None: ...

        def run(self, runs: Sequence[Run]) -> Iterator[Failure]:
            for run in runs:
                yield Failure(**asdict(run), error="OSError: disk full")

    monkeypatch.setattr(base, "LocalExecutor", Broken)
    with pytest.raises(GlcbError, match=r"10 of 10 runs failed, such as wheel, .* disk full"):
        Depth(seeds=1, steps=10).run(study_context(tmp_path, []))


def test_the_study_command_prints_a_table_and_the_path_of_the_figure(tmp_path: Path) -> None:
    arguments = ["study", "gating", "--quick", "--seeds", "1", "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "hyperplanes" in result.output
    assert "gating.png" in result.output.replace("\n", "")
    assert (tmp_path / "new" / "gating.png").read_bytes().startswith(b"\x89PNG")


def test_the_study_command_lists_all_studies() -> None:
    result = CliRunner().invoke(app, ["study"])
    assert result.exit_code == 0
    for name in studies.names():
        assert name in result.output


def test_a_study_works_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["study", "gating", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "there will be no figure" in result.output
    assert "pip install '.[report]'" in result.output

"""Studies in a tiny form, from end to end."""

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
from glcb.bench.studies import ablation, records
from glcb.bench.studies.ablation import Ablation
from glcb.bench.studies.convergence import Convergence
from glcb.bench.studies.depth import Depth
from glcb.bench.studies.gating import Gating
from glcb.cli import app

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

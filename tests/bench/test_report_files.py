"""The files of a report, and errors while writing them."""

import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb._errors import ResultsError
from glcb.bench.report import write
from glcb.cli import app
from tests.bench.records import folder, record


class Page(HTMLParser):
    """Collects tags, links, ids and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("href", "src", "xlink:href"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_data(self, data: str) -> None:
        self.words += data


AWKWARD = '$m_1$ a|b <script>alert("x")</script> & *c*'


def test_the_page_is_self_contained_and_escapes_names(tmp_path: Path) -> None:
    records = [
        record(name, task, seed)
        for name in (AWKWARD, "rms")
        for task in ("wheel", AWKWARD)
        for seed in (0, 1)
    ]
    html, markdown = write(folder(tmp_path / "runs", records), tmp_path / "out")
    text = html.read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert AWKWARD in page.words
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.links) - {"data:,"} <= {f"#{name}" for name in page.ids}
    assert not re.search(r"url\((?!#)|@import", text)
    assert page.tags.count("svg") == 11
    assert "currentColor" in text
    lines = markdown.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert any(r"$m\_1$ a\|b &lt;script>" in row for row in rows)
    assert all("<script" not in line for line in lines)
    for name in re.findall(r"\]\((report-figures/.*?)\)", markdown.read_text(encoding="utf-8")):
        svg = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert svg.startswith("<svg")
        assert "$m_1$ a|b <script>" in Page(svg).words, "long names are shortened, but not changed"


def test_the_report_is_deterministic(tmp_path: Path) -> None:
    runs = folder(tmp_path / "runs", [record("rms", seed=s) for s in range(2)] + [record("glcb")])
    first, second = write(runs, tmp_path / "a"), write(runs, tmp_path / "b")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_reconstruction_is_labeled_as_such(tmp_path: Path) -> None:
    html, markdown = write(folder(tmp_path, [record("constsgd"), record("rms")]))
    for text in (html.read_text(encoding="utf-8"), markdown.read_text(encoding="utf-8")):
        without_short_name = text.replace("constsgd", "")
        assert "constSGD" in text
        assert not re.search(r"constSGD(?! \(reconstr)", without_short_name)


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"there is no folder .*glcb bench --out"):
        write(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match=r"no finished runs"):
        write(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        {"total": "many"},
        {"total": float("nan")},
        {"rewards": [1.0]},
        {"best_rewards": None},
        {"steps_run": 0},
        {"rewards": [], "best_rewards": [], "decide_us": [], "learn_us": []},
        {"settings": []},
        {"decide_us": [None] * 20},
        {"policy": 3},
    ],
)
def test_a_damaged_record_is_an_error_with_its_seed(tmp_path: Path, damage: dict[str, object]) -> None:
    folder(tmp_path, [record(seed=4)])
    path = tmp_path / "runs.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]) | damage)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ResultsError, match=r"seed 4 is damaged.*remove its line"):
        write(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_a_damaged_line_is_an_error_with_its_number(tmp_path: Path) -> None:
    folder(tmp_path, [record()])
    with (tmp_path / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write("not json\n")
    with pytest.raises(ResultsError, match=r"line 4 .* is damaged"):
        write(tmp_path)


def test_the_report_command_prints_the_paths_it_wrote(tmp_path: Path) -> None:
    runs = folder(tmp_path / "runs", [record("rms", seed=s) for s in range(2)])
    result = CliRunner().invoke(app, ["report", str(runs), "--out", str(tmp_path / "new" / "out")])
    assert result.exit_code == 0, result.output
    assert [Path(line).name for line in result.output.split()] == ["report.html", "report.md"]
    assert (tmp_path / "new" / "out" / "report.html").exists()
    assert not (runs / "report.html").exists()


def test_an_unwritable_destination_is_a_results_error(tmp_path: Path) -> None:
    runs = folder(tmp_path / "runs", [record()])
    with pytest.raises(ResultsError, match="cannot write the report"):
        write(runs, runs / "runs.jsonl")


def test_a_failed_write_leaves_the_old_report(tmp_path: Path, fill_disk: Callable[[], None]) -> None:
    runs, out = folder(tmp_path / "runs", [record()]), tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("old")

    fill_disk()
    with pytest.raises(ResultsError, match=r"cannot write the report to .*: No space left"):
        write(runs, out)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("report.html", "old")]


def test_without_matplotlib_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(app, ["report", str(folder(tmp_path, [record()]))])
    assert result.exit_code != 0
    assert "pip install '.[report]'" in str(result.exception)
    assert not (tmp_path / "report.html").exists()

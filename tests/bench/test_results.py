"""Results folders: durability, repair and formats."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from glcb import ResultsError
from glcb.bench.plan import BenchmarkPlan
from glcb.bench.results import FAILURES, FILE, Results, writing
from glcb.bench.run import Failure, Run, RunRecord, execute

REFERENCE = Path(__file__).parents[2] / "results" / "reference"


@pytest.fixture(scope="module")
def record() -> RunRecord:
    record = execute(Run("wheel", "uniform", 0, 40))
    assert isinstance(record, RunRecord)
    return record


def test_a_record_is_compact_and_read_back_unchanged(record: RunRecord, tmp_path: Path) -> None:
    other = replace(record, seed=1, environment="elsewhere")
    with writing(tmp_path) as results:
        results.append(record)
        results.append(other)
    assert Results(tmp_path).records == [record, other]
    longest = max(len(line) for line in (tmp_path / FILE).read_text().splitlines())
    assert longest < 900


def test_a_record_has_the_key_of_its_run(record: RunRecord) -> None:
    assert record.key == Run("wheel", "uniform", 0, 40).key
    keys = {
        Run("wheel", "uniform", 0, 40).key,
        Run("wheel", "uniform", 1, 40).key,
        Run("wheel", "uniform", 0, 41).key,
        Run("wheel", "epsilon-greedy", 0, 40).key,
        Run("linear", "uniform", 0, 40).key,
        Run("wheel", "uniform", 0, 40, {"epsilon": 0.1}).key,
    }
    assert len(keys) == 6


def test_only_an_incomplete_last_line_is_removed(record: RunRecord, tmp_path: Path) -> None:
    with writing(tmp_path) as results:
        results.append(record)
        results.append(replace(record, seed=1))
    whole = (tmp_path / FILE).read_bytes()
    first_record = whole[: whole.rindex(b"\n", 0, -1) + 1]
    for length in range(len(first_record), len(whole)):
        (tmp_path / FILE).write_bytes(whole[:length])
        assert Results(tmp_path).records == [record]
        with writing(tmp_path) as results:
            results.append(replace(record, seed=1))
        assert (tmp_path / FILE).read_bytes() == whole


def test_a_damaged_line_is_an_error_with_its_number(record: RunRecord, tmp_path: Path) -> None:
    with writing(tmp_path) as results:
        results.append(record)
    path = tmp_path / FILE
    for damage in (b"{]\n", b"[1]\n", b'{"task":"wheel"}\n', b"\xff\n"):
        whole = path.read_bytes()
        path.write_bytes(whole + damage + whole.splitlines(keepends=True)[-1])
        with pytest.raises(ResultsError, match="line 4"):
            Results(tmp_path)
        path.write_bytes(whole)


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"format":99}\n')
    with pytest.raises(ResultsError, match=r"has format 99, .*: use the glcb that wrote it"):
        Results(tmp_path)


def test_the_reference_results_are_recognized_as_finished(tmp_path: Path) -> None:
    shutil.copytree(REFERENCE, tmp_path / "copy")
    finished = Results(tmp_path / "copy").keys()
    lines = (REFERENCE / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(finished) == sum('"policy"' in line for line in lines) > 3000
    runs = BenchmarkPlan(("wheel", "jester"), ("glcb", "glcb-paper", "linfullpost"), 20, 5000).runs()
    assert {run.key for run in runs} <= finished


def test_only_one_process_can_write(tmp_path: Path) -> None:
    with (
        writing(tmp_path),
        pytest.raises(ResultsError, match="another process"),
        writing(tmp_path),
    ):
        pass
    with writing(tmp_path):
        pass


def test_a_full_disk_is_an_error_and_leaves_complete_lines(
    record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(tmp_path) as results:
        results.append(record)
        whole = (tmp_path / FILE).read_bytes()

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(ResultsError, match="No space left"):
                results.append(replace(record, seed=1))
        assert (tmp_path / FILE).read_bytes() == whole
        results.append(replace(record, seed=2))
    assert [own.seed for own in Results(tmp_path).records] == [0, 2]


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="cannot write"), writing(tmp_path / "file"):
        pass


def test_failures_are_stored_separately(tmp_path: Path) -> None:
    failure = execute(Run("wheel", "epsilon-greedy", 0, 40, {"epsilon": 7}))
    assert isinstance(failure, Failure)
    assert "epsilon must be" in failure.error
    with writing(tmp_path) as results:
        results.append(failure)
    assert Results(tmp_path).records == []
    assert "epsilon must be" in (tmp_path / FAILURES).read_text()


def test_blocks_add_up_to_the_total(record: RunRecord) -> None:
    assert len(record.rewards) == 20
    assert sum(record.rewards) == pytest.approx(record.total, abs=0.2)
    assert sum(record.best_rewards) == pytest.approx(record.optimum, abs=0.2)
    short = execute(Run("wheel", "uniform", 0, 7))
    assert isinstance(short, RunRecord)
    assert len(short.rewards) == 7

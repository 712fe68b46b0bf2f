"""Verification of data files."""

import gzip
import io
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from glcb import DataError
from glcb.tasks.classification import LabeledFileTask
from glcb.tasks.data.directory import open_binary
from glcb.tasks.data.fetch import fetch
from glcb.tasks.data.verify import verify
from glcb.tasks.file_task import FileTask, file_tasks
from tests.tasks.server import serving

pytestmark = pytest.mark.data


@pytest.fixture
def source() -> Path:
    return Path(os.environ["GLCB_DATA_DIR"])


def original(name: str) -> tuple[FileTask, bytes]:
    (task,) = file_tasks(name)
    found = task.find()
    if found is None:
        pytest.skip(f"the file of {name} is not there")
    with open_binary(found[1]) as content:
        return task, content.read()


def check(task: FileTask, content: bytes, tmp_path: Path) -> str:
    path = tmp_path / task.files[0].name
    path.write_bytes(content)
    return verify(task, task.files[0], path)


def test_line_endings_and_compression_do_not_matter(tmp_path: Path) -> None:
    task, content = original("statlog")
    dos = content.replace(b"\n", b"\r\n")
    for form in (content, content.rstrip(), dos, gzip.compress(dos), lzma.compress(content)):
        assert check(task, form, tmp_path) == "SHA-256"


def test_a_changed_digit_is_detected_by_the_hash(tmp_path: Path) -> None:
    task, content = original("statlog")
    with pytest.raises(DataError, match=r"not the original shuttle\.trn: its SHA-256 hash differs"):
        check(task, content.replace(b"50 21 77", b"50 21 78", 1), tmp_path)


def test_order_and_layout_of_files_without_a_hash_do_not_matter(tmp_path: Path) -> None:
    task, content = original("jester")
    ratings = np.load(io.BytesIO(content))
    rng = np.random.default_rng(10_000)
    for array in (
        np.ascontiguousarray(ratings),
        rng.permuted(ratings, axis=0)[:, ::-1],
        ratings.astype("f4"),
    ):
        saved = io.BytesIO()
        np.save(saved, array)
        assert check(task, saved.getvalue(), tmp_path) == "rows, columns"
    task, content = original("mushroom")
    backwards = b"\n".join(content.split()[::-1])
    assert check(task, backwards, tmp_path) == "rows, columns, classes"


def test_the_original_layout_of_adult_is_accepted(tmp_path: Path) -> None:
    task, content = original("adult")
    lines = content.splitlines()
    raw = b"\n".join([*lines[:32_561], b"", b"|1x3 Cross validator", *lines[32_561:], b"", b""])
    assert check(task, raw, tmp_path) == "rows, columns, classes"
    assert isinstance(task, LabeledFileTask)
    assert task.parse(tmp_path / "adult.full").table.features == 94


@pytest.mark.parametrize("name", ["adult", "mushroom", "financial", "jester"])
def test_a_truncated_file_is_refused(name: str, tmp_path: Path) -> None:
    task, content = original(name)
    with pytest.raises(DataError):
        check(task, content[: len(content) * 2 // 3], tmp_path)


def test_all_real_files_can_be_downloaded(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {path.name: path.read_bytes() for path in source.iterdir() if path.suffix in (".xz", ".gz")}
    there = [task for task in file_tasks() if (found := task.find()) and found[1].name in files]
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    with serving(files) as site:
        for task in there:
            if task.find() is None:
                site.cut_after = 10_000
                with pytest.raises(DataError, match="was lost after 10,000"):
                    fetch(task, base_url=site.url)
                site.cut_after = None
                arrived = fetch(task, base_url=site.url)
                assert arrived.read_bytes() == files[arrived.name]
    assert {path.name for path in tmp_path.iterdir()} <= files.keys()

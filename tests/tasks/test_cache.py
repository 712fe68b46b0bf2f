"""The cache of parsed data files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glcb.tasks.data import cache
from glcb.tasks.data.cache import ParsedData


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_text("1 2 3")
    return path


class Parser:
    """A parser that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, path: Path) -> ParsedData:
        self.calls += 1
        return ParsedData({"numbers": np.array(path.read_text().split(), np.int16)}, {"names": ["a", "b"]})


def test_the_second_load_is_memory_mapped(folder: Path, source: Path) -> None:
    parse = Parser()
    for _ in range(3):
        stored = cache.load("t", source, parse)
        assert stored.arrays["numbers"].tolist() == [1, 2, 3]
        assert stored.about == {"names": ["a", "b"]}
        assert isinstance(stored.arrays["numbers"], np.memmap)
    assert parse.calls == 1
    assert len(list(folder.iterdir())) == 1


def test_a_changed_source_is_parsed_again_and_its_old_entry_removed(folder: Path, source: Path) -> None:
    parse = Parser()
    cache.load("t", source, parse)
    source.write_text("4 5 6 7")
    assert cache.load("t", source, parse).arrays["numbers"].tolist() == [4, 5, 6, 7]
    os.utime(source, ns=(0, 0))
    cache.load("t", source, parse)
    assert parse.calls == 3
    assert len(list(folder.iterdir())) == 1


def test_a_new_parser_version_invalidates_the_cache(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = Parser()
    cache.load("t", source, parse)
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    cache.load("t", source, parse)
    assert parse.calls == 2


def test_two_sources_have_separate_entries(folder: Path, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("9")
    parse = Parser()
    for path in (source, other, source, other):
        cache.load("t", path, parse)
    assert parse.calls == 2
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["short array", "no array", "garbled description", "other shape", "empty"])
def test_a_damaged_entry_is_replaced(folder: Path, source: Path, damage: str) -> None:
    parse = Parser()
    cache.load("t", source, parse)
    (entry,) = folder.iterdir()
    array, description = entry / "numbers.npy", entry / "description.json"
    if damage == "short array":
        array.write_bytes(array.read_bytes()[:-2])
    elif damage == "no array":
        array.unlink()
    elif damage == "garbled description":
        description.write_text('{"arrays": ')
    elif damage == "other shape":
        content = json.loads(description.read_text())
        content["arrays"]["numbers"] = ["<i2", [99]]
        description.write_text(json.dumps(content))
    else:
        array.write_bytes(b"")
    for _ in range(2):
        assert cache.load("t", source, parse).arrays["numbers"].tolist() == [1, 2, 3]
    assert parse.calls == 2


def test_an_unwritable_cache_is_not_an_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_CACHE_DIR", str(source / "below a file"))
    parse = Parser()
    for _ in range(2):
        assert cache.load("t", source, parse).arrays["numbers"].tolist() == [1, 2, 3]
    assert parse.calls == 2


_BOTH = """
import sys, time
from pathlib import Path
import numpy as np
from glcb.tasks.data import cache

def parse(path):
    Path(sys.argv[2]).touch()
    while not Path(sys.argv[3]).exists():  # the other process is parsing too
        time.sleep(0.005)
    return cache.ParsedData({"numbers": np.arange(200_000)}, {"names": []})

print(int(cache.load("t", Path(sys.argv[1]), parse).arrays["numbers"].sum()))
"""


def test_two_processes_may_write_the_same_entry(folder: Path, source: Path, tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", _BOTH, str(source), mine, other], stdout=subprocess.PIPE, text=True
        )
        for mine, other in ((here, there), (there, here))
    ]
    expected = str(sum(range(200_000)))
    assert [process.communicate(timeout=60)[0].strip() for process in both] == [expected, expected]
    assert len(list(folder.iterdir())) == 1
    assert cache.load("t", source, Parser()).arrays["numbers"].sum() == int(expected)

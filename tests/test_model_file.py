"""Model files: a file that was altered, truncated or written in another format is refused with a reason."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glcb import GLCB, UCB1, ModelFileError, __version__, _model_file
from glcb._environment import environment
from glcb._formats import MODEL
from glcb._model_file import Snapshot


@pytest.fixture
def model(tmp_path: Path) -> Path:
    bandit = GLCB(2, 1, layers=(2, 1), hyperplanes=1, experts=())
    bandit.learn([0.3], 0, 1)
    path = tmp_path / "model"
    bandit.save(path)
    return path


def sealed(content: bytes) -> bytes:
    """Return ``content`` followed by its checksum."""
    return content + hashlib.sha256(content).digest()


def test_the_header_records_the_environment_of_the_writer(model: Path) -> None:
    content = model.read_bytes()
    assert content.startswith(_model_file.MAGIC)
    header = json.loads(content[20 : 20 + int.from_bytes(content[12:20], "little")])
    assert header["written_by"] == environment()
    assert list(model.parent.iterdir()) == [model]


def test_every_changed_byte_is_noticed(model: Path) -> None:
    content = model.read_bytes()
    for position in range(len(content)):
        altered = bytearray(content)
        altered[position] ^= 0x10
        model.write_bytes(altered)
        with pytest.raises(ModelFileError):
            GLCB.load(model)


def test_every_truncation_is_noticed(model: Path) -> None:
    content = model.read_bytes()
    for length in range(0, len(content), 7):
        model.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            GLCB.load(model)


def test_foreign_and_missing_files_are_refused(tmp_path: Path, model: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ModelFileError, match="not a glcb model"):
        GLCB.load(tmp_path / "text")
    with pytest.raises(ModelFileError, match="cannot read"):
        GLCB.load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="cannot read"):
        GLCB.load(tmp_path)
    with pytest.raises(ModelFileError, match=r"holds a GLCB, not a UCB1: load it with GLCB\.load"):
        UCB1.load(model)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_format_names_both_formats_and_its_writer(model: Path, change: int) -> None:
    content = bytearray(model.read_bytes())
    content[8] = MODEL.number + change
    model.write_bytes(sealed(bytes(content[:-32])))
    formats = rf"\(format {content[8]}\), but glcb .* reads format {MODEL.number}: use the glcb that"
    with pytest.raises(ModelFileError, match=rf"written by glcb {__version__} {formats}"):
        GLCB.load(model)
    content[20] = ord("?")
    model.write_bytes(sealed(bytes(content[:-32])))
    with pytest.raises(ModelFileError, match=rf"written by another version of glcb {formats}"):
        GLCB.load(model)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"arms": [0, 1]', b'"arms": [0, 0]'),
        (b'"hyperplanes": 1', b'"hyperplanes": 9'),
        (b'["cells", "<i8", [3]]', b'["cells", "<i8", [2]]'),
        (b'["cells", "<i8"', b'["cells", "|O8"'),
        (b'["weights",', b'["weighty",'),
        (b'"features": 1', b'"features": 3'),
        (b'"generator": {"bit', b'"generator": {"bat'),
        (b'"uinteger": 0', b'"uinteger": -1'),
        (b'"has_uint32": 0, "uinteger": 0', b'"has_uint32": 0, "uinteger": 1' + b"0" * 40),
        (b'["weights", "<f4", [', b'["weights", "<f4", [99999999999999999999, '),
    ],
)
def test_an_invalid_header_with_a_valid_checksum_is_refused(model: Path, old: bytes, new: bytes) -> None:
    content = model.read_bytes()[:-32]
    assert old in content
    model.write_bytes(sealed(content.replace(old, new, 1)))
    with pytest.raises(ModelFileError):
        GLCB.load(model)


def changed(arrays: dict[str, np.ndarray], name: str, value: float) -> Snapshot:
    snapshot = GLCB(2, 1, layers=(2, 1), hyperplanes=1).snapshot()
    snapshot.arrays.update(arrays)
    snapshot.arrays[name] = np.full_like(snapshot.arrays[name], value)
    return snapshot


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count_total", -1),
        ("count_total", 2**62),
        ("mixture", np.nan),
        ("mixture", 0),
        ("weights", np.inf),
        ("counts", -1),
        ("normals", np.nan),
        ("cells", 0),
    ],
)
def test_invalid_arrays_are_refused(model: Path, name: str, value: float) -> None:
    _model_file.write(model, changed(_model_file.read(model).arrays, name, value))
    with pytest.raises(ModelFileError, match="not a complete GLCB"):
        GLCB.load(model)


def test_invalid_file_names_are_refused() -> None:
    for name in ("", "a\0b"):
        with pytest.raises(ModelFileError):
            GLCB(2, 1).save(name)
        with pytest.raises(ModelFileError):
            GLCB.load(name)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    model: Path, fill_disk: Callable[[], None]
) -> None:
    before = model.read_bytes()

    fill_disk()
    with pytest.raises(ModelFileError, match="No space left"):
        GLCB(2, 1).save(model)
    assert model.read_bytes() == before
    assert list(model.parent.iterdir()) == [model]


def test_saving_to_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot write"):
        GLCB(2, 1).save(tmp_path / "nowhere" / "model")

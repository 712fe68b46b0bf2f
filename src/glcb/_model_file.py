"""The file that a trained policy, or a bandit around one, is saved in.

    magic    8 bytes    b"GLCB\\r\\n\\x1a\\n"
    version  4 bytes    little-endian unsigned, see VERSION
    length   8 bytes    little-endian unsigned, length of the header
    header   JSON       policy, arguments, generator, what else there is, list of arrays, what wrote the file
    arrays   raw        little-endian, in the order of the list, each starting at a multiple of 64
    digest   32 bytes   SHA-256 of everything before it

No pickle: reading a file runs no code from it. The digest finds every accidental change. A file is
written beside its destination and renamed, so the destination is always either the old or the new one.
"""

import hashlib
import json
import math
import os
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np

from glcb._arrays import State
from glcb._errors import ModelFileError
from glcb._files import replacing
from glcb._version import __version__

MAGIC = b"GLCB\r\n\x1a\n"
VERSION = 1
_HEAD = struct.Struct("<8sIQ")
_DIGEST_SIZE = hashlib.sha256().digest_size
_ALIGNMENT = 64
_DTYPES = ("<f4", "<f8", "<i8")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that makes up a policy at one moment."""

    policy: str
    arguments: dict[str, Any]
    generator: Any
    arrays: State
    about: dict[str, Any] = field(default_factory=dict)
    """What is neither an argument nor an array: anything that JSON can hold."""


def write(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write ``snapshot`` to ``path``, all or nothing."""
    try:
        with replacing(Path(path)) as file:
            for piece in pieces(snapshot):
                file.write(piece)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def read(path: str | os.PathLike[str]) -> Snapshot:
    """Return the snapshot in ``path``; raise ModelFileError if it is not a whole and unaltered one."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return parsed(content, path)


def parsed(content: bytes, path: object) -> Snapshot:
    """Return the snapshot that ``content`` holds, which came from ``path``."""
    if content[: len(MAGIC)] != MAGIC:
        raise ModelFileError(f"{path} is not a glcb model: save one with policy.save(path)")
    if len(content) < _HEAD.size + _DIGEST_SIZE:
        raise ModelFileError(f"{path} is truncated after {len(content)} bytes: use an earlier copy")
    _, version, length = _HEAD.unpack_from(content)
    if version != VERSION:
        raise ModelFileError(f"{path} has format {version}, this glcb reads format {VERSION}: update glcb")
    body = memoryview(content)[:-_DIGEST_SIZE]
    if hashlib.sha256(body).digest() != content[-_DIGEST_SIZE:]:
        raise ModelFileError(
            f"{path} is truncated or was altered (its checksum is wrong): use an earlier copy"
        )
    try:
        header = json.loads(bytes(body[_HEAD.size : min(_HEAD.size + length, len(body))]))
        return Snapshot(
            policy=header["policy"],
            arguments=header["arguments"],
            generator=header["generator"],
            arrays=dict(_arrays(body, _aligned(_HEAD.size + length), header["arrays"])),
            about=header["about"],
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} has a header that makes no sense: {error}") from error


def environment() -> dict[str, str]:
    """Return what a bit-for-bit continuation depends on."""
    return {
        "glcb": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": llvm.get_host_cpu_name(),
        "cpu_features": llvm.get_host_cpu_features().flatten(),
    }


def pieces(snapshot: Snapshot) -> Iterator[bytes | memoryview]:
    """Return what the file of a snapshot consists of, one piece after the other."""
    digest = hashlib.sha256()
    for piece in _contents(snapshot):
        digest.update(piece)
        yield piece
    yield digest.digest()


def _contents(snapshot: Snapshot) -> Iterator[bytes | memoryview]:
    arrays = {name: _little_endian(array) for name, array in snapshot.arrays.items()}
    header = json.dumps(
        {
            "policy": snapshot.policy,
            "arguments": snapshot.arguments,
            "generator": snapshot.generator,
            "about": snapshot.about,
            "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()],
            "written_by": environment(),
        }
    ).encode()
    yield _HEAD.pack(MAGIC, VERSION, len(header)) + header
    position = _HEAD.size + len(header)
    for array in arrays.values():
        yield bytes(_aligned(position) - position)
        if array.size:
            yield array.data.cast("B")
        position = _aligned(position) + array.nbytes


def _arrays(body: memoryview, position: int, listed: list[Any]) -> Iterator[tuple[str, np.ndarray]]:
    for name, dtype, shape in listed:
        if dtype not in _DTYPES or any(not isinstance(size, int) or size < 0 for size in shape):
            raise ValueError(f"array {name!r} is described as {dtype} {shape}")
        count = math.prod(shape)
        if count * np.dtype(dtype).itemsize > len(body):
            raise ValueError(f"array {name!r} is larger than the file")
        array = np.frombuffer(body, dtype, count, _aligned(position)).reshape(shape)
        yield name, array.astype(array.dtype.newbyteorder("="))
        position = _aligned(position) + array.nbytes


def _little_endian(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT

"""The file format of trained policies and bandits.

    magic    8 bytes    b"GLCB\\r\\n\\x1a\\n"
    version  4 bytes    little-endian unsigned, see glcb._formats
    length   8 bytes    little-endian unsigned, length of the header
    header   JSON       policy, arguments, generator, metadata, list of arrays, environment of the writer
    arrays   raw        little-endian, in the order of the list, each aligned to a multiple of 64
    digest   32 bytes   SHA-256 of everything before it

There is no pickle: reading a file does not execute code. The digest detects every accidental change. Files
are replaced atomically.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from glcb._arrays import Arrays
from glcb._environment import environment
from glcb._errors import ModelFileError
from glcb._files import atomic_write
from glcb._formats import MODEL

T = TypeVar("T")

MAGIC = b"GLCB\r\n\x1a\n"
_HEAD = struct.Struct("<8sIQ")
_DIGEST_SIZE = hashlib.sha256().digest_size
_ALIGNMENT = 64
_DTYPES = ("<f4", "<f8", "<i8", "|u1")

INVALID = (AttributeError, LookupError, TypeError, ValueError, OverflowError, MemoryError)
"""Errors that restoring an invalid snapshot can raise."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A policy or a bandit at one point in time."""

    policy: str
    arguments: dict[str, Any]
    generator: Any
    arrays: Arrays
    about: dict[str, Any] = field(default_factory=dict)
    """JSON-serializable metadata: everything that is neither an argument nor an array."""


def write(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write ``snapshot`` to ``path`` atomically."""
    try:
        with atomic_write(Path(path)) as file:
            for chunk in chunks(snapshot):
                file.write(chunk)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def read(path: str | os.PathLike[str]) -> Snapshot:
    """Return the snapshot in ``path``; raise ModelFileError if the file is incomplete or altered."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return parse(content, path)


def load(path: str | os.PathLike[str], kind: str, restore: Callable[[Snapshot], T]) -> T:
    """Return the object that ``restore`` creates from the snapshot in ``path``.

    Raises
    ------
    ModelFileError
        The file is damaged, or holds another kind of object.
    """
    snapshot = read(path)
    if snapshot.policy != kind:
        raise ModelFileError(
            f"{path} holds a {snapshot.policy}, not a {kind}: load it with {snapshot.policy}.load"
        )
    try:
        return restore(snapshot)
    except INVALID as error:
        raise ModelFileError(f"{path} is not a complete {kind}: {error}") from error


class HeaderLimits(NamedTuple):
    """Limits of a header from an untrusted source. While it is parsed, no other thread can run."""

    size: int
    """In bytes."""
    values: int
    """Approximate number of values, counted by the commas."""


def parse(content: bytes, path: object, limits: HeaderLimits | None = None) -> Snapshot:
    """Return the snapshot in ``content``, the bytes of the file ``path``."""
    if content[: len(MAGIC)] != MAGIC:
        raise ModelFileError(f"{path} is not a glcb model file; write one with policy.save(path)")
    if len(content) < _HEAD.size + _DIGEST_SIZE:
        raise ModelFileError(f"{path} is truncated after {len(content)} bytes; use an earlier copy")
    _, version, length = _HEAD.unpack_from(content)
    if limits is not None and (
        length > limits.size or content.count(b",", _HEAD.size, _HEAD.size + length) > limits.values
    ):
        raise ModelFileError(
            f"the header of {path} is too large: use fewer arms, features and categories, or shorter names"
        )
    if version != MODEL.number:
        raise MODEL.mismatch(path, version, _writer(content, length))
    body = memoryview(content)[:-_DIGEST_SIZE]
    if hashlib.sha256(body).digest() != content[-_DIGEST_SIZE:]:
        raise ModelFileError(f"{path} is truncated or altered (its checksum is wrong); use an earlier copy")
    try:
        header = json.loads(bytes(body[_HEAD.size : min(_HEAD.size + length, len(body))]))
        for name, kind in {"policy": str, "arguments": dict, "about": dict, "arrays": list}.items():
            if not isinstance(header[name], kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {type(header[name]).__name__}")
        return Snapshot(
            policy=header["policy"],
            arguments=header["arguments"],
            generator=header["generator"],
            arrays=dict(_arrays(body, _aligned(_HEAD.size + length), header["arrays"])),
            about=header["about"],
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"the header of {path} is invalid: {error}") from error


def _writer(content: bytes, length: int) -> str:
    """Return the release that wrote a file of another format, if its header names it."""
    try:
        header = json.loads(content[_HEAD.size : min(_HEAD.size + length, len(content))])
        return f"glcb {str(header['written_by']['glcb'])[:20]}"
    except (KeyError, TypeError, ValueError, RecursionError):
        return "another version of glcb"


def chunks(snapshot: Snapshot) -> Iterator[bytes | memoryview]:
    """Yield the content of the file of ``snapshot`` in chunks."""
    digest = hashlib.sha256()
    for chunk in _contents(snapshot):
        digest.update(chunk)
        yield chunk
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
    yield _HEAD.pack(MAGIC, MODEL.number, len(header)) + header
    position = _HEAD.size + len(header)
    for array in arrays.values():
        yield bytes(_aligned(position) - position)
        if array.size:
            yield array.data.cast("B")
        position = _aligned(position) + array.nbytes


def _arrays(body: memoryview, position: int, listed: list[Any]) -> Iterator[tuple[str, np.ndarray]]:
    for name, dtype, shape in listed:
        if dtype not in _DTYPES or any(not isinstance(size, int) or size < 0 for size in shape):
            raise ValueError(f"array {name!r} has the unsupported type {dtype} {shape}")
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

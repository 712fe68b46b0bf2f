"""Bandits in and out of bytes: made from settings, saved, loaded, and told apart by a digest."""

import hashlib
import json
from typing import Any, NamedTuple

import msgspec

from glcb import _model_file
from glcb._api.requests import Settings, encode
from glcb._errors import ModelFileError, NotSupported
from glcb._model_file import Snapshot
from glcb.bandit import Bandit

_SOURCE = "the model"


class Frozen(NamedTuple):
    """An experiment at one moment."""

    sequence: int
    bandit: Snapshot
    around: bytes


def make(settings: Settings) -> Bandit:
    """Return an untrained bandit."""
    given = msgspec.structs.asdict(settings)
    del given["holdout"]
    return Bandit(**given)


def as_file(bandit: Snapshot) -> bytes:
    """Return a bandit as the file that ``Bandit.load`` reads."""
    return b"".join(_model_file.pieces(bandit))


def parsed(content: bytes) -> Bandit:
    """Return the bandit in a file that ``Bandit.save`` wrote, if the service can have it."""
    bandit = restored(_model_file.parsed(content, _SOURCE))
    if not all(isinstance(arm, str) and 1 <= len(arm) <= 200 for arm in bandit.arms):
        raise ModelFileError("the arms of the model must be texts of 1 to 200 letters: give it such arms")
    return bandit


def restored(snapshot: Snapshot) -> Bandit:
    """Return the bandit that was saved."""
    if snapshot.policy != "Bandit":
        raise ModelFileError(
            f"{_SOURCE} is a {snapshot.policy}, expected a Bandit: save one with Bandit.save"
        )
    bandit = Bandit.__new__(Bandit)
    try:
        bandit.__setstate__(snapshot)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, NotSupported) as error:
        raise ModelFileError(f"{_SOURCE} is not a complete Bandit: {error}") from error
    return bandit


def settings_of(bandit: Bandit, holdout: float) -> Settings:
    """Return the settings that a bandit was made with."""
    given = {**bandit.__getstate__().arguments, "holdout": holdout}
    try:
        settings = msgspec.convert(given, Settings)
        encode(settings)  # what cannot be put on record must not get any further
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ModelFileError(f"{_SOURCE} has settings that the service cannot have: {error}") from None
    return settings


def packed(frozen: Frozen) -> bytes:
    """Return a frozen experiment as the content of a snapshot."""
    return msgspec.msgpack.encode([frozen.sequence, as_file(frozen.bandit), frozen.around])


def unpacked(content: bytes, expected: str) -> Frozen:
    """Return what was packed; raise ModelFileError if it is damaged, or has another digest than expected."""
    try:
        sequence, bandit, around = msgspec.msgpack.decode(content, type=tuple[int, bytes, bytes])
    except msgspec.DecodeError as error:
        raise ModelFileError(f"a snapshot is damaged: {error}") from error
    frozen = Frozen(sequence, _model_file.parsed(bandit, "a snapshot"), around)
    if digest(frozen) != expected:
        raise ModelFileError(f"the snapshot of event {sequence} is damaged: it has another digest")
    return frozen


def digest(frozen: Frozen) -> str:
    """Return what two experiments have in common if, and only if, they are the same bit by bit."""
    hashed = hashlib.sha256()
    bandit = frozen.bandit
    head: list[Any] = [frozen.sequence, bandit.arguments, bandit.generator, bandit.about]
    hashed.update(json.dumps(head, sort_keys=True, default=str).encode())
    for name, array in sorted(bandit.arrays.items()):
        hashed.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        hashed.update(array.tobytes())
    hashed.update(frozen.around)
    return hashed.hexdigest()

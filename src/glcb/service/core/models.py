"""Bandits and experiments as bytes: model files, snapshots and their digests."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from glcb import _model_file
from glcb._api.requests import ExperimentSettings, encode
from glcb._errors import ModelFileError, NotSupported
from glcb._model_file import HeaderLimits, Snapshot
from glcb.bandit import Bandit, recorded
from glcb.bandit.config import BanditConfig

BANDIT_SETTINGS = frozenset(BanditConfig.__dataclass_fields__) - {"clock"}
"""The settings of an experiment that are arguments of its bandit."""
LEARNED = ("policy.", "own.")
"""Begin the names of the arrays of a bandit that are learned from rewards."""
_PACKED = msgspec.msgpack.Decoder(tuple[int, bytes, bytes])
_SOURCE = "the model"
_HEADER = HeaderLimits(size=16_000_000, values=500_000)
"""Limits of the header of an uploaded model. It is parsed in a fraction of a second."""

# ---- bandits ------------------------------------------------------------------------------------


def make_bandit(settings: ExperimentSettings, id_prefix: str) -> Bandit:
    """Return an untrained bandit."""
    bandit = Bandit(**arguments_of(settings))
    recorded.use_id_prefix(bandit, id_prefix)
    return bandit


def arguments_of(settings: ExperimentSettings) -> dict[str, Any]:
    """Return the settings of an experiment that are arguments of its bandit."""
    return {name: value for name in BANDIT_SETTINGS if (value := getattr(settings, name)) is not UNSET}


def model_file(bandit: Snapshot) -> bytes:
    """Return the content of a model file that ``Bandit.load`` reads."""
    return b"".join(model_parts(bandit))


def model_parts(bandit: Snapshot) -> Sequence[bytes | memoryview]:
    """Return the content of a model file in parts, most of which refer to the arrays of the snapshot."""
    return list(_model_file.chunks(bandit))


def parse_model(content: bytes) -> Bandit:
    """Return the bandit in a model file; raise ModelFileError if the service cannot host it."""
    bandit = restore_bandit(_model_file.parse(content, _SOURCE, _HEADER))
    if not all(isinstance(arm, str) and 1 <= len(arm) <= 200 for arm in bandit.arms):
        raise ModelFileError("the arms of the model must be strings of 1 to 200 characters: rename them")
    return bandit


def restore_bandit(snapshot: Snapshot) -> Bandit:
    """Return the bandit of a snapshot; raise ModelFileError if it is incomplete or not a bandit."""
    if snapshot.policy != "Bandit":
        raise ModelFileError(
            f"{_SOURCE} is a {snapshot.policy}, expected a Bandit: save one with Bandit.save"
        )
    try:
        return Bandit._from_snapshot(snapshot)
    except (*_model_file.INVALID, NotSupported) as error:
        raise ModelFileError(f"{_SOURCE} is not a complete Bandit: {error}") from error


def settings_of(bandit: Bandit, before: ExperimentSettings) -> ExperimentSettings:
    """Return the settings of an experiment around this bandit.

    Raises
    ------
    ModelFileError
        They are invalid.
    InvalidSettings
        The control is not an arm of the bandit.

    Parameters
    ----------
    bandit
        The bandit.
    before
        The settings of the experiment, which keeps those that are not arguments of the bandit.
    """
    arguments = bandit._snapshot().arguments
    catalog = recorded.catalog(bandit)
    if catalog is not None:
        arguments["arms"] = dict(catalog)
    kept = {name: getattr(before, name) for name in before.__struct_fields__ if name not in BANDIT_SETTINGS}
    if before.paused_arms is not UNSET:
        kept["paused_arms"] = [arm for arm in before.paused_arms if arm in bandit.arms]
    try:
        settings = msgspec.structs.replace(msgspec.convert(arguments, ExperimentSettings), **kept)
        encode(settings)  # reject here what cannot be stored as an event or in a snapshot
        msgspec.msgpack.encode(settings)
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError) as error:
        raise ModelFileError(f"{_SOURCE} has settings that the service does not support: {error}") from None
    return settings


# ---- experiments --------------------------------------------------------------------------------


class ExperimentSnapshot(NamedTuple):
    """An experiment after one of its events."""

    sequence: int
    bandit: Snapshot
    state: bytes
    """The encoded ``ExperimentState``."""

    def pack(self) -> bytes:
        """Return the snapshot as bytes."""
        return msgspec.msgpack.encode([self.sequence, model_file(self.bandit), self.state])

    @classmethod
    def unpack(cls, content: bytes, digest: str) -> "ExperimentSnapshot":
        """Return a packed snapshot; raise ModelFileError if it is damaged or its digest differs."""
        try:
            sequence, bandit, state = _PACKED.decode(content)
        except msgspec.DecodeError as error:
            raise ModelFileError(f"the snapshot is damaged: {error}") from error
        snapshot = cls(sequence, _model_file.parse(bandit, "the snapshot"), state)
        if snapshot.digest() != digest:
            raise ModelFileError(f"the snapshot of event {sequence} is damaged: its digest differs")
        return snapshot

    def digest(self, *, learned: bool = True) -> str:
        """Return a digest that two experiments share only if they are identical bit for bit.

        Parameters
        ----------
        learned
            Whether to include what was learned from rewards. All else is the same on every processor.
        """
        sha = hashlib.sha256()
        bandit = self.bandit
        head: list[Any] = [self.sequence, bandit.arguments, bandit.generator, bandit.about]
        sha.update(json.dumps(head, sort_keys=True, default=str).encode())
        for name, array in sorted(bandit.arrays.items()):
            if not learned and name.startswith(LEARNED):
                continue
            sha.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
            sha.update(array.tobytes())
        sha.update(self.state)
        return sha.hexdigest()

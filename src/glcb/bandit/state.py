"""The parts of a bandit, and one snapshot of them that serves saving, copying and pickling."""

import threading
import time
from collections.abc import Callable
from os import PathLike
from typing import Self

import numpy as np

from glcb import _model_file
from glcb._errors import ModelFileError
from glcb._model_file import Snapshot
from glcb._types import Arm
from glcb.bandit.config import Parameters
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.reward_rules import Clock
from glcb.bandit.waiting import WaitingRoom
from glcb.policies.base import Policy

_STREAM = 0x62616E64
"""Sets the bandit's random numbers apart from those of its policy, which has the same seed."""


Watcher = Callable[[str, Arm, float], None]
"""Is told the id of a decision, its arm, and the reward that was learned of it."""


class BanditState:
    """What a bandit consists of, beyond its log; encoder and policy are made for the first context."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._arms: tuple[Arm, ...] = parameters.arms
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._rng = np.random.default_rng((parameters.seed, _STREAM))
        self._encoder: Encoder | None = None
        self._policy: Policy | None = None
        self._waiting = WaitingRoom(parameters.max_pending, parameters.late)
        self._watcher: Watcher | None = None
        self._lock = threading.RLock()

    def __getstate__(self) -> Snapshot:
        with self._lock:
            arguments = self._parameters.as_json(self._arms)
            generator = self._rng.bit_generator.state
            if self._policy is None or self._encoder is None:
                return Snapshot("Bandit", arguments, generator, {}, {"running": False})
            policy = self._policy.__getstate__()
            parts = {
                "policy": policy.arrays,
                "encoder": self._encoder.state(),
                "waiting": self._waiting.state(self._index, self._encoder.width),
            }
            about = {
                "running": True,
                "policy": {"arguments": policy.arguments, "generator": policy.generator},
                "encoder": self._encoder.about(),
                "waiting": self._waiting.about(),
            }
            arrays = {
                f"{part}.{name}": array.copy() for part, own in parts.items() for name, array in own.items()
            }
            return Snapshot("Bandit", arguments, generator, arrays, about)

    def __setstate__(self, snapshot: Snapshot) -> None:
        type(self).__init__(self, **snapshot.arguments)
        about = snapshot.about
        if about["running"]:
            parts: dict[str, dict[str, np.ndarray]] = {"policy": {}, "encoder": {}, "waiting": {}}
            for name, array in snapshot.arrays.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = array
            make = self._parameters.entry.make
            self._policy = make.__new__(make)
            self._policy.__setstate__(Snapshot(make.__name__, arrays=parts["policy"], **about["policy"]))
            self._encoder = Encoder.restored(about["encoder"], parts["encoder"])
            width = self._encoder.width
            if self._policy.arms != self._arms or self._policy.features != width:
                raise ValueError("the policy has other arms or features than the bandit")
            self._waiting.restore(about["waiting"], parts["waiting"], self._arms, width)
        self._rng.bit_generator.state = snapshot.generator

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to ``path``. A crash on the way leaves an older file there as it was."""
        _model_file.write(path, self.__getstate__())

    @classmethod
    def load(cls, path: str | PathLike[str], *, clock: Clock = time.time) -> Self:
        """Return the bandit that :meth:`save` wrote to ``path``; it continues as the original would have.

        A clock cannot be saved: one that is not the system's must be given again.
        """
        snapshot = _model_file.read(path)
        if snapshot.policy != "Bandit":
            raise ModelFileError(
                f"{path} holds a {snapshot.policy}, not a Bandit: load it with {snapshot.policy}.load"
            )
        bandit = cls.__new__(cls)
        try:
            bandit.__setstate__(snapshot)
        except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise ModelFileError(f"{path} is not a complete Bandit: {error}") from error
        bandit._parameters = Parameters({**bandit._parameters.given, "clock": clock})
        return bandit

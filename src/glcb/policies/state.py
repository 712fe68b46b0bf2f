"""What every policy keeps beside what it has learned, and how all of it is saved, copied and pickled."""

import threading
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np

from glcb import _model_file, _validation
from glcb._arrays import State, fill
from glcb._errors import ModelFileError
from glcb._types import Arm, Rewards


class PolicyState:
    """Arms, random generator and counts; one snapshot serves saving, copying and pickling.

    A policy writes ``_state`` and ``_restore`` for what it has learned, ``_arguments`` for what made it.
    """

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        self.arms = _validation.arms(arms)
        self.features = _validation.whole_number("features", features, 1, _validation.MOST_FEATURES)
        self.rewards = _validation.rewards(rewards)
        self.seed = _validation.whole_number("seed", seed, 0, 2**63 - 1)
        self._index = {arm: index for index, arm in enumerate(self.arms)}
        self._rng = np.random.default_rng(self.seed)
        self._plays = np.zeros(len(self.arms), np.int64)
        self._steps = 0
        self._tried = np.zeros(len(self.arms), np.int64)
        self._turns = 0
        self._lock = threading.RLock()

    @property
    def updates(self) -> int:
        """Number of rewards learned so far."""
        return self._steps

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that construct an untrained policy like this one."""
        return {
            "arms": list(self.arms),
            "features": self.features,
            "rewards": self.rewards,
            "seed": self.seed,
        }

    def _state(self) -> State:
        """Return the arrays that hold everything learned, beyond the plays that the base counts."""
        return {}

    def _restore(self, state: State) -> None:
        """Take over what ``_state`` returned; raise ValueError or KeyError if it does not fit.

        This one serves every policy whose arrays never change their size.
        """
        fill(self._state(), state)

    def __getstate__(self) -> _model_file.Snapshot:
        with self._lock:
            state = {name: array.copy() for name, array in self._state().items()}
            return _model_file.Snapshot(
                policy=type(self).__name__,
                arguments=self._arguments(),
                generator=self._rng.bit_generator.state,
                arrays={
                    "plays": self._plays.copy(),
                    "steps": np.array([self._steps]),
                    "tried": self._tried.copy(),
                    "turns": np.array([self._turns]),
                    **state,
                },
            )

    def __setstate__(self, snapshot: _model_file.Snapshot) -> None:
        type(self).__init__(self, **snapshot.arguments)
        steps, turns = np.zeros((2, 1), np.int64)
        counters = {"plays": self._plays, "steps": steps, "tried": self._tried, "turns": turns}
        fill(counters, snapshot.arrays)
        self._steps, self._turns = int(steps[0]), int(turns[0])
        self._restore(snapshot.arrays)
        self._rng.bit_generator.state = snapshot.generator

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to ``path``. A crash on the way leaves an older file there as it was."""
        _model_file.write(path, self.__getstate__())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the policy that :meth:`save` wrote to ``path``; it continues as the original would have."""
        snapshot = _model_file.read(path)
        if snapshot.policy != cls.__name__:
            raise ModelFileError(
                f"{path} holds a {snapshot.policy}, not a {cls.__name__}: load it with {snapshot.policy}.load"
            )
        policy = cls.__new__(cls)
        try:
            policy.__setstate__(snapshot)
        except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise ModelFileError(f"{path} is not a complete {cls.__name__}: {error}") from error
        return policy

    def __repr__(self) -> str:
        arguments = self._arguments()
        arguments["arms"] = list(self.arms) if len(self.arms) <= 4 else [*self.arms[:3], "…"]
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{type(self).__name__}({shown}, updates={self.updates})"

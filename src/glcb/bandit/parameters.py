"""The parameters of a bandit, as in scikit-learn."""

import threading
from typing import Any, Self

from glcb._errors import InvalidSettings
from glcb._types import Arm
from glcb.bandit._core import BanditCore
from glcb.bandit.config import MUTABLE
from glcb.bandit.forks import UnusableLock


class Parameters:
    """An object with parameters that scikit-learn can read, copy and change."""

    _lock: "threading.RLock | UnusableLock"
    _core: BanditCore
    _params: dict[str, Any]
    """The arguments as passed: scikit-learn's clone expects get_params to return the same objects."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._core.arms

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of an untrained bandit like this one, with the current arms.

        Parameters
        ----------
        deep : bool
            Ignored; accepted for compatibility with scikit-learn.

        Returns
        -------
        dict
            The arguments by name.
        """
        with self._lock:
            params = dict(self._params)
            core = self._core
            if core.catalog is not None:
                unchanged = core.catalog.arms == core.config.arm_features
                return params if unchanged else {**params, "arms": dict(core.catalog.arms)}
            if self.arms == core.config.arms:
                return params
            return {**params, "arms": self.arms, "shares": core.config.shares}

    def set_params(self, **changes: Any) -> Self:
        """Change arguments.

        After the first decision, only ``exploration``, ``exploration_mode``, ``schema``, ``reward_timeout``,
        ``default_reward``, ``reward_aggregation``, ``half_life``, ``shares`` and ``clock`` can change. A
        feature whose kind is declared anew starts again; the number of slots stays the same, and pending
        decisions keep the encoding that they were made with. New rules for rewards apply to pending decisions
        without a reward; those that have one are settled. A timeout cannot be removed.

        Parameters
        ----------
        **changes
            New values of arguments, by name.

        Returns
        -------
        Bandit
            This bandit.

        Raises
        ------
        InvalidSettings
            If an argument does not exist, is invalid, or can no longer change; or if the schema needs more
            slots than there are.
        """
        with self._lock:
            params = self.get_params()
            for name in changes:
                if name not in params:
                    raise InvalidSettings(f"Bandit has no parameter {name!r}; it has {', '.join(params)}")
                if self._core.has_started and name not in MUTABLE:
                    raise InvalidSettings(
                        f"{name} cannot change after the first decision: create a new bandit with "
                        f"Bandit(**{{**bandit.get_params(), {name!r}: …}})"
                    )
            if self._core.has_started:
                self._core.change(**changes)
                self._params.update(changes)
            else:
                untrained = type(self)(**{**params, **changes})
                self._core.reset(untrained._core.config)
                self._params = untrained._params
        return self

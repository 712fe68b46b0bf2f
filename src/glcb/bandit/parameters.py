"""The arguments of a bandit: checked, and kept both as they came and as JSON can hold them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy as np

from glcb import _checks
from glcb._errors import InvalidSettings, NotSupported
from glcb._forgetting import checked_memory
from glcb._types import Arm, Rewards
from glcb.bandit.late import LateRules, checked_clock
from glcb.bandit.schema import declared
from glcb.explore.probabilities import LARGEST_SHARE, Spread
from glcb.policies import registry
from glcb.policies.base import Policy

MOST_WAITING = 10_000_000


class Parameters:
    """What a bandit is made with."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)
        """The arguments as they came; to copy an untrained bandit means to pass them again."""
        self.arms = _checks.arms(given["arms"])
        if isinstance(given["arms"], Iterator):  # nobody can read it again
            self.given["arms"] = self.arms
        self.entry = registry.get(given["policy"])
        self.rewards: Rewards = _checks.rewards(given["rewards"])
        self.exploration = _checks.number("exploration", given["exploration"], 0, LARGEST_SHARE)
        self.spread: Spread = given["spread"]
        if self.spread not in get_args(Spread):
            raise InvalidSettings(f'spread must be "gap" or "uniform", got {self.spread!r}')
        self.declared = declared(given["schema"])
        reserve = given["reserve"]
        self.reserve = (
            None if reserve is None else _checks.whole_number("reserve", reserve, 0, _checks.MOST_FEATURES)
        )
        self.most_waiting = _checks.whole_number("most_waiting", given["most_waiting"], 1, MOST_WAITING)
        self.late = LateRules.checked(
            given["patience"], given["default_reward"], given["combine"], self.rewards
        )
        self.clock = checked_clock(given["clock"])
        self.seed = _checks.whole_number("seed", given["seed"], 0, 2**63 - 1)
        self.settings = _plain(given["settings"])
        self.memory = checked_memory(given["memory"])
        if self.memory is not None:
            self._check_that_it_can_forget()
        try:  # better here than at the first decision
            self.make_policy(self.arms, 1)
        except TypeError as error:
            raise InvalidSettings(
                f"the policy {self.entry.name!r} cannot have these settings: {error}"
            ) from None

    def make_policy(self, arms: tuple[Arm, ...], features: int) -> Policy:
        """Return an untrained policy for contexts of this length."""
        forgetting = {} if self.memory is None else {"memory": self.memory}
        settings = {**self.settings, **forgetting}
        return self.entry.make(arms, features, rewards=self.rewards, seed=self.seed, **settings)

    def _check_that_it_can_forget(self) -> None:
        if not self.entry.make.can_forget:
            raise NotSupported(
                f"the policy {self.entry.name!r} cannot forget: leave memory out, or use a policy that can, "
                "such as glcb or linucb"
            )
        if "memory" in self.settings:
            raise InvalidSettings("memory is given twice: by itself and among the settings; give it once")

    def as_json(self, arms: tuple[Arm, ...]) -> dict[str, Any]:
        """Return the arguments as JSON can hold them, with the arms as they are now; not the clock."""
        schema = {name: declaration.as_json() for name, declaration in self.declared.items()}
        return {
            "arms": list(arms),
            "policy": self.entry.name,
            "rewards": self.rewards,
            "exploration": self.exploration,
            "spread": self.spread,
            "schema": schema or None,
            "reserve": self.reserve,
            "most_waiting": self.most_waiting,
            **self.late.as_json(),
            "memory": self.memory,
            "seed": self.seed,
            "settings": self.settings or None,
        }


def _plain(settings: object) -> dict[str, Any]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise InvalidSettings(f"settings must be a dict of the policy's own settings, got {settings!r}")
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in settings.items()}
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise InvalidSettings(f"settings must be numbers, texts or lists of them, got {settings!r}") from None
    return plain

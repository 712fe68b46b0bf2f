"""The arguments of a bandit: checked, and kept both as they came and as JSON can hold them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy as np

from glcb import _validation
from glcb._errors import InvalidSettings, NotSupported
from glcb._forgetting import checked_half_life
from glcb._types import Arm, Rewards
from glcb.bandit.encoding.schema import declared
from glcb.bandit.reward_rules import LateRules, checked_clock
from glcb.explore.probabilities import LARGEST_SHARE, ExplorationMode
from glcb.policies import registry
from glcb.policies.base import Policy

MAX_PENDING = 10_000_000


class Parameters:
    """What a bandit is made with."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)
        """The arguments as they came; to copy an untrained bandit means to pass them again."""
        self.arms = _validation.arms(given["arms"])
        if isinstance(given["arms"], Iterator):  # nobody can read it again
            self.given["arms"] = self.arms
        self.entry = registry.get(given["policy"])
        self.rewards: Rewards = _validation.rewards(given["rewards"])
        self.exploration = _validation.number("exploration", given["exploration"], 0, LARGEST_SHARE)
        self.exploration_mode: ExplorationMode = given["exploration_mode"]
        if self.exploration_mode not in get_args(ExplorationMode):
            raise InvalidSettings(
                f'exploration_mode must be "gap" or "uniform", got {self.exploration_mode!r}'
            )
        self.declared = declared(given["schema"])
        spare_slots = given["spare_slots"]
        self.spare_slots = (
            None
            if spare_slots is None
            else _validation.whole_number("spare_slots", spare_slots, 0, _validation.MOST_FEATURES)
        )
        self.max_pending = _validation.whole_number("max_pending", given["max_pending"], 1, MAX_PENDING)
        self.late = LateRules.checked(
            given["reward_timeout"], given["default_reward"], given["reward_aggregation"], self.rewards
        )
        self.clock = checked_clock(given["clock"])
        self.seed = _validation.whole_number("seed", given["seed"], 0, 2**63 - 1)
        self.policy_settings = _plain(given["policy_settings"])
        self.half_life = checked_half_life(given["half_life"])
        if self.half_life is not None:
            self._check_that_it_can_forget()
        try:  # better here than at the first decision
            self.make_policy(self.arms, 1)
        except TypeError as error:
            raise InvalidSettings(
                f"the policy {self.entry.name!r} cannot have these settings: {error}"
            ) from None

    def make_policy(self, arms: tuple[Arm, ...], features: int) -> Policy:
        """Return an untrained policy for contexts of this length."""
        forgetting = {} if self.half_life is None else {"half_life": self.half_life}
        settings = {**self.policy_settings, **forgetting}
        return self.entry.make(arms, features, rewards=self.rewards, seed=self.seed, **settings)

    def _check_that_it_can_forget(self) -> None:
        if not self.entry.make.can_forget:
            raise NotSupported(
                f"the policy {self.entry.name!r} cannot forget: leave half_life out, or use a policy that can, "
                "such as glcb or linucb"
            )
        if "half_life" in self.policy_settings:
            raise InvalidSettings("half_life is given twice: by itself and among the settings; give it once")

    def as_json(self, arms: tuple[Arm, ...]) -> dict[str, Any]:
        """Return the arguments as JSON can hold them, with the arms as they are now; not the clock."""
        schema = {name: declaration.as_json() for name, declaration in self.declared.items()}
        return {
            "arms": list(arms),
            "policy": self.entry.name,
            "rewards": self.rewards,
            "exploration": self.exploration,
            "exploration_mode": self.exploration_mode,
            "schema": schema or None,
            "spare_slots": self.spare_slots,
            "max_pending": self.max_pending,
            **self.late.as_json(),
            "half_life": self.half_life,
            "seed": self.seed,
            "policy_settings": self.policy_settings or None,
        }


def _plain(settings: object) -> dict[str, Any]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise InvalidSettings(
            f"policy_settings must be a dict of the policy's own settings, got {settings!r}"
        )
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in settings.items()}
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise InvalidSettings(
            f"policy_settings must be numbers, texts or lists of them, got {settings!r}"
        ) from None
    return plain

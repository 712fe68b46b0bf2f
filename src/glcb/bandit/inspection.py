"""What a bandit says about itself: its schema, its counts and its representation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from glcb._types import Arm
from glcb.bandit import display
from glcb.bandit.encoding.schema import Schema
from glcb.bandit.parameters import Parameters


class Inspectable(Parameters):
    """An object whose schema and counts can be read."""

    @property
    def schema(self) -> Schema | None:
        """The features and the problems with their values; None before the first decision."""
        with self._lock:
            encoder = self._core.encoder
            return None if encoder is None else encoder.schema

    @property
    def arm_schema(self) -> Schema | None:
        """The features of arms and the problems with their values; None without any, or before the first."""
        with self._lock:
            catalog = self._core.catalog
            return None if catalog is None else catalog.schema

    @property
    def catalog(self) -> Mapping[Arm, dict[str, Any]] | None:
        """The features of each arm, by name; None if arms have no features."""
        with self._lock:
            catalog = self._core.catalog
            return None if catalog is None else MappingProxyType(catalog.arms)

    @property
    def counts(self) -> dict[str, int]:
        """Number of decisions, in total and by outcome: rewarded, timed_out, evicted, removed and pending."""
        with self._lock:
            return self._core.pending.counts

    @property
    def reward_counts(self) -> dict[Arm, int]:
        """Number of rewards learned, for each arm."""
        with self._lock:
            policy, catalog = self._core.policy, self._core.catalog
            if catalog is not None:
                return catalog.reward_counts
            return dict.fromkeys(self.arms, 0) if policy is None else policy.reward_counts

    def __repr__(self) -> str:
        with self._lock:
            return display.to_line(self._core.arguments(), self.counts)

    def _repr_html_(self) -> str:
        with self._lock:
            return display.to_html(self._core.arguments(), self.counts, self.reward_counts, self.schema)

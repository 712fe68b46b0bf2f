"""The policies by their names.

Every file of this room can be imported without the optional extras: those are needed to make a policy, not
to know of it.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from glcb._registry import Registry
from glcb.policies.base import Policy

Registered = TypeVar("Registered", bound=type[Policy])


@dataclass(frozen=True)
class Entry:
    """A policy, as the command line and the results know it."""

    name: str
    """Short name."""
    make: type[Policy]
    """Makes the policy: takes ``arms``, ``features``, ``rewards=``, ``seed=`` and its own settings."""
    source: str
    """Where the policy comes from."""
    version: int
    """Grows whenever the policy would decide differently, so that old results are not taken for new."""

    @property
    def line(self) -> str:
        """What the policy does, in a line."""
        first = (inspect.getdoc(self.make) or "").split("\n\n")[0]
        return " ".join(first.replace("``", "").split())


_entries: Registry[Entry] = Registry("policy", "policies", "glcb.policies")


def register(name: str, *, source: str, version: int = 1) -> Callable[[Registered], Registered]:
    """Make a class known by ``name``."""

    def remember(policy: Registered) -> Registered:
        _entries.add(name, Entry(name, policy, source, version))
        return policy

    return remember


def names() -> list[str]:
    """Return the names of all policies."""
    return _entries.names()


def get(name: str) -> Entry:
    """Return the policy called ``name``."""
    return _entries.get(name)

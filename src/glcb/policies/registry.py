"""Looking up policies by name. A policy registers itself in its own file; adding one means adding a file.

Every file of this room can be imported without the optional extras: those are needed to make a policy, not
to know of it.
"""

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeVar

from glcb._errors import InvalidSettings
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


_entries: dict[str, Entry] = {}


def register(name: str, *, source: str, version: int = 1) -> Callable[[Registered], Registered]:
    """Make a class known by ``name``."""

    def remember(policy: Registered) -> Registered:
        _entries[name] = Entry(name, policy, source, version)
        return policy

    return remember


def names() -> list[str]:
    """Return the names of all policies."""
    _import_all()
    return sorted(_entries)


def get(name: str) -> Entry:
    """Return the policy called ``name``."""
    _import_all()
    if name not in _entries:
        raise InvalidSettings(f"there is no policy {name!r}; the policies are {', '.join(names())}")
    return _entries[name]


@cache
def _import_all() -> None:
    """Import every file of this room, so that every policy has registered itself."""
    room = import_module("glcb.policies")
    for module in pkgutil.iter_modules(room.__path__, "glcb.policies."):
        import_module(module.name)

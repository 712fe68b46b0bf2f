"""Lookup by name. An entry registers itself in its own module, so adding one means adding a file."""

import pkgutil
from importlib import import_module
from typing import Generic, TypeVar

from glcb._errors import InvalidSettings

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name, registered by the modules of one package.

    Parameters
    ----------
    kind, plural
        The singular and plural name of an entry in error messages, for example "policy" and "policies".
    package
        The package whose modules register entries. They are imported on the first lookup.
    """

    def __init__(self, kind: str, plural: str, package: str) -> None:
        self._kind = kind
        self._plural = plural
        self._package = package
        self._entries: dict[str, Entry] = {}
        self._complete = False

    def add(self, name: str, entry: Entry) -> None:
        """Register ``entry`` as ``name``."""
        self._entries[name] = entry

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        self.import_all()
        return sorted(self._entries)

    def get(self, name: str) -> Entry:
        """Return the entry called ``name``; raise InvalidSettings if it does not exist."""
        self.import_all()
        if name not in self._entries:
            raise InvalidSettings(
                f"there is no {self._kind} {name!r}; the {self._plural} are {', '.join(self.names())}"
            )
        return self._entries[name]

    def import_all(self) -> None:
        """Import every module of the package, so that all entries are registered."""
        if not self._complete:
            for module in pkgutil.walk_packages(import_module(self._package).__path__, f"{self._package}."):
                import_module(module.name)
            self._complete = True

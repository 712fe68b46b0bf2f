"""Looking things up by name. A thing registers itself in its own file, so adding one means adding a file."""

import pkgutil
from importlib import import_module
from typing import Generic, TypeVar

from glcb._errors import InvalidSettings

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """The things called ``kind`` that the files of the package ``room`` hold."""

    def __init__(self, kind: str, kinds: str, room: str) -> None:
        self._kind = kind
        self._kinds = kinds
        self._room = room
        self._things: dict[str, Thing] = {}
        self._complete = False

    def add(self, name: str, thing: Thing) -> None:
        """Make ``thing`` known by ``name``."""
        self._things[name] = thing

    def names(self) -> list[str]:
        """Return all names."""
        self._import_all()
        return sorted(self._things)

    def get(self, name: str) -> Thing:
        """Return what is called ``name``."""
        self._import_all()
        if name not in self._things:
            raise InvalidSettings(
                f"there is no {self._kind} {name!r}; the {self._kinds} are {', '.join(self.names())}"
            )
        return self._things[name]

    def _import_all(self) -> None:
        """Import every file of the room, so that everything there has registered itself."""
        if not self._complete:
            for module in pkgutil.walk_packages(import_module(self._room).__path__, f"{self._room}."):
                import_module(module.name)
            self._complete = True

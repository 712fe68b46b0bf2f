"""Decoders for the types of the API.

msgspec examines a type when its first decoder is made, and two threads doing so at the same time can crash
the process. So every decoder is made when its module is imported, never in a function.
"""

from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder


def decoders_of(*modules: ModuleType) -> dict[type, Decoder[Any]]:
    """Return a decoder for each type that the modules define."""
    return {
        kind: Decoder(kind)
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Struct) and kind.__module__ == module.__name__
    }

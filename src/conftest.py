"""Doctests of integrations are left out where their packages are missing."""

import os
from importlib import import_module
from pathlib import Path

from glcb import MissingExtra

INTEGRATIONS = Path(__file__).parent / "glcb" / "integrations"


def _is_missing(module: str) -> bool:
    try:
        import_module(f"glcb.integrations.{module}")
    except MissingExtra:
        if "packages" in os.environ.get("GLCB_REQUIRE", "").split():
            raise
        return True
    return False


collect_ignore = [str(path) for path in INTEGRATIONS.glob("[!_]*.py") if _is_missing(path.stem)]

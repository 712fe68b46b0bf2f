"""Methods that are made from verbs look as if they had been written by hand."""

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, get_args

M = TypeVar("M", bound=Callable[..., Any])


def named_after(verb: Callable[..., Any], method: M) -> M:
    """Give ``method`` the name, docstring and signature of ``verb``; it returns what the talk does."""
    update_wrapper(method, verb)
    signature = inspect.signature(verb)
    comes_to = get_args(signature.return_annotation)[2]
    method.__annotations__ = {**verb.__annotations__, "return": comes_to}
    method.__signature__ = signature.replace(return_annotation=comes_to)  # type: ignore[attr-defined]
    return method

"""Checks of string content: numbers, integers, valid Unicode."""

import re

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|Inf|Infinity|nan|NaN|NAN)")


def is_number(text: str) -> bool:
    """Return whether ``text`` is a number in common notation. Unlike ``float``, this excludes 18_25.

    >>> is_number("31"), is_number(" -.5e3 "), is_number("inf"), is_number("18_25"), is_number("")
    (True, True, True, False, False)
    """
    return _NUMBER.fullmatch(text.strip()) is not None


def is_unicode(text: str) -> bool:
    """Return whether ``text`` can be encoded as UTF-8. Lone surrogates cannot, but JSON can contain them.

    >>> is_unicode("Straße"), is_unicode("Stra\\udcdfe")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_integer(text: str) -> bool:
    """Return whether ``text`` is an integer in canonical notation; each integer has exactly one.

    >>> is_integer("7"), is_integer("-7"), is_integer("007"), is_integer("7.0"), is_integer("7_0")
    (True, True, False, False, False)
    """
    try:
        return str(int(text)) == text
    except ValueError:
        return False

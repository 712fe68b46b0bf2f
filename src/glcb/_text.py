"""What texts say that stand where a number could, in files and at the shell, and whether they are texts."""

import re

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|Inf|Infinity|nan|NaN|NAN)")


def is_number(text: str) -> bool:
    """Tell whether ``text`` is a number to everybody; to Python alone, 18_25 is one too.

    >>> is_number("31"), is_number(" -.5e3 "), is_number("inf"), is_number("18_25"), is_number("")
    (True, True, True, False, False)
    """
    return _NUMBER.fullmatch(text.strip()) is not None


def is_unicode(text: str) -> bool:
    """Tell whether ``text`` can be written as UTF-8; half of a surrogate pair cannot, but JSON may hold one.

    >>> is_unicode("Straße"), is_unicode("Stra\\udcdfe")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_integer(text: str) -> bool:
    """Tell whether ``text`` is an integer as Python writes it, so that no two texts are the same one.

    >>> is_integer("7"), is_integer("-7"), is_integer("007"), is_integer("7.0"), is_integer("7_0")
    (True, True, False, False, False)
    """
    try:
        return str(int(text)) == text
    except ValueError:
        return False

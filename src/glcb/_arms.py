"""Arms that somebody wrote down as texts."""


def is_integer(name: str) -> bool:
    """Tell whether ``name`` is an integer as Python writes it, so that no two names become the same.

    >>> is_integer("7"), is_integer("-7"), is_integer("007"), is_integer("7.0"), is_integer("7_0")
    (True, True, False, False, False)
    """
    try:
        return str(int(name)) == name
    except ValueError:
        return False

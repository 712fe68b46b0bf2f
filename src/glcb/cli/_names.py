"""Names at the shell, separated by commas."""


def names(given: str) -> tuple[str, ...]:
    """Return the names in ``given``.

    >>> names("wheel, adult,")
    ('wheel', 'adult')
    """
    return tuple(name.strip() for name in given.split(",") if name.strip())

"""Formatting of numbers."""

from collections.abc import Collection


def digits(largest: float) -> int:
    """Return the number of decimal places for numbers up to ``largest``.

    >>> digits(4308), digits(86.2), digits(-3.1)
    (0, 1, 2)
    """
    return 0 if abs(largest) >= 100 else 1 if abs(largest) >= 10 else 2


def number(value: float, places: int = 0, *, sign: bool = False) -> str:
    """Format a number with thousands separators and a true minus sign.

    >>> number(4308.4), number(-3.14159, 2), number(2, sign=True)
    ('4,308', '−3.14', '+2')
    """
    text = f"{value:{'+' if sign else ''},.{places}f}"
    # A number that rounds to zero has no sign.
    return (text.lstrip("+-") if not text.strip("+-0.,") else text).replace("-", "−")


def mean_and_error(mean: float, error: float | None, places: int) -> str:
    """Format a mean with its standard error, if there is one.

    >>> mean_and_error(4281.3, 30.8, 0), mean_and_error(4281.3, None, 0)
    ('4,281 ± 31', '4,281')
    """
    return number(mean, places) if error is None else f"{number(mean, places)} ± {number(error, places)}"


def count(amount: int, noun: str) -> str:
    """Format a number of things.

    >>> count(1, "seed"), count(1200, "seed")
    ('1 seed', '1,200 seeds')
    """
    return f"{amount:,} {noun}" + ("" if amount == 1 else "s")


def count_range(amounts: Collection[int], noun: str = "") -> str:
    """Format the range of several counts.

    >>> count_range([20, 20], "seed"), count_range([20, 5, 7], "seed"), count_range([20, 5, 7])
    ('20 seeds', '5 to 20 seeds', '5 to 20')
    """
    low, high = min(amounts), max(amounts)
    most = count(high, noun) if noun else f"{high:,}"
    return most if low == high else f"{low:,} to {most}"

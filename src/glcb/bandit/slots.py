"""Ids of the slots of a ranking."""

SEPARATOR = "."
"""Separates the id of a ranking from the number of a slot. No other id contains it."""


def slot_id(ranking: str, slot: int) -> str:
    """Return the id of one slot; the first one has the id of the ranking.

    >>> slot_id("7-000000ff", 0), slot_id("7-000000ff", 2)
    ('7-000000ff', '7-000000ff.2')
    """
    return ranking if slot == 0 else f"{ranking}{SEPARATOR}{slot}"

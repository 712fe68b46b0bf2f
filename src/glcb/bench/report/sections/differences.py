"""Who is surely ahead: differences between policies that played the same rewards."""

import math
from collections.abc import Sequence

import numpy as np

from glcb._errors import InvalidSettings
from glcb.bench.report.document import Block, Cell, Group, Row, Section, Table
from glcb.bench.report.numbers import count, number
from glcb.bench.report.selection import Column, Player, Selection
from glcb.bench.statistics import LEVEL, RESAMPLES, paired_bootstrap


def section(selection: Selection, order: Sequence[Player], reference: Player) -> Section:
    """Compare every policy with the reference, seed by seed."""
    others = [player for player in order if player != reference]
    blocks: list[Block] = [
        "Every policy meets the same contexts and the same rewards under the same seed. So two policies are "
        "best compared seed by seed: most of the luck cancels out.",
    ]
    if others:
        blocks.append(
            Table(
                f"Cumulative reward minus that of {reference.title}, mean over the seeds that both played. "
                f"In brackets the {100 * LEVEL:g} % bootstrap interval of that mean (percentiles of "
                f"{RESAMPLES:,} resamples, fixed seed); with fewer than ten seeds it is too narrow. Italics: "
                "the interval includes 0, so these seeds do not tell the two apart.",
                ("policy", *(selection.title(column) for column in selection.columns)),
                (Group("", tuple(_row(selection, player, reference) for player in others)),),
            )
        )
    unequal = _unequal(selection, reference)
    if unequal:
        blocks.append(
            f"Left out are {count(unequal, 'pair')} of runs that carry the same seed but did not play the "
            "same rewards: their best possible rewards differ, so data or versions must have differed."
        )
    return Section("differences", f"Paired differences from {reference.title}", tuple(blocks))


def find(players: Sequence[Player], policy: str) -> Player:
    """Return the player that plays ``policy`` with its own settings, or else with any."""
    found = sorted((player for player in players if player.policy == policy), key=lambda p: bool(p.settings))
    if not found:
        known = ", ".join(dict.fromkeys(player.policy for player in players))
        raise InvalidSettings(f"there are no runs of {policy!r} to compare with; there are runs of {known}")
    return found[0]


def paired(
    selection: Selection, column: Column, player: Player, reference: Player
) -> tuple[list[float], int]:
    """Return the differences on seeds of both, and how many pairs did not play the same rewards."""
    theirs = {record.seed: record for record in selection.cells.get((column, reference), ())}
    differences, unequal = [], 0
    for record in selection.cells.get((column, player), ()):
        other = theirs.get(record.seed)
        if other is None:
            continue
        if math.isclose(record.optimum, other.optimum, rel_tol=1e-6, abs_tol=1e-3):
            differences.append(record.total - other.total)
        else:
            unequal += 1
    return differences, unequal


def _unequal(selection: Selection, reference: Player) -> int:
    return sum(
        paired(selection, column, player, reference)[1]
        for column in selection.columns
        for player in selection.players
    )


def _row(selection: Selection, player: Player, reference: Player) -> Row:
    cells = (
        _cell(paired(selection, column, player, reference)[0], selection.places(column))
        for column in selection.columns
    )
    return Row(Cell(player.title), tuple(cells))


def _cell(differences: list[float], places: int) -> Cell:
    if not differences:
        return Cell()
    mean, interval = float(np.mean(differences)), paired_bootstrap(differences)
    text, seeds = number(mean, places, sign=True), count(len(differences), "seed")
    if interval is None:
        return Cell(text, (seeds,), doubtful=True)
    low, high = (number(end, places, sign=True) for end in interval)
    return Cell(text, (f"[{low}, {high}]", seeds), doubtful=not interval.excludes_zero)

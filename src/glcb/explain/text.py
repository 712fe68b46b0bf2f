"""An explanation in words."""

import math
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from glcb._types import Int64

if TYPE_CHECKING:
    from glcb.explain.explanation import Explanation

MOST_ARMS = 5
MOST_FEATURES = 6
_IN_A_SENTENCE = 2
_WORTH_A_WORD = 0.1
"""A contribution is no reason if it is smaller than this part of the largest."""
_WIDTH = 100


def page(told: "Explanation") -> str:
    """Return the arms with the best scores, each with a sentence and its largest contributions."""
    best = by_score(told)
    parts = [_verdict(told)]
    for arm in best[:MOST_ARMS].tolist():
        parts.append("\n".join([fill(sentence(told, arm), _WIDTH), *_rows(told, arm)]))
    if len(best) > MOST_ARMS:
        parts.append(f"… and {len(best) - MOST_ARMS:,} more with lower scores.")
    return "\n\n".join(parts)


def by_score(told: "Explanation") -> Int64:
    """Return the numbers of the arms, the best score first; of equal scores the better value first."""
    return np.lexsort((-told.values, -told.scores))


def by_size(told: "Explanation", arm: int) -> Int64:
    """Return the numbers of the features, the largest contribution first."""
    return np.argsort(-np.abs(told.contributions[arm]), kind="stable")


def _verdict(told: "Explanation") -> str:
    ties = np.flatnonzero(told.scores == told.scores.max())
    if ties.size > 1:
        return f"{ties.size:,} arms have the best score, which is value plus bonus."
    return f"{printable(str(told.arms[ties[0]]))} has the best score, which is value plus bonus."


def sentence(told: "Explanation", arm: int) -> str:
    """Return what the arm is expected to bring, why, and on how much experience this rests."""
    name, value = printable(str(told.arms[arm])), number(told, told.values[arm])
    return f"{name} is expected to bring {value}{_because(told, arm)}. {evidence(told, arm)}"


def _because(told: "Explanation", arm: int) -> str:
    row = told.contributions[arm]
    least = _WORTH_A_WORD * np.abs(row).max(initial=0.0)
    largest = [i for i in by_size(told, arm)[:_IN_A_SENTENCE].tolist() if abs(row[i]) >= least]
    reasons = [
        f"{labeled(told, i)} ({signed(told, row[i])})" for i in largest if round(row[i], told.decimals)
    ]
    if not reasons:
        return ", whatever the context"
    return f", mostly because of {' and '.join(reasons)}"


def evidence(told: "Explanation", arm: int) -> str:
    """Return how often the arm was tried on contexts like this one, and what follows for its bonus."""
    bonus = told.bonuses[arm]
    tried = f"It was {_times(told.pseudocounts[arm])} on contexts like this one"
    if math.isinf(bonus):
        return f"{tried}, so it is to be tried before the others."
    if told.sampled:
        return f"{tried}; a random draw adds {signed(told, bonus)}, to explore."
    return f"{tried}, and gets {signed(told, bonus)} for what is not known yet."


def _times(count: float) -> str:
    if count == 0:
        return "never tried"
    if count < 1:
        return "hardly tried"
    return "tried about once" if round(count) == 1 else f"tried about {round(count):,} times"


def _rows(told: "Explanation", arm: int) -> list[str]:
    """Return the base, the largest contributions and the sum of the rest, one in each line."""
    order, row = by_size(told, arm).tolist(), told.contributions[arm]
    rows = [(number(told, told.bases[arm]), "before any feature is looked at")]
    rows += [(signed(told, row[i]), labeled(told, i)) for i in order[:MOST_FEATURES]]
    rest = order[MOST_FEATURES:]
    if rest:
        rows.append((signed(told, row[rest].sum()), f"{len(rest):,} more feature{'s' * (len(rest) > 1)}"))
    width = max(len(amount) for amount, _ in rows)
    return [f"  {amount:>{width}}  {what}" for amount, what in rows]


def labeled(told: "Explanation", feature: int) -> str:
    """Return a feature and what it was."""
    return shortened(printable(f"{told.features[feature]} = {told.given[feature]}"), 60)


def number(told: "Explanation", amount: float) -> str:
    """Return an amount of reward."""
    shown = round(float(amount), told.decimals) + 0.0  # a zero has no sign
    return f"{shown:,.{told.decimals}f}".replace("-", "−")


def signed(told: "Explanation", amount: float) -> str:
    """Return an amount of reward with its sign."""
    shown = number(told, amount)
    return shown if shown.startswith("−") else f"+{shown}"


def shortened(text: str, longest: int) -> str:
    """Return ``text``, or its beginning if it is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def printable(text: str) -> str:
    """Return ``text`` in one line, without what a screen cannot show."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)

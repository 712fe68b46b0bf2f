"""Explanations as text and HTML."""

import math
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from glcb._arrays import Int64
from glcb._html import Bar, paragraph, table, view

if TYPE_CHECKING:
    from glcb.explain.explanation import Explanation

MAX_ARMS = 5
MAX_FEATURES = 6
_MAX_REASONS = 2
_MIN_REASON = 0.1
"""A sentence omits contributions smaller than this fraction of the largest one."""
_WIDTH = 100


def page(explanation: "Explanation") -> str:
    """Return the arms with the highest scores, each with a sentence and its largest contributions."""
    best = by_score(explanation)
    paragraphs = [_summary(explanation)]
    for arm in best[:MAX_ARMS].tolist():
        paragraphs.append("\n".join([fill(sentence(explanation, arm), _WIDTH), *_rows(explanation, arm)]))
    if _omitted(best):
        paragraphs.append(_omitted(best))
    return "\n\n".join(paragraphs)


def html_view(explanation: "Explanation") -> str:
    """Return the content of :func:`page` as HTML, with a bar for each contribution."""
    best = by_score(explanation)
    largest = float(np.abs(explanation.contributions).max(initial=0.0)) or 1.0
    parts = []
    for arm in best[:MAX_ARMS].tolist():
        rows = [
            (name, Bar(amount, share / largest) if share else amount)
            for amount, name, share in _amounts(explanation, arm)
        ]
        parts.append(paragraph(sentence(explanation, arm)) + table(("feature", "contribution"), rows))
    if _omitted(best):
        parts.append(paragraph(_omitted(best)))
    return view(_summary(explanation), *parts)


def by_score(explanation: "Explanation") -> Int64:
    """Return the indices of the arms by descending score; equal scores by descending value."""
    return np.lexsort((-explanation.values, -explanation.scores))


def by_size(explanation: "Explanation", arm: int) -> Int64:
    """Return the indices of the features by descending size of their contribution."""
    return np.argsort(-np.abs(explanation.contributions[arm]), kind="stable")


def _omitted(best: Int64) -> str:
    """Return how many arms are not shown, or nothing."""
    remaining = len(best) - MAX_ARMS
    return f"… and {remaining:,} more arm{'s' * (remaining > 1)} with lower scores." if remaining > 0 else ""


def _summary(explanation: "Explanation") -> str:
    ties = np.flatnonzero(explanation.scores == explanation.scores.max())
    if ties.size > 1:
        return f"{ties.size:,} arms have the highest score (value + bonus)."
    return f"{printable(str(explanation.arms[ties[0]]))} has the highest score (value + bonus)."


def sentence(explanation: "Explanation", arm: int) -> str:
    """Return the expected reward of an arm, the main reasons, and the evidence behind it."""
    name = printable(str(explanation.arms[arm]))
    value = format_number(explanation, explanation.values[arm])
    return f"{name}: expected reward {value}{_reasons(explanation, arm)}. {evidence(explanation, arm)}"


def _reasons(explanation: "Explanation", arm: int) -> str:
    row = explanation.contributions[arm]
    least = _MIN_REASON * np.abs(row).max(initial=0.0)
    largest = [i for i in by_size(explanation, arm)[:_MAX_REASONS].tolist() if abs(row[i]) >= least]
    reasons = [
        f"{label(explanation, i, arm)} ({format_signed(explanation, row[i])})"
        for i in largest
        if round(row[i], explanation.decimals)
    ]
    return f", mainly because {' and '.join(reasons)}" if reasons else ", regardless of the context"


def evidence(explanation: "Explanation", arm: int) -> str:
    """Return the number of similar decisions behind an arm's value, and its exploration bonus."""
    bonus = explanation.bonuses[arm]
    similar = _similar_decisions(explanation.pseudocounts[arm])
    if math.isinf(bonus):
        return f"{similar}; it is chosen first."
    kind = "random exploration bonus" if explanation.sampled else "exploration bonus"
    return f"{similar}; {kind} {format_signed(explanation, bonus)}."


def _similar_decisions(pseudocount: float) -> str:
    if pseudocount == 0:
        return "No similar decisions yet"
    if pseudocount < 1:
        return "Estimated from less than one similar decision"
    count = round(pseudocount)
    return f"Estimated from about {count:,} similar decision{'s' * (count > 1)}"


def _amounts(explanation: "Explanation", arm: int) -> list[tuple[str, str, float]]:
    """Return amount, label and contribution: the base, the largest contributions, and the rest."""
    order, row = by_size(explanation, arm).tolist(), explanation.contributions[arm]
    amounts = [(format_number(explanation, explanation.bases[arm]), "base", 0.0)]
    for i in order[:MAX_FEATURES]:
        amounts.append((format_signed(explanation, row[i]), label(explanation, i, arm), float(row[i])))
    rest = order[MAX_FEATURES:]
    if rest:
        total = float(row[rest].sum())
        more = f"{len(rest):,} more feature{'s' * (len(rest) > 1)}"
        amounts.append((format_signed(explanation, total), more, total))
    return amounts


def _rows(explanation: "Explanation", arm: int) -> list[str]:
    """Return the amounts as lines of text."""
    rows = _amounts(explanation, arm)
    width = max(len(amount) for amount, _, _ in rows)
    return [f"  {amount:>{width}}  {text}" for amount, text, _ in rows]


def label(explanation: "Explanation", feature: int, arm: int | None = None) -> str:
    """Return the name and the value of a feature, which can be the value of one arm."""
    own = explanation.own_values
    values = explanation.feature_values if own is None or arm is None else own[arm]
    text = f"{explanation.features[feature]} = {values[feature]}"
    return shorten(printable(text), 60)


def format_number(explanation: "Explanation", amount: float) -> str:
    """Return an amount of reward as text."""
    rounded = round(float(amount), explanation.decimals) + 0.0  # turns −0.0 into 0.0
    return f"{rounded:,.{explanation.decimals}f}".replace("-", "−")


def format_signed(explanation: "Explanation", amount: float) -> str:
    """Return an amount of reward as text with its sign."""
    text = format_number(explanation, amount)
    return text if text.startswith("−") else f"+{text}"


def shorten(text: str, max_length: int) -> str:
    """Return ``text``, truncated with an ellipsis if it is too long."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def printable(text: str) -> str:
    """Return ``text`` with characters that cannot be printed replaced."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)

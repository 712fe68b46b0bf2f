"""Prompt counts: features that are known before any model runs."""

import math
import re

PROMPT_COUNTS = ("words", "characters", "digits", "question marks", "lines", "code", "operators")
"""The names of the counts."""


def prompt_counts(text: str) -> list[float]:
    """Return the counts of a prompt, most of them on a logarithmic scale.

    >>> prompt_counts("Is 7 prime?")
    [1.386, 2.485, 0.693, 0.693, 0.0, 0.0, 0.0]
    """
    words = text.split()
    code = sum(text.count(sign) for sign in ("{", "def ", "```", ";"))
    counts = (
        len(words),
        len(text),
        len(re.findall(r"\d", text)),
        text.count("?"),
        text.count("\n"),
        code,
        sum(text.count(sign) for sign in "+*=<>$"),
    )
    return [round(math.log1p(count), 3) for count in counts]

"""Vowpal Wabbit's text formats for contextual bandits.

``cb``: one line per decision, ``arm:cost:probability | features``. With action-dependent features (ADF), a
decision is a block of lines that ends with an empty line: an optional line ``shared | features``, and one
line per arm, the chosen one with the label ``0:cost:probability``. An arm is named by the tag of its line,
such as ``'news``, if all lines of the block have tags, else by its number, starting at 1. The reward is minus
the cost.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from glcb._errors import LogError
from glcb._text import is_number
from glcb._types import Arm
from glcb.bandit.encoding.values import classify_value, to_row
from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.reader import open_log
from glcb.evaluate.rows import LoggedDecision, LogRow

_LABEL = re.compile(r"^(?P<arm>\d+):(?P<cost>[-+.\deE]+):(?P<probability>[-+.\deE]+)(?:\s+\S+)?\s*$")
_TAG = re.compile(r"(?:^|\s)'(?P<name>\S+)\s*$")
_UNSAFE = re.compile(r"[\s:|=]+")


def matches(line: str) -> bool:
    """Return whether a line can be the first line of such a log.

    >>> matches("2:-1:0.25 | a b:2"), matches("shared | a"), matches("| a b"), matches("a,b")
    (True, True, True, False)
    """
    label, bar, _ = line.partition("|")
    known = not label.strip() or label.startswith(("shared", "'")) or _LABEL.match(label)
    return bool(bar) and bool(known)


def read(path: Path, columns: LogColumns, default_reward: float | None) -> Iterator[LogRow]:
    """Yield the decisions of a file."""
    try:
        with open_log(path) as (file, position):
            block: list[str] = []
            for raw in file:
                line = raw.decode("utf-8", "replace").strip()
                if line and not _is_single(line, block):
                    block.append(line)
                    continue
                if block:
                    yield _adf(block, position())
                    block = []
                if line:
                    yield _single(line, position())
            if block:
                yield _adf(block, 1.0)
    except (OSError, EOFError) as error:
        raise LogError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _is_single(line: str, block: list[str]) -> bool:
    """Return whether a line is a whole decision: labeled with an arm, outside of a block."""
    label = _LABEL.match(line.partition("|")[0])
    return label is not None and not block and label["arm"] != "0"


def _single(line: str, share: float) -> LogRow:
    text, _, features = line.partition("|")
    label = _LABEL.match(text)
    assert label is not None
    return _row(_context(features), int(label["arm"]), label, None, None, share)


def _adf(block: list[str], share: float) -> LogRow:
    shared = ""
    if block[0].startswith("shared"):
        shared, block = block[0].partition("|")[2], block[1:]
    labels = [_LABEL.match(line.partition("|")[0]) for line in block]
    chosen = [index for index, label in enumerate(labels) if label is not None]
    if len(chosen) != 1:
        problem = f"a decision must have one labeled arm, this one has {len(chosen)} of {len(block)}"
        return LogRow(None, share, "no label", problem)
    label = labels[chosen[0]]
    assert label is not None
    names = _names(block)
    if len(set(names)) != len(names):
        return LogRow(None, share, "invalid arms", "two arms have the same tag")
    features = dict(zip(names, (_context(line.partition("|")[2]) for line in block), strict=True))
    candidates = features if any(features.values()) else None
    return _row(_context(shared), names[chosen[0]], label, names, candidates, share)


def _names(block: list[str]) -> tuple[Arm, ...]:
    """Return the names of the arms of a block."""
    tags = [_TAG.search(line.partition("|")[0]) for line in block]
    found = [tag["name"] for tag in tags if tag is not None]
    return tuple(found) if len(found) == len(block) else tuple(range(1, len(block) + 1))


def _row(
    context: dict[str, Any],
    arm: Arm,
    label: re.Match[str],
    eligible: tuple[Arm, ...] | None,
    candidates: Mapping[Arm, dict[str, Any]] | None,
    share: float,
) -> LogRow:
    if not (is_number(label["cost"]) and is_number(label["probability"])):
        return LogRow(None, share, "invalid label", f"cost and probability must be numbers, got {label[0]!r}")
    cost, propensity = float(label["cost"]), float(label["probability"])
    if not (math.isfinite(cost) and 0 < propensity <= 1):
        return LogRow(None, share, "invalid label", f"the probability must be in (0, 1], got {propensity}")
    if not context:
        context = {"constant": 1.0}
    # 0.0 − cost and not −cost, which is −0.0 for a cost of 0.
    return LogRow(LoggedDecision(context, arm, 0.0 - cost, propensity, eligible, candidates), share)


def _context(text: str) -> dict[str, Any]:
    """Return the features of a line. A feature ``name=value`` is a category.

    >>> _context("user age:31 country=FR |page sports")
    {'user.age': 31.0, 'user.country': 'FR', 'page.sports': True}
    >>> _context(" age:31 new")
    {'age': 31.0, 'new': True}
    """
    context: dict[str, Any] = {}
    for part in text.split("|"):
        named = part[:1] not in ("", " ", "\t")
        words = part.split()
        prefix = words.pop(0).partition(":")[0] + "." if named and words else ""
        for word in words:
            name, _, value = word.rpartition(":")
            if name and is_number(value):
                context[prefix + name] = float(value)
            else:
                name, equals, category = word.partition("=")
                context[prefix + name] = category if equals else True
    return context


# ---- writing ----------------------------------------------------------------------------------------


def write(decisions: Iterable[LoggedDecision], arms: Mapping[Arm, int]) -> Iterator[str]:
    """Yield the text of each decision: a block with the features of the arms if it has them, else a line.

    In the format ``cb``, arms are numbered from 1 in the order of ``arms``; in blocks, their names are tags.
    The part of a feature's name before the first dot becomes its namespace.

    >>> row = LoggedDecision({"user.age": 31, "country": "FR", "new": True}, "news", 1.0, 0.5)
    >>> list(write([row], {"sports": 0, "news": 1}))
    ['2:-1.0:0.5 | country=FR new |user age:31\\n']
    >>> features = {"sports": {"item.price": 3}, "news": {"item.price": 2}}
    >>> print(*write([row._replace(features=features)], {"sports": 0, "news": 1}))
    shared | country=FR new |user age:31
    'sports |item price:3
    0:-1.0:0.5 'news |item price:2
    <BLANKLINE>
    <BLANKLINE>
    """
    for decision in decisions:
        outcome = f"{0.0 - decision.reward!r}:{decision.propensity!r}"
        if decision.features is None:
            yield f"{arms[decision.arm] + 1}:{outcome} {_features(decision.context)}\n"
            continue
        lines = [f"shared {_features(decision.context)}"]
        for arm, features in decision.features.items():
            label = f"0:{outcome} " if arm == decision.arm else ""
            lines.append(f"{label}'{_UNSAFE.sub('_', str(arm))} {_features(features)}")
        yield "\n".join(lines) + "\n\n"


def _features(context: Any) -> str:
    """Return the nonzero features of a context by namespace."""
    row, _ = to_row(context)
    namespaces: dict[str, list[str]] = {}
    for key, value in row.items():
        prefix, dot, name = str(key).partition(".")
        space, name = (prefix, name) if dot and prefix and name else ("", str(key))
        namespaces.setdefault(_UNSAFE.sub("_", space), []).append(_feature(name, value))
    parts = [" ".join([f"|{space}", *filter(None, own)]) for space, own in sorted(namespaces.items())]
    return " ".join(parts) or "|"


def _feature(name: str, value: Any) -> str:
    kind, plain = classify_value(value)
    name = _UNSAFE.sub("_", name)
    if kind == "number":
        return f"{name}:{plain:.9g}" if plain else ""
    if kind == "boolean":
        return name if plain else ""
    return f"{name}={_UNSAFE.sub('_', plain)}" if kind == "text" else ""

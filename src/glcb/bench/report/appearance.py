"""Display names and line styles of policies, the same in every table and figure."""

from typing import NamedTuple

_TITLES = {
    "glcb": "GLCB",
    "glcb-paper": "GLCB (paper settings)",
    "bootrms": "BootRMS",
    "dropout": "Dropout",
    "linfullpost": "LinFullPost",
    "neurallinear": "NeuralLinear",
    "rms": "RMS",
    "bbb": "BBB",
    "paramnoise": "ParamNoise",
    "constsgd": "constSGD (reconstruction)",
    "bbalphadiv": "BBAlphaDiv",
    "neuralucb": "NeuralUCB",
    "neuralts": "NeuralTS",
    "ekf-subspace": "EKF subspace",
    "linucb": "LinUCB",
    "lints": "LinTS",
    "ucb1": "UCB1",
    "epsilon-greedy": "ε-greedy",
    "uniform": "Uniform",
    "rff-ucb": "RFF-UCB",
    "rff-ucb-sd": "RFF-UCB (sd)",
    "squarecb": "SquareCB",
    "tree-ts": "Tree-TS",
    "vw-squarecb": "VW SquareCB",
    "vw-squarecb-quadratic": "VW SquareCB (quadratic)",
    "vw-regcb": "VW RegCB",
    "vw-cover": "VW cover",
    "vw-epsilon-greedy": "VW ε-greedy",
    "river-linucb": "River LinUCB",
    "mabwiser-linucb": "MABWiser LinUCB",
}

# Shorter names for figures, where space is limited.
_LABELS = {"constsgd": "constSGD (reconstr.)", "vw-squarecb-quadratic": "VW SquareCB (quadr.)"}


class Stroke(NamedTuple):
    """Line style; the colors are distinguishable on white and on black."""

    color: str
    dashes: str = "-"
    width: float = 1.1


_STROKES = {
    "glcb": Stroke("#e8590c", "-", 2.0),
    "glcb-paper": Stroke("#d6336c", "-", 2.0),
    "bootrms": Stroke("#7950f2"),
    "dropout": Stroke("#f08c00"),
    "linfullpost": Stroke("#1c7ed6"),
    "neurallinear": Stroke("#0ca678"),
    "rms": Stroke("#ae3ec9"),
    "bbb": Stroke("#66a80f"),
    "paramnoise": Stroke("#15aabf"),
    "constsgd": Stroke("#868e96"),
    "bbalphadiv": Stroke("#a0714f"),
    "neuralucb": Stroke("#7950f2", "--"),
    "neuralts": Stroke("#66a80f", "--"),
    "ekf-subspace": Stroke("#15aabf", "--"),
    "linucb": Stroke("#1c7ed6", "--"),
    "lints": Stroke("#0ca678", "--"),
    "ucb1": Stroke("#f08c00", "--"),
    "epsilon-greedy": Stroke("#ae3ec9", "--"),
    "uniform": Stroke("#868e96", ":"),
}

_OTHERS = tuple(
    Stroke(color, dashes)
    for dashes in ("-.", "--", ":")
    for color in ("#4c6ef5", "#e64980", "#40a02b", "#b8860b", "#12a5a5", "#8d6e63")
)

LEADING = (
    Stroke("#e8590c", "-", 2.0),
    Stroke("#1c7ed6", "-", 1.5),
    Stroke("#0ca678", "-", 1.5),
    Stroke("#ae3ec9", "-", 1.5),
)
"""Styles of the leading policies where there are too many policies for a color each."""
MUTED = Stroke("#868e96", "-", 0.6)
"""Style of all other policies."""
MARKERS = "oDs^"
"""Markers of the leading policies."""


def title(policy: str) -> str:
    """Return the display name of ``policy``; an unlisted policy keeps its own name.

    >>> title("bootrms"), title("my-policy")
    ('BootRMS', 'my-policy')
    """
    return _TITLES.get(policy, policy)


def label(policy: str) -> str:
    """Return the display name of ``policy`` in figures."""
    return _LABELS.get(policy, title(policy))


def stroke(policy: str) -> Stroke | None:
    """Return the line style of ``policy``, or None if it is not listed."""
    return _STROKES.get(policy)


def other_stroke(number: int) -> Stroke:
    """Return the line style of the ``number``-th unlisted policy."""
    return _OTHERS[number % len(_OTHERS)]

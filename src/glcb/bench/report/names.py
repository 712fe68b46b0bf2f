"""How policies are called and drawn, the same in every table and picture."""

from typing import NamedTuple

_TITLES = {
    "glcb": "GLCB",
    "glcb-paper": "GLCB, the paper's settings",
    "bootrms": "BootRMS",
    "dropout": "Dropout",
    "linfullpost": "LinFullPost",
    "neurallinear": "NeuralLinear",
    "rms": "RMS",
    "bbb": "BBB",
    "paramnoise": "ParamNoise",
    "constsgd": "constSGD (reconstruction)",
    "bbalphadiv": "BBAlphaDiv",
    "linucb": "LinUCB",
    "lints": "LinTS",
    "ucb1": "UCB1",
    "epsilon-greedy": "ε-greedy",
    "uniform": "Uniform",
}

# Beside the lines of a picture there is little room.
_LABELS = {"glcb-paper": "GLCB, paper settings", "constsgd": "constSGD (reconstr.)"}


class Stroke(NamedTuple):
    """How a line is drawn; the colors can be told apart on white and on black."""

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
    "linucb": Stroke("#1c7ed6", "--"),
    "lints": Stroke("#0ca678", "--"),
    "ucb1": Stroke("#f08c00", "--"),
    "epsilon-greedy": Stroke("#ae3ec9", "--"),
    "uniform": Stroke("#868e96", ":"),
}

_OTHERS = tuple(
    Stroke(color, "-.") for color in ("#4c6ef5", "#e64980", "#40a02b", "#b8860b", "#12a5a5", "#8d6e63")
)


def title(policy: str) -> str:
    """Return how ``policy`` is called; one that is not listed keeps its own name.

    >>> title("bootrms"), title("my-policy")
    ('BootRMS', 'my-policy')
    """
    return _TITLES.get(policy, policy)


def label(policy: str) -> str:
    """Return how ``policy`` is called in pictures."""
    return _LABELS.get(policy, title(policy))


def stroke(policy: str) -> Stroke | None:
    """Return how the line of ``policy`` is drawn, if it is listed."""
    return _STROKES.get(policy)


def other_stroke(number: int) -> Stroke:
    """Return how the line of the ``number``-th of those is drawn that are not listed."""
    return _OTHERS[number % len(_OTHERS)]

"""Figures of explanations: a panel for each of the best arms, a bar for each of the largest contributions."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glcb._figures import check_figure_path, figure
from glcb.explain.text import by_score, evidence, format_number, label, printable, shorten

if TYPE_CHECKING:
    from glcb.explain.explanation import Explanation

MAX_ARMS = 3
MAX_FEATURES = 8
_MAX_LABEL_LENGTH = 28
_POSITIVE, _NEGATIVE = "tab:blue", "tab:orange"


def draw(explanation: "Explanation", path: Path) -> None:
    """Draw the explanation. All panels show the same features on the same scale."""
    check_figure_path(path)
    arms = by_score(explanation)[:MAX_ARMS]
    sizes = np.abs(explanation.contributions[arms]).max(axis=0)
    features = np.argsort(-sizes, kind="stable")[:MAX_FEATURES]
    # A margin on both sides, so that no bar looks cut off.
    limit = 1.1 * float(sizes.max(initial=0.0)) or 1.0
    labels = [shorten(label(explanation, i), _MAX_LABEL_LENGTH) for i in features]
    with figure(path, width=2 + 3.2 * len(arms), height=2 + 0.3 * len(features), columns=len(arms)) as panels:
        for panel, arm in zip(panels, arms, strict=True):
            bars = explanation.contributions[arm, features]
            panel.barh(range(len(bars)), bars, color=np.where(bars < 0, _NEGATIVE, _POSITIVE).tolist())
            panel.axvline(0, color="black", linewidth=0.8)
            panel.set_xlim(-limit, limit)
            panel.invert_yaxis()
            panel.set_yticks(range(len(bars)), labels if panel is panels[0] else [""] * len(bars))
            for tick in panel.get_yticklabels():
                tick.set_parse_math(False)  # dollar signs in names are not formulas
            name = shorten(printable(str(explanation.arms[arm])), _MAX_LABEL_LENGTH)
            base, value = explanation.bases[arm], explanation.values[arm]
            title = f"{name}: {format_number(explanation, base)} → {format_number(explanation, value)}"
            panel.set_title(title, fontsize=10, parse_math=False)
            panel.set_xlabel(_in_two_lines(evidence(explanation, int(arm))), fontsize=8)


def _in_two_lines(text: str) -> str:
    """Break ``text`` at the space closest to its middle."""
    spaces = [i for i, letter in enumerate(text) if letter == " "]
    middle = min(spaces, key=lambda i: abs(i - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"

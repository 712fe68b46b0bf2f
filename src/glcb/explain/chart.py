"""An explanation as a picture: a panel for each of the best arms, a bar for each of the largest features."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glcb._figures import check_picture, figure
from glcb.explain.text import by_score, evidence, labeled, number, printable, shortened

if TYPE_CHECKING:
    from glcb.explain.explanation import Explanation

MOST_ARMS = 3
MOST_FEATURES = 8
_LONGEST = 28
_UP, _DOWN = "tab:blue", "tab:orange"


def draw(told: "Explanation", path: Path) -> None:
    """Draw the explanation; all panels have the same features and the same scale."""
    check_picture(path)
    arms = by_score(told)[:MOST_ARMS]
    sizes = np.abs(told.contributions[arms]).max(axis=0)
    features = np.argsort(-sizes, kind="stable")[:MOST_FEATURES]
    # A margin on both sides, so that a bar never looks cut off.
    limit = 1.1 * float(sizes.max(initial=0.0)) or 1.0
    labels = [shortened(labeled(told, i), _LONGEST) for i in features]
    with figure(path, width=2 + 3.2 * len(arms), height=2 + 0.3 * len(features), columns=len(arms)) as panels:
        for panel, arm in zip(panels, arms, strict=True):
            bars = told.contributions[arm, features]
            panel.barh(range(len(bars)), bars, color=np.where(bars < 0, _DOWN, _UP).tolist())
            panel.axvline(0, color="black", linewidth=0.8)
            panel.set_xlim(-limit, limit)
            panel.invert_yaxis()
            panel.set_yticks(range(len(bars)), labels if panel is panels[0] else [""] * len(bars))
            for label in panel.get_yticklabels():
                label.set_parse_math(False)  # a name with dollar signs is a name
            name = shortened(printable(str(told.arms[arm])), _LONGEST)
            heading = f"{name}: {number(told, told.bases[arm])} → {number(told, told.values[arm])}"
            panel.set_title(heading, fontsize=10, parse_math=False)
            panel.set_xlabel(_in_two_lines(evidence(told, int(arm))), fontsize=8)


def _in_two_lines(text: str) -> str:
    """Break ``text`` at the space that is next to its middle."""
    spaces = [i for i, letter in enumerate(text) if letter == " "]
    middle = min(spaces, key=lambda i: abs(i - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"

"""The HTML views of bandits, decisions, rankings, explanations and evaluations, also of the client."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from glcb import Bandit, LinUCB
from glcb._api.responses import ArmExplanation, Contribution
from glcb._html import Bar, table
from glcb.client import Decision, Explanation
from glcb.evaluate import evaluate

EVIL = "<script>&</b>"
FAST: dict[str, Any] = {"policy": "linucb"}


class Checker(HTMLParser):
    """Collects the text, and fails if an element is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "span")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def read(page: str) -> str:
    """Return the text of a page whose elements are all closed."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    return checker.text


def trained(**settings: Any) -> Bandit:
    bandit = Bandit([EVIL, "news"], **{**FAST, **settings})
    for age in range(20, 60):
        bandit.reward(bandit.decide({"age": age, EVIL: EVIL}).id, age % 2)
    return bandit


def evaluation(folder: Path) -> Any:
    bandit = Bandit([EVIL, "news"], exploration=0.5, **FAST)
    bandit.log_to(folder / "log.jsonl")
    for age in range(60):
        bandit.reward(bandit.decide({"age": age}).id, age % 2)
    return evaluate(folder / "log.jsonl", ["uniform"])


def decision_of_the_client(_: Path) -> Decision:
    probabilities = {EVIL: 0.75, "news": 0.25}
    return Decision(id="7-a", arm=EVIL, propensity=0.75, probabilities=probabilities, holdout=True)


def explanation_of_the_client(_: Path) -> Explanation:
    arm = ArmExplanation(
        arm=EVIL,
        value=0.5,
        base=0.4,
        bonus=None,
        pseudocount=3.0,
        probability=1.0,
        contributions=(Contribution("age", EVIL, 0.3), Contribution("country", "FR", -0.2)),
    )
    return Explanation((arm,), "text")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (decision_of_the_client, [f"Decision 7-a: {EVIL} (holdout)", "0.25"]),
        (explanation_of_the_client, ["probability 1", f"age = {EVIL}", "+0.3", "-0.2"]),
        (lambda _: trained(), ["Bandit (policy linucb", "40 rewarded", "rewards learned", "slots"]),
        (lambda _: trained().decide({"age": 31}), ["Decision", "probability", "value", "bonus"]),
        (lambda _: trained(policy="lints").decide({"age": 31}), ["random draw"]),
        (lambda _: trained().rank({"age": 31}, k=2), ["Ranking", "slot", "propensity"]),
        (lambda _: trained().explain({"age": 31}), ["highest score", "contribution", "age = 31"]),
        (lambda _: LinUCB([EVIL, "news"], 2).decide([0.1, 0.9]), ["Decision", "pseudocount"]),
        (evaluation, ["60 decisions", "95% at any time", "uniform"]),
    ],
)
def test_an_object_has_a_view_in_which_all_names_are_escaped(
    make: Callable[[Path], Any], expected: list[str], tmp_path: Path
) -> None:
    shown = make(tmp_path)
    page = shown._repr_html_()
    assert "<script" not in page
    text = read(page)
    for words in expected:
        assert words in text
    if not hasattr(shown, "policies"):  # the table of an evaluation has no arms
        assert EVIL in text


def test_the_chosen_arm_is_bold() -> None:
    decision = trained().decide({"age": 31})
    bold = [cell for cell in decision._repr_html_().split("<td") if "font-weight: bold" in cell]
    assert len(bold) == 4


def test_a_bar_is_as_long_as_its_share() -> None:
    page = table(["arm"], [[Bar("0.5", 0.5)], [Bar("−1", -1.0)], [Bar("9", 9.0)]])
    assert [page.count(f"width: {width}px") for width in (40, 80)] == [1, 2]
    assert page.count("#e45756") == 1


def test_a_long_table_is_cut() -> None:
    page = table(["arm", "n"], [[str(n), "1"] for n in range(75)])
    assert "and 25 more" in page
    assert page.count("<tr>") == 52

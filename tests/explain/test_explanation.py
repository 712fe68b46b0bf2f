"""Explanations of a bandit: as data, as text and as figures, in terms of the original context."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glcb import Bandit, GlcbError, InvalidContext, InvalidSettings, MissingExtra, NotSupported
from tests.bandit.test_bandit_properties import contexts
from tests.support.bandits import ARMS, FAST, full_state, run

CONTEXT = {"country": "FR", "age": 31, "member": True}
SMALL = {"layers": [6, 2], "hyperplanes": 2}


def assert_complete(explanation: Any, span: float = 1.0) -> None:
    """Assert that base and contributions add up to the value."""
    total = explanation.bases + explanation.contributions.sum(axis=1)
    np.testing.assert_allclose(total, explanation.values, rtol=0, atol=1e-5 * span)


def test_a_bandit_explains_before_its_first_decision() -> None:
    bandit = Bandit(ARMS)
    before = full_state(bandit)
    explanation = bandit.explain(CONTEXT)
    assert full_state(bandit) == before
    assert explanation.features == ("country", "age", "member")
    assert explanation.feature_values == ("FR", "31", "true")
    assert explanation.sentence("news").endswith("No similar decisions yet; it is chosen first.")
    assert_complete(explanation)


@pytest.mark.parametrize("policy", ["glcb", "linucb", "lints"])
@pytest.mark.parametrize("rewards", ["binary", (0.0, 1.0)])
def test_explaining_changes_nothing(policy: str, rewards: Any) -> None:
    bandit = run(Bandit(ARMS, policy=policy, rewards=rewards), 80)
    before = full_state(bandit)
    explanation = bandit.explain({**CONTEXT, "new category": "x", "new number": 3})
    assert full_state(bandit) == before
    assert {"country", "age", "spent", "member", "campaign", "new category", "new number"} == set(
        explanation.features
    )
    assert_complete(explanation)
    decision = bandit.decide({**CONTEXT, "new category": "x", "new number": 3})
    np.testing.assert_array_equal(explanation.values, decision.values)
    np.testing.assert_array_equal(explanation.bonuses, decision.bonuses)
    np.testing.assert_array_equal(explanation.pseudocounts, decision.pseudocounts)


def test_a_policy_without_explanations_is_refused() -> None:
    with pytest.raises(NotSupported, match="UCB1 cannot explain"):
        Bandit(ARMS, policy="ucb1").explain(CONTEXT)
    with pytest.raises(InvalidContext):
        Bandit(ARMS).explain(3)


@settings(max_examples=40)
@given(st.lists(contexts, min_size=2, max_size=8), st.integers(0, 5))
def test_explanations_are_complete_for_arbitrary_contexts(
    stream: list[dict[str, Any]], spare_slots: int
) -> None:
    bandit = Bandit(2, spare_slots=spare_slots, policy_settings=SMALL)
    for context in stream:
        try:
            explanation = bandit.explain(context)
            decision = bandit.decide(context)
        except GlcbError:
            continue
        assert_complete(explanation)
        assert len(set(explanation.features)) == len(explanation.features) == len(explanation.feature_values)
        json.dumps(explanation.as_dict(), allow_nan=False)
        str(explanation).encode()
        bandit.reward(decision.id, 1)


def test_a_shared_slot_is_attributed_to_the_feature_that_uses_it() -> None:
    bandit = Bandit(2, spare_slots=1, policy_settings=SMALL)
    bandit.reward(bandit.decide({"age": 30}).id, 1)
    bandit.reward(bandit.decide({"age": 40, "shop": "a"}).id, 0)  # uses the only spare slot
    alone = bandit.explain({"age": 35, "page": "b"})  # shares it
    assert alone.features == ("age", "shop", "page")
    assert alone.feature_values == ("35", "missing", "b")
    assert np.abs(alone.contributions[:, 2]).min() > 0
    assert np.abs(alone.contributions[:, 1]).max() == 0
    both = bandit.explain({"age": 35, "shop": "a", "page": "b"})
    assert both.features == ("age", "shop", "(other)")
    assert np.abs(both.contributions[:, 2]).min() > 0
    np.testing.assert_allclose(both.values, alone.values)


def test_missing_and_unsupported_values_are_labeled() -> None:
    bandit = run(Bandit(ARMS), 60)
    explanation = bandit.explain({"country": "FR", "member": True, "spent": [1]})
    assert dict(zip(explanation.features, explanation.feature_values, strict=True))["age"] == "missing"
    assert dict(zip(explanation.features, explanation.feature_values, strict=True))["spent"] == "unsupported"
    assert_complete(explanation)


def test_features_of_lists_are_named_by_position() -> None:
    explanation = Bandit(2, **FAST).explain([0.5, "a"])
    assert explanation.features == ("0", "1")


def test_an_explanation_as_data() -> None:
    explanation = run(Bandit(ARMS), 100).explain(CONTEXT)
    data = json.loads(json.dumps(explanation.as_dict(), allow_nan=False))
    assert data["context"]["country"] == "FR"
    assert [arm["arm"] for arm in data["arms"]] == list(ARMS)
    for number, arm in enumerate(data["arms"]):
        sizes = [abs(amount) for amount in arm["contributions"].values()]
        assert sizes == sorted(sizes, reverse=True)
        assert arm["base"] + sum(arm["contributions"].values()) == pytest.approx(arm["value"], abs=1e-5)
        assert arm["pseudocount"] == explanation.pseudocounts[number]
        assert arm["sentence"] == explanation.sentence(ARMS[number])
    untried = Bandit(ARMS).explain(CONTEXT).as_dict()
    assert untried["arms"][0]["bonus"] is None
    assert untried["arms"][0]["pseudocount"] == 0


def test_an_explanation_as_text() -> None:
    explanation = run(Bandit(ARMS), 300).explain(CONTEXT)
    best = ARMS[int(explanation.scores.argmax())]
    text = str(explanation)
    assert text.startswith(f"{best} has the highest score (value + bonus).\n\n{best}: expected reward ")
    assert max(map(len, text.splitlines())) <= 100
    sentence = explanation.sentence(best)
    assert sentence in " ".join(text.split())
    assert re.search(r"mainly because \w+ = \w+ \([+−]0\.\d{3}\)", sentence)
    assert re.search(r"Estimated from about \d+ similar decisions; exploration bonus \+0\.\d{3}\.$", sentence)
    assert re.search(r"\n   0\.\d{3}  base\n", text)
    assert re.search(r"\n  [+−]0\.\d{3}  country = FR\n", text)
    assert "3 arms, 5 features" in repr(explanation) or "3 arms, 6 features" in repr(explanation)


def test_further_features_and_arms_are_summed_up() -> None:
    many = {f"f{i}": i for i in range(9)}
    bandit = Bandit(7, policy_settings=SMALL)
    for _ in range(10):
        bandit.reward(bandit.decide(many).id, 1)
    text = str(bandit.explain(many))
    assert text.count("3 more features") == 5
    assert text.endswith("… and 2 more arms with lower scores.")


def test_a_sampled_bonus_is_called_random() -> None:
    explanation = run(Bandit(ARMS, policy="lints"), 60).explain(CONTEXT)
    assert explanation.as_dict()["sampled"]
    assert "; random exploration bonus " in explanation.sentence("news")


def test_unprintable_names_are_replaced(tmp_path: Path) -> None:
    explanation = Bandit(["$a$ \\bad{", "b\n"], policy_settings=SMALL).explain(
        {"\ud800\n$x_{$": "$\\no$" * 20, "": None}
    )
    assert all(line.isprintable() for line in str(explanation).splitlines())
    explanation.draw(tmp_path / "odd.svg")


@pytest.mark.parametrize("name", ["why.png", "why.svg", "why.pdf"])
def test_an_explanation_as_a_figure(name: str, tmp_path: Path) -> None:
    explanation = run(Bandit(ARMS, policy_settings=SMALL), 50).explain(CONTEXT)
    explanation.draw(str(tmp_path / name))
    assert (tmp_path / name).stat().st_size > 1000


def test_an_empty_context_can_be_explained_and_drawn(tmp_path: Path) -> None:
    explanation = Bandit(2, policy_settings=SMALL).explain({})
    assert "regardless of the context" in str(explanation)
    explanation.draw(tmp_path / "nothing.png")


def test_a_figure_that_cannot_be_written_leaves_the_old_file(
    tmp_path: Path, fill_disk: Callable[[], None]
) -> None:
    explanation = Bandit(2, **FAST).explain(CONTEXT)
    (tmp_path / "why.png").write_text("old")

    fill_disk()
    with pytest.raises(InvalidSettings, match=r"cannot save the figure .*: No space left"):
        explanation.draw(tmp_path / "why.png")
    assert (tmp_path / "why.png").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_figure_needs_a_supported_suffix_and_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanation = Bandit(2, **FAST).explain(CONTEXT)
    with pytest.raises(InvalidSettings, match="must end in"):
        explanation.draw(tmp_path / "why.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="figures need matplotlib"):
        explanation.draw(tmp_path / "why.png")

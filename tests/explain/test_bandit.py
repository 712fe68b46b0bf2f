"""A bandit explains itself in terms of what it was given."""

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
from tests.bandit.anybody import ARMS, FAST, everything, played
from tests.bandit.test_properties import contexts

CONTEXT = {"country": "FR", "age": 31, "member": True}
SMALL = {"layers": [6, 2], "hyperplanes": 2}


def missing_nothing(told: Any, span: float = 1.0) -> None:
    """Assert that contributions lead from the base to the value."""
    reached = told.bases + told.contributions.sum(axis=1)
    np.testing.assert_allclose(reached, told.values, rtol=0, atol=1e-5 * span)


def test_it_explains_before_it_has_ever_decided() -> None:
    bandit = Bandit(ARMS)
    before = everything(bandit)
    told = bandit.explain(CONTEXT)
    assert everything(bandit) == before
    assert told.features == ("country", "age", "member")
    assert told.given == ("FR", "31", "true")
    assert told.sentence("news").endswith(
        "It was never tried on contexts like this one, so it is to be tried before the others."
    )
    missing_nothing(told)


@pytest.mark.parametrize("policy", ["glcb", "linucb", "lints"])
@pytest.mark.parametrize("rewards", ["binary", (0.0, 1.0)])
def test_explaining_changes_nothing(policy: str, rewards: Any) -> None:
    bandit = played(Bandit(ARMS, policy=policy, rewards=rewards), 80)
    before = everything(bandit)
    told = bandit.explain({**CONTEXT, "never seen": "x", "nor this": 3})
    assert everything(bandit) == before
    assert {"country", "age", "spent", "member", "campaign", "never seen", "nor this"} == set(told.features)
    missing_nothing(told)
    decision = bandit.decide({**CONTEXT, "never seen": "x", "nor this": 3})
    np.testing.assert_array_equal(told.values, decision.values)
    np.testing.assert_array_equal(told.bonuses, decision.bonuses)
    np.testing.assert_array_equal(told.pseudocounts, decision.pseudocounts)


def test_a_policy_that_cannot_explain_says_so() -> None:
    with pytest.raises(NotSupported, match="UCB1 cannot explain"):
        Bandit(ARMS, policy="ucb1").explain(CONTEXT)
    with pytest.raises(InvalidContext):
        Bandit(ARMS).explain(3)


@settings(max_examples=40)
@given(st.lists(contexts, min_size=2, max_size=8), st.integers(0, 5))
def test_whatever_shares_whatever_is_missing_nothing_is_lost(
    given_: list[dict[str, Any]], spare_slots: int
) -> None:
    bandit = Bandit(2, spare_slots=spare_slots, policy_settings=SMALL)
    for context in given_:
        try:
            told = bandit.explain(context)
            decision = bandit.decide(context)
        except GlcbError:
            continue
        missing_nothing(told)
        assert len(set(told.features)) == len(told.features) == len(told.given)
        json.dumps(told.as_dict(), allow_nan=False)
        str(told).encode()
        bandit.reward(decision.id, 1)


def test_a_shared_slot_is_told_of_the_feature_that_lit_it() -> None:
    bandit = Bandit(2, spare_slots=1, policy_settings=SMALL)
    bandit.reward(bandit.decide({"age": 30}).id, 1)
    bandit.reward(bandit.decide({"age": 40, "shop": "a"}).id, 0)  # takes the only slot of the reserve
    alone = bandit.explain({"age": 35, "page": "b"})  # shares it
    assert alone.features == ("age", "shop", "page")
    assert alone.given == ("35", "missing", "b")
    assert np.abs(alone.contributions[:, 2]).min() > 0
    assert np.abs(alone.contributions[:, 1]).max() == 0
    both = bandit.explain({"age": 35, "shop": "a", "page": "b"})
    assert both.features == ("age", "shop", "(other)")
    assert np.abs(both.contributions[:, 2]).min() > 0
    np.testing.assert_allclose(both.values, alone.values)


def test_free_slots_and_what_is_missing() -> None:
    bandit = played(Bandit(ARMS), 60)
    told = bandit.explain({"country": "FR", "member": True, "spent": [1]})
    assert dict(zip(told.features, told.given, strict=True))["age"] == "missing"
    assert dict(zip(told.features, told.given, strict=True))["spent"] == "unreadable"
    missing_nothing(told)


def test_lists_are_explained_by_position() -> None:
    told = Bandit(2, **FAST).explain([0.5, "a"])
    assert told.features == ("0", "1")


def test_as_data() -> None:
    told = played(Bandit(ARMS), 100).explain(CONTEXT)
    data = json.loads(json.dumps(told.as_dict(), allow_nan=False))
    assert data["context"]["country"] == "FR"
    assert [arm["arm"] for arm in data["arms"]] == list(ARMS)
    for number, arm in enumerate(data["arms"]):
        sizes = [abs(amount) for amount in arm["contributions"].values()]
        assert sizes == sorted(sizes, reverse=True)
        assert arm["base"] + sum(arm["contributions"].values()) == pytest.approx(arm["value"], abs=1e-5)
        assert arm["pseudocount"] == told.pseudocounts[number]
        assert arm["sentence"] == told.sentence(ARMS[number])
    untried = Bandit(ARMS).explain(CONTEXT).as_dict()
    assert untried["arms"][0]["bonus"] is None
    assert untried["arms"][0]["pseudocount"] == 0


def test_as_text() -> None:
    told = played(Bandit(ARMS), 300).explain(CONTEXT)
    best = ARMS[int(told.scores.argmax())]
    text = str(told)
    assert text.startswith(f"{best} has the best score, which is value plus bonus.\n\n{best} is expected to")
    assert max(map(len, text.splitlines())) <= 100
    said = told.sentence(best)
    assert said in " ".join(text.split())
    assert re.search(r"mostly because of \w+ = \w+ \([+−]0\.\d{3}\)", said)
    assert re.search(r"It was tried about \d+ times on contexts like this one, and gets \+0\.\d{3} for", said)
    assert re.search(r"\n  [+−]0\.\d{3}  country = FR\n", text)
    assert "3 arms by 5 features" in repr(told) or "3 arms by 6 features" in repr(told)


def test_the_rest_is_summed_up() -> None:
    many = {f"f{i}": i for i in range(9)}
    bandit = Bandit(7, policy_settings=SMALL)
    for _ in range(10):
        bandit.reward(bandit.decide(many).id, 1)
    text = str(bandit.explain(many))
    assert text.count("3 more features") == 5
    assert text.endswith("… and 2 more with lower scores.")


def test_a_random_draw_is_called_one() -> None:
    told = played(Bandit(ARMS, policy="lints"), 60).explain(CONTEXT)
    assert told.as_dict()["bonus_is_random"]
    assert "a random draw adds" in told.sentence("news")


def test_names_that_no_screen_can_show(tmp_path: Path) -> None:
    told = Bandit(["$a$ \\bad{", "b\n"], policy_settings=SMALL).explain(
        {"\ud800\n$x_{$": "$\\no$" * 20, "": None}
    )
    assert all(line.isprintable() for line in str(told).splitlines())
    told.draw(tmp_path / "odd.svg")


@pytest.mark.parametrize("name", ["why.png", "why.svg", "why.pdf"])
def test_as_a_picture(name: str, tmp_path: Path) -> None:
    told = played(Bandit(ARMS, policy_settings=SMALL), 50).explain(CONTEXT)
    told.draw(str(tmp_path / name))
    assert (tmp_path / name).stat().st_size > 1000


def test_even_nothing_can_be_drawn(tmp_path: Path) -> None:
    told = Bandit(2, policy_settings=SMALL).explain({})
    assert "whatever the context" in str(told)
    told.draw(tmp_path / "nothing.png")


def test_a_picture_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, fill_disk: Callable[[], None]
) -> None:
    told = Bandit(2, **FAST).explain(CONTEXT)
    (tmp_path / "why.png").write_text("old")

    fill_disk()
    with pytest.raises(InvalidSettings, match=r"cannot save the picture .*: No space left"):
        told.draw(tmp_path / "why.png")
    assert (tmp_path / "why.png").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_picture_needs_a_good_name_and_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Bandit(2, **FAST).explain(CONTEXT)
    with pytest.raises(InvalidSettings, match="must end in"):
        told.draw(tmp_path / "why.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="pictures need matplotlib"):
        told.draw(tmp_path / "why.png")

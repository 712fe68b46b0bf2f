"""A bandit whose memory fades."""

from pathlib import Path
from typing import Any

import pytest

from glcb import Bandit, InvalidSettings, NotSupported
from tests.bandit.anybody import ARMS, everything, played


def test_the_policy_gets_it_and_it_is_shown_and_saved(tmp_path: Path) -> None:
    original = played(Bandit(ARMS, half_life=20), 50)
    assert original._policy is not None
    assert original._policy.half_life == 20
    assert "half_life=20" in repr(original)
    assert original.get_params()["half_life"] == 20
    original.save(tmp_path / "bandit")
    loaded = Bandit.load(tmp_path / "bandit")
    assert everything(loaded) == everything(original)
    assert everything(played(loaded, 50, seed=1)) == everything(played(original, 50, seed=1))


def test_without_it_nothing_is_forgotten() -> None:
    bandit = played(Bandit(ARMS), 50)
    assert bandit._policy is not None
    assert bandit._policy.half_life is None
    assert "half_life" not in repr(bandit)
    alike = played(Bandit(ARMS, half_life=1000), 50)
    for name, array in bandit.__getstate__().arrays.items():
        assert array.tobytes() == alike.__getstate__().arrays[name].tobytes(), name


def test_a_policy_that_cannot_forget_says_so_at_once() -> None:
    with pytest.raises(
        NotSupported, match=r"'ucb1' cannot forget: leave half_life out, or .* glcb or linucb"
    ):
        Bandit(ARMS, policy="ucb1", half_life=100)


@pytest.mark.parametrize(
    "arguments", [{"half_life": 1}, {"half_life": 3.5}, {"policy_settings": {"half_life": "long"}}], ids=str
)
def test_nonsense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match="half_life must be a whole number from 2"):
        Bandit(ARMS, **arguments)


def test_it_is_given_once() -> None:
    with pytest.raises(InvalidSettings, match="half_life is given twice"):
        Bandit(ARMS, half_life=100, policy_settings={"half_life": 200})
    assert played(Bandit(ARMS, policy_settings={"half_life": 30}), 5)._policy.half_life == 30  # type: ignore[union-attr]


def test_it_cannot_change_while_running() -> None:
    bandit = Bandit(ARMS).set_params(half_life=50)
    played(bandit, 5)
    with pytest.raises(InvalidSettings, match="half_life cannot change after the first decision"):
        bandit.set_params(half_life=100)

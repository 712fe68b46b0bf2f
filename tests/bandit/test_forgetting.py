"""Bandits with a half-life."""

from pathlib import Path
from typing import Any

import pytest

from glcb import Bandit, InvalidSettings, NotSupported
from tests.support.bandits import ARMS, full_state, run


def test_the_half_life_is_passed_to_the_policy_shown_and_saved(tmp_path: Path) -> None:
    original = run(Bandit(ARMS, half_life=20), 50)
    assert original._core.policy is not None
    assert original._core.policy.half_life == 20
    assert "half_life=20" in repr(original)
    assert original.get_params()["half_life"] == 20
    original.save(tmp_path / "bandit")
    loaded = Bandit.load(tmp_path / "bandit")
    assert full_state(loaded) == full_state(original)
    assert full_state(run(loaded, 50, seed=1)) == full_state(run(original, 50, seed=1))


def test_without_a_half_life_nothing_is_forgotten() -> None:
    bandit = run(Bandit(ARMS), 50)
    assert bandit._core.policy is not None
    assert bandit._core.policy.half_life is None
    assert "half_life" not in repr(bandit)
    alike = run(Bandit(ARMS, half_life=1000), 50)
    for name, array in bandit._snapshot().arrays.items():
        assert array.tobytes() == alike._snapshot().arrays[name].tobytes(), name


def test_a_policy_that_cannot_forget_is_refused_at_construction() -> None:
    with pytest.raises(NotSupported, match=r"'ucb1' cannot forget: omit half_life, or .* glcb or linucb"):
        Bandit(ARMS, policy="ucb1", half_life=100)


@pytest.mark.parametrize(
    "arguments", [{"half_life": 1}, {"half_life": 3.5}, {"policy_settings": {"half_life": "long"}}], ids=str
)
def test_an_invalid_half_life_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match="half_life must be an integer from 2"):
        Bandit(ARMS, **arguments)


def test_the_half_life_is_passed_once() -> None:
    with pytest.raises(InvalidSettings, match="half_life is also in policy_settings"):
        Bandit(ARMS, half_life=100, policy_settings={"half_life": 200})
    assert run(Bandit(ARMS, policy_settings={"half_life": 30}), 5)._core.policy.half_life == 30  # type: ignore[union-attr]


def test_the_half_life_can_change_at_any_time(tmp_path: Path) -> None:
    bandit = run(Bandit(ARMS).set_params(half_life=50), 5)
    bandit.set_params(half_life=2)
    assert bandit._core.policy is not None
    assert bandit._core.policy.half_life == 2
    bandit.save(tmp_path / "bandit")
    assert full_state(run(Bandit.load(tmp_path / "bandit"), 20)) == full_state(run(bandit, 20))
    bandit.set_params(half_life=None)
    assert bandit._core.policy.half_life is None

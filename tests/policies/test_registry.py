"""The registry: every policy is found, and none is needed to know of the others."""

import inspect
import subprocess
import sys

import pytest

from glcb import InvalidSettings, MissingExtra, Policy
from glcb.policies import registry
from glcb.policies.glcb.settings import PAPER_BINARY, PAPER_BOUNDED
from glcb.policies.neural import training

NAMES = {
    "bbalphadiv",
    "bbb",
    "bootrms",
    "constsgd",
    "dropout",
    "epsilon-greedy",
    "glcb",
    "glcb-paper",
    "linfullpost",
    "lints",
    "linucb",
    "neurallinear",
    "paramnoise",
    "rms",
    "ucb1",
    "uniform",
}


def test_all_names_are_known() -> None:
    assert set(registry.names()) >= NAMES
    assert registry.names() == sorted(registry.names())


def test_every_policy_of_the_room_is_registered() -> None:
    def heirs(policy: type[Policy]) -> set[type[Policy]]:
        return {policy}.union(*(heirs(heir) for heir in policy.__subclasses__()))

    registered = {registry.get(name).make for name in registry.names()}
    concrete = {
        heir
        for heir in heirs(Policy)  # type: ignore[type-abstract]
        if heir.__module__.startswith("glcb.policies.") and not inspect.isabstract(heir)
    }
    assert registered == concrete


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_entry_makes_a_policy_and_tells_what_it_is(name: str) -> None:
    entry = registry.get(name)
    policy = entry.make(["a", "b"], 3, rewards=(0.0, 2.0), seed=4)
    assert policy.decide([0.1, 0.2, 0.3]).arm in ("a", "b")
    assert entry.name == name
    assert entry.version >= 1
    assert entry.source
    assert entry.line.endswith(".")
    assert "\n" not in entry.line


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSettings, match=r"no policy 'ucb2'.*linucb"):
        registry.get("ucb2")


def test_the_paper_s_settings_stay_the_paper_s() -> None:
    make = registry.get("glcb-paper").make
    assert make(2, 2).settings == PAPER_BINARY  # type: ignore[attr-defined]
    assert make(2, 2, rewards=(0.0, 1.0)).settings == PAPER_BOUNDED  # type: ignore[attr-defined]


def test_knowing_all_policies_needs_no_extra() -> None:
    code = (
        "import sys; sys.modules['jax'] = sys.modules['optax'] = None\n"
        "from glcb.policies import registry\n"
        "print(len(registry.names()))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(told.stdout) >= len(NAMES)


@pytest.mark.parametrize("absent", ["jax", "optax"])
def test_a_missing_extra_says_in_one_line_what_to_install(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    training.training.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install 'glcb\[baselines\]'") as caught:
        registry.get("rms").make(2, 2)
    assert "\n" not in str(caught.value)

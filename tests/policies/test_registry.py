"""The registry lists every policy, and make_policy creates them by name."""

import inspect
import subprocess
import sys

import pytest

from glcb import InvalidSettings, LinTS, MissingExtra, Policy, make_policy
from glcb.policies import registry

NAMES = registry.names()


def test_all_policies_are_listed_in_order() -> None:
    assert registry.names() == sorted(registry.names())


def test_every_concrete_policy_of_the_package_is_registered() -> None:
    def subclasses(policy: type[Policy]) -> set[type[Policy]]:
        return {policy}.union(*(subclasses(subclass) for subclass in policy.__subclasses__()))

    registered = {registry.get(name).policy_class for name in registry.names()}
    concrete = {
        subclass
        for subclass in subclasses(Policy)  # type: ignore[type-abstract]
        if subclass.__module__.startswith("glcb.policies.") and not inspect.isabstract(subclass)
    }
    assert registered == concrete


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_creates_and_describes_its_policy(name: str) -> None:
    entry = registry.get(name)
    policy = make_policy(name, ["a", "b"], 3, rewards=(0.0, 2.0), seed=4)
    assert policy.decide([0.1, 0.2, 0.3]).arm in ("a", "b")
    assert type(policy) is entry.policy_class
    assert entry.name == name
    assert entry.version >= 1
    assert entry.source
    assert entry.summary.endswith(".")
    assert "\n" not in entry.summary


def test_an_unknown_name_is_refused_and_the_names_are_listed() -> None:
    with pytest.raises(InvalidSettings, match=r"no policy 'ucb2'.*linucb"):
        registry.get("ucb2")


def test_an_unknown_setting_is_refused_and_the_settings_are_listed() -> None:
    with pytest.raises(InvalidSettings, match=r"'linucb' has no setting 'beta'; .* alpha, ridge, half_life"):
        make_policy("linucb", 2, 2, beta=1)
    with pytest.raises(InvalidSettings, match="'ucb1' has no setting 'alpha'; its settings are: none"):
        make_policy("ucb1", 2, 2, alpha=1)


def test_settings_reach_the_policy() -> None:
    policy = make_policy("lints", ["a", "b"], 3, rewards=(0.0, 2.0), seed=4, posterior_scale=0.5)
    assert isinstance(policy, LinTS)
    assert (policy.arms, policy.features, policy.rewards, policy.seed) == (("a", "b"), 3, (0.0, 2.0), 4)
    assert policy.posterior_scale == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_of_a_policy_is_an_explicit_keyword(name: str) -> None:
    parameters = inspect.signature(registry.get(name).policy_class).parameters.values()
    assert [parameter.name for parameter in parameters][:4] == ["arms", "features", "rewards", "seed"]
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def test_listing_the_policies_needs_no_extra() -> None:
    packages = {package for name in NAMES for package in registry.get(name).policy_class.requires}
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({packages}))\n"
        "from glcb.policies import registry\n"
        "print(len(registry.names()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) >= len(NAMES)


@pytest.mark.parametrize(
    ("name", "absent", "extra"),
    [
        ("rms", "jax", "baselines"),
        ("rms", "optax", "baselines"),
        ("tree-ts", "xgboost", "trees"),
        ("vw-squarecb", "vowpalwabbit", "rivals"),
        ("river-linucb", "river", "rivals"),
        ("mabwiser-linucb", "mabwiser", "rivals"),
    ],
)
def test_a_missing_extra_raises_an_error_with_the_install_command(
    name: str, absent: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingExtra, match=rf"needs {absent}: .*pip install '\.\[{extra}\]'") as caught:
        make_policy(name, 2, 2)
    assert "\n" not in str(caught.value)

"""Policies by name.

Every module of this package can be imported without the optional extras. They are needed only to create a
policy, not to list it.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from glcb._errors import InvalidSettings, MissingExtra, install_command
from glcb._registry import Registry
from glcb._types import Arm, Rewards
from glcb.policies.base import Policy

PolicyClass = TypeVar("PolicyClass", bound=type[Policy])

_COMMON = ("arms", "features", "rewards", "seed")
"""The arguments of every policy; all other arguments are settings of the policy."""


@dataclass(frozen=True)
class Entry:
    """A registered policy."""

    name: str
    """The name on the command line, in results and in ``Bandit(policy=...)``."""
    policy_class: type[Policy]
    """The class of the policy."""
    source: str
    """The publication that introduced the policy."""
    version: int
    """Incremented when the policy decides differently, so that results of different versions are kept
    apart."""

    @property
    def summary(self) -> str:
        """The first paragraph of the class docstring, in one line."""
        first = (inspect.getdoc(self.policy_class) or "").split("\n\n")[0]
        return " ".join(first.replace("``", "").split())

    @property
    def setting_names(self) -> tuple[str, ...]:
        """The names of the policy's own settings."""
        parameters = inspect.signature(self.policy_class).parameters.values()
        return tuple(
            parameter.name
            for parameter in parameters
            if parameter.name not in _COMMON and parameter.kind is not parameter.VAR_KEYWORD
        )

    def create(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        **settings: Any,
    ) -> Policy:
        """Return an untrained policy.

        Parameters
        ----------
        arms, features, rewards, seed, **settings
            See :func:`make_policy`.

        Returns
        -------
        Policy
            The new policy.

        Raises
        ------
        InvalidSettings
            If a setting does not exist, or a value is out of bounds.
        MissingExtra
            If the policy needs a package that is not installed.
        """
        names = self.setting_names
        unknown = [name for name in settings if name not in names]
        if unknown:
            raise InvalidSettings(
                f"the policy {self.name!r} has no setting {', '.join(map(repr, unknown))}; "
                f"its settings are: {', '.join(names) or 'none'}"
            )
        return self.policy_class(arms, features, rewards=rewards, seed=seed, **settings)


_entries: Registry[Entry] = Registry("policy", "policies", "glcb.policies")


def register(name: str, *, source: str, version: int = 1) -> Callable[[PolicyClass], PolicyClass]:
    """Return a class decorator that makes a policy available under a name.

    Parameters
    ----------
    name
        The name of the policy on the command line, in results and in ``Bandit(policy=...)``.
    source
        The publication that introduced the policy.
    version
        Increment it when the policy decides differently, to keep results of different versions apart.

    Returns
    -------
    callable
        The decorator; it returns the class unchanged.
    """

    def add(policy_class: PolicyClass) -> PolicyClass:
        _entries.add(name, Entry(name, policy_class, source, version))
        return policy_class

    return add


def names() -> list[str]:
    """Return the names of all registered policies.

    Returns
    -------
    list of str
        The names, sorted.
    """
    return _entries.names()


def get(name: str) -> Entry:
    """Return the entry of the policy called ``name``.

    Parameters
    ----------
    name
        One of :func:`names`.

    Returns
    -------
    Entry
        The class, source and version of the policy.

    Raises
    ------
    InvalidSettings
        If there is no such policy; the message lists the names.

    Examples
    --------
    >>> get("ucb1").source
    'Auer, Cesa-Bianchi, Fischer 2002'
    """
    return _entries.get(name)


def require_packages(name: str) -> None:
    """Raise MissingExtra if a policy needs a package that is not installed. Call this before long work."""
    policy_class = get(name).policy_class
    if missing := " and ".join(policy_class.missing_packages()):
        raise MissingExtra(f"the policy {name!r} needs {missing}: {install_command(str(policy_class.extra))}")


def make_policy(
    name: str,
    arms: int | Sequence[Arm],
    features: int,
    *,
    rewards: Rewards = "binary",
    seed: int = 0,
    **settings: Any,
) -> Policy:
    """Return an untrained policy by name.

    Parameters
    ----------
    name
        The name of a registered policy, such as ``"glcb"`` or ``"linucb"``; ``glcb policies`` lists them.
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of all random numbers.
    **settings
        The policy's own settings.

    Returns
    -------
    Policy
        The new policy.

    Raises
    ------
    InvalidSettings
        If the policy or a setting does not exist, or a value is out of bounds.
    MissingExtra
        If the policy needs a package that is not installed.

    Examples
    --------
    >>> policy = make_policy("linucb", ["red", "blue"], 3, alpha=0.5)
    >>> policy.decide([0.1, 0.9, 0.5]).arms
    ('red', 'blue')
    """
    return get(name).create(arms, features, rewards=rewards, seed=seed, **settings)

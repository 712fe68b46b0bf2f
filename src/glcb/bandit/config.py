"""The arguments of ``Bandit``, each declared once.

Every field of :class:`BanditConfig` carries its default, its bounds and its documentation. ``Bandit``, the
service, the client, the dashboard form and the reference page derive from these fields. Importing this module
imports neither Numba nor msgspec.
"""

import json as json_module
import math
import reprlib
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from glcb._errors import InvalidInput, InvalidReward, InvalidSettings, NotSupported
from glcb._types import MAX_EXPLORATION, MAX_FEATURES, Arm, ExplorationMode, Rewards

if TYPE_CHECKING:
    from glcb.bandit.encoding.encoder import Encoder
    from glcb.policies.base import Policy

RewardAggregation = Literal["first", "last", "max", "sum"]
"""How several rewards of one decision are combined."""

Clock = Callable[[], float]
"""A function that returns the time in seconds."""

DECISION_ID = "[A-Za-z0-9_-]{1,100}"
"""The pattern of the id of a decision."""
MAX_SLOTS = 100
"""Maximum number of slots in a ranking."""
_ROUNDING = 1e-9
"""Sums of shares may exceed their bounds by this much."""
SHARED: Arm = 0
"""The only arm of a policy that all arms of a bandit share."""


def _metadata(
    doc: str,
    *,
    when: str,
    choices: tuple[str, ...] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    mutable: bool = False,
    json: bool = True,
) -> dict[str, Any]:
    """Return the metadata of a field. Integer bounds mean that the value is an integer."""
    return {
        "doc": doc,
        "when": when,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "mutable": mutable,
        "json": json,
    }


@dataclass(frozen=True, kw_only=True)
class BanditConfig:
    """The validated arguments of a bandit.

    Values are normalized: arms are a tuple of names, the schema is in its JSON form. The metadata of a field
    has the keys ``doc``, ``when`` (when to change it), ``choices``, ``minimum``, ``maximum``, ``mutable``
    (whether it can change after the first decision) and ``json`` (whether it can be stored as JSON).

    Raises
    ------
    InvalidSettings
        If a value is invalid or conflicts with another.
    NotSupported
        If the policy cannot forget and `half_life` is set.

    Examples
    --------
    >>> BanditConfig(arms=2, exploration=0).as_json()["arms"]
    [0, 1]
    >>> BanditConfig.exploration
    0.05
    """

    arms: int | Sequence[Arm] | Mapping[Any, Mapping[str, Any]] = field(
        metadata=_metadata(
            "The arms to choose from: a list of names, or a number of arms named 0, 1, 2, …, or the features "
            "of each arm by name.",
            when="Always required. With features, arms share what is learned.",
        )
    )
    policy: str = field(
        default="glcb",
        metadata=_metadata(
            "Name of the policy that estimates the value of each arm. `glcb policies` lists all names.",
            when="To compare with a baseline, or to use a cheaper policy such as `linucb`.",
        ),
    )
    policy_settings: Mapping[str, Any] | None = field(
        default=None,
        metadata=_metadata(
            "Settings of the policy, by name.",
            when="To tune the policy. The defaults suit most tasks.",
        ),
    )
    rewards: Rewards = field(
        default="binary",
        metadata=_metadata(
            'The range of rewards: "binary" for 0 or 1, or (low, high).',
            when="Rewards are amounts, ratings or durations.",
        ),
    )
    exploration: float = field(
        default=0.05,
        metadata=_metadata(
            "Probability of choosing an arm other than the one with the best score.",
            when="Raise it for more data for off-policy evaluation. With 0 the policy alone decides.",
            minimum=0.0,
            maximum=MAX_EXPLORATION,
            mutable=True,
        ),
    )
    exploration_mode: ExplorationMode = field(
        default="gap",
        metadata=_metadata(
            'How exploration is divided: "gap" prefers arms with scores close to the best, '
            '"uniform" has no preference.',
            when="Use uniform if all arms have to be explored equally.",
            choices=get_args(ExplorationMode),
            mutable=True,
        ),
    )
    schema: Mapping[str, Any] | None = field(
        default=None,
        metadata=_metadata(
            "Declared features, by name: a kind, a range, a list of categories, or the JSON form of one of "
            "these. Others are inferred.",
            when="Ranges or categories are known in advance, or the first context is incomplete.",
            mutable=True,
        ),
    )
    spare_slots: int | None = field(
        default=None,
        metadata=_metadata(
            "Number of slots for values and features that appear later. By default it depends on the first "
            "context.",
            when="Many new values are expected, or the schema reports many hashed or unmapped values.",
            minimum=0,
            maximum=MAX_FEATURES,
        ),
    )
    arm_schema: Mapping[str, Any] | None = field(
        default=None,
        metadata=_metadata(
            "Declared features of arms, like `schema`. Only for arms with features.",
            when="Ranges or categories of arm features are known in advance.",
        ),
    )
    slots: int = field(
        default=1,
        metadata=_metadata(
            "Number of positions of a ranking. If it is more than 1, the position is a feature.",
            when="Rewards depend on the position, such as clicks in a list.",
            minimum=1,
            maximum=MAX_SLOTS,
        ),
    )
    max_pending: int = field(
        default=10_000,
        metadata=_metadata(
            "Number of decisions that can be pending. When there are more, the oldest is evicted.",
            when="More decisions than this are made before their rewards arrive.",
            minimum=1,
            maximum=10_000_000,
        ),
    )
    reward_timeout: float | None = field(
        default=None,
        metadata=_metadata(
            "Seconds a decision stays pending. None means no limit.",
            when="Some decisions never receive a reward, or receive several.",
            minimum=0.0,
            maximum=1e12,
            mutable=True,
        ),
    )
    default_reward: float | None = field(
        default=None,
        metadata=_metadata(
            "Reward assumed when none arrives. If None, nothing is learned then. Requires `reward_timeout`. "
            "Real and assumed rewards are learned at the same age, at the latest at the timeout.",
            when="The absence of a reward is itself an outcome, such as no click.",
            mutable=True,
        ),
    )
    reward_aggregation: RewardAggregation = field(
        default="first",
        metadata=_metadata(
            'How several rewards of one decision are combined. All but "first" require `reward_timeout` and '
            'are learned when it has passed; "sum" is clipped to the range of rewards.',
            when="A decision receives several rewards, such as a click and then a purchase.",
            choices=get_args(RewardAggregation),
            mutable=True,
        ),
    )
    clock: Clock = field(
        default=time.time,
        metadata=_metadata(
            "Function that returns the time in seconds.",
            when="In tests and simulations.",
            mutable=True,
            json=False,
        ),
    )
    half_life: int | None = field(
        default=None,
        metadata=_metadata(
            "Number of decisions after which evidence counts half as much. None disables forgetting.",
            when="The best arm changes over time.",
            minimum=2,
            maximum=2**53,
            mutable=True,
        ),
    )
    seed: int = field(
        default=0,
        metadata=_metadata(
            "Seed of all random numbers.",
            when="To vary a run. The same seed gives the same decisions.",
            minimum=0,
            maximum=2**63 - 1,
        ),
    )
    shares: Mapping[Any, tuple[float, float]] | None = field(
        default=None,
        metadata=_metadata(
            "Lowest and highest probability of arms in every decision, by name; in a ranking, of the first "
            "slot.",
            when="An arm must keep a part of the traffic, or must not get more than a part.",
            mutable=True,
        ),
    )

    # ---- validation -----------------------------------------------------------------------------

    def __post_init__(self) -> None:
        from glcb import _validation
        from glcb.bandit.encoding.schema import parse_schema
        from glcb.policies import registry

        about = _validation.about
        for declared in fields(self):
            with about(declared.name):
                self._set(declared.name, _check_bounds(declared, getattr(self, declared.name)))
        with about("arms"):
            self._set_arms()
        with about("arm_schema"):
            self._set_arm_schema()
        with about("policy"):
            self._set("policy", registry.get(self.policy).name)
        with about("rewards"):
            self._set("rewards", _validation.rewards(self.rewards))
        with about("schema"):
            check_integers("the schema", self.schema)
            schema = {name: feature.as_json() for name, feature in parse_schema(self.schema).items()}
            self._set("schema", schema or None)
        with about("policy_settings"):
            check_integers("policy_settings", self.policy_settings)
            self._set("policy_settings", _plain_settings(self.policy_settings) or None)
        if not callable(self.clock):
            raise InvalidSettings(
                f"clock must be a function that returns seconds, got {self.clock!r}", "clock"
            )
        self._check_rewards()
        self._check_forgetting()
        with about("shares"):
            self._set("shares", _checked_shares(self.shares))
        try:  # raise here, not at the first decision
            self.make_policy(self.arm_names, 1)
        except TypeError as error:
            raise InvalidSettings(
                f"policy_settings do not match the policy {self.policy!r}: {error}", "policy_settings"
            ) from None

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _set_arms(self) -> None:
        """Normalize the arms: a tuple of names, or a dict of features as JSON can represent them."""
        from glcb import _validation
        from glcb.bandit.candidates import has_features

        if has_features(self.arms):
            from glcb.bandit.catalog import plain_arms

            try:
                self._set("arms", plain_arms(self.arms))
            except InvalidInput as error:
                raise InvalidSettings(f"arms are invalid: {error}") from None
        else:
            self._set("arms", _validation.arms(self.arms))

    def _set_arm_schema(self) -> None:
        from glcb.bandit.encoding.schema import parse_schema

        declared = {name: feature.as_json() for name, feature in parse_schema(self.arm_schema).items()}
        if declared and not self.has_arm_features:
            raise InvalidSettings("arm_schema requires arms with features: pass arms={name: {…}}")
        self._set("arm_schema", declared or None)

    def _check_rewards(self) -> None:
        from glcb import _validation

        if self.reward_timeout is None and self.default_reward is not None:
            raise InvalidSettings(
                "default_reward requires reward_timeout: pass the number of seconds", "reward_timeout"
            )
        if self.reward_timeout is None and self.reward_aggregation != "first":
            raise InvalidSettings(
                f"reward_aggregation={self.reward_aggregation!r} requires reward_timeout: pass the number of "
                "seconds after which the aggregated reward is learned",
                "reward_timeout",
            )
        if self.default_reward is not None:
            try:
                self._set("default_reward", _validation.reward(self.default_reward, self.rewards))
            except InvalidReward as error:
                raise InvalidSettings(f"default_reward is invalid: {error}", "default_reward") from None

    def _check_forgetting(self) -> None:
        from glcb.policies import registry

        if self.half_life is None:
            return
        if not registry.get(self.policy).policy_class.can_forget:
            raise NotSupported(
                f"the policy {self.policy!r} cannot forget: omit half_life, or use a policy that "
                "can, such as glcb or linucb"
            )
        if "half_life" in (self.policy_settings or {}):
            raise InvalidSettings("half_life is also in policy_settings: pass it only once", "half_life")

    # ---- use ------------------------------------------------------------------------------------

    @property
    def arm_names(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return tuple(cast("Iterable[Arm]", self.arms))

    @property
    def has_arm_features(self) -> bool:
        """Whether arms have features and share a policy."""
        return isinstance(self.arms, Mapping)

    @property
    def arm_features(self) -> Mapping[Arm, dict[str, Any]]:
        """The features of each arm; empty if arms have none."""
        return cast("Mapping[Arm, dict[str, Any]]", self.arms) if self.has_arm_features else {}

    def make_policy(self, arms: tuple[Arm, ...], features: int) -> "Policy":
        """Return an untrained policy.

        Parameters
        ----------
        arms : tuple of str or int
            The names of the arms.
        features : int
            Number of features of an encoded context; with arm features, of a context and an arm.

        Returns
        -------
        Policy
            The policy of this configuration. If arms have features, it has a single arm for all of them.
        """
        from glcb.policies import registry

        settings = dict(self.policy_settings or {})
        if self.has_arm_features:
            arms = (SHARED,)
        if self.half_life is not None:
            settings["half_life"] = self.half_life
        make = registry.get(self.policy).policy_class
        return make(arms, features, rewards=self.rewards, seed=self.seed, **settings)

    def make_encoder(self, first: Any) -> "Encoder":
        """Return an encoder of contexts.

        Parameters
        ----------
        first : dict, list, array or data frame row
            The first context.

        Returns
        -------
        Encoder
            The encoder of this configuration.
        """
        from glcb.bandit.encoding.encoder import Encoder
        from glcb.bandit.encoding.schema import parse_schema

        return Encoder(parse_schema(self.schema), first, self.spare_slots)

    def without_share(self, arm: Arm) -> "BanditConfig":
        """Return the configuration without probability bounds for an arm."""
        if arm not in (self.shares or {}):
            return self
        return replace(self, shares={one: share for one, share in (self.shares or {}).items() if one != arm})

    def as_json(self) -> dict[str, Any]:
        """Return the arguments that can be stored as JSON.

        Returns
        -------
        dict
            All arguments except the clock, by name.
        """
        from glcb.bandit.candidates import catalog_as_json

        values = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        values["arms"] = catalog_as_json(self.arm_features) if self.has_arm_features else list(self.arm_names)
        if self.shares is None:
            del values["shares"]
        return {name: value for name, value in values.items() if name not in _NOT_JSON}


_NOT_JSON = tuple(declared.name for declared in fields(BanditConfig) if not declared.metadata["json"])

MUTABLE = tuple(declared.name for declared in fields(BanditConfig) if declared.metadata["mutable"])
"""The arguments that can change after the first decision."""


def _check_bounds(declared: Any, value: Any) -> Any:
    """Return ``value`` if it is one of the choices, or within the bounds, of its field."""
    from glcb import _validation

    choices, minimum, maximum = (declared.metadata[key] for key in ("choices", "minimum", "maximum"))
    if choices is not None and value not in choices:
        options = ", ".join(f'"{choice}"' for choice in choices)
        raise InvalidSettings(f"{declared.name} must be one of {options}, got {value!r}")
    if minimum is None or (value is None and declared.default is None):
        return value
    check = _validation.integer if isinstance(minimum, int) else _validation.number
    return check(declared.name, value, minimum, maximum)


def _checked_shares(shares: object) -> dict[Arm, tuple[float, float]] | None:
    """Return the bounds of each arm; raise InvalidSettings unless some distribution can be within them."""
    from glcb import _validation

    if not shares and (shares is None or isinstance(shares, Mapping)):
        return None
    if not isinstance(shares, Mapping):
        raise InvalidSettings(f"shares must be a dict such as {{'a': (0.1, 0.5)}}, got {shares!r}")
    checked = {}
    for arm, bounds in shares.items():
        if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise InvalidSettings(
                f"the share of {arm!r} must be a minimum and a maximum, such as (0.1, 0.5), got {bounds!r}"
            )
        low = _validation.number(f"the minimum share of {arm!r}", bounds[0], 0.0, 1.0)
        checked[arm] = low, _validation.number(f"the maximum share of {arm!r}", bounds[1], low, 1.0)
    least = math.fsum(low for low, _ in checked.values())
    if least > 1 + _ROUNDING:
        raise InvalidSettings(f"the minimum shares must add up to at most 1, got {least:g}: lower some")
    return checked


def check_shares_of(shares: Mapping[Any, tuple[float, float]] | None, arms: Sequence[Arm]) -> None:
    """Raise InvalidSettings if a share is not for one of the arms, or all maxima add up to less than 1."""
    for arm in shares or {}:
        if arm not in arms:
            known = ", ".join(map(repr, arms[:8]))
            raise InvalidSettings(f"shares has {arm!r}, which is not an arm; the arms are {known}", "shares")
    most = math.fsum((shares or {}).get(arm, (0.0, 1.0))[1] for arm in arms)
    if most < 1 - _ROUNDING:
        raise InvalidSettings(
            f"the maximum shares of all arms must add up to at least 1, got {most:g}: raise some", "shares"
        )


def check_integers(where: str, value: object) -> None:
    """Raise InvalidSettings if there is an integer of more than 64 bits, which not every format can store.

    Examples
    --------
    >>> check_integers("the schema", {"age": (0, 2**63)})
    >>> check_integers("the schema", {"age": (0, 2**64)})
    Traceback (most recent call last):
    glcb._errors.InvalidSettings: integers must have at most 64 bits, got 18446744073709551616 in the schema
    """
    for integer in _integers(value):
        if not -(2**63) <= integer < 2**64:
            shown = reprlib.repr(integer)
            raise InvalidSettings(f"integers must have at most 64 bits, got {shown} in {where}")


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _integers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _integers(item)


def _plain_settings(settings: object) -> dict[str, Any]:
    """Return the settings of a policy with NumPy scalars converted; they must be valid JSON."""
    import numpy as np

    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise InvalidSettings(f"policy_settings must be a dict of settings by name, got {settings!r}")
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in settings.items()}
    try:
        json_module.dumps(plain)
    except (TypeError, ValueError):
        raise InvalidSettings(
            f"policy_settings must be numbers, strings or lists of them, got {settings!r}"
        ) from None
    return plain


# ---- documentation ----------------------------------------------------------------------------------


def parameters_table() -> str:
    """Return the arguments of ``Bandit`` as a Markdown table for the reference page.

    Examples
    --------
    >>> print(parameters_table().splitlines()[0])
    | name | type | default | meaning | when to change it |
    """
    hints = get_type_hints(BanditConfig)
    rows = ["| name | type | default | meaning | when to change it |", "|---|---|---|---|---|"]
    for declared in fields(BanditConfig):
        rows.append(
            f"| `{declared.name}` | {type_name(hints[declared.name])} | {default_text(declared)} "
            f"| {declared.metadata['doc']} | {declared.metadata['when']} |"
        )
    return "\n".join(rows)


def default_text(declared: Any) -> str:
    """Return the default of a field as shown in the documentation."""
    if declared.default is MISSING:
        return "required"
    if callable(declared.default):
        return f"`{declared.default.__module__}.{declared.default.__name__}`"
    return f"`{declared.default!r}`".replace("'", '"')


def type_name(hint: Any) -> str:
    """Return a readable form of a type.

    Examples
    --------
    >>> type_name(int | None), type_name(Literal["gap", "uniform"]), type_name(tuple[float, float])
    ('int or None', '"gap" or "uniform"', '(float, float)')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(type_name, arguments))
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in arguments)
    if origin is tuple:
        return f"({', '.join(map(type_name, arguments))})"
    if origin is Callable:
        return "function"
    if origin is not None and issubclass(origin, Mapping):
        return "dict"
    if origin is not None and issubclass(origin, Sequence):
        return f"list of {type_name(arguments[0])}"
    return "None" if hint is types.NoneType else str(hint.__name__)

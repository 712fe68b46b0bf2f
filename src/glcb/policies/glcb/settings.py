"""The settings of GLCB: documentation, defaults and bounds, and the values used in the paper.

Everything about a setting is declared in its field of :class:`Settings`. The constructor of GLCB and the
parameter table of the documentation derive from it.
"""

# ruff: noqa: RUF009 (the function that is called in the class returns a field)

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from glcb import _validation
from glcb._errors import InvalidSettings
from glcb._forgetting import check_half_life
from glcb.experts import Expert
from glcb.gln import Initialization, Output
from glcb.values import LeafValues

Optimizer = Literal["gradient", "newton"]
BonusUnit = Literal["reward", "deviation"]


class Bounds(NamedTuple):
    """The values that a setting accepts."""

    description: str
    check: Callable[[str, object], Any]
    """Takes the name and the value of a setting. Returns the value to store, or raises InvalidSettings."""


def _integer(low: int, high: int) -> Bounds:
    return Bounds(
        f"int from {low} to {high:,}", lambda name, value: _validation.integer(name, value, low, high)
    )


def _number(low: float, high: float) -> Bounds:
    return Bounds(
        f"float from {low:g} to {high:,g}", lambda name, value: _validation.number(name, value, low, high)
    )


def _several(each: Bounds) -> Bounds:
    return Bounds(
        f"tuple, each {each.description}", lambda name, value: _validation.tuple_of(name, value, each.check)
    )


def _one_or_more(each: Bounds) -> Bounds:
    return Bounds(
        f"{each.description}, or a tuple",
        lambda name, value: _validation.one_or_more(name, value, each.check),
    )


def _one_of(*choices: str) -> Bounds:
    description = " or ".join(f'"{choice}"' for choice in choices)

    def check(name: str, value: object) -> object:
        if value not in choices:
            raise InvalidSettings(f"{name} must be {description}, got {value!r}")
        return value

    return Bounds(description, check)


def _any_of(*choices: str) -> Bounds:
    description = " and ".join(f'"{choice}"' for choice in choices)

    def check(name: str, value: object) -> object:
        if isinstance(value, str) or not isinstance(value, Sequence) or not set(value) <= set(choices):
            raise InvalidSettings(f"{name} must be a tuple of any of {description}, got {value!r}")
        return tuple(choice for choice in choices if choice in value)

    return Bounds(f"tuple, any of {description}", check)


def _setting(default: object, bounds: Bounds, meaning: str, *, when: str) -> Any:
    """Return the field of a setting: its default, its bounds, its meaning, and when to change it."""
    return field(default=default, metadata={"bounds": bounds, "meaning": meaning, "when": when})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of GLCB. The defaults are for binary rewards.

    :func:`settings_table` returns the type, default and meaning of each setting.

    Raises
    ------
    InvalidSettings
        If a value is out of bounds.

    Examples
    --------
    >>> print(PAPER_BINARY)
    layers                100, 10, 1
    hyperplanes           8
    bias_scale            0.05
    optimizer             gradient
    learning_rate         0.1
    rate_factors          1
    learning_rate_decay   0.1
    ridges                1
    damping               0
    initialization        inputs
    switching_rate        10
    switching_rate_decay  1
    bonus_scale           0.03
    bonus_unit            reward
    tree_depth            3
    leaf_values           midpoint
    experts               none
    output                switching
    clip                  0.01
    input_clip            0.01
    bias                  1
    weight_bound          200
    half_life             None
    """

    layers: tuple[int, ...] = _setting(
        (50, 10, 1),
        _several(_integer(1, 100_000)),
        "Number of units in each layer (K in the paper).",
        when="Fewer units save memory and time; more units approximate complex reward functions better.",
    )
    hyperplanes: int | tuple[int, ...] = _setting(
        (2, 4, 6, 8),
        _one_or_more(_integer(1, 16)),
        "Hyperplanes per unit: one number for all units, or several that the units cycle through. A unit "
        "with m hyperplanes has 2^m weight vectors per network.",
        when="Fewer generalize faster from little data; more resolve finer regions of the context space.",
    )
    bias_scale: float = _setting(
        0.3,
        _number(0, 1e6),
        "Standard deviation of the distance between the hyperplanes and the center of the unit cube (s in "
        "the paper).",
        when="Larger if contexts lie far from the center of the unit cube.",
    )
    optimizer: Optimizer = _setting(
        "newton",
        _one_of("gradient", "newton"),
        "How the first layer learns: along the gradient, or along the gradient preconditioned by the inverse "
        "second moment of the inputs.",
        when='"gradient" with thousands of features: the cost of a Newton step grows with their square.',
    )
    learning_rate: float = _setting(
        1.0,
        _number(0, 1e6),
        "Step size for an arm without rewards (η₀ in the paper). With Newton steps, for the first layer.",
        when="Rarely: rate_factors covers two orders of magnitude around it.",
    )
    rate_factors: tuple[float, ...] = _setting(
        (0.03, 0.1, 0.3, 1.0, 3.0),
        _several(_number(0, 1e6)),
        "Factors of the step size that the units cycle through; the mixture learns which units to trust.",
        when="(1,) for one step size, as in the paper.",
    )
    learning_rate_decay: float = _setting(
        0.01,
        _number(0, 1e6),
        "The step size of an arm with n rewards is learning_rate / (1 + learning_rate_decay · n).",
        when="0 if rewards change over time and half_life is not set; larger if rewards are very noisy.",
    )
    ridges: tuple[float, ...] = _setting(
        (0.01, 10.0),
        _several(_number(1e-3, 1e9)),
        "Initial second moment of the inputs for Newton steps, per input; the units cycle through the "
        "values.",
        when="Larger values slow down the first Newton steps.",
    )
    damping: float = _setting(
        0.05,
        _number(0, 1e6),
        "A Newton step changes a logit by at most the error divided by damping; 0 removes the limit.",
        when="Larger if single rewards change the values too much.",
    )
    initialization: Initialization = _setting(
        "inputs",
        _one_of("inputs", "frequency"),
        "What a network predicts before it has learned: the mean of its inputs, or an offset that follows "
        "the frequency of its target.",
        when='"frequency" if rewards are very rare or very common.',
    )
    switching_rate: float = _setting(
        10.0,
        _number(0, 1e6),
        "Switching rate for an arm without rewards (α₀ in the paper); values above 1 act as 1.",
        when="Larger if the best unit of a network keeps changing.",
    )
    switching_rate_decay: float = _setting(
        1.0,
        _number(0, 1e6),
        "The switching rate of an arm with n rewards is switching_rate / (1 + switching_rate_decay · n).",
        when="0 to keep switching at a constant rate, for rewards that change over time.",
    )
    bonus_scale: float = _setting(
        0.18,
        _number(0, 1e6),
        "Size of the exploration bonus (C in the paper).",
        when="Larger to explore more, smaller to exploit earlier.",
    )
    bonus_unit: BonusUnit = _setting(
        "deviation",
        _one_of("reward", "deviation"),
        "Unit of the bonus: the reward, or the standard deviation of the predicted reward.",
        when='"reward" for a bonus that does not depend on the predicted reward, as in the paper.',
    )
    tree_depth: int = _setting(
        3,
        _integer(1, 10),
        "Bounded rewards are predicted in 2^tree_depth bins (D in the paper); unused for binary rewards.",
        when="Larger if the values need a finer resolution; the cost doubles with each level.",
    )
    leaf_values: LeafValues = _setting(
        "midpoint",
        _one_of("midpoint", "mean"),
        "The reward that a bin represents: its midpoint, or the mean of the rewards in it. With means, a "
        "reward between two adjacent bins counts partly for each. Unused for binary rewards.",
        when='"midpoint" as in the paper.',
    )
    experts: tuple[Expert, ...] = _setting(
        ("linear", "fourier"),
        _any_of("linear", "fourier"),
        "Regressions per arm that are mixed with the networks: on the context, and on its random Fourier "
        "features. Above 512 features, the former is diagonal; above 80, the latter is left out.",
        when="() for the networks alone, as in the paper.",
    )
    output: Output = _setting(
        "switching",
        _one_of("switching", "last"),
        "The output of a network: the switching mixture of all its units, or its last unit.",
        when='"last" for ablations only.',
    )
    clip: float = _setting(
        0.001,
        _number(1e-6, 0.49),
        "Probabilities are clipped to [clip, 1 − clip] (ε in the paper).",
        when="Smaller if reward probabilities are below 0.1%.",
    )
    input_clip: float = _setting(
        0.03,
        _number(1e-6, 0.49),
        "Contexts are clipped to [input_clip, 1 − input_clip], because the logits of 0 and 1 are infinite.",
        when="Smaller if differences near 0 or 1 matter.",
    )
    bias: float = _setting(
        2.0,
        _number(-100, 100),
        "The constant input of every unit, as a logit (logit β in the paper).",
        when="Rarely.",
    )
    weight_bound: float = _setting(
        200.0,
        _number(1, 1e6),
        "Weights are clipped to ±weight_bound (b in the paper).",
        when="Rarely.",
    )
    half_life: int | None = _setting(
        None,
        Bounds("int from 2, or None", lambda _, value: check_half_life(value)),
        "Number of decisions after which all evidence counts half as much; None means never.",
        when="If the rewards of the arms change over time.",
    )

    def __post_init__(self) -> None:
        # Always stored as int and float: the kernels are compiled only for these types.
        for each in fields(self):
            value = each.metadata["bounds"].check(each.name, getattr(self, each.name))
            object.__setattr__(self, each.name, value)

    @property
    def hyperplanes_of_units(self) -> list[int]:
        """Number of hyperplanes of every unit."""
        cycle = self.hyperplane_cycle
        return [cycle[unit % len(cycle)] for unit in range(sum(self.layers))]

    @property
    def hyperplane_cycle(self) -> tuple[int, ...]:
        """The numbers of hyperplanes that the units cycle through."""
        return self.hyperplanes if isinstance(self.hyperplanes, tuple) else (self.hyperplanes,)

    def __str__(self) -> str:
        width = max(len(name) for name in SETTING_NAMES)
        return "\n".join(f"{name:<{width}}  {_shown(getattr(self, name))}" for name in SETTING_NAMES)


SETTING_NAMES = tuple(each.name for each in fields(Settings))
"""The names of all settings, in order."""

DEFAULT_BINARY = Settings()
"""The defaults for binary rewards; docs/method.md explains the choices."""

DEFAULT_BOUNDED = replace(
    DEFAULT_BINARY, initialization="frequency", leaf_values="mean", switching_rate=300.0, bonus_scale=0.25
)
"""The defaults for bounded rewards."""

PAPER_BINARY = Settings(
    layers=(100, 10, 1),
    hyperplanes=8,
    bias_scale=0.05,
    optimizer="gradient",
    learning_rate=0.1,
    rate_factors=(1.0,),
    learning_rate_decay=0.1,
    ridges=(1.0,),
    damping=0.0,
    switching_rate=10.0,
    switching_rate_decay=1.0,
    bonus_scale=0.03,
    bonus_unit="reward",
    experts=(),
    clip=0.01,
    input_clip=0.01,
    bias=1.0,
)
"""The column "Bernoulli bandits" of the paper's table of hyperparameters."""

PAPER_BOUNDED = replace(
    PAPER_BINARY,
    hyperplanes=2,
    bias_scale=0.001,
    learning_rate=1.0,
    learning_rate_decay=0.01,
    switching_rate=1.0,
    switching_rate_decay=0.1,
    bonus_scale=0.1,
)
"""The column "Continuous bandits" of the paper's table of hyperparameters."""


class SettingRow(NamedTuple):
    """One row of the parameter table."""

    name: str
    type: str
    default: str
    meaning: str
    when_to_change: str


def settings_table() -> list[SettingRow]:
    """Return the parameter table of GLCB: one row per setting.

    Returns
    -------
    list of SettingRow
        The rows, in the order of the arguments of :class:`GLCB`.

    Examples
    --------
    >>> for row in settings_table()[9:11]:
    ...     print(row.name, "|", row.type, "|", row.default)
    initialization | "inputs" or "frequency" | inputs (bounded rewards: frequency)
    switching_rate | float from 0 to 1e+06 | 10 (bounded rewards: 300)
    """
    rows = []
    for each in fields(Settings):
        binary, bounded = (_shown(getattr(s, each.name)) for s in (DEFAULT_BINARY, DEFAULT_BOUNDED))
        default = binary if binary == bounded else f"{binary} (bounded rewards: {bounded})"
        facts = each.metadata
        rows.append(
            SettingRow(each.name, facts["bounds"].description, default, facts["meaning"], facts["when"])
        )
    return rows


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_shown(part) for part in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)

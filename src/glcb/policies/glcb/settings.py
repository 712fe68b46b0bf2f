"""The hyper-parameters of GLCB: our default, and the two sets that the paper gives."""

from dataclasses import dataclass, fields, replace
from typing import Literal, TypedDict, get_args

from glcb import _validation
from glcb._errors import InvalidSettings
from glcb._forgetting import checked_half_life
from glcb.gln import OptimizerKind, Output, Start
from glcb.values import LeafValues

BonusUnit = Literal["reward", "deviation"]
"""What the bonus is measured in: units of reward, or standard deviations of the predicted reward."""

_RATES = (
    "bias_scale",
    "learning_rate",
    "learning_rate_decay",
    "damping",
    "switching_rate",
    "switching_rate_decay",
    "bonus_scale",
)
_CHOICES = {
    "step": OptimizerKind,
    "start": Start,
    "bonus_unit": BonusUnit,
    "leaf_values": LeafValues,
    "output": Output,
}


class SettingChanges(TypedDict, total=False):
    """The same names as in :class:`Settings`, each of them optional."""

    layers: tuple[int, ...]
    hyperplanes: int | tuple[int, ...]
    bias_scale: float
    step: OptimizerKind
    learning_rate: float
    rate_factors: tuple[float, ...]
    learning_rate_decay: float
    ridges: tuple[float, ...]
    damping: float
    start: Start
    switching_rate: float
    switching_rate_decay: float
    bonus_scale: float
    bonus_unit: BonusUnit
    tree_depth: int
    leaf_values: LeafValues
    output: Output
    clip: float
    input_clip: float
    bias: float
    weight_box: float
    half_life: int | None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The hyper-parameters of GLCB; the paper's symbols in brackets.

    >>> print(PAPER_BINARY)
    layers                100, 10, 1
    hyperplanes           8
    bias_scale            0.05
    step                  plain
    learning_rate         0.1
    rate_factors          1
    learning_rate_decay   0.1
    ridges                1
    damping               0
    start                 inputs
    switching_rate        10
    switching_rate_decay  1
    bonus_scale           0.03
    bonus_unit            reward
    tree_depth            3
    leaf_values           midpoint
    output                switching
    clip                  0.01
    input_clip            0.01
    bias                  1
    weight_box            200
    half_life             None
    """

    layers: tuple[int, ...] = (100, 10, 1)
    """Number of units in each layer [K_1 … K_L]."""
    hyperplanes: int | tuple[int, ...]
    """Hyperplanes per unit, one number for all or several that the units take in turn. A unit with m of them
    has 2^m weight vectors per network."""
    bias_scale: float
    """ExplorationMode of the hyperplanes around the center of the unit cube [s]."""
    step: OptimizerKind = "plain"
    """How the first layer learns: along its inputs, or along inputs preconditioned by their second moment."""
    learning_rate: float
    """Step size of an arm that was never played [η0]; with newton steps, of the first layer."""
    rate_factors: tuple[float, ...] = (1.0,)
    """Units take these in turn as factors of their step size; the mixture finds out which are right."""
    learning_rate_decay: float
    """The step size of an arm played n times is learning_rate / (1 + learning_rate_decay · n)."""
    ridges: tuple[float, ...] = (1.0,)
    """What newton steps take the second moment of inputs for at first; units do in turn [λ / (d + 1)]."""
    damping: float = 0.0
    """No newton step moves a logit by more than the error / damping; 0 sets no bound."""
    start: Start = "inputs"
    """What a network starts from: the mean of its inputs, or an offset that follows what is usual for it."""
    switching_rate: float
    """Switching rate of an arm that was never played [α0]; values above 1 count as 1."""
    switching_rate_decay: float
    """The switching rate decays as the learning rate does."""
    bonus_scale: float
    """Size of the exploration bonus [C]."""
    bonus_unit: BonusUnit = "reward"
    """What the bonus is measured in: reward, or standard deviations of the predicted reward."""
    tree_depth: int = 3
    """Bounded rewards are told apart in 2 to the power of this many bins [D]; unused for 0/1 rewards."""
    leaf_values: LeafValues = "midpoint"
    """What a bin stands for: its midpoint, or the mean of the rewards in it, and then a reward between what
    two neighbors stand for counts for both in part; unused for 0/1 rewards."""
    output: Output = "switching"
    """What a network answers: the switching mixture of all its units, or its last unit."""
    clip: float = 0.01
    """Probabilities are kept within [clip, 1 − clip] [ε]."""
    input_clip: float = 0.01
    """Contexts too are kept that far from 0 and 1, where their logits would be infinite [ε]."""
    bias: float = 1.0
    """The constant input of every unit, as a logit [logit β]."""
    weight_box: float = 200.0
    """Weights are kept within ± this [b]."""
    half_life: int | None = None
    """After every so many plays, all evidence counts half, for a world that changes; None is never."""

    def __post_init__(self) -> None:
        # Stored as plain int and float, whatever came: the kernels are compiled for these alone.
        checked: dict[str, object] = {
            "layers": _validation.sizes("layers", self.layers),
            "hyperplanes": _validation.one_or_more("hyperplanes", self.hyperplanes, _hyperplanes),
            "rate_factors": _validation.several("rate_factors", self.rate_factors, _factor),
            "ridges": _validation.several("ridges", self.ridges, _ridge),
            "tree_depth": _validation.whole_number("tree_depth", self.tree_depth, 1, 10),
            "clip": _validation.number("clip", self.clip, 1e-6, 0.49),
            "input_clip": _validation.number("input_clip", self.input_clip, 1e-6, 0.49),
            "bias": _validation.number("bias", self.bias, -100, 100),
            "weight_box": _validation.number("weight_box", self.weight_box, 1, 1e6),
            "half_life": checked_half_life(self.half_life),
        }
        for name in _RATES:
            checked[name] = _validation.number(name, getattr(self, name), 0, 1e6)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                choices = " or ".join(f'"{choice}"' for choice in get_args(kind))
                raise InvalidSettings(f"{name} must be {choices}, got {getattr(self, name)!r}")

    @property
    def hyperplanes_of_units(self) -> list[int]:
        """Number of hyperplanes of every unit."""
        kinds = self.kinds_of_gates
        return [kinds[unit % len(kinds)] for unit in range(sum(self.layers))]

    @property
    def kinds_of_gates(self) -> tuple[int, ...]:
        """The numbers of hyperplanes that units take in turn."""
        return self.hyperplanes if isinstance(self.hyperplanes, tuple) else (self.hyperplanes,)

    def __str__(self) -> str:
        width = max(len(field.name) for field in fields(self))
        return "\n".join(f"{f.name:<{width}}  {_shown(getattr(self, f.name))}" for f in fields(self))


def _hyperplanes(name: str, value: object) -> int:
    return _validation.whole_number(name, value, 1, 16)


def _factor(name: str, value: object) -> float:
    return _validation.number(name, value, 0, 1e6)


def _ridge(name: str, value: object) -> float:
    return _validation.number(name, value, 1e-3, 1e9)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_shown(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


PAPER_BINARY = Settings(
    hyperplanes=8,
    bias_scale=0.05,
    learning_rate=0.1,
    learning_rate_decay=0.1,
    switching_rate=10.0,
    switching_rate_decay=1.0,
    bonus_scale=0.03,
)
"""The paper's column "Bernoulli bandits"."""

PAPER_BOUNDED = Settings(
    hyperplanes=2,
    bias_scale=0.001,
    learning_rate=1.0,
    learning_rate_decay=0.01,
    switching_rate=1.0,
    switching_rate_decay=0.1,
    bonus_scale=0.1,
)
"""The paper's column "Continuous bandits"."""

DEFAULT_BINARY = Settings(
    hyperplanes=(2, 4, 6, 8),
    bias_scale=0.3,
    step="newton",
    learning_rate=1.0,
    rate_factors=(0.03, 0.1, 0.3, 1.0, 3.0),
    learning_rate_decay=0.01,
    ridges=(0.01, 10.0),
    damping=0.05,
    switching_rate=10.0,
    switching_rate_decay=1.0,
    bonus_scale=0.25,
    bonus_unit="deviation",
    input_clip=0.03,
    bias=2.0,
)
"""Our own, for rewards of 0 and 1; docs/method.md says what each does."""

DEFAULT_BOUNDED = replace(DEFAULT_BINARY, start="frequency", leaf_values="mean", switching_rate=300.0)
"""The same for bounded rewards, with what only a tree of networks needs."""

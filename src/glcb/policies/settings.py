"""The hyper-parameters of GLCB, and the two sets that the paper gives."""

from dataclasses import dataclass, fields
from typing import TypedDict, get_args

from glcb import _checks
from glcb._errors import InvalidSettings
from glcb.gln import Output

_RATES = (
    "bias_scale",
    "learning_rate",
    "learning_rate_decay",
    "switching_rate",
    "switching_rate_decay",
    "bonus_scale",
)


class SettingChanges(TypedDict, total=False):
    """The same names as in :class:`Settings`, each of them optional."""

    layers: tuple[int, ...]
    hyperplanes: int
    bias_scale: float
    learning_rate: float
    learning_rate_decay: float
    switching_rate: float
    switching_rate_decay: float
    bonus_scale: float
    tree_depth: int
    output: Output
    clip: float
    bias: float
    weight_box: float


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The hyper-parameters of GLCB; the paper's symbols in brackets.

    >>> print(PAPER_BINARY)
    layers                100, 10, 1
    hyperplanes           8
    bias_scale            0.05
    learning_rate         0.1
    learning_rate_decay   0.1
    switching_rate        10
    switching_rate_decay  1
    bonus_scale           0.03
    tree_depth            3
    output                switching
    clip                  0.01
    bias                  1
    weight_box            200
    """

    layers: tuple[int, ...] = (100, 10, 1)
    """Number of units in each layer [K_1 … K_L]."""
    hyperplanes: int
    """Hyperplanes per unit; a unit has 2 to the power of this many weight vectors per network."""
    bias_scale: float
    """Spread of the hyperplanes around the centre of the unit cube [s]."""
    learning_rate: float
    """Step size of an arm that was never played [η0]."""
    learning_rate_decay: float
    """The step size of an arm played n times is learning_rate / (1 + learning_rate_decay · n)."""
    switching_rate: float
    """Switching rate of an arm that was never played [α0]; values above 1 count as 1."""
    switching_rate_decay: float
    """The switching rate decays as the learning rate does."""
    bonus_scale: float
    """Size of the exploration bonus, in units of reward [C]."""
    tree_depth: int = 3
    """Bounded rewards are told apart in 2 to the power of this many bins [D]; unused for 0/1 rewards."""
    output: Output = "switching"
    """What a network answers: the switching mixture of all its units, or its last unit."""
    clip: float = 0.01
    """Probabilities are kept within [clip, 1 − clip] [ε]."""
    bias: float = 1.0
    """The constant input of every unit, as a logit [logit β]."""
    weight_box: float = 200.0
    """Weights are kept within ± this [b]."""

    def __post_init__(self) -> None:
        # Stored as plain int and float, whatever came: the kernels are compiled for these alone.
        checked: dict[str, object] = {
            "layers": _checks.sizes("layers", self.layers),
            "hyperplanes": _checks.whole_number("hyperplanes", self.hyperplanes, 1, 16),
            "tree_depth": _checks.whole_number("tree_depth", self.tree_depth, 1, 10),
            "clip": _checks.number("clip", self.clip, 1e-6, 0.49),
            "bias": _checks.number("bias", self.bias, -100, 100),
            "weight_box": _checks.number("weight_box", self.weight_box, 1, 1e6),
        }
        for name in _RATES:
            checked[name] = _checks.number(name, getattr(self, name), 0, 1e6)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.output not in get_args(Output):
            raise InvalidSettings(f'output must be "switching" or "last", got {self.output!r}')

    def __str__(self) -> str:
        width = max(len(field.name) for field in fields(self))
        return "\n".join(f"{f.name:<{width}}  {_shown(getattr(self, f.name))}" for f in fields(self))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
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

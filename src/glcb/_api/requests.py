"""What requests hold. Bodies are decoded straight into these; what does not fit is refused."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from glcb._api.responses import State

Arm = Annotated[str, Meta(min_length=1, max_length=200)]
IdempotencyKey = Annotated[
    str, Meta(min_length=1, max_length=200, description="Makes a repeated request harmless.")
]
Share = Annotated[float, Meta(ge=0, le=1)]
Context = Annotated[
    dict[str, Any] | list[Any],
    Meta(description="Values by name, or by position: numbers, texts, booleans, null."),
]


class Settings(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an experiment is made with: the arguments of ``glcb.Bandit``, and the share of the hold-out.

    Defaults are written down too: where a later version has others, what runs must not change.
    """

    arms: Annotated[list[Arm], Meta(min_length=1)]
    policy: str = "glcb"
    rewards: Literal["binary"] | tuple[float, float] = "binary"
    exploration: float = 0.05
    exploration_mode: Literal["gap", "uniform"] = "gap"
    schema: dict[str, Any] | None = None
    spare_slots: int | None = None
    max_pending: int = 10_000
    reward_timeout: float | None = None
    default_reward: float | None = None
    reward_aggregation: Literal["first", "last", "sum", "max"] = "first"
    half_life: int | None = None
    seed: int = 0
    policy_settings: dict[str, Any] | None = None
    holdout: Share = 0.05


class Creation(Struct, kw_only=True):
    """The first event of an experiment."""

    name: str
    salt: str
    """Keeps others from knowing beforehand who will be part of the hold-out."""
    settings: Settings


class Changes(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What can change while an experiment runs."""

    state: State | UnsetType = UNSET
    exploration: float | UnsetType = UNSET
    exploration_mode: Literal["gap", "uniform"] | UnsetType = UNSET
    holdout: Share | UnsetType = UNSET


class NewArm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm that joins the others, fresh or like one of them."""

    name: Arm
    like: Arm | None = None


class DecisionRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A context that needs an arm."""

    context: Context
    eligible: list[Arm] | None = None
    idempotency_key: IdempotencyKey | None = None


class DecisionRequests(Struct, kw_only=True, forbid_unknown_fields=True):
    """Many contexts at once."""

    decisions: list[DecisionRequest]


class ExplainRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A context whose decision is to be explained, not made."""

    context: Context
    eligible: list[Arm] | None = None


class RewardRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a decision brought."""

    value: float | bool
    idempotency_key: IdempotencyKey | None = None


class RewardOf(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the decision with this id brought."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    value: float | bool
    idempotency_key: IdempotencyKey | None = None


class RewardRequests(Struct, kw_only=True, forbid_unknown_fields=True):
    """What many decisions brought."""

    rewards: list[RewardOf]


class Status(Struct):
    """Whether the service is alive, or ready."""

    status: str


encode = msgspec.json.Encoder().encode

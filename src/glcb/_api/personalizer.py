"""Request and response bodies of the routes that are compatible with Azure Personalizer.

Field names follow Personalizer. Unknown fields are ignored, as in Personalizer.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_ActionId = Annotated[str, Meta(min_length=1, max_length=200)]
_Features = Annotated[
    list[dict[str, Any]],
    Meta(description="Features as a list of objects, which may be nested."),
]


class PersonalizerAction(Struct, kw_only=True):
    """An action: an arm with its features."""

    id: _ActionId
    features: _Features = []
    """Used if the arms of the experiment have features."""


class PersonalizerSlot(Struct, kw_only=True, rename="camel"):
    """A slot of a multi-slot request."""

    id: _Id
    baseline_action: _ActionId
    """The action that the application would show in this slot."""
    features: _Features | None = None
    """Features of the slot; they are added to the context as `slot.ID.NAME`."""
    excluded_actions: list[str] | None = None
    """Actions that cannot be in this slot; they must be the same for all slots."""


class PersonalizerRankRequest(Struct, kw_only=True, rename="camel"):
    """A request for the best of several actions."""

    actions: list[PersonalizerAction]
    """The first action that is not excluded is the baseline."""
    context_features: _Features | None = None
    excluded_actions: list[str] | None = None
    """Actions that are not chosen."""
    event_id: _Id | None = None
    """The id of the decision; repeating a request with the same id returns the same answer."""
    defer_activation: bool | None = None
    """Whether the event has to be activated before its reward."""


class PersonalizerMultiSlotRankRequest(Struct, kw_only=True, rename="camel"):
    """A request for the best action in each of several slots."""

    actions: list[PersonalizerAction]
    slots: list[PersonalizerSlot]
    """From the most to the least important one."""
    context_features: _Features | None = None
    event_id: _Id | None = None
    """The id of the ranking; repeating a request with the same id returns the same answer."""
    defer_activation: bool | None = None
    """Whether the event has to be activated before its rewards."""


class PersonalizerRewardRequest(Struct, kw_only=True):
    """The reward of an event."""

    value: float
    """A value in the reward range of the experiment."""


class PersonalizerSlotReward(Struct, kw_only=True, rename="camel"):
    """The reward of a slot."""

    slot_id: _Id
    value: float
    """A value in the reward range of the experiment."""


class PersonalizerMultiSlotRewardRequest(Struct, kw_only=True):
    """The rewards of some slots of an event."""

    reward: Annotated[list[PersonalizerSlotReward], Meta(min_length=1)]


class PersonalizerRankedAction(Struct, frozen=True, kw_only=True):
    """An action with its probability."""

    id: str
    probability: float | None
    """0 for an excluded action; null if it is not among the 100 most likely ones."""


class PersonalizerRankResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The chosen action, and all actions in order."""

    ranking: tuple[PersonalizerRankedAction, ...]
    """The chosen action first, then the others by probability; excluded actions keep their position."""
    event_id: str
    reward_action_id: str
    """The chosen action."""


class PersonalizerSlotResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The action of a slot."""

    id: str
    reward_action_id: str
    """The chosen action."""


class PersonalizerMultiSlotRankResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The action of each slot."""

    slots: tuple[PersonalizerSlotResponse, ...]
    event_id: str


class PersonalizerInnerError(Struct, frozen=True):
    """The cause of an error."""

    code: str
    """The code that other routes of the service use."""


class PersonalizerErrorDetail(Struct, frozen=True, rename="camel"):
    """An error in Personalizer's format."""

    code: str
    """`BadRequest`, `ResourceNotFound`, `InternalServerError`, or the name of the HTTP status."""
    message: str
    """What was expected, what was received, and what to do."""
    inner_error: PersonalizerInnerError


class PersonalizerErrorResponse(Struct, frozen=True):
    """The body of an error response of a route that is compatible with Personalizer."""

    error: PersonalizerErrorDetail

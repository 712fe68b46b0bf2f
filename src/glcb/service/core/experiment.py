"""An experiment: a bandit and what the service knows around it.

Its state changes by events alone, and :meth:`Experiment.apply` is the only way. Everything that an event
depends on is in the event: what was asked for, and the time. So the same events lead to the same state bit
by bit, and what came of each of them is compared with what is on record.
"""

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from glcb._api.requests import (
    Changes,
    Creation,
    DecisionRequest,
    NewArm,
    RewardOf,
    Settings,
    encode,
)
from glcb._api.responses import Decision, State, Taken
from glcb._errors import GlcbError, InvalidSettings, ModelFileError, StorageError
from glcb._types import reward_range
from glcb.bandit import Bandit
from glcb.policies import registry
from glcb.service.core import models
from glcb.service.core.idempotency import Answered, Keys, Marks, Recall, digest
from glcb.service.core.tally import Decided, Tally
from glcb.service.errors import Problem
from glcb.service.storage.storage import Event

DONE = b"{}"
"""What came of an event that has no outcome of its own."""

_Outcome = tuple[bytes | None, bytes | Recall]
"""What came of an event, or None if nothing happened; and the answer."""


class Damaged(StorageError):
    """What is on record does not lead to an experiment, now or later."""


class Around(Struct, kw_only=True):
    """All that an experiment consists of, beside the bandit."""

    creation: Creation
    settings: Settings
    """As they are now."""
    created: float
    state: State = "running"
    sequence: int = 0
    latest: float = 0.0
    """Time of the last event; it never goes backwards, whatever the clock does."""
    decisions: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    keys: Keys = msgspec.field(default_factory=Keys)
    marked: list[str] = msgspec.field(default_factory=list)
    marks_room: int = Marks().room


class Experiment:
    """A bandit, its settings, and the number of the last event."""

    def __init__(self, around: Around, bandit: Bandit) -> None:
        self.around = around
        self._marks = Marks.from_list(around.marked, around.marks_room)
        self._time = around.latest
        self._take(bandit)

    @classmethod
    def create(cls, creation: Creation, now: float) -> tuple["Experiment", Event]:
        """Return a new experiment, and the event that it begins with."""
        around = Around(creation=creation, settings=creation.settings, created=now)
        experiment = cls(around, models.make(creation.settings))
        return experiment, experiment._happened("create", encode(creation), DONE, now)

    @property
    def bandit(self) -> Bandit:
        """The bandit; whoever changes it in another way than by an event breaks every promise."""
        return self._bandit

    @property
    def begun(self) -> bool:
        """Whether there was a decision; the first one makes the model, as large as its context needs."""
        return self._bandit.counts["decisions"] > 0

    @property
    def quick(self) -> bool:
        """Whether a decision needs nothing that has to be made or loaded first."""
        return self._light and self.begun

    # ---- events ---------------------------------------------------------------------------------

    def apply(self, kind: str, request: Any, now: float) -> tuple[Event | None, bytes | Recall]:
        """Let something happen; return the event, and the answer.

        There is no event if nothing changed, because it had happened before. If it cannot happen, an error is
        raised, and nothing has changed either.
        """
        self._time = max(now, self.around.latest)
        payload = request if isinstance(request, bytes) else encode(request)
        outcome, answer = _STEPS[kind](self, request, payload)
        if outcome is None:
            return None, answer
        return self._happened(kind, payload, outcome, self._time), answer

    def replay(self, event: Event) -> None:
        """Apply what happened once; raise Damaged if something else comes of it."""
        try:
            kind = _REQUESTS[event.kind]
            request = event.request if kind is bytes else msgspec.json.decode(event.request, type=kind)
            again, _ = self.apply(event.kind, request, event.at)
        except (KeyError, msgspec.DecodeError, GlcbError) as error:
            raise self._differs(event, type(error).__name__) from error
        if again is None or again[:3] != event[:3] or again.outcome != event.outcome:
            raise self._differs(event, "nothing" if again is None else repr(again.outcome[:200]))

    def _differs(self, event: Event, now: str) -> Damaged:
        return Damaged(
            f"event {event.sequence} of {self.around.creation.name!r} comes out in another way: it was "
            f"{event.outcome[:200]!r}, now it is {now}; the log was altered, or written by another version "
            "of glcb or on another kind of machine"
        )

    def _happened(self, kind: str, request: bytes, outcome: bytes, at: float) -> Event:
        around = self.around
        around.sequence += 1
        around.latest = at
        return Event(around.sequence, at, kind, request, outcome)

    def _decide(self, request: DecisionRequest, payload: bytes) -> _Outcome:
        around = self.around
        known = around.keys.find(request.idempotency_key, payload)
        if known is not None:
            return None, known
        self._refuse_if("archived", "paused")
        held_out = self._draw() < around.settings.holdout
        found = self._bandit.decide(request.context, eligible=request.eligible, uniform=held_out)
        arm = str(found.arm)
        answer = encode(
            Decision(
                id=found.id,
                arm=arm,
                propensity=found.propensity,
                probabilities=found.probabilities,  # type: ignore[arg-type]  # arms are texts here
                holdout=held_out,
            )
        )
        around.decisions += 1
        arms: tuple[str, ...] = found.arms  # type: ignore[assignment]
        around.tally.decided(
            self._time, Decided(arms, arms.index(arm), found.arm_probabilities, found.values, held_out)
        )
        if held_out:
            self._marks.add(found.id, self._bandit.is_pending)
        if request.idempotency_key is not None:
            answered = Answered(digest(payload), found.id, around.sequence + 1)
            around.keys.add(request.idempotency_key, answered, self._bandit.is_pending)
        return answer, answer

    def _reward(self, request: RewardOf, _payload: bytes) -> _Outcome:
        self._refuse_if("archived")
        if not self._bandit.reward(request.id, request.value, idempotency_key=request.idempotency_key):
            return None, encode(Taken(request.id, "repeated"))
        return DONE, encode(Taken(request.id, "taken"))

    def _settle(self, _request: bytes, _payload: bytes) -> _Outcome:
        before = self._bandit.counts
        self._bandit.settle()
        counts = self._bandit.counts
        return (None if counts == before else encode(counts)), DONE

    def _change(self, request: Changes, _payload: bytes) -> _Outcome:
        around = self.around
        given = {
            name: value
            for name in ("exploration", "exploration_mode")
            if (value := getattr(request, name)) is not UNSET
        }
        if request.state in (UNSET, around.state) and (given or request.holdout is not UNSET):
            self._refuse_if("archived")
        if given:
            self._bandit.set_params(**given)
        if request.holdout is not UNSET:
            given["holdout"] = request.holdout
        around.settings = msgspec.structs.replace(around.settings, **given)
        if request.state is not UNSET:
            around.state = request.state
        return DONE, DONE

    def _add_arm(self, request: NewArm, _payload: bytes) -> _Outcome:
        self._refuse_if("archived")
        if request.name in self._bandit.arms:
            raise Problem("arm_exists", f"there is an arm {request.name!r} already: choose another name")
        self._bandit.add_arm(request.name, like=request.like)
        return self._arms_changed()

    def _remove_arm(self, request: NewArm, _payload: bytes) -> _Outcome:
        self._refuse_if("archived")
        if request.name not in self._bandit.arms:
            known = ", ".join(map(repr, self._bandit.arms[:8]))
            raise Problem(
                "unknown_arm", f"there is no arm {request.name!r}; the arms are {known}", status=404
            )
        self._bandit.remove_arm(request.name)
        self.around.tally.removed(request.name)
        return self._arms_changed()

    def _arms_changed(self) -> _Outcome:
        arms = [str(arm) for arm in self._bandit.arms]
        self.around.settings = msgspec.structs.replace(self.around.settings, arms=arms)
        return encode(arms), DONE

    def _upload(self, content: bytes, _payload: bytes) -> _Outcome:
        """Put another bandit in the place of ours; what is counted begins anew."""
        self._refuse_if("archived")
        bandit = models.parsed(content)
        around = self.around
        around.settings = models.settings_of(bandit, around.settings.holdout)
        around.creation = msgspec.structs.replace(around.creation, settings=around.settings)
        around.tally, around.keys, self._marks = Tally(), Keys(), Marks()
        self._take(bandit)
        return DONE, DONE

    # ---- what events need -----------------------------------------------------------------------

    def _take(self, bandit: Bandit) -> None:
        self._bandit = bandit.set_params(clock=lambda: self._time)
        self._bandit.on_reward(self._learned)
        self._light = not registry.get(self.around.settings.policy).make.requires
        self.reward_range = reward_range(self.around.settings.rewards)
        """The lowest and the highest reward."""

    def _learned(self, decision: str, arm: str | int, value: float) -> None:
        low, high = self.reward_range
        scaled = (value - low) / (high - low)
        self.around.tally.learned(self._time, str(arm), value, scaled, self._marks.take(decision))

    def _draw(self) -> float:
        """Return a number within [0, 1), always the same for this decision; nothing is used up by it."""
        number = self.around.decisions.to_bytes(8)
        drawn = blake2b(number, digest_size=7, key=self.around.creation.salt.encode()).digest()
        return (int.from_bytes(drawn) >> 3) / 2**53

    def _refuse_if(self, *states: str) -> None:
        state = self.around.state
        if state in states:
            raise Problem(
                f"experiment_{state}",
                f"the experiment is {state}: set its state to running, or ask no more of it",
            )

    # ---- snapshots ------------------------------------------------------------------------------

    def freeze(self) -> models.Frozen:
        """Return a copy of everything, which later events do not touch."""
        self.around.marked, self.around.marks_room = self._marks.listed(), self._marks.room
        return models.Frozen(
            self.around.sequence, self._bandit.__getstate__(), msgspec.msgpack.encode(self.around)
        )

    @classmethod
    def thaw(cls, frozen: models.Frozen) -> "Experiment":
        """Return the experiment that was frozen; raise ModelFileError if it is none."""
        try:
            around = msgspec.msgpack.decode(frozen.around, type=Around)
        except msgspec.DecodeError as error:
            raise ModelFileError(f"a snapshot is damaged: {error}") from error
        return cls(around, models.restored(frozen.bandit))


def new_creation(name: str, settings: Settings) -> Creation:
    """Return how an experiment begins."""
    if not settings.arms:
        raise InvalidSettings("an experiment needs at least one arm")
    return Creation(name=name, salt=secrets.token_hex(16), settings=settings)


_Step = Callable[[Experiment, Any, bytes], _Outcome]

_STEPS: dict[str, _Step] = {
    "decide": Experiment._decide,
    "reward": Experiment._reward,
    "settle": Experiment._settle,
    "change": Experiment._change,
    "add_arm": Experiment._add_arm,
    "remove_arm": Experiment._remove_arm,
    "upload": Experiment._upload,
}
"""What can happen to an experiment that exists."""

_REQUESTS: dict[str, Any] = {
    "decide": DecisionRequest,
    "reward": RewardOf,
    "settle": bytes,
    "change": Changes,
    "add_arm": NewArm,
    "remove_arm": NewArm,
    "upload": bytes,
}

"""An experiment: a bandit, its settings and its statistics.

The state changes only through events, applied by :meth:`Experiment.apply`. An event contains everything that
its effect depends on: the request and the time. The same events therefore lead to the same state, bit for
bit, and a replay compares the outcome of every event with the stored one.
"""

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from glcb._api.requests import (
    Activation,
    Catalog,
    CatalogChanges,
    Creation,
    DecisionRequest,
    ExperimentChanges,
    ExperimentSettings,
    NewArm,
    RankingRequest,
    RewardItem,
    encode,
    named_features,
)
from glcb._api.responses import Decision, Ranking, RewardAccepted, State
from glcb._errors import GlcbError, InvalidSettings, ModelFileError, StorageError
from glcb._types import reward_range
from glcb.bandit import Bandit
from glcb.bandit import ranking as bandit_ranking
from glcb.bandit.decision import BanditDecision
from glcb.bandit.records import random_prefix
from glcb.bandit.slots import slot_id
from glcb.policies import registry
from glcb.service.core import administration, models, presentations
from glcb.service.core.administration import Result
from glcb.service.core.catalog_tally import CatalogTally
from glcb.service.core.idempotency import IdempotencyKeys, RepeatedAnswer, StoredAnswer, digest
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.core.open_decisions import OpenDecision, OpenDecisions
from glcb.service.core.presentations import Presentations
from glcb.service.core.rankings import (
    NO_OUTCOME,
    SlotRewards,
    count_decision,
    count_slots,
    has_catalog,
    most_likely,
)
from glcb.service.core.tally import Tally
from glcb.service.errors import ApiError
from glcb.service.storage.database import Event

_MAX_QUICK_SETTLED = 32
"""Decisions that an event can settle in the event loop."""


class CorruptLog(StorageError):
    """The stored events cannot be replayed. Retrying does not help."""


class ExperimentState(Struct, kw_only=True):
    """The state of an experiment without its bandit."""

    creation: Creation
    settings: ExperimentSettings
    """The current settings."""
    created: float
    status: State = "running"
    sequence: int = 0
    """Sequence number of the last event."""
    last_event_at: float = 0.0
    """Time of the last event. It never decreases, even if the system clock does."""
    decisions: int = 0
    """Requests for a decision or a ranking. It numbers the draws of the holdout."""
    tally: Tally = msgspec.field(default_factory=Tally)
    idempotency_keys: IdempotencyKeys = msgspec.field(default_factory=IdempotencyKeys)
    open_decisions: dict[str, OpenDecision] = msgspec.field(default_factory=dict)
    """Written by :meth:`Experiment.snapshot`."""
    extra_slots: int | UnsetType = UNSET
    """Slots of rankings beyond the first ones; each is a decision without a request of its own."""
    presentations: Presentations | UnsetType = UNSET
    """Names of slots, and deferred decisions."""


class Experiment:
    """A bandit and its state.

    Parameters
    ----------
    state
        The state without the bandit.
    bandit
        The bandit; the experiment sets its clock and its reward callback.
    """

    def __init__(self, state: ExperimentState, bandit: Bandit) -> None:
        self.state = state
        self._reporting: tuple[str, ...] = ()
        self._has_decisions = False
        self._now = state.last_event_at
        self.attach(bandit, state.open_decisions)

    @classmethod
    def create(cls, creation: Creation, now: float) -> tuple["Experiment", Event]:
        """Return a new experiment and its first event."""
        state = ExperimentState(creation=creation, settings=creation.settings, created=now)
        experiment = cls(state, models.make_bandit(creation.settings, creation.id_prefix))
        if creation.history is not UNSET:
            state.tally.begin(now, creation.settings.schema)
        return experiment, experiment._record("create", encode(creation), NO_OUTCOME, now)

    @property
    def bandit(self) -> Bandit:
        """The bandit. Mutate it only through events."""
        return self._bandit

    @property
    def now(self) -> float:
        """Time of the event that is being applied."""
        return self._now

    @property
    def has_decisions(self) -> bool:
        """Whether a decision has been made; the first one creates the model, sized by its context."""
        if not self._has_decisions:
            self._has_decisions = self._bandit.counts["decisions"] > 0
        return self._has_decisions

    @property
    def is_fast(self) -> bool:
        """Whether a decision needs neither an optional dependency nor a new model."""
        return self._is_lightweight and self.has_decisions

    def has_backlog(self, clock: Callable[[], float]) -> bool:
        """Return whether the next event would first settle so many decisions that it takes long."""
        if self.state.settings.reward_timeout is None:
            return False
        self._now = max(clock(), self.state.last_event_at)
        return self._bandit.has_due(more_than=_MAX_QUICK_SETTLED)

    # ---- events ---------------------------------------------------------------------------------

    def apply(
        self, kind: str, request: Any, now: float, payload: bytes | None = None
    ) -> tuple[Event | None, bytes | RepeatedAnswer]:
        """Apply a request; return its event and its answer.

        Parameters
        ----------
        kind
            The kind of event, such as ``"decide"``.
        request
            The request type of this kind, see ``_REQUESTS``.
        now
            The time, in seconds since the epoch.
        payload
            The encoded request, if it has been encoded already.

        Returns
        -------
        event : Event or None
            The event to store, or None if a repeated request changed nothing.
        answer : bytes or RepeatedAnswer
            The encoded answer, or a reference to the stored one.

        Raises
        ------
        GlcbError
            The request is invalid. Nothing has changed.
        """
        self._now = max(now, self.state.last_event_at)
        outcome, answer = _HANDLERS[kind](self, request)
        if outcome is None:
            return None, answer
        payload = encode_request(request) if payload is None else payload
        return self._record(kind, payload, outcome, self._now), answer

    def replay(self, event: Event) -> None:
        """Apply a stored event; raise CorruptLog if its outcome differs from the stored one."""
        if event.sequence != self.state.sequence + 1:
            raise CorruptLog(
                f"events {self.state.sequence + 1} to {event.sequence - 1} of "
                f"{self.state.creation.name!r} are missing"
            )
        try:
            kind = _REQUESTS[event.kind]
            request = event.request if kind is bytes else msgspec.json.decode(event.request, type=kind)
            replayed, _ = self.apply(event.kind, request, event.at)
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError, GlcbError) as error:
            raise self._mismatch(event, type(error).__name__) from error
        if replayed is None or replayed[:3] != event[:3] or replayed.outcome != event.outcome:
            raise self._mismatch(event, "nothing" if replayed is None else repr(replayed.outcome[:200]))

    def _mismatch(self, event: Event, outcome: str) -> CorruptLog:
        return CorruptLog(
            f"event {event.sequence} of {self.state.creation.name!r} replayed differently: stored outcome "
            f"{event.outcome[:200]!r}, replayed outcome {outcome}; the log was altered, or written by "
            "another version of glcb or on another kind of machine"
        )

    def _record(self, kind: str, request: bytes, outcome: bytes, at: float) -> Event:
        state = self.state
        state.sequence += 1
        state.last_event_at = at
        return Event(state.sequence, at, kind, request, outcome)

    def _decide(self, request: DecisionRequest) -> Result:
        state = self.state
        repeated = state.idempotency_keys.find(request.idempotency_key, request)
        if repeated is not None:
            return None, repeated
        self.reject_if("archived", "paused")
        if self.has_catalog or request.arms is not None:
            return self._decide_among(request)
        held_out = self._is_held_out()
        decision = self._bandit.decide(
            request.context, eligible=request.eligible, uniform=held_out, id=request.id
        )
        arm = str(decision.arm)
        answer = encode(
            Decision(
                id=decision.id,
                arm=arm,
                propensity=decision.propensity,
                probabilities=decision.probabilities,  # type: ignore[arg-type]  # arms are strings here
                holdout=held_out,
            )
        )
        self._count_request(request)
        self._count_decision(decision, request, held_out)
        if request.idempotency_key is not None:
            stored = StoredAnswer(digest(request), decision.id, state.sequence + 1)
            state.idempotency_keys.add(request.idempotency_key, stored, self._bandit.is_pending)
        if request.deferred:
            self._defer(decision.id)
        return answer, answer

    def _decide_among(self, request: DecisionRequest) -> Result:
        """Decide among arms with features: a ranking with one slot."""
        ranking, held_out = self._draw(request, 1)
        answer = encode(
            Decision(
                id=ranking.id,
                arm=str(ranking.arms[0]),
                propensity=ranking.propensities[0],
                probabilities=most_likely(ranking),
                holdout=held_out,
                candidates=len(ranking.candidates),
            )
        )
        return answer, answer

    def _rank(self, request: RankingRequest) -> Result:
        repeated = self.state.idempotency_keys.find(request.idempotency_key, request)
        if repeated is not None:
            return None, repeated
        self.reject_if("archived", "paused")
        presentations.check_request(request, self.state.settings.max_pending)
        ranking, held_out = self._draw(request, request.k)
        if request.slot_names is not None:
            self._presentations().name_slots(ranking.id, request.slot_names, self.state.settings.max_pending)
        answer = encode(
            Ranking(
                id=ranking.id,
                arms=tuple(map(str, ranking.arms)),
                propensities=ranking.propensities,
                holdout=held_out,
                candidates=len(ranking.candidates if request.eligible is None else set(request.eligible)),
            )
        )
        return answer, answer

    def _draw(
        self, request: DecisionRequest | RankingRequest, slots: int
    ) -> tuple[bandit_ranking.Ranking, bool]:
        """Draw the arms of all slots and count them; return the ranking and whether it is held out."""
        state = self.state
        held_out = self._is_held_out()
        ranking = self._bandit.rank(
            request.context,
            k=slots,
            arms=named_features(request.arms),
            eligible=request.eligible,
            uniform=held_out,
            id=request.id,
        )
        self._count_request(request)
        if slots > 1:
            state.extra_slots = (0 if state.extra_slots is UNSET else state.extra_slots) + slots - 1
        predicts = state.tally.predicts
        for slot in count_slots(
            ranking, state.settings, request.context, request.eligible, held_out, self._now, predicts
        ):
            state.tally.add_decision(self._now, slot.record, slot.opened)
            self.open.add(slot.id, slot.opened)
        self._count_rewards()
        if request.idempotency_key is not None:
            stored = StoredAnswer(digest(request), ranking.id, state.sequence + 1)
            state.idempotency_keys.add(request.idempotency_key, stored, self._bandit.is_pending)
        if request.deferred:
            self._defer(ranking.id, slots)
        return ranking, held_out

    def _reward(self, request: RewardItem) -> Result:
        self.reject_if("archived")
        if self.state.presentations is not UNSET or isinstance(request.slot, str):
            request = presentations.resolve(self.state.presentations, request)
        if self.state.extra_slots is not UNSET or request.slot is not None or request.examined is not None:
            return self._reward_slots(request)
        self._reporting = (request.id,)
        try:
            accepted = self._bandit.reward(request.id, request.value, idempotency_key=request.idempotency_key)
        finally:
            self._reporting = ()
        if not accepted:
            return None, encode(RewardAccepted(request.id, "duplicate"))
        self._note_report(request.id)
        self._count_rewards()
        return NO_OUTCOME, encode(RewardAccepted(request.id, "accepted"))

    def _reward_slots(self, request: RewardItem) -> Result:
        """Reward one or all slots of a ranking; the outcome lists what was learned for each."""
        slot, examined = request.slot, request.examined
        assert not isinstance(slot, str)  # names have been resolved
        affected = self._bandit.affected_slots(request.id, slot=slot, examined=examined)
        self._reporting = tuple(slot_id(request.id, one) for one in affected.rewarded)
        try:
            accepted = self._bandit.reward(
                request.id,
                request.value,
                slot=slot,
                examined=examined,
                idempotency_key=request.idempotency_key,
            )
            if not accepted:
                return None, encode(RewardAccepted(request.id, "duplicate"))
            for decision in self._reporting:
                self._note_report(decision)
        finally:
            self._reporting = ()
        self._count_rewards()
        default = self.state.settings.default_reward
        default = self.reward_range[0] if default is None else default
        rewards = [(one, float(request.value)) for one in affected.rewarded]
        rewards += [(one, default) for one in affected.default]
        outcome = SlotRewards(rewards, len(affected.rewarded), list(affected.unexamined))
        return encode(outcome), encode(RewardAccepted(request.id, "accepted"))

    def _activate(self, request: Activation) -> Result:
        self.reject_if("archived")
        own = self.state.presentations
        if not presentations.activate(own, self._bandit, self.open, request.id, self._now):
            return None, NO_OUTCOME
        self._count_rewards()
        return NO_OUTCOME, NO_OUTCOME

    def _begin_history(self, _request: bytes) -> Result:
        """Begin the history and the segments of an experiment of an earlier version."""
        if self.state.tally.history is not UNSET:
            return None, NO_OUTCOME
        self.state.tally.begin(self._now, self.state.settings.schema)
        return NO_OUTCOME, NO_OUTCOME

    def _settle(self, _request: bytes) -> Result:
        if not self._bandit.settle():
            return None, NO_OUTCOME
        self._count_rewards()
        return encode(self._bandit.counts), NO_OUTCOME

    # ---- helpers of the events ------------------------------------------------------------------

    def attach(self, bandit: Bandit, open_decisions: dict[str, OpenDecision]) -> None:
        """Use a bandit, and set everything that follows from the settings."""
        self._bandit = bandit.set_params(clock=lambda: self._now)
        self._bandit.on_reward(self._settle_reward)
        self._has_decisions = False
        settings = self.state.settings
        self.has_catalog = has_catalog(settings)
        if self.has_catalog and self.state.tally.catalog is UNSET:
            self.state.tally.catalog = CatalogTally()
        self.open = OpenDecisions(settings.reward_timeout is not None, open_decisions)
        self._is_lightweight = not registry.get(settings.policy).policy_class.requires
        self.reward_range = reward_range(settings.rewards)
        """The lowest and the highest reward."""

    def _count_decision(self, decision: BanditDecision, request: DecisionRequest, held_out: bool) -> None:
        state = self.state
        counted = count_decision(
            decision, state.settings, request, held_out, self._now, predicts=state.tally.predicts
        )
        state.tally.add_decision(self._now, counted.record, counted.opened)
        self.open.add(counted.id, counted.opened)
        self._count_rewards()

    def _count_request(self, request: DecisionRequest | RankingRequest) -> None:
        """Count a request for a decision that was made; its id may be that of one that is long over."""
        self.state.decisions += 1
        if request.id is not None and self.state.presentations is not UNSET:
            self.state.presentations.forget(request.id)

    def _presentations(self) -> Presentations:
        if self.state.presentations is UNSET:
            self.state.presentations = Presentations()
        return self.state.presentations

    def _defer(self, decision: str, slots: int = 1) -> None:
        most = self.state.settings.max_pending
        self._presentations().defer(self._bandit, self.open, decision, slots, self._now, most)

    def _settle_reward(self, decision: str, _arm: str | int, value: float) -> None:
        if decision in self._reporting:
            self._note_report(decision)
        self.open.settle(decision, value)

    def _note_report(self, decision: str) -> None:
        """Note that a reward was reported; default rewards are not."""
        opened = self.open.report(decision)
        if opened is not None:
            self.state.tally.vitals.arrivals.add_report(self._now - opened.decided_at)

    def _count_rewards(self) -> None:
        low, high = self.reward_range
        for decision in self.open.release(self._bandit.is_pending):
            assert decision.reward is not None  # only these are released
            scaled = (decision.reward - low) / (high - low)
            self.state.tally.add_reward(self._now, decision, decision.reward, scaled)

    def _is_held_out(self) -> bool:
        """Return whether the next decision is held out, which only depends on the salt and its number."""
        holdout = self.state.settings.holdout
        if not holdout:
            return False
        drawn = self.keyed_digest(b"", self.state.decisions, 7)
        return (int.from_bytes(drawn) >> 3) / 2**53 < holdout

    def keyed_digest(self, purpose: bytes, number: int, size: int) -> bytes:
        """Return bytes that nobody can predict who does not know the salt."""
        key = self.state.creation.salt.encode()
        return blake2b(purpose + number.to_bytes(8), digest_size=size, key=key).digest()

    def reject_if(self, *statuses: str) -> None:
        """Raise ApiError if the experiment has one of these states."""
        status = self.state.status
        if status in statuses:
            raise ApiError(
                f"experiment_{status}", f"the experiment is {status}: set its state to running first"
            )

    # ---- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> ExperimentSnapshot:
        """Return a snapshot, which later events do not change."""
        saved = msgspec.structs.replace(self.state, open_decisions=self.open.snapshot())
        state = msgspec.msgpack.encode(saved)
        return ExperimentSnapshot(self.state.sequence, self._bandit.snapshot(), state)

    @classmethod
    def from_snapshot(cls, snapshot: ExperimentSnapshot) -> "Experiment":
        """Return the experiment of a snapshot; raise ModelFileError if the snapshot is damaged."""
        try:
            state = msgspec.msgpack.decode(snapshot.state, type=ExperimentState)
        except msgspec.DecodeError as error:
            raise ModelFileError(f"the snapshot is damaged: {error}") from error
        return cls(state, models.restore_bandit(snapshot.bandit))


def encode_request(request: Any) -> bytes:
    """Return a request as its event stores it."""
    return request if isinstance(request, bytes) else encode(request)


def new_creation(name: str, settings: ExperimentSettings) -> Creation:
    """Return the first event's request for a new experiment, with random numbers of its own."""
    if not settings.arms and not has_catalog(settings):
        raise InvalidSettings("an experiment needs at least one arm")
    return Creation(
        name=name, salt=secrets.token_hex(16), id_prefix=random_prefix(), history=True, settings=settings
    )


_Handler = Callable[[Experiment, Any], Result]

_HANDLERS: dict[str, _Handler] = {
    "decide": Experiment._decide,
    "reward": Experiment._reward,
    "activate": Experiment._activate,
    "settle": Experiment._settle,
    "change": administration.change,
    "rank": Experiment._rank,
    "add_arm": administration.add_arm,
    "remove_arm": administration.remove_arm,
    "set_arms": administration.set_arms,
    "change_arms": administration.change_arms,
    "replace_model": administration.replace_model,
    "upload": administration.upload,
    "begin_history": Experiment._begin_history,
}
"""The kinds of events after the first one."""

_REQUESTS: dict[str, Any] = {
    "decide": DecisionRequest,
    "reward": RewardItem,
    "activate": Activation,
    "settle": bytes,
    "change": ExperimentChanges,
    "rank": RankingRequest,
    "add_arm": NewArm,
    "remove_arm": NewArm,
    "set_arms": Catalog,
    "change_arms": CatalogChanges,
    "replace_model": bytes,
    "upload": bytes,
    "begin_history": bytes,
}
"""The request type of each kind of event; bytes for those that are not JSON."""

"""An experiment: a bandit, its settings and its statistics.

The state changes only through events, applied by :meth:`Experiment.apply`. An event contains everything that
its effect depends on: the request, the time and, for a decision, a record of what was decided. The same
events therefore lead to the same decisions, counts and statistics on every machine. What is learned from
rewards is learned again (:meth:`Experiment.recover`), so the last bits of the model depend on the machine.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Decoder

from glcb._api.guardrails import REWARD, Action, ArmPause, Breach, SettingChange, or_default
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
    SetAside,
    Takeover,
    encode,
)
from glcb._api.responses import RewardAccepted, State
from glcb._environment import environment
from glcb._errors import GlcbError, InvalidInput, InvalidSettings, MissingExtra, ModelFileError, StorageError
from glcb._types import reward_range
from glcb.bandit import Bandit, recorded
from glcb.bandit.randomness import RandomNumbers, keyed_fraction
from glcb.bandit.recorded import previewing, use_id_prefix, use_random_numbers
from glcb.bandit.records import random_prefix
from glcb.bandit.slots import slot_id
from glcb.policies import registry
from glcb.service.core import administration, deciding, models, presentations
from glcb.service.core.administration import DONE, UNCHANGED, Result
from glcb.service.core.forecasts import CatalogForecasts
from glcb.service.core.guard import Guard, GuardedDecision, RecordedReward, check_metrics, is_due
from glcb.service.core.idempotency import IdempotencyKeys, RepeatedAnswer
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.core.open_decisions import OpenDecision, OpenDecisions
from glcb.service.core.presentations import Presentations
from glcb.service.core.rankings import NO_OUTCOME, SlotRewards, has_catalog
from glcb.service.core.records import DecisionRecord, decode_record
from glcb.service.core.steering import Steering
from glcb.service.core.tally import Tally
from glcb.service.core.trail import Trail
from glcb.service.errors import ApiError
from glcb.service.events import Event

_MAX_QUICK_SETTLED = 32
"""Decisions that an event can settle in the event loop."""
_MAX_SMALL_CELLS = 1_000_000
"""Arms × slots² of a small experiment: its decisions take a few milliseconds at most."""


class CorruptLog(StorageError):
    """The stored events cannot be applied. Retrying does not help.

    Parameters
    ----------
    message
        What is wrong.
    last_good
        Sequence number of the last event that can be applied, and from which the experiment can continue;
        0 if there is none.
    """

    def __init__(self, message: str, last_good: int = 0) -> None:
        super().__init__(message)
        self.last_good = last_good


class ExperimentState(Struct, kw_only=True):
    """The state of an experiment without its bandit."""

    creation: Creation
    settings: ExperimentSettings
    """The current settings."""
    created: float
    writer: dict[str, str] = {}
    """The versions and the processor of the process that makes the decisions."""
    status: State = "running"
    sequence: int = 0
    """Sequence number of the last event."""
    last_event_at: float = 0.0
    """Time of the last event. It never decreases, even if the system clock does."""
    decisions: int = 0
    """Requests for a decision or a ranking. It numbers their random numbers."""
    tally: Tally = msgspec.field(default_factory=Tally)
    idempotency_keys: IdempotencyKeys = msgspec.field(default_factory=IdempotencyKeys)
    open_decisions: dict[str, OpenDecision] = msgspec.field(default_factory=dict)
    """Written by :meth:`Experiment.snapshot`."""
    extra_slots: int | UnsetType = UNSET
    """Slots of rankings beyond the first ones; each is a decision without a request of its own."""
    presentations: Presentations | UnsetType = UNSET
    """Names of slots, and deferred decisions."""
    guard: Guard | UnsetType = UNSET
    """Further metrics, guardrails and shadow mode."""
    trail: Trail | UnsetType = UNSET
    """Changes of the settings, the arms and the model."""


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
        self.now = state.last_event_at
        """Time of the event that is being applied."""
        self._key = state.creation.salt.encode()
        self._author: str | None = None
        self.attach(bandit, state.open_decisions)

    @classmethod
    def create(cls, creation: Creation, now: float, author: str | None = None) -> tuple["Experiment", Event]:
        """Return a new experiment and its first event."""
        state = ExperimentState(
            creation=creation, settings=creation.settings, created=now, writer=creation.writer
        )
        experiment = cls(state, models.make_bandit(creation.settings, creation.id_prefix))
        state.tally.begin(now, creation.settings)
        experiment._author, experiment.now = author, now
        experiment.note("created")
        return experiment, experiment._record("create", encode(creation), NO_OUTCOME, now)

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.state.creation.name

    @property
    def has_decisions(self) -> bool:
        """Whether a decision has been made; the first one creates the model, sized by its context."""
        if not self._has_decisions:
            self._has_decisions = self.bandit.counts["decisions"] > 0
        return self._has_decisions

    @property
    def is_small(self) -> bool:
        """Whether a decision takes little time: it needs neither an optional dependency nor a large model."""
        schema = self.bandit.schema
        return (
            not (self._has_requirements or self.has_catalog)
            and schema is not None
            and len(self.bandit.arms) * schema.width**2 <= _MAX_SMALL_CELLS
        )

    def has_backlog(self, clock: Callable[[], float]) -> bool:
        """Return whether the next event would first settle so many decisions that it takes long."""
        if self.state.settings.reward_timeout is None:
            return False
        self.now = max(clock(), self.state.last_event_at)
        return recorded.has_due(self.bandit, more_than=_MAX_QUICK_SETTLED)

    # ---- events ---------------------------------------------------------------------------------

    def apply(
        self,
        kind: str,
        request: Any,
        now: float,
        payload: bytes | None = None,
        author: str | None = None,
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
        author
            Who changes the experiment; None for decisions and rewards.

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
        self.now, self._author = max(now, self.state.last_event_at), author
        payload = encode_request(request) if payload is None else payload
        _check_readable(kind, payload)
        outcome, answer, record = _HANDLERS[kind](self, request)
        if outcome is None:
            return None, answer
        return self._record(kind, payload, outcome, self.now, record), answer

    def take_over(self, id_prefix: str, now: float) -> tuple[Callable[[], None], Event]:
        """Let later decisions have ids with a prefix of their own.

        Returns
        -------
        undo : callable
            Restores the state before, if no decision follows.
        event : Event
            The event to store before that of the first decision.
        """
        sequence, at, writer = self.state.sequence, self.state.last_event_at, self.state.writer
        before = use_id_prefix(self.bandit, id_prefix)
        event, _ = self.apply("take_over", Takeover(id_prefix=id_prefix, writer=environment()), now)
        assert event is not None  # a takeover is always an event

        def undo() -> None:
            self.state.sequence, self.state.last_event_at, self.state.writer = sequence, at, writer
            use_id_prefix(self.bandit, before)

        return undo, event

    def recover(self, event: Event) -> None:
        """Apply a stored event; raise CorruptLog if that is not possible.

        A decision is counted as it was recorded. Rewards are learned again.
        """
        name, expected = self.state.creation.name, self.state.sequence + 1
        if event.sequence != expected:
            missing = f"events {expected} to {event.sequence - 1} of {name!r} are missing"
            raise CorruptLog(missing, expected - 1)
        self.now, self._author = event.at, event.author
        try:
            request = decode_request(event)
            if event.kind in DECISIONS:
                deciding.recover(self, request, decode_record(event.record))
            elif _HANDLERS[event.kind](self, request).outcome is None:
                raise CorruptLog("it changes nothing")
        except (MemoryError, OSError):
            raise  # the event is not to blame
        except RuntimeError as error:  # of a library; its link has shown that the event is intact
            if isinstance(error, RecursionError):
                raise CorruptLog(f"event {event.sequence} of {name!r} is nested too deeply") from error
            raise StorageError(
                f"event {event.sequence} of {name!r} cannot be applied now: {error}"
            ) from error
        except Exception as error:  # whatever is wrong with an event, it cannot be applied
            if isinstance(error.__cause__, MemoryError):
                raise error.__cause__ from None
            reason = str(error) if isinstance(error, GlcbError) else f"{type(error).__name__}: {error}"
            event_name = f"event {event.sequence} of {name!r}, of kind {event.kind!r},"
            # A library that is missing can be installed: no event is to blame.
            last_good = 0 if isinstance(error, MissingExtra) else expected - 1
            raise CorruptLog(f"{event_name} cannot be applied: {reason}", last_good) from error
        self.state.sequence, self.state.last_event_at = event.sequence, event.at

    def preview(self, event: Event) -> tuple[bytes, DecisionRecord]:
        """Make a stored decision again, without counting it; return the answer and the record.

        Decisions that are due are settled, as :meth:`recover` would do next.
        """
        self.now, self._author = event.at, event.author
        with previewing(self.bandit):
            return deciding.draw(self, decode_request(event))

    def _record(self, kind: str, request: bytes, outcome: bytes, at: float, record: bytes = b"") -> Event:
        state = self.state
        state.sequence += 1
        state.last_event_at = at
        return Event(state.sequence, at, kind, request, outcome, record, self._author)

    def _reward(self, request: RewardItem) -> Result:
        self.reject_if("archived")
        if request.metrics is not None:
            check_metrics(request.metrics, self.ranges)
        if self.state.presentations is not UNSET or isinstance(request.slot, str):
            request = presentations.resolve(self.state.presentations, request)
        if self.state.extra_slots is not UNSET or request.slot is not None or request.examined is not None:
            return self._reward_slots(request)
        self._reporting = (request.id,)
        guarded = self._guarded(self._reporting)
        try:
            accepted = self.bandit.reward(request.id, request.value, idempotency_key=request.idempotency_key)
        finally:
            self._reporting = ()
        if not accepted:
            return Result(None, encode(RewardAccepted(request.id, "duplicate")))
        self._note_report(request.id)
        self._add_report(guarded, request)
        self.count_rewards()
        return Result(NO_OUTCOME, encode(RewardAccepted(request.id, "accepted")))

    def _reward_slots(self, request: RewardItem) -> Result:
        """Reward one or all slots of a ranking; the outcome lists what was learned for each."""
        slot, examined = request.slot, request.examined
        assert not isinstance(slot, str)  # names have been resolved
        affected = recorded.affected_slots(self.bandit, request.id, slot=slot, examined=examined)
        self._reporting = tuple(slot_id(request.id, one) for one in affected.rewarded)
        guarded = self._guarded(self._reporting)
        unrewarded = (*affected.default, *affected.unexamined)
        others = self._guarded([slot_id(request.id, one) for one in unrewarded])
        try:
            accepted = self.bandit.reward(
                request.id,
                request.value,
                slot=slot,
                examined=examined,
                idempotency_key=request.idempotency_key,
            )
            if not accepted:
                return Result(None, encode(RewardAccepted(request.id, "duplicate")))
            for name in self._reporting:
                self._note_report(name)
        finally:
            self._reporting = ()
        self._add_report(guarded, request)
        self._add_report(others, msgspec.structs.replace(request, metrics=None))
        if affected.rewarded or affected.default:  # otherwise, decisions that are due have not been settled
            self.count_rewards()
        default = self.state.settings.default_reward
        default = self.reward_range[0] if default is None else default
        rewards = [(one, float(request.value)) for one in affected.rewarded]
        rewards += [(one, default) for one in affected.default]
        outcome = SlotRewards(rewards, len(affected.rewarded), list(affected.unexamined))
        return Result(encode(outcome), encode(RewardAccepted(request.id, "accepted")))

    def _guarded(self, decisions: Sequence[str]) -> list[GuardedDecision]:
        """Return what guardrails know of decisions, before their reward is learned."""
        return [one for name in decisions if (one := self.open.guarded.get(name)) is not None]

    def _add_report(self, guarded: list[GuardedDecision], request: RewardItem) -> None:
        """Note the metrics of an accepted reward, and whether a publishable API key reported it."""
        for decision in guarded:
            decision.add_metrics(request.metrics or {}, self.state.settings.reward_aggregation)
            decision.public = decision.public or _is_public(request)

    def _activate(self, request: Activation) -> Result:
        self.reject_if("archived")
        own = self.state.presentations
        if not presentations.activate(own, self.bandit, self.open, request.id, self.now):
            return UNCHANGED
        self.count_rewards()
        return DONE

    def _settle(self, _request: bytes) -> Result:
        if not self.bandit.settle():
            return UNCHANGED
        self.count_rewards()
        return Result(encode(self.bandit.counts), NO_OUTCOME)

    # ---- helpers of the events ------------------------------------------------------------------

    def attach(self, bandit: Bandit, open_decisions: dict[str, OpenDecision]) -> None:
        """Use a bandit, and set everything that follows from the settings."""
        self.bandit = bandit.set_params(clock=lambda: self.now)
        """The bandit. Change it only through events."""
        use_random_numbers(bandit, lambda: RandomNumbers(self._key, self.state.decisions))
        self.bandit.on_reward(self._settle_reward)
        self._has_decisions = False
        settings = self.state.settings
        self.has_catalog = has_catalog(settings)
        if self.has_catalog and self.state.tally.catalog is UNSET:
            self.state.tally.catalog = CatalogForecasts()
        guarded: dict[str, GuardedDecision] = {}
        if self.state.guard is not UNSET:
            guarded, self.state.guard.open = self.state.guard.open, {}
        self.open = OpenDecisions(settings.reward_timeout is not None, open_decisions, guarded)
        self._has_requirements = bool(registry.get(settings.policy).policy_class.requires)
        self.reward_range = reward_range(settings.rewards)
        """The lowest and the highest reward."""
        self.use_settings()

    def use_settings(self) -> None:
        """Set everything that follows from settings that can change."""
        settings = self.state.settings
        self.steering = Steering(settings, self.bandit)
        self.ranges = {REWARD: self.reward_range}
        """The lowest and the highest value of every metric."""
        self.ranges |= {name: metric.range for name, metric in or_default(settings.metrics, {}).items()}
        self.open.set_order(settings.reward_timeout is not None)
        self.state.tally.use_settings(self.now, settings)
        guardrails = or_default(settings.guardrails, [])
        if guardrails or self.state.guard is not UNSET:
            self.guard().configure(guardrails)

    def guard(self) -> Guard:
        """Return what is known about the metrics, the guardrails and shadow mode."""
        if self.state.guard is UNSET:
            self.state.guard = Guard()
        return self.state.guard

    def note(
        self,
        action: Action,
        *,
        arm: str | None = None,
        reason: str | None = None,
        changes: Sequence[SettingChange] = (),
    ) -> None:
        """Add a change to the trail, unless nobody has made it."""
        if self._author is None:
            return
        if self.state.trail is UNSET:
            self.state.trail = Trail()
        number = self.state.sequence + 1
        self.state.trail.add(number, self.now, self._author, action, arm=arm, reason=reason, changes=changes)

    def find_breach(self, looked: int) -> tuple[int, Breach | None]:
        """Return the number of decisions that guardrails have counted, and one that breaks now.

        Nothing changes: the breach becomes an event of its own, so that a replay does not depend on it.
        """
        guard = self.state.guard
        if guard is UNSET or not guard.guardrails or self.state.status != "running":
            return looked, None
        counted = guard.metrics[REWARD].n if REWARD in guard.metrics else 0
        if not is_due(counted, looked):
            return looked, None
        return counted, guard.find_breach(self.state.settings, tuple(map(str, self.bandit.arms)))

    def presentations(self) -> Presentations:
        """Return the names of slots, and deferred decisions."""
        if self.state.presentations is UNSET:
            self.state.presentations = Presentations()
        return self.state.presentations

    def defer(self, decision: str, slots: int) -> None:
        """Defer a decision that has just been made."""
        most = self.state.settings.max_pending
        self.presentations().defer(self.bandit, self.open, decision, slots, self.now, most)

    def _settle_reward(self, decision: str, _arm: str | int, value: float) -> None:
        if decision in self._reporting:
            self._note_report(decision)
        self.open.settle(decision, value)

    def _note_report(self, decision: str) -> None:
        """Note that a reward was reported; default rewards are not."""
        opened = self.open.report(decision)
        if opened is not None:
            self.state.tally.vitals.arrivals.add_report(self.now - opened.decided_at)

    def count_rewards(self) -> None:
        """Count the rewards that are final."""
        for decision, guarded in self.open.release(partial(recorded.is_pending, self.bandit)):
            low, high = self.reward_range
            arms: tuple[Any, ...] = self.bandit.arms
            if decision.reward is None:
                assert guarded is not None  # only these are released without a reward
                self.guard().count_without_reward(guarded, self.state.settings, self.ranges, arms)
                continue
            scaled = (decision.reward - low) / (high - low)
            control = None if guarded is None else guarded.lift
            self.state.tally.add_reward(self.now, decision, decision.reward, scaled, control)
            if guarded is not None:
                self.guard().count(
                    guarded, decision.reward, self.state.settings, self.ranges, arms, decision.reported
                )

    def fraction(self, purpose: bytes) -> float:
        """Return a number from 0 to 1 for the next decision that nobody can predict."""
        return keyed_fraction(self._key, purpose, self.state.decisions)

    def group_fraction(self, unit: str | None) -> float:
        """Return the number that decides on the holdout: always the same for a unit."""
        if unit is None:
            return self.fraction(b"")
        return keyed_fraction(self._key, b"unit" + unit.encode(), 0)

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
        guard = self.state.guard
        if guard is not UNSET:
            guard = msgspec.structs.replace(guard, open=self.open.guarded)
        saved = msgspec.structs.replace(self.state, open_decisions=self.open.snapshot(), guard=guard)
        state = msgspec.msgpack.encode(saved)
        return ExperimentSnapshot(self.state.sequence, self.bandit._snapshot(), state)

    @classmethod
    def from_snapshot(cls, snapshot: ExperimentSnapshot) -> "Experiment":
        """Return the experiment of a snapshot; raise ModelFileError if the snapshot is damaged."""
        try:
            state = _STATE.decode(snapshot.state)
        except msgspec.DecodeError as error:
            raise ModelFileError(f"the snapshot is damaged: {error}") from error
        return cls(state, models.restore_bandit(snapshot.bandit))


def _is_public(request: RewardItem) -> bool:
    """Return whether a publishable API key reported a reward."""
    return isinstance(request, RecordedReward) and request.public


def encode_request(request: Any) -> bytes:
    """Return a request as its event stores it."""
    try:
        return request if isinstance(request, bytes) else encode(request)
    except RecursionError:  # decoding permits a few levels more than encoding
        raise InvalidInput("the request is nested too deeply: send fewer levels") from None


def _check_readable(kind: str, payload: bytes) -> None:
    """Raise ApiError unless a stored request can be read again: an event that cannot be read is damage."""
    decoder = _REQUESTS[kind]
    if decoder is not None:
        try:
            decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ApiError("invalid_request", f"the request cannot be stored: {error}") from None


def decode_request(event: Event) -> Any:
    """Return the request of a stored event; raise an error of any kind if it is damaged."""
    decoder = _REQUESTS[event.kind]
    return event.request if decoder is None else decoder.decode(event.request)


def new_creation(name: str, settings: ExperimentSettings) -> Creation:
    """Return the first event's request for a new experiment, with random numbers of its own."""
    if not settings.arms and not has_catalog(settings):
        raise InvalidSettings("an experiment needs at least one arm")
    return Creation(
        name=name,
        salt=secrets.token_hex(16),
        id_prefix=random_prefix(),
        settings=settings,
        writer=environment(),
    )


_Handler = Callable[[Experiment, Any], Result]

DECISIONS = ("decide", "rank")
"""The kinds of events with a record."""

_HANDLERS: dict[str, _Handler] = {
    "decide": deciding.decide,
    "reward": Experiment._reward,
    "activate": Experiment._activate,
    "settle": Experiment._settle,
    "change": administration.change,
    "rank": deciding.decide,
    "add_arm": administration.add_arm,
    "remove_arm": administration.remove_arm,
    "set_arms": administration.set_arms,
    "change_arms": administration.change_arms,
    "replace_model": administration.replace_model,
    "change_arm": administration.change_arm,
    "breach": administration.stop,
    "take_over": administration.take_over,
    "set_aside": administration.set_aside,
}
"""The kinds of events after the first one."""

_REQUESTS: dict[str, Decoder[Any] | None] = {
    "decide": Decoder(DecisionRequest),
    "reward": Decoder(RecordedReward),
    "activate": Decoder(Activation),
    "settle": None,
    "change": Decoder(ExperimentChanges),
    "rank": Decoder(RankingRequest),
    "add_arm": Decoder(NewArm),
    "remove_arm": Decoder(NewArm),
    "set_arms": Decoder(Catalog),
    "change_arms": Decoder(CatalogChanges),
    "replace_model": None,
    "change_arm": Decoder(ArmPause),
    "breach": Decoder(Breach),
    "take_over": Decoder(Takeover),
    "set_aside": Decoder(SetAside),
}
"""Decodes the requests of each kind of event; None for those that are not JSON."""
_STATE = msgspec.msgpack.Decoder(ExperimentState)

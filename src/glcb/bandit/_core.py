"""The state of a bandit and the events that change it.

An event is written to the log first, if there is one, and then applied. Everything that can fail is done
before the line is written, and if the line cannot be written, nothing is applied. The log therefore always
matches the state, and replaying it gives another bandit the same state. ``Bandit`` holds the lock; nothing
here is thread-safe.
"""

import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._errors import InvalidContext, InvalidInput, InvalidSettings, UnknownArm
from glcb._model_file import Snapshot
from glcb._types import Arm, reward_range
from glcb.bandit.candidates import arms_as_json, catalog_as_json, to_offsets
from glcb.bandit.catalog import EncodedCatalog, PreparedArms, plain_arms, to_name
from glcb.bandit.config import SHARED, BanditConfig, check_shares_of
from glcb.bandit.encoding.encoded import EncodedContext
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.bandit.logs.format import (
    Event,
    arms_event,
    decision_event,
    outcome_event,
    ranking_event,
    reward_event,
    unexamined_event,
)
from glcb.bandit.logs.writer import LogWriter
from glcb.bandit.pending import PendingDecisions
from glcb.bandit.randomness import RandomNumbers
from glcb.bandit.ranking import AffectedSlots, Slot, draw_slots
from glcb.bandit.records import LoggedReward, PendingDecision, checked_prefix, is_valid_id, random_prefix
from glcb.bandit.reward_rules import RewardRules, hash_key, read_clock
from glcb.bandit.slots import slot_id
from glcb.explain import Explanation
from glcb.explore.choice import ChoiceRule, distribution
from glcb.explore.shares import ShareBounds, share_bounds
from glcb.policies import registry
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.glcb.policy import GLCB
from glcb.policies.shared import OwnCorrections, estimate_candidates, join

_NOTHING_DRAWN = nullcontext()
NO_TIME = -math.inf
"""The time during a replay: the log records which outcomes were learned at a label age or a timeout."""

RewardCallback = Callable[[str, Arm, float], None]
"""Called with the id of a decision, its arm and its final reward."""


class Prepared(NamedTuple):
    """An encoded context with its encoder and policy, which are created for the first context."""

    encoder: Encoder
    policy: Policy
    encoded: EncodedContext
    arms: PreparedArms | None
    """The candidates; None if arms have no features."""


MAX_EXPLAINED = 20
"""How many top-scoring candidates are explained if no eligible arms are listed."""
POSITION_FEATURE, ARM_PREFIX = "position", "arm."
"""Names in explanations: the position of an arm, and the prefix of arm features."""


class ChosenSlot(NamedTuple):
    """The arm of one slot with what its policy learns from."""

    arm: Arm
    propensity: float
    x: Float32


class Chosen(NamedTuple):
    """A decision or a ranking."""

    names: tuple[Arm, ...]
    """The arms or the candidates."""
    id: str
    slots: list[Slot]
    sampled: bool
    """Whether the policy draws its scores at random."""


class BanditCore:
    """Encoder, policy, random numbers and pending decisions of a bandit.

    Encoder and policy are created for the first context, which fixes their size.
    """

    def __init__(self, config: BanditConfig) -> None:
        self.log: LogWriter | None = None
        self.on_reward: RewardCallback | None = None
        self.numbers: Callable[[], RandomNumbers] | None = None
        """Random numbers for the next decision; None derives them from the key."""
        self.is_preview = False
        """True if decisions are neither counted nor kept pending."""
        self.id_prefix = ""
        """Prefix of generated decision ids."""
        self._seed, self.key = config.seed, config.seed.to_bytes(8)
        """The seed and the random-number key, which a fork changes."""
        self.reset(config)

    def reset(self, config: BanditConfig) -> None:
        """Reset to an untrained state with new arguments. State that is not an argument is kept."""
        self.config = config
        self.arms = config.arm_names
        self.positions = config.slots if config.slots > 1 else 0
        """Number of features that encode the position in a ranking."""
        self.index = {arm: index for index, arm in enumerate(self.arms)}
        if config.seed != self._seed:
            self._seed, self.key = config.seed, config.seed.to_bytes(8)
        self.encoder: Encoder | None = None
        self.policy: Policy | None = None
        self.catalog = (
            EncodedCatalog(config.arm_features, config.arm_schema) if config.has_arm_features else None
        )
        self.own: OwnCorrections | None = None
        self.pending = PendingDecisions(config.max_pending, RewardRules.from_config(config))
        self.bounds = self._bounds_of(config, self.index)

    def _bounds_of(self, config: BanditConfig, index: Mapping[Arm, int]) -> ShareBounds | None:
        """Return the probability bounds of arms without features; None if unbounded."""
        if config.shares is None or self.catalog is not None:
            return None
        check_shares_of(config.shares, tuple(index))
        return share_bounds(config.shares, index)

    @property
    def has_started(self) -> bool:
        """Whether any decision has been made."""
        return self.encoder is not None

    def change(self, **changes: Any) -> None:
        """Change mutable arguments.

        If reward rules change, decisions that already have a reward are settled under the old rules.
        """
        config, encoder, policy = replace(self.config, **changes), self.encoder, self.policy
        bounds = self._bounds_of(config, self.index)
        self.pending.check_rules(rules := RewardRules.from_config(config))
        if encoder is not None and config.schema != self.config.schema:
            encoder = encoder.redeclared(parse_schema(config.schema))
        if policy is not None and config.half_life != self.config.half_life:
            snapshot = policy.snapshot()
            arguments = {**snapshot.arguments, "half_life": config.half_life}
            policy = type(policy).from_snapshot(replace(snapshot, arguments=arguments))
        if rules != self.pending.rules:
            self._settle_all(self.now())
            self.pending.change_rules(rules, read_clock(config.clock))
        self.config, self.encoder, self.policy, self.bounds = config, encoder, policy, bounds

    def _settle_all(self, now: float) -> None:
        """Settle the decisions that are due, and learn all rewards that have arrived."""
        self.settle(now)
        for decision, outcome in self.pending.with_reward():
            self._close(decision, outcome, now)
        for decision, outcome in self.pending.unlearned():
            self._label(decision, outcome, now)

    def separate(self) -> None:
        """Make later ids and random numbers differ from every other copy of this bandit."""
        self.id_prefix = random_prefix()
        self.key = secrets.token_bytes(16)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of an untrained bandit with the current arms, without the clock."""
        arms = list(self.arms) if self.catalog is None else catalog_as_json(self.catalog.arms)
        return {**self.config.as_json(), "arms": arms}

    # ---- decisions ------------------------------------------------------------------------------

    def prepare(self, context: Any, arms: Any = None, eligible: Iterable[Arm] | None = None) -> Prepared:
        """Encode a context and, if arms have features, the candidates. Changes nothing."""
        encoder = self.encoder or self.config.make_encoder(context)
        encoded = encoder.encode(context)
        candidates = None if self.catalog is None else self.catalog.prepare(arms, eligible)
        policy = self.policy
        if policy is None:
            width = encoder.width + self.positions
            width += 0 if candidates is None else candidates.candidates.features.shape[1]
            policy = self.config.make_policy(self.arms, width)
        return Prepared(encoder, policy, encoded, candidates)

    def at_position(self, x: Float32, slot: int) -> Float32:
        """Return an encoded context with the position of a slot, if positions are features."""
        if not self.positions:
            return x
        position = np.zeros(self.positions, np.float32)
        position[slot] = 1
        return np.concatenate([x, position])

    def check_contexts(self, contexts: list[Any]) -> None:
        """Raise InvalidContext, which names the row, unless all contexts are valid in this order."""
        encoder = self.encoder
        for row, context in enumerate(contexts):
            try:
                encoder = encoder or self.config.make_encoder(context)
                encoder.encode(context)
            except InvalidContext as error:
                raise InvalidContext(f"row {row}: {error}") from None

    def decide(
        self,
        context: Any,
        count: int,
        *,
        arms: Any = None,
        eligible: Iterable[Arm] | None = None,
        uniform: bool = False,
        offsets: Mapping[Any, float] | None = None,
        serve: Sequence[Arm] = (),
        chosen_id: str | None = None,
    ) -> Chosen:
        """Choose the arms of all slots, and add each slot to the pending decisions.

        Takes the arguments of ``Bandit.decide`` and ``Bandit.rank``; a decision has one slot.
        """
        if chosen_id is not None:
            self.pending.check_new_id(chosen_id)
        is_plain = arms is None and eligible is None and offsets is None and not uniform and not serve
        allowed = None if is_plain else self._allowed(arms, eligible)
        prepared = self.prepare(context, arms, eligible)
        policy, x = prepared.policy, prepared.encoded.x
        names = self.arms if prepared.arms is None else prepared.arms.names
        if type(count) is not int or count != 1:
            self._check_count(count, len(names) if allowed is None else len(allowed))
        added = None if offsets is None else to_offsets(offsets, names)
        served = self._served(prepared, serve, allowed, count) if serve else ()
        now = self._begin(incoming=count)
        is_plain = is_plain and count == 1 and prepared.arms is None and not (self.positions or self.bounds)
        # Without a log, nothing can fail between choosing and counting, so one step does both.
        counted = is_plain and self.log is None and not self.is_preview
        if not counted:
            policy.ensure_capacity()
        numbers = self.random_numbers()
        with self.drawing(policy, numbers):
            if is_plain:
                exploration, mode = self.config.exploration, self.config.exploration_mode
                estimates, shares, arm = policy.choose(x, exploration, mode, numbers.fraction(), counted)
                slots = [Slot(arm, float(shares[arm]), shares, estimates)]
                chosen = [ChosenSlot(names[arm], slots[0].propensity, x)]
            else:
                slots = draw_slots(
                    self._estimator(prepared),
                    allowed,
                    count,
                    self.choice_rule(uniform, prepared.arms),
                    numbers.fraction,
                    added,
                    served,
                )
                chosen = [
                    ChosenSlot(names[arm], propensity, self._input(prepared, arm, number))
                    for number, (arm, propensity, *_) in enumerate(slots)
                ]
        decision_id = self._add(prepared, context, chosen, now, eligible is not None, chosen_id, counted)
        return Chosen(names, decision_id, slots, policy.is_randomized)

    def random_numbers(self) -> RandomNumbers:
        """Return the random numbers of the next decision."""
        if self.numbers is not None:
            return self.numbers()
        return RandomNumbers(self.key, self.pending.decisions)

    def _begin(self, incoming: int) -> float:
        """Settle due decisions and make room for new ones; return the time, as :meth:`now` does."""
        if self.config.reward_timeout is None:
            return 0.0
        now = read_clock(self.config.clock)
        self.settle(now, incoming)
        return now

    def drawing(self, policy: Policy, numbers: RandomNumbers) -> AbstractContextManager[None]:
        """Let a policy that draws its scores use the random numbers of a decision."""
        return policy.drawing_from(numbers.generator()) if policy.is_randomized else _NOTHING_DRAWN

    def _allowed(self, arms: Any, eligible: Iterable[Arm] | None) -> list[int] | None:
        """Return the indices of the eligible arms if arms have no features."""
        if self.catalog is not None:
            return None
        if arms is not None:
            raise InvalidInput(
                "this bandit has arms without features: pass eligible= to restrict them, or create it with "
                "arms={name: {feature: value}}"
            )
        return None if eligible is None else _validation.eligible(eligible, self.index)

    def _check_count(self, count: object, candidates: int) -> None:
        slots = self.config.slots
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"k must be a positive integer, got {count!r}")
        if count > candidates:
            raise InvalidInput(
                f"k must be at most the number of candidates, which is {candidates:,}, got {count:,}"
            )
        if 1 < slots < count:
            raise InvalidInput(f"k must be at most slots={slots}, got {count:,}: raise slots")

    def _served(
        self, prepared: Prepared, serve: Sequence[Arm], allowed: list[int] | None, count: int
    ) -> list[int]:
        """Return the indices of the arms that are served in the first slots."""
        served = [self.replayed_index(prepared, arm) for arm in serve]
        if len(set(served)) != len(served) or len(served) > count:
            raise InvalidInput(f"serve must have at most {count} different arms, got {list(serve)}")
        if allowed is not None and not set(served) <= set(allowed):
            raise UnknownArm(f"serve must have eligible arms, got {list(serve)}")
        return served

    def choice_rule(self, uniform: bool, arms: PreparedArms | None) -> ChoiceRule:
        """Return how the arm of the first slot is drawn."""
        config, bounds = self.config, self.bounds
        if arms is not None and config.shares is not None:
            bounds = share_bounds(config.shares, {arm: place for place, arm in enumerate(arms.names)})
        return ChoiceRule(config.exploration, config.exploration_mode, uniform, arms is not None, bounds)

    def _estimator(self, prepared: Prepared) -> Any:
        """Return a function that estimates all candidates for a slot; without positions, only once."""
        policy = prepared.policy
        known: list[Estimates] = []

        def estimate(slot: int) -> Estimates:
            if known and not self.positions:
                return known[0]
            x = self.at_position(prepared.encoded.x, slot)
            arms = prepared.arms
            found = policy.estimate(x) if arms is None else self.estimate(policy, x, arms)
            known.append(found)
            return found

        return estimate

    def estimate(self, policy: Policy, x: Float32, arms: PreparedArms) -> Estimates:
        """Return the shared policy's estimates of the candidates, corrected per arm."""
        estimates = estimate_candidates(policy, x, arms.candidates)
        own = self.own
        return estimates if own is None else own.correct(x, arms.names, estimates)

    def _input(self, prepared: Prepared, chosen: int, slot: int) -> Float32:
        """Return what the policy learns from: the context, or the joint vector of context and arm."""
        x = self.at_position(prepared.encoded.x, slot)
        return x if prepared.arms is None else join(x, prepared.arms.candidates, chosen)

    def _add(
        self,
        prepared: Prepared,
        context: Any,
        chosen: list[ChosenSlot],
        now: float,
        restricted: bool,
        chosen_id: str | None,
        counted: bool = False,
    ) -> str:
        """Log, count and add all slots; return the id of the decision."""
        pending = self.pending
        decision_id = pending.next_id(chosen[0].x, self.id_prefix) if chosen_id is None else chosen_id
        if self.is_preview:
            return decision_id
        if self.log is not None:
            self.log.write(self._event(prepared, context, chosen, now, restricted, decision_id))
        self._commit(prepared)
        for number, slot in enumerate(chosen):
            if not counted:
                self.count_decision(prepared.policy, slot.x, slot.arm)
            name = decision_id if number == 0 else slot_id(decision_id, number)
            pending.add(PendingDecision(slot.x, slot.arm, slot.propensity, now, id=name))
        if self.config.reward_timeout is not None:
            pending.warn_before_eviction(now)
        return decision_id

    def _event(
        self,
        prepared: Prepared,
        context: Any,
        chosen: list[ChosenSlot],
        now: float,
        restricted: bool,
        decision_id: str,
    ) -> Event:
        """Return the line of the log for a decision or a ranking."""
        arms, time = prepared.arms, self.log_time(now)
        if arms is None and not self.positions and len(chosen) == 1:
            return decision_event(decision_id, time, chosen[0].arm, chosen[0].propensity, context)
        return ranking_event(
            decision_id,
            time,
            [(slot.arm, slot.propensity) for slot in chosen],
            context,
            None if arms is None or arms.request is None else arms_as_json(arms.request),
            list(arms.names) if restricted and arms is not None else None,
        )

    def add_decision(
        self,
        context: Any,
        slots: Sequence[tuple[Arm, float]],
        arms: Any,
        eligible: Iterable[Arm] | None,
        decision_id: str,
    ) -> None:
        """Add a decision or a ranking whose slots are already chosen."""
        prepared = self.prepare(context, arms, eligible)
        chosen, now = self._recorded(prepared, slots), self.now()
        self.settle(now, incoming=len(chosen))
        prepared.policy.ensure_capacity()
        self._add(prepared, context, chosen, now, eligible is not None, decision_id)

    def _commit(self, prepared: Prepared) -> None:
        """Keep encoder changes once a decision takes effect."""
        if self.catalog is not None and prepared.arms is not None:
            self.catalog.commit(prepared.arms)
        prepared.encoder.commit(prepared.encoded)
        self.encoder, self.policy = prepared.encoder, prepared.policy
        if self.catalog is not None and self.own is None:
            self.own = self._make_own(prepared.policy)

    # ---- rewards --------------------------------------------------------------------------------

    def reward(
        self, ranking: Any, value: float, slot: int | None, examined: int | None, key: str | int | None
    ) -> bool:
        """Learn the reward of one slot, or of all slots that were examined."""
        now = self.now()
        is_single = not self.pending.has_slots or self._count_slots(ranking) == 1
        if slot is None and examined is None and is_single:
            return self._reward_slot(ranking, value, key, now)
        checked = _validation.reward(value, self.config.rewards)
        affected = self.affected(ranking, slot, examined)
        hashed = hash_key(key)
        slots = range(self._count_slots(ranking)) if slot is None else (slot,)
        if hashed is not None and any(self.pending.has_key(slot_id(ranking, one), hashed) for one in slots):
            return False
        if slot is not None or not any(affected):  # otherwise, some slots have no reward yet
            self.pending.find(slot_id(ranking, slot or 0), now)
        accepted = [self._reward_slot(slot_id(ranking, one), checked, key, now) for one in affected.rewarded]
        for one in affected.default:
            default = self.config.default_reward
            lowest = reward_range(self.config.rewards)[0]
            self._reward_slot(slot_id(ranking, one), lowest if default is None else default, None, now)
        for one in affected.unexamined:
            self._drop(slot_id(ranking, one), now)
        return any((*accepted, affected.default, affected.unexamined))

    def affected(self, ranking: Any, slot: int | None, examined: int | None) -> AffectedSlots:
        """Return what a reward would do to the slots of a ranking."""
        count, now = self._count_slots(ranking), self.now()
        limit = count if examined is None else _index("examined", examined, count + 1)
        awaiting = [one for one in range(count) if self._awaits(ranking, one, now)]
        if slot is None:
            rewarded = [one for one in awaiting if one < limit]
        else:
            rewarded = [_index("slot", slot, count)]
            if slot >= limit:
                raise InvalidInput(f"slot {slot} has a reward, so examined must be at least {slot + 1}")
        if examined is None:
            return AffectedSlots(tuple(rewarded))
        others = [one for one in awaiting if one not in rewarded]
        return AffectedSlots(
            tuple(rewarded),
            tuple(one for one in others if one < limit),
            tuple(one for one in others if one >= limit),
        )

    def _count_slots(self, ranking: Any) -> int:
        """Return the number of slots of a ranking; 1 for a decision or an unknown id."""
        count = 1
        while isinstance(ranking, str) and self.pending.is_known(slot_id(ranking, count)):
            count += 1
        return count

    def _awaits(self, ranking: Any, slot: int, now: float) -> bool:
        """Return whether a slot is pending and has no reward yet."""
        pending = self.pending
        name = slot_id(ranking, slot)
        return pending.contains(name, now) and pending.find(name, now).reward is None

    def _drop(self, name: str, now: float) -> None:
        if self.log is not None:
            self.log.write(unexamined_event(name, self.log_time(now)))
        self.pending.drop(name)

    def _reward_slot(
        self,
        decision_id: str,
        value: float,
        key: str | int | None,
        now: float,
        *,
        logged: LoggedReward | None = None,
    ) -> bool:
        """Learn a reward, or record it to learn it later; return False if its key was used before."""
        checked, key_hash = _validation.reward(value, self.config.rewards), hash_key(key)
        decision = self.pending.find_for_reward(decision_id, key_hash, now)
        if decision is None:
            return False
        if logged is None:
            self.settle(now, reported=decision)
        else:
            self.expire(logged.time, reported=decision)
        final = self.pending.learns_now(decision, now, None if logged is None else logged.final)
        arrived_at = now if logged is None else logged.time
        if final and (self.log is not None or self.own is not None):
            self._ensure_capacity()  # otherwise, learning itself can fail: nothing has changed before it
        if self.log is not None:
            self.log.write(reward_event(decision_id, self.log_time(arrived_at), checked, key, final))
        if final:
            self._learn(decision, checked)
        self.pending.add_reward(decision, checked, key_hash, final, arrived_at)
        if final or self.pending.labels is not None:
            self._notify(decision, checked)
        return True

    def settle(self, now: float, incoming: int = 0, reported: PendingDecision | None = None) -> bool:
        """Close timed-out decisions, and label decisions that have reached the label age.

        The oldest are also closed to make room for `incoming` new ones. A reward for `reported` is about to
        be learned. Return whether any decision was closed or labeled.
        """
        if self.config.reward_timeout is None:
            return False
        changed = False
        for decision, outcome in self.pending.due(now, incoming):
            self._close(decision, outcome, now)
            changed = True
        for decision, label in self.pending.due_labels(now, incoming, reported):
            self._label(decision, label, now)
            changed = True
        return changed

    def _close(self, decision: PendingDecision, outcome: float | None, now: float) -> None:
        """Learn the outcome of a decision unless it was learned as its label, and settle it."""
        if outcome is not None:
            self._ensure_capacity()
            if self.log is not None:
                self.log.write(outcome_event(decision.id, self.log_time(now), outcome, final=True))
            self._learn_label(decision, outcome)
        self.pending.close(decision, now)
        if outcome is not None:
            self._notify(decision, outcome)

    def _label(self, decision: PendingDecision, label: float, now: float) -> None:
        """Learn the label of a decision. If it is the default reward, a reward can still arrive."""
        self._ensure_capacity()
        if self.log is not None:
            final = decision.reward is not None
            self.log.write(outcome_event(decision.id, self.log_time(now), label, final))
        self._learn_label(decision, label)
        self.pending.label(decision)

    def _learn_label(self, decision: PendingDecision, value: float) -> None:
        if self.pending.learns_label(decision):
            self._learn(decision, value)

    def _ensure_capacity(self) -> None:
        assert self.policy is not None  # a decision has been made
        self.policy.ensure_capacity()

    def _learn(self, decision: PendingDecision, value: float) -> None:
        """Learn a reward."""
        assert self.policy is not None  # a decision has been made
        if self.own is not None:
            self._learn_own(self.own, decision, value)
        arm = self.policy_arm(decision.arm)
        self.policy.learn(decision.x, arm, float(value), counted=True, checked=True)
        if self.catalog is not None:
            self.catalog.count_reward(decision.arm)

    def _learn_own(self, own: OwnCorrections, decision: PendingDecision, value: float) -> None:
        """Update the arm-specific correction of the shared value."""
        assert self.policy is not None  # a decision has been made
        shared = float(self.policy.estimate(decision.x).values[0])
        own.learn(decision.x[: own.context], decision.arm, value, shared)

    def _make_own(self, policy: Policy) -> OwnCorrections | None:
        """Return per-arm corrections if arms share the default policy and rewards are binary."""
        is_default = isinstance(policy, GLCB) and self.config.rewards == "binary"
        if self.catalog is None or not is_default or self.encoder is None:
            return None
        return OwnCorrections(self.encoder.width + self.positions)

    def count_decision(self, policy: Policy, x: Float32, arm: Arm) -> None:
        """Count a decision in the policy. Arm corrections forget whenever the policy does."""
        policy.count_decision(x, self.policy_arm(arm), checked=True)
        if self.own is None:
            return
        self.own.count_decision(arm)
        if policy.half_life is not None and (self.pending.decisions + 1) % policy.half_life == 0:
            self.own.forget()

    def policy_arm(self, arm: Arm) -> Arm:
        """Return the policy arm that learns for a bandit arm."""
        return arm if self.catalog is None else SHARED

    def _notify(self, decision: PendingDecision, value: float) -> None:
        """Call the callback last: if it fails, the reward has already been learned."""
        if self.on_reward is not None:
            self.on_reward(decision.id, decision.arm, value)

    # ---- time -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time. Without a timeout, return 0 and do not read the clock."""
        return 0.0 if self.config.reward_timeout is None else read_clock(self.config.clock)

    def log_time(self, now: float) -> float:
        """Return the time for a line of the log."""
        is_known = self.config.reward_timeout is not None and math.isfinite(now)
        return now if is_known else read_clock(self.config.clock)

    # ---- replay of a log ------------------------------------------------------------------------

    def replayed_index(self, prepared: Prepared, arm: Arm) -> int:
        """Return the index of a logged arm among the arms or candidates; raise UnknownArm if absent."""
        return _validation.arm(arm, self.index) if prepared.arms is None else prepared.arms.position(arm)

    def replay_row(
        self,
        context: Any,
        arm: Arm,
        reward: float,
        propensity: float,
        candidates: Any = None,
        slot: int = 0,
    ) -> None:
        """Learn from a decision together with its reward; it is never pending."""
        checked = _validation.reward(reward, self.config.rewards)
        prepared = self.prepare(context, candidates)
        policy, x = prepared.policy, self._input(prepared, self.replayed_index(prepared, arm), slot)
        policy.ensure_capacity()
        decision = PendingDecision(x, arm, propensity, id=self.pending.next_id(x, self.id_prefix))
        if self.log is not None:
            time = self.log_time(NO_TIME)
            self.log.write(
                decision_event(decision.id, time, arm, propensity, context),
                reward_event(decision.id, time, checked, None, True),
            )
        self._commit(prepared)
        self.count_decision(policy, x, arm)
        self._learn(decision, checked)
        self.pending.count_rewarded()
        self._notify(decision, checked)

    @property
    def has_arm_features(self) -> bool:
        """Whether arms have features."""
        return self.catalog is not None

    def replay_ranking(
        self, context: Any, slots: list[tuple[Arm, float]], arms: Any, time: float, logged_id: str
    ) -> list[str]:
        """Add the slots of a ranking; return their ids."""
        prepared = self.prepare(context, arms)
        chosen = self._recorded(prepared, slots)
        self.expire(time)
        self.settle(NO_TIME, incoming=len(chosen))
        prepared.policy.ensure_capacity()
        decided_at = 0.0 if self.config.reward_timeout is None else time
        is_new = is_valid_id(logged_id) and not self.pending.is_known(logged_id)
        own_id = logged_id if is_new else None
        ranking = self._add(prepared, context, chosen, decided_at, False, own_id)
        return [slot_id(ranking, number) for number in range(len(chosen))]

    def _recorded(self, prepared: Prepared, slots: Sequence[tuple[Arm, float]]) -> list[ChosenSlot]:
        """Return the slots of a logged ranking; raise UnknownArm if an arm is not a candidate."""
        return [
            ChosenSlot(arm, propensity, self._input(prepared, self.replayed_index(prepared, arm), number))
            for number, (arm, propensity) in enumerate(slots)
        ]

    def replay_reward(
        self, decision_id: str, value: float, key: str | int | None, final: bool, time: float
    ) -> bool:
        """Add the reward of a pending decision; return False if its key was used before."""
        return self._reward_slot(decision_id, value, key, NO_TIME, logged=LoggedReward(time, final))

    def replay_unexamined(self, decision_id: str) -> None:
        """Drop a slot that was not examined."""
        self.pending.find(decision_id)
        self._drop(decision_id, NO_TIME)

    def replay_arms(self, arms: Any, added: Any, removed: Any) -> None:
        """Replace the catalog, or change it."""
        catalog = self._require_catalog()
        if arms is not None:
            self.set_arms(arms or {})
            return
        changed = plain_arms(added or {})
        gone = set(removed or ())
        self.set_arms({**{arm: f for arm, f in catalog.arms.items() if arm not in gone}, **changed})

    def replay_outcome(self, decision_id: str, value: float, final: bool, time: float) -> None:
        """Learn the label of a decision, or its reward if its timeout has passed."""
        checked = _validation.reward(value, self.config.rewards)
        unlabeled = self.pending.find_unlabeled(decision_id)
        if unlabeled is not None and (unlabeled.reward is not None or not final):
            self.expire(time)
            self._label(unlabeled, checked, time)
        elif final:
            decision = self.pending.find(decision_id)
            self.expire(time, reported=decision)
            self._close(decision, checked, time)

    def expire(self, time: float, reported: PendingDecision | None = None) -> None:
        """Close decisions that timed out before a log line, with nothing to learn.

        The log has no line for such decisions. A decision whose time is unknown does not time out.
        """
        for decision, outcome in self.pending.due(time):
            if outcome is not None or decision is reported or not decision.decided_at:
                return
            self._close(decision, None, time)

    # ---- arms -----------------------------------------------------------------------------------

    def add_arm(self, name: Arm, like: Arm | None, features: Mapping[str, Any] | None) -> None:
        """Add an arm: untrained, as a copy of `like`, or with features."""
        new = _validation.new_arm(name, self.index)
        if self.catalog is not None:
            if like is not None:
                raise InvalidInput("arms with features share what is learned: pass features instead of like")
            self.set_arms({**self.catalog.arms, new: features})
            return
        if features is not None:
            raise InvalidInput("the arms of this bandit have no features: omit features")
        if like is not None:
            _validation.arm(like, self.index)
        policy = self._copy_policy()
        if policy is not None:
            policy.add_arm(new, like=like)
        self._set_arms((*self.arms, new), policy, self.config)

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm and settle its pending decisions; an arm with features only leaves the catalog."""
        index = _validation.arm(name, self.index)
        if self.catalog is not None:
            self.set_arms({arm: features for arm, features in self.catalog.arms.items() if arm != name})
            return
        if len(self.arms) == 1:
            raise InvalidSettings(f"{name!r} is the only arm: add another one before you remove it")
        others = tuple(arm for arm in self.arms if arm != self.arms[index])
        config = self.config.without_share(name)
        check_shares_of(config.shares, others)
        policy = self._copy_policy()
        if policy is not None:
            policy.remove_arm(name)
        self.pending.remove_arm(self.arms[index])
        self._set_arms(others, policy, config)

    def _require_catalog(self) -> EncodedCatalog:
        if self.catalog is None:
            raise InvalidInput(
                "this bandit has arms without features: use add_arm and remove_arm, or create it with "
                "arms={name: {feature: value}}"
            )
        return self.catalog

    def set_arms(self, arms: Any) -> None:
        """Replace the catalog and log the differences."""
        catalog = self._require_catalog()
        plain = plain_arms(arms)
        added = {name: features for name, features in plain.items() if catalog.arms.get(name) != features}
        removed = [name for name in catalog.arms if name not in plain]
        if list(plain) == list(catalog.arms) and not added:
            return
        if self.log is not None:
            time = self.log_time(NO_TIME)
            self.log.write(arms_event(time, added=arms_as_json(added), removed=removed))
        catalog.set_arms(plain)
        self._set_arms(catalog.names, self.policy, self.config)

    def log_arms(self) -> None:
        """Write the catalog to a newly opened log."""
        if self.log is not None and self.catalog is not None:
            self.log.write(arms_event(self.log_time(NO_TIME), arms_as_json(self.catalog.arms)))

    def _copy_policy(self) -> Policy | None:
        return None if self.policy is None else type(self.policy).from_snapshot(self.policy.snapshot())

    def _set_arms(self, arms: tuple[Arm, ...], policy: Policy | None, config: BanditConfig) -> None:
        index = {arm: index for index, arm in enumerate(arms)}
        bounds = self._bounds_of(config, index)
        self.arms, self.index, self.policy, self.config, self.bounds = arms, index, policy, config, bounds

    # ---- explanations ---------------------------------------------------------------------------

    def explain(
        self, context: Any, arms: Any, eligible: Iterable[Arm] | None, everything: bool
    ) -> Explanation:
        """Explain all arms, or the eligible or best-scoring candidates. Changes nothing."""
        if self.catalog is not None:
            return self._explain_candidates(context, arms, eligible, everything)
        encoder, policy, encoded, _ = self.prepare(context)
        origins = encoder.origins(context, encoded)
        baseline = np.concatenate([origins.baseline, np.full(self.positions, 0.5, np.float32)])
        with self.drawing(policy, self.random_numbers()):  # the same draw as for the next decision
            explanation = policy.explain(self.at_position(encoded.x, 0), baseline=baseline)
        owners = [*origins.owners, *(["position"] * self.positions)]
        values = {**origins.values, **({"position": "0"} if self.positions else {})}
        return explanation.grouped(owners, tuple(values), tuple(values.values()))

    def _explain_candidates(
        self, context: Any, arms: Any, eligible: Iterable[Arm] | None, everything: bool
    ) -> Explanation:
        encoder, policy, encoded, prepared = self.prepare(context, arms, eligible)
        assert prepared is not None  # arms have features
        assert self.catalog is not None
        x = self.at_position(encoded.x, 0)
        with self.drawing(policy, self.random_numbers()):  # the same draw as for the next decision
            estimates = self.estimate(policy, x, prepared)
        scores = estimates.values + estimates.bonuses
        order = np.argsort(-scores, kind="stable")
        chosen = order if everything else order[:MAX_EXPLAINED]
        shares = distribution(scores, estimates.bonuses, self.choice_rule(False, prepared))
        origins = encoder.origins(context, encoded)
        names = list(origins.values)
        features: list[str] = [*names, *([POSITION_FEATURE] if self.positions else [])]
        rows, bases, own_values, totals = [], [], [], []
        for index in chosen.tolist():
            arm_origins = self.catalog.origins(prepared, index)
            joint = join(x, prepared.candidates, index)
            neutral = np.full(self.positions, 0.5, np.float32)
            baseline = np.concatenate([origins.baseline, neutral, arm_origins.baseline])
            one = policy.explain(joint, baseline=baseline)
            values, amounts = np.array([one.values[0], one.bases[0]]), one.contributions[0]
            if self.own is not None:
                ends = np.stack([x, baseline[: x.size]])
                values, amounts = self.own.contributions(prepared.names[index], ends, values, amounts)
            own = {ARM_PREFIX + name: text for name, text in arm_origins.values.items()}
            features += [name for name in own if name not in features]
            owners = [
                *origins.owners,
                *([POSITION_FEATURE] * self.positions),
                *(None if owner is None else ARM_PREFIX + owner for owner in arm_origins.owners),
            ]
            sums: dict[str, float] = {}
            for owner, amount in zip(owners, amounts.tolist(), strict=True):
                if owner is not None:
                    sums[owner] = sums.get(owner, 0.0) + amount
            rows.append(sums)
            totals.append(float(values[0]))
            bases.append(float(values[1]))
            own_values.append(own)
        shared = {**origins.values, POSITION_FEATURE: "0"}
        return Explanation(
            tuple(prepared.names[index] for index in chosen),
            tuple(features),
            tuple(shared.get(name, "of the arm") for name in features),
            np.array(bases),
            np.array([[row.get(name, 0.0) for name in features] for row in rows]),
            np.array(totals),
            estimates.bonuses[chosen],
            estimates.pseudocounts[chosen],
            policy.is_randomized,
            tuple(
                tuple(own.get(name, shared.get(name, "missing")) for name in features) for own in own_values
            ),
            shares[chosen],
        )

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the complete state, except the log, the callback and the clock."""
        arguments, generator = self.arguments(), self.key.hex()
        if self.policy is None or self.encoder is None:
            metadata = {"running": False, "id_prefix": self.id_prefix}
            return Snapshot("Bandit", arguments, generator, {}, metadata)
        policy = self.policy.snapshot(copy=False)  # copied below
        encoder, encoder_arrays = self.encoder.snapshot()
        index = self.index
        if self.catalog is not None:  # pending decisions can be for arms that are not in the catalog
            index = {arm: position for position, arm in enumerate(self.pending.arms())}
        pending, pending_arrays = self.pending.snapshot(index, self.policy.features)
        parts = {"policy": policy.arrays, "encoder": encoder_arrays, "pending": pending_arrays}
        arrays = {
            f"{part}.{name}": array.copy() for part, own in parts.items() for name, array in own.items()
        }
        metadata = {
            "running": True,
            "id_prefix": self.id_prefix,
            "policy": {"arguments": policy.arguments, "generator": policy.generator},
            "encoder": encoder,
            "pending": pending,
        }
        if self.catalog is not None:
            metadata["pending_arms"] = list(index)
            metadata["catalog"], catalog_arrays = self.catalog.snapshot()
            arrays |= {f"catalog.{name}": array.copy() for name, array in catalog_arrays.items()}
        if self.own is not None:
            metadata["own"], own_arrays = self.own.snapshot()
            arrays |= {f"own.{name}": array.copy() for name, array in own_arrays.items()}
        return Snapshot("Bandit", arguments, generator, arrays, metadata)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> "BanditCore":
        """Restore the core from a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        core = cls(BanditConfig(**snapshot.arguments))
        metadata = snapshot.about
        core.id_prefix = checked_prefix(metadata["id_prefix"])
        if metadata["running"]:
            parts: dict[str, dict[str, np.ndarray]] = {
                name: {} for name in ("policy", "encoder", "pending", "catalog", "own")
            }
            for name, array in snapshot.arrays.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = array
            make = registry.get(core.config.policy).policy_class
            policy = make.from_snapshot(Snapshot(make.__name__, arrays=parts["policy"], **metadata["policy"]))
            core.encoder = Encoder.from_snapshot(metadata["encoder"], parts["encoder"])
            arms, width = core.arms, core.encoder.width + core.positions
            if core.catalog is not None:
                core.catalog.restore(metadata["catalog"], parts["catalog"])
                core.own = core._make_own(policy)
                if core.own is not None:
                    core.own.restore(metadata["own"], parts["own"])
                width += core.catalog.width
                arms = tuple(map(to_name, metadata["pending_arms"]))
            if policy.features != width or (core.catalog is None and policy.arms != arms):
                raise ValueError("the arms or features of the policy differ from those of the bandit")
            core.policy = policy
            core.pending.restore(metadata["pending"], parts["pending"], arms, width)
        core.key = _checked_key(snapshot.generator)
        return core


def _checked_key(text: str) -> bytes:
    """Parse the random-number key of a snapshot; raise ValueError if it is invalid."""
    key = bytes.fromhex(text)
    if len(key) not in (8, 16):
        raise ValueError(f"{text!r} is not the key of random numbers")
    return key


def _index(name: str, value: object, size: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < size:
        raise InvalidInput(f"{name} must be an integer from 0 to {size - 1}, got {value!r}")
    return int(value)

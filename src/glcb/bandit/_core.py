"""The state of a bandit and the events that change it.

An event is written to the log first, if there is one, and then applied. Everything that can fail is done
before the line is written, and if the line cannot be written, nothing is applied. The log therefore always
matches the state, and replaying it gives another bandit the same state. ``Bandit`` holds the lock; nothing
here is thread-safe.

An interrupt can come between any two steps. The steps are in an order in which the state can be saved and
loaded after each of them, and a decision is marked before its reward is learned, so that none is learned
twice.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._errors import InvalidContext, InvalidSettings
from glcb._model_file import Snapshot
from glcb._types import Arm
from glcb.bandit.candidates import catalog_as_json
from glcb.bandit.catalog import Catalog, PreparedArms, to_name
from glcb.bandit.compilation import compile_rewards_elsewhere
from glcb.bandit.config import SHARED, BanditConfig, check_shares_of
from glcb.bandit.decision import NO_DEMANDS, BanditDecision, Demands
from glcb.bandit.encoding.encoded import EncodedContext
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.bandit.logs.format import decision_event, outcome_event, reward_event
from glcb.bandit.logs.writer import LogWriter
from glcb.bandit.pending import PendingDecisions
from glcb.bandit.records import LoggedReward, PendingDecision, checked_prefix, is_valid_id, random_prefix
from glcb.bandit.reward_rules import RewardRules, hash_key, read_clock
from glcb.explain import Explanation
from glcb.explore.probabilities import certain, choose, draw, probabilities
from glcb.explore.shares import ShareBounds, bounded, share_bounds
from glcb.policies import registry
from glcb.policies.base import Policy
from glcb.policies.decision import Choice
from glcb.policies.glcb.policy import GLCB
from glcb.policies.shared import OwnCorrections, join

_STREAM = 0x62616E64
"""Separates the random numbers of the bandit from those of its policy, which has the same seed."""
NO_TIME = -math.inf
"""The time during a replay: the log records which outcomes were learned at a label age or a timeout."""

RewardCallback = Callable[[str, Arm, float], None]
"""Called with the id of a decision, its arm and its final reward."""


class Prepared(NamedTuple):
    """An encoded context, with the encoder and policy for it. They are new for the first context."""

    encoder: Encoder
    policy: Policy
    encoded: EncodedContext
    arms: PreparedArms | None
    """The candidates; None if arms have no features."""


class BanditCore:
    """Encoder, policy, random generator and pending decisions of a bandit.

    Encoder and policy are created for the first context, which fixes their size.
    """

    def __init__(self, config: BanditConfig) -> None:
        self.log: LogWriter | None = None
        self.on_reward: RewardCallback | None = None
        self.id_prefix = ""
        """Begins the id of every decision whose id is not chosen by the caller."""
        self.reset(config)

    def reset(self, config: BanditConfig) -> None:
        """Reset to an untrained state with new arguments. Log, callback and prefix of the ids are kept."""
        self.config = config
        self.arms = config.arm_names
        self.index = {arm: index for index, arm in enumerate(self.arms)}
        self.rng = np.random.default_rng((config.seed, _STREAM))
        self.encoder: Encoder | None = None
        self.policy: Policy | None = None
        self.catalog = Catalog(config.arm_features, config.arm_schema) if config.has_arm_features else None
        self.own: OwnCorrections | None = None
        self.pending = PendingDecisions(config.max_pending, RewardRules.from_config(config))
        self.bounds = self._bounds_of(config, self.index)

    def _bounds_of(self, config: BanditConfig, index: Mapping[Arm, int]) -> ShareBounds | None:
        """Return the bounds of the probabilities of arms without features; None if there are none."""
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

        If the rules of rewards change, decisions that have a reward are settled by the old ones.
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
        # A single call, which no interrupt can split.
        vars(self).update(config=config, encoder=encoder, policy=policy, bounds=bounds)

    def _settle_all(self, now: float) -> None:
        """Settle the decisions that are due, and learn all rewards that have arrived."""
        self.settle(now)
        for decision, outcome in self.pending.with_reward():
            self._close(decision, outcome, now)
        for decision, outcome in self.pending.unlearned():
            self._label(decision, outcome, now)

    def separate(self) -> None:
        """Make later ids and random numbers differ from those of every other copy of this bandit."""
        self.id_prefix = random_prefix()
        self.rng = np.random.default_rng()
        if self.policy is not None:
            self.policy.rng_state = np.random.default_rng().bit_generator.state

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of an untrained bandit with the current arms, without the clock."""
        arms = list(self.arms) if self.catalog is None else catalog_as_json(self.catalog.arms)
        return {**self.config.as_json(), "arms": arms}

    # ---- decisions ------------------------------------------------------------------------------

    def prepare(self, context: Any, arms: Any = None, eligible: Iterable[Arm] | None = None) -> Prepared:
        """Encode a context and, if arms have features, the candidates. Changes nothing."""
        encoder = self.encoder or self._make_encoder(context)
        encoded = encoder.encode(context)
        candidates = None if self.catalog is None else self.catalog.prepare(arms, eligible)
        policy = self.policy
        if policy is None:
            width = encoder.width + self.positions
            width += 0 if candidates is None else candidates.candidates.features.shape[1]
            policy = self.config.make_policy(self.arms, width)
        return Prepared(encoder, policy, encoded, candidates)

    def _make_encoder(self, context: Any) -> Encoder:
        """Return the encoder for a first context."""
        encoder = self.config.make_encoder(context)
        if issubclass(registry.get(self.config.policy).policy_class, GLCB):
            compile_rewards_elsewhere()
        return encoder

    @property
    def positions(self) -> int:
        """Number of features that stand for the position in a ranking."""
        return self.config.slots if self.config.slots > 1 else 0

    def at_position(self, x: Float32, slot: int) -> Float32:
        """Return an encoded context with the position of a slot, if positions are features."""
        if not self.positions:
            return x
        position = np.zeros(self.positions, np.float32)
        position[slot] = 1
        return np.concatenate([x, position])

    def prepare_change(
        self, context: Any, arms: Any = None, eligible: Iterable[Arm] | None = None
    ) -> Prepared:
        """Encode a context whose encoding is committed.

        Taking slots has several steps, so it is done in a copy of the encoder, which replaces it in one step.
        """
        prepared = self.prepare(context, arms, eligible)
        changes = prepared.encoded.changes
        if changes is None or not changes.claims or self.encoder is None:
            return prepared
        metadata, arrays = self.encoder.snapshot()
        encoder = Encoder.from_snapshot(metadata, arrays)
        return prepared._replace(encoder=encoder, encoded=encoder.encode(context))

    def check_contexts(self, contexts: list[Any]) -> None:
        """Raise InvalidContext, which names the row, unless all contexts are valid in this order."""
        encoder = self.encoder
        for row, context in enumerate(contexts):
            try:
                encoder = encoder or self.config.make_encoder(context)
                encoder.encode(context)
            except InvalidContext as error:
                raise InvalidContext(f"row {row}: {error}") from None

    def decide(self, context: Any, decision_id: str | None, demands: Demands) -> BanditDecision:
        """Choose an arm and add the decision to those that are pending."""
        if decision_id is not None:
            self.pending.check_new_id(decision_id)
        prepared = self.prepare_change(context)
        policy, x = prepared.policy, prepared.encoded.x
        self.settle(now := self.now(), incoming=1)
        # Without a log, nothing can fail between choosing and counting, so one step does both. An interrupt
        # after it leaves a decision that is counted but not pending, which does not matter.
        count = demands is NO_DEMANDS and self.bounds is None and self.log is None
        if not count:
            policy.ensure_capacity()
        # If the log cannot be written, the same random numbers are drawn again. Without a log, an interrupt
        # can lose them, which does not matter.
        rng_states = None if self.log is None else (self.rng.bit_generator.state, policy.rng_state)
        try:
            estimates, arm_probabilities, chosen = self._choose(policy, x, demands, count)
            arm, propensity = self.arms[chosen], float(arm_probabilities[chosen])
            decision_id = self._add_decision(prepared, context, arm, propensity, now, decision_id, count)
        except BaseException:
            if rng_states is not None:
                self.rng.bit_generator.state, policy.rng_state = rng_states
            raise
        return BanditDecision(
            arm, self.arms, estimates, decision_id, propensity, arm_probabilities, policy.is_randomized
        )

    def _choose(self, policy: Policy, x: Float32, demands: Demands, count: bool = False) -> Choice:
        exploration, mode = self.config.exploration, self.config.exploration_mode
        if demands is NO_DEMANDS and self.bounds is None:
            return policy.choose(x, exploration, mode, self.rng, count)
        allowed, uniform, offsets, served = demands
        estimates = policy.estimate(x, checked=True)
        if served is not None:
            return Choice(estimates, certain(served, len(self.arms)), served)
        scores = np.zeros(len(self.arms)) if uniform else estimates.values + estimates.bonuses + offsets
        if self.bounds is None:
            return Choice(estimates, *choose(scores, allowed, exploration, mode, self.rng))
        shares = bounded(probabilities(scores, allowed, exploration, mode), self.bounds, allowed)
        return Choice(estimates, shares, draw(shares, self.rng))

    def _add_decision(
        self,
        prepared: Prepared,
        context: Any,
        arm: Arm,
        propensity: float,
        now: float,
        chosen_id: str | None,
        is_counted: bool,
    ) -> str:
        """Log, count and add a decision; return its id."""
        x = prepared.encoded.x
        decision_id = self.pending.next_id(x, self.id_prefix) if chosen_id is None else chosen_id
        if self.log is not None:
            self.log.write(decision_event(decision_id, self.log_time(now), arm, propensity, context))
        self._commit(prepared)
        if not is_counted:
            prepared.policy.count_decision(x, arm, checked=True)
        self.pending.add(PendingDecision(x, arm, propensity, now, id=decision_id))
        self.pending.warn_before_eviction(now)
        return decision_id

    def _commit(self, prepared: Prepared) -> None:
        """Keep what was learned about features, once a decision takes effect."""
        if self.catalog is not None and prepared.arms is not None:
            self.catalog.commit(prepared.arms)
        prepared.encoder.commit(prepared.encoded)
        self.encoder, self.policy = prepared.encoder, prepared.policy
        if self.catalog is not None and self.own is None:
            self.own = self._make_own(prepared.policy)

    def explain(self, context: Any) -> Explanation:
        """Explain the values of all arms for a context. Changes nothing."""
        encoder, policy, encoded, _ = self.prepare(context)
        origins = encoder.origins(context, encoded)
        baseline = np.concatenate([origins.baseline, np.full(self.positions, 0.5, np.float32)])
        explanation = policy.explain(self.at_position(encoded.x, 0), baseline=baseline)
        owners = [*origins.owners, *(["position"] * self.positions)]
        values = {**origins.values, **({"position": "0"} if self.positions else {})}
        return explanation.grouped(owners, tuple(values), tuple(values.values()))

    # ---- rewards --------------------------------------------------------------------------------

    def reward(
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
        """Close the decisions that have timed out, and label those that have reached the label age.

        The oldest also make space for `incoming` new ones. A reward of `reported` is about to be learned.
        Return whether there was any.
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
        """Learn the outcome of a decision, unless it is its label, and settle it."""
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
        decision.is_learned = False  # a late reward is learned as well

    def _learn_label(self, decision: PendingDecision, value: float) -> None:
        if self.pending.learns_label(decision):
            self._learn(decision, value)

    def _ensure_capacity(self) -> None:
        assert self.policy is not None  # a decision has been made
        self.policy.ensure_capacity()

    def _learn(self, decision: PendingDecision, value: float) -> None:
        """Learn a reward. If an interrupt comes before the decision is settled, it is not learned again."""
        assert self.policy is not None  # a decision has been made
        decision.is_learned = True
        try:
            if self.own is not None:
                self._learn_own(self.own, decision, value)
            arm = self.policy_arm(decision.arm)
            self.policy.learn(decision.x, arm, float(value), counted=True, checked=True)
        except Exception:
            decision.is_learned = False
            raise
        if self.catalog is not None:
            self.catalog.count_reward(decision.arm)

    def _learn_own(self, own: OwnCorrections, decision: PendingDecision, value: float) -> None:
        """Learn what is specific to an arm, from the value that all arms share."""
        assert self.policy is not None  # a decision has been made
        shared = float(self.policy.estimate(decision.x).values[0])
        own.learn(decision.x[: own.context], decision.arm, value, shared)

    def _make_own(self, policy: Policy) -> OwnCorrections | None:
        """Return the corrections of single arms, if arms share the default policy and rewards are 0 or 1."""
        is_default = isinstance(policy, GLCB) and self.config.rewards == "binary"
        if self.catalog is None or not is_default or self.encoder is None:
            return None
        return OwnCorrections(self.encoder.width + self.positions)

    def count_decision(self, policy: Policy, x: Float32, arm: Arm) -> None:
        """Count a decision in the policy. If the policy forgets now, the corrections of arms do as well."""
        policy.count_decision(x, self.policy_arm(arm), checked=True)
        if self.own is None:
            return
        self.own.count_decision(arm)
        if policy.half_life is not None and (self.pending.decisions + 1) % policy.half_life == 0:
            self.own.forget()

    def policy_arm(self, arm: Arm) -> Arm:
        """Return the arm of the policy that learns about an arm of the bandit."""
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
        """Return the index of an arm of a log among the arms or the candidates; raise UnknownArm if none."""
        return _validation.arm(arm, self.index) if prepared.arms is None else prepared.arms.position(arm)

    def _replayed_input(self, prepared: Prepared, arm: Arm, slot: int) -> Float32:
        index, x = self.replayed_index(prepared, arm), self.at_position(prepared.encoded.x, slot)
        return x if prepared.arms is None else join(x, prepared.arms.candidates, index)

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
        prepared = self.prepare_change(context, candidates)
        policy, x = prepared.policy, self._replayed_input(prepared, arm, slot)
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

    def replay_decision(self, context: Any, arm: Arm, propensity: float, time: float, logged_id: str) -> str:
        """Add a pending decision; return its id, which is that of the log unless it is known here."""
        prepared = self.prepare_change(context)
        _validation.arm(arm, self.index)
        self.expire(time)
        self.settle(NO_TIME, incoming=1)
        prepared.policy.ensure_capacity()
        decided_at = 0.0 if self.config.reward_timeout is None else time
        is_new = is_valid_id(logged_id) and not self.pending.is_known(logged_id)
        own_id = logged_id if is_new else None
        return self._add_decision(prepared, context, arm, propensity, decided_at, own_id, is_counted=False)

    def replay_reward(
        self, decision_id: str, value: float, key: str | int | None, final: bool, time: float
    ) -> bool:
        """Add the reward of a pending decision; return False if its key was used before."""
        return self.reward(decision_id, value, key, NO_TIME, logged=LoggedReward(time, final))

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
        """Close the decisions that timed out before a line of a log without anything to learn.

        The log has no line for them. A decision whose time is unknown does not time out.
        """
        for decision, outcome in self.pending.due(time):
            if outcome is not None or decision is reported or not decision.decided_at:
                return
            self._close(decision, None, time)

    # ---- arms -----------------------------------------------------------------------------------

    def add_arm(self, name: Arm, like: Arm | None) -> None:
        """Add an arm, untrained or as a copy of `like`."""
        new = _validation.new_arm(name, self.index)
        if like is not None:
            _validation.arm(like, self.index)
        policy = self._copy_policy()
        if policy is not None:
            policy.add_arm(new, like=like)
        self._set_arms((*self.arms, new), policy, self.config)

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm and settle its pending decisions."""
        index = _validation.arm(name, self.index)
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

    def _copy_policy(self) -> Policy | None:
        return None if self.policy is None else type(self.policy).from_snapshot(self.policy.snapshot())

    def _set_arms(self, arms: tuple[Arm, ...], policy: Policy | None, config: BanditConfig) -> None:
        index = {arm: index for index, arm in enumerate(arms)}
        bounds = self._bounds_of(config, index)
        # A single call, which no interrupt can split, so that the arms and the policy never disagree.
        vars(self).update(arms=arms, index=index, policy=policy, config=config, bounds=bounds)

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the complete state, except the log, the callback and the clock."""
        arguments, generator = self.arguments(), self.rng.bit_generator.state
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
        """Return the core of a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
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
        core.rng.bit_generator.state = snapshot.generator
        return core

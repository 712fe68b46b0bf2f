"""Rankings of a bandit, decisions among arms with features, and the rewards of single slots.

Like the events of ``BanditCore``, an event is written to the log first and then applied. ``Bandit`` holds the
lock; nothing here is thread-safe.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._errors import InvalidInput
from glcb._types import Arm, reward_range
from glcb.bandit._core import NO_TIME, BanditCore, Prepared
from glcb.bandit.candidates import arms_as_json, to_offsets
from glcb.bandit.catalog import Catalog, PreparedArms, plain_arms
from glcb.bandit.decision import BanditDecision
from glcb.bandit.logs.format import arms_event, ranking_event, unexamined_event
from glcb.bandit.ranking import AffectedSlots, Exploration, Ranking, draw_slots, slot_probabilities
from glcb.bandit.records import PendingDecision, is_valid_id
from glcb.bandit.reward_rules import hash_key
from glcb.bandit.slots import slot_id
from glcb.explain import Explanation
from glcb.explore.shares import share_bounds
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.shared import estimate_candidates, join

MAX_EXPLAINED = 20
"""Without a list of eligible arms, so many candidates with the best scores are explained."""
POSITION_FEATURE, ARM_PREFIX = "position", "arm."
"""How explanations call the position of an arm, and the beginning of its features."""


class ChosenSlot(NamedTuple):
    """The arm of one slot with what its policy learns from."""

    arm: Arm
    propensity: float
    x: Float32


class Slates:
    """Rankings, and decisions among arms with features.

    Parameters
    ----------
    core
        The state of the bandit.
    """

    def __init__(self, core: BanditCore) -> None:
        self._core = core

    # ---- decisions ------------------------------------------------------------------------------

    def decide(
        self,
        context: Any,
        arms: Any,
        eligible: Iterable[Arm] | None,
        uniform: bool,
        chosen_id: str | None,
        offsets: Mapping[Any, float] | None = None,
        serve: Arm | None = None,
    ) -> BanditDecision:
        """Choose one arm: a ranking with a single slot."""
        served = () if serve is None else (serve,)
        ranking = self.rank(context, 1, arms, eligible, uniform, chosen_id, offsets, served)
        return BanditDecision(
            ranking.arms[0],
            ranking.candidates,
            ranking.estimates[0],
            ranking.id,
            ranking.propensities[0],
            ranking.slot_probabilities[0],
            ranking.sampled,
        )

    def rank(
        self,
        context: Any,
        count: int,
        arms: Any,
        eligible: Iterable[Arm] | None,
        uniform: bool,
        chosen_id: str | None,
        offsets: Mapping[Any, float] | None = None,
        serve: Sequence[Arm] = (),
    ) -> Ranking:
        """Choose the arms of all slots, and add each slot to the pending decisions."""
        core = self._core
        if chosen_id is not None:
            core.pending.check_new_id(chosen_id)
        allowed = self._allowed(arms, eligible)
        prepared = core.prepare_change(context, arms, eligible)
        names = core.arms if prepared.arms is None else prepared.arms.names
        self._check_count(count, len(names) if allowed is None else len(allowed))
        added = None if offsets is None else to_offsets(offsets, names)
        served = self._served(prepared, serve, allowed, count)
        policy = prepared.policy
        now = core.now()
        core.settle(now, incoming=count)
        rng_states = None if core.log is None else (core.rng.bit_generator.state, policy.rng_state)
        exploration = self._exploration(uniform, prepared.arms)
        try:
            slots = draw_slots(
                self._estimator(prepared), allowed, count, exploration, core.rng, added, served
            )
            chosen = [
                ChosenSlot(names[slot.chosen], slot.propensity, self._input(prepared, slot.chosen, number))
                for number, slot in enumerate(slots)
            ]
            policy.ensure_capacity()
            ranking_id = self._add(prepared, context, chosen, now, eligible is not None, chosen_id)
        except BaseException:
            if rng_states is not None:
                core.rng.bit_generator.state, policy.rng_state = rng_states
            raise
        return Ranking(
            tuple(slot.arm for slot in chosen),
            ranking_id,
            tuple(slot.propensity for slot in chosen),
            names,
            tuple(slot.probabilities for slot in slots),
            tuple(slot.estimates for slot in slots),
            policy.is_randomized,
        )

    def _exploration(self, uniform: bool, arms: PreparedArms | None) -> Exploration:
        config, bounds = self._core.config, self._core.bounds
        if arms is not None and config.shares is not None:
            bounds = share_bounds(config.shares, {arm: place for place, arm in enumerate(arms.names)})
        return Exploration(config.exploration, config.exploration_mode, uniform, arms is not None, bounds)

    def _served(
        self, prepared: Prepared, serve: Sequence[Arm], allowed: list[int] | None, count: int
    ) -> list[int]:
        """Return the indices of the arms that are served in the first slots."""
        served = [self._core.replayed_index(prepared, arm) for arm in serve]
        wrong = len(set(served)) != len(served) or len(served) > count
        if wrong or (allowed is not None and not set(served) <= set(allowed)):
            raise InvalidInput(
                f"serve must have at most {count} different arms, all of them eligible, got {list(serve)}"
            )
        return served

    def _allowed(self, arms: Any, eligible: Iterable[Arm] | None) -> list[int] | None:
        """Return the indices of the eligible arms if arms have no features."""
        core = self._core
        if core.catalog is not None:
            return None
        if arms is not None:
            raise InvalidInput(
                "this bandit has arms without features: pass eligible= to restrict them, or create it with "
                "arms={name: {feature: value}}"
            )
        return None if eligible is None else _validation.eligible(eligible, core.index)

    def _check_count(self, count: object, candidates: int) -> None:
        slots = self._core.config.slots
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"k must be a positive integer, got {count!r}")
        if count > candidates:
            raise InvalidInput(
                f"k must be at most the number of candidates, which is {candidates:,}, got {count:,}"
            )
        if 1 < slots < count:
            raise InvalidInput(f"k must be at most slots={slots}, got {count:,}: raise slots")

    def _estimator(self, prepared: Prepared) -> Any:
        """Return a function that estimates all candidates for a slot; without positions, only once."""
        core, policy = self._core, prepared.policy
        known: list[Estimates] = []

        def estimate(slot: int) -> Estimates:
            if known and not core.positions:
                return known[0]
            x = core.at_position(prepared.encoded.x, slot)
            arms = prepared.arms
            found = policy.estimate(x) if arms is None else self._estimate(policy, x, arms)
            known.append(found)
            return found

        return estimate

    def _estimate(self, policy: Policy, x: Float32, arms: PreparedArms) -> Estimates:
        """Return the estimates of candidates: those of the shared policy, corrected for each arm."""
        estimates = estimate_candidates(policy, x, arms.candidates)
        own = self._core.own
        return estimates if own is None else own.correct(x, arms.names, estimates)

    def _input(self, prepared: Prepared, chosen: int, slot: int) -> Float32:
        """Return what the policy learns from: the context, or the joint vector of context and arm."""
        x = self._core.at_position(prepared.encoded.x, slot)
        return x if prepared.arms is None else join(x, prepared.arms.candidates, chosen)

    def _add(
        self,
        prepared: Prepared,
        context: Any,
        chosen: list[ChosenSlot],
        now: float,
        restricted: bool,
        chosen_id: str | None,
    ) -> str:
        """Log, count and add all slots; return the id of the ranking."""
        core, arms = self._core, prepared.arms
        ranking_id = core.pending.next_id(chosen[0].x, core.id_prefix) if chosen_id is None else chosen_id
        if core.log is not None:
            request = None if arms is None or arms.request is None else arms_as_json(arms.request)
            core.log.write(
                ranking_event(
                    ranking_id,
                    core.log_time(now),
                    [(slot.arm, slot.propensity) for slot in chosen],
                    context,
                    request,
                    list(arms.names) if restricted and arms is not None else None,
                )
            )
        core._commit(prepared)
        for number, slot in enumerate(chosen):
            core.count_decision(prepared.policy, slot.x, slot.arm)
            core.pending.add(
                PendingDecision(slot.x, slot.arm, slot.propensity, now, id=slot_id(ranking_id, number))
            )
        core.pending.warn_before_eviction(now)
        return ranking_id

    # ---- rewards --------------------------------------------------------------------------------

    def reward(
        self, ranking: Any, value: float, slot: int | None, examined: int | None, key: str | int | None
    ) -> bool:
        """Learn the reward of one slot, or of all slots that were examined."""
        core, now = self._core, self._core.now()
        is_single = not core.pending.has_slots or self._count_slots(ranking) == 1
        if slot is None and examined is None and is_single:
            return core.reward(ranking, value, key, now)
        checked = _validation.reward(value, core.config.rewards)
        affected = self.affected(ranking, slot, examined)
        hashed = hash_key(key)
        slots = range(self._count_slots(ranking)) if slot is None else (slot,)
        if hashed is not None and any(core.pending.has_key(slot_id(ranking, one), hashed) for one in slots):
            return False
        if slot is not None or not any(affected):  # otherwise, some slots have no reward yet
            core.pending.find(slot_id(ranking, slot or 0), now)
        accepted = [core.reward(slot_id(ranking, one), checked, key, now) for one in affected.rewarded]
        for one in affected.default:
            default = core.config.default_reward
            lowest = reward_range(core.config.rewards)[0]
            core.reward(slot_id(ranking, one), lowest if default is None else default, None, now)
        for one in affected.unexamined:
            self._drop(slot_id(ranking, one), now)
        return any((*accepted, affected.default, affected.unexamined))

    def affected(self, ranking: Any, slot: int | None, examined: int | None) -> AffectedSlots:
        """Return what a reward would do to the slots of a ranking."""
        count, now = self._count_slots(ranking), self._core.now()
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
        """Return the number of slots of a ranking; 1 for a decision and for an id that is unknown."""
        count = 1
        while isinstance(ranking, str) and self._core.pending.is_known(slot_id(ranking, count)):
            count += 1
        return count

    def _awaits(self, ranking: Any, slot: int, now: float) -> bool:
        """Return whether a slot is pending and has no reward yet."""
        pending = self._core.pending
        name = slot_id(ranking, slot)
        return pending.contains(name, now) and pending.find(name, now).reward is None

    def _drop(self, name: str, now: float) -> None:
        core = self._core
        if core.log is not None:
            core.log.write(unexamined_event(name, core.log_time(now)))
        core.pending.drop(name)

    # ---- replay of a log ------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._core.arms

    @property
    def has_arm_features(self) -> bool:
        """Whether arms have features."""
        return self._core.catalog is not None

    def replay_row(
        self, context: Any, arm: Arm, reward: float, propensity: float, features: Any = None
    ) -> None:
        """Learn from a decision together with its reward."""
        candidates = None if features is None else {arm: features}
        self._core.replay_row(context, arm, reward, propensity, candidates)

    def replay_decision(self, context: Any, arm: Arm, propensity: float, time: float, logged_id: str) -> str:
        """Add a pending decision; return its id, which is that of the log unless it is known here."""
        if self._core.catalog is None and not self._core.positions:
            return self._core.replay_decision(context, arm, propensity, time, logged_id)
        return self.replay_ranking(context, [(arm, propensity)], None, time, logged_id)[0]

    def replay_ranking(
        self, context: Any, slots: list[tuple[Arm, float]], arms: Any, time: float, logged_id: str
    ) -> list[str]:
        """Add the slots of a ranking; return their ids."""
        core = self._core
        prepared = core.prepare_change(context, arms)
        chosen = []
        for number, (arm, propensity) in enumerate(slots):
            index = core.replayed_index(prepared, arm)
            chosen.append(ChosenSlot(arm, propensity, self._input(prepared, index, number)))
        core.expire(time)
        core.settle(NO_TIME, incoming=len(chosen))
        prepared.policy.ensure_capacity()
        decided_at = 0.0 if core.config.reward_timeout is None else time
        is_new = is_valid_id(logged_id) and not core.pending.is_known(logged_id)
        own_id = logged_id if is_new else None
        ranking = self._add(prepared, context, chosen, decided_at, False, own_id)
        return [slot_id(ranking, number) for number in range(len(chosen))]

    def replay_reward(
        self, decision_id: str, value: float, key: str | int | None, final: bool, time: float
    ) -> bool:
        """Add the reward of a pending decision; return False if its key was used before."""
        return self._core.replay_reward(decision_id, value, key, final, time)

    def replay_outcome(self, decision_id: str, value: float, final: bool, time: float) -> None:
        """Learn the label of a decision, or its reward if its timeout has passed."""
        self._core.replay_outcome(decision_id, value, final, time)

    def replay_unexamined(self, decision_id: str) -> None:
        """Drop a slot that was not examined."""
        self._core.pending.find(decision_id)
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

    # ---- arms -----------------------------------------------------------------------------------

    def _require_catalog(self) -> Catalog:
        if self._core.catalog is None:
            raise InvalidInput(
                "this bandit has arms without features: use add_arm and remove_arm, or create it with "
                "arms={name: {feature: value}}"
            )
        return self._core.catalog

    def set_arms(self, arms: Any) -> None:
        """Replace the catalog. The log gets what is different."""
        core, catalog = self._core, self._require_catalog()
        plain = plain_arms(arms)
        added = {name: features for name, features in plain.items() if catalog.arms.get(name) != features}
        removed = [name for name in catalog.arms if name not in plain]
        if list(plain) == list(catalog.arms) and not added:
            return
        if core.log is not None:
            time = core.log_time(NO_TIME)
            core.log.write(arms_event(time, added=arms_as_json(added), removed=removed))
        catalog.set_arms(plain)
        core._set_arms(catalog.names, core.policy, core.config)

    def add_arm(self, name: Arm, features: Mapping[str, Any] | None) -> None:
        """Add an arm to the catalog."""
        new = _validation.new_arm(name, self._core.index)
        self.set_arms({**self._require_catalog().arms, new: features})

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm from the catalog. What was learned from it, and its pending decisions, remain."""
        _validation.arm(name, self._core.index)
        kept = {arm: f for arm, f in self._require_catalog().arms.items() if arm != name}
        self.set_arms(kept)

    def log_arms(self) -> None:
        """Write the catalog to a log that has just been opened."""
        core = self._core
        if core.log is not None and core.catalog is not None:
            core.log.write(arms_event(core.log_time(NO_TIME), arms_as_json(core.catalog.arms)))

    # ---- explanations ---------------------------------------------------------------------------

    def explain(self, context: Any, arms: Any, eligible: Iterable[Arm] | None) -> Explanation:
        """Explain the values of candidates: of all that are eligible, or of those with the best scores."""
        core = self._core
        encoder, policy, encoded, prepared = core.prepare(context, arms, eligible)
        assert prepared is not None  # Bandit.explain checks it
        assert core.catalog is not None
        x = core.at_position(encoded.x, 0)
        state = policy.rng_state
        estimates = self._estimate(policy, x, prepared)
        policy.rng_state = state  # an explanation does not change the next decision
        scores = estimates.values + estimates.bonuses
        order = np.argsort(-scores, kind="stable")
        chosen = order if eligible is not None else order[:MAX_EXPLAINED]
        exploration = self._exploration(False, prepared)
        shares = slot_probabilities(estimates, None, exploration)
        origins = encoder.origins(context, encoded)
        names = list(origins.values)
        features: list[str] = [*names, *([POSITION_FEATURE] if core.positions else [])]
        rows, bases, own_values, totals = [], [], [], []
        for index in chosen.tolist():
            arm_origins = core.catalog.origins(prepared, index)
            joint = join(x, prepared.candidates, index)
            neutral = np.full(core.positions, 0.5, np.float32)
            baseline = np.concatenate([origins.baseline, neutral, arm_origins.baseline])
            one = policy.explain(joint, baseline=baseline)
            values, amounts = np.array([one.values[0], one.bases[0]]), one.contributions[0]
            if core.own is not None:
                ends = np.stack([x, baseline[: x.size]])
                values, amounts = core.own.contributions(prepared.names[index], ends, values, amounts)
            own = {ARM_PREFIX + name: text for name, text in arm_origins.values.items()}
            features += [name for name in own if name not in features]
            owners = [
                *origins.owners,
                *([POSITION_FEATURE] * core.positions),
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


def _index(name: str, value: object, size: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < size:
        raise InvalidInput(f"{name} must be an integer from 0 to {size - 1}, got {value!r}")
    return int(value)

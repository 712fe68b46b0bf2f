"""The bandit for applications: contexts of any form, named arms, exact propensities."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from glcb import _validation
from glcb._errors import InvalidInput, UnknownArm
from glcb._types import Arm, ExplorationMode, Rewards
from glcb.bandit import compilation, forks
from glcb.bandit._core import BanditCore, RewardCallback
from glcb.bandit._slates import Slates
from glcb.bandit.candidates import to_offsets
from glcb.bandit.config import BanditConfig, Clock, RewardAggregation
from glcb.bandit.decision import NO_DEMANDS, BanditDecision, Demands
from glcb.bandit.encoding.values import to_contexts
from glcb.bandit.files import Persistent
from glcb.bandit.inspection import Inspectable
from glcb.bandit.loggable import Loggable
from glcb.bandit.ranking import AffectedSlots, Ranking
from glcb.bandit.records import checked_prefix
from glcb.explain import Explanation

compilation.use_second_process()


class Bandit(Inspectable, Loggable, Persistent):
    """Chooses between named arms for contexts of any form, and learns from the rewards.

    All methods are thread-safe. A call with invalid input raises an error and changes nothing.

    Parameters
    ----------
    arms : int, list of str or int, or dict
        The arms to choose from: a list of names, or a number of arms named 0, 1, 2, …, or the features of
        each arm by name.
    policy : str, default "glcb"
        Name of the policy that estimates the value of each arm. `glcb policies` lists all names.
    policy_settings : dict, default None
        Settings of the policy, by name.
    rewards : "binary" or (float, float), default "binary"
        The range of rewards: "binary" for 0 or 1, or (low, high).
    exploration : float, default 0.05
        Probability of choosing an arm other than the one with the best score.
    exploration_mode : "gap" or "uniform", default "gap"
        How exploration is divided: "gap" prefers arms with scores close to the best, "uniform" has
        no preference.
    schema : dict, default None
        Declared features, by name: a kind, a range, a list of categories, or the JSON form of one of these.
        Others are inferred.
    spare_slots : int, default None
        Number of slots for values and features that appear later. By default it depends on the first context.
    arm_schema : dict, default None
        Declared features of arms, like `schema`. Only for arms with features.
    slots : int, default 1
        Number of positions of a ranking. If it is more than 1, the position is a feature.
    max_pending : int, default 10000
        Number of decisions that can be pending. When there are more, the oldest is evicted.
    reward_timeout : float, default None
        Seconds a decision stays pending. None means no limit.
    default_reward : float, default None
        Reward of a decision without one. If None, nothing is learned from it. Requires `reward_timeout`. Both
        are learned at the same age, before the timeout.
    reward_aggregation : "first", "last", "max" or "sum", default "first"
        How several rewards of one decision are combined. All but "first" require `reward_timeout` and are
        learned when it has passed; "sum" is clipped to the range of rewards.
    clock : function, default time.time
        Function that returns the time in seconds.
    half_life : int, default None
        Number of decisions after which evidence counts half as much. None disables forgetting.
    seed : int, default 0
        Seed of all random numbers.
    shares : dict, default None
        Lowest and highest probability of arms in every decision, by name; in a ranking, of the first slot.

    Raises
    ------
    InvalidSettings
        If an argument is invalid or conflicts with another.
    NotSupported
        If `half_life` is set and the policy cannot forget.

    Examples
    --------
    >>> bandit = Bandit(arms=["sports", "news", "games"])
    >>> decision = bandit.decide({"country": "FR", "age": 31, "hour": 14})
    >>> decision.arm in bandit.arms, sum(decision.probabilities.values())
    (True, 1.0)
    >>> bandit.reward(decision.id, 1.0)
    True
    """

    def __init__(
        self,
        arms: int | Sequence[Arm] | Mapping[Any, Mapping[str, Any]],
        *,
        policy: str = BanditConfig.policy,
        policy_settings: Mapping[str, Any] | None = BanditConfig.policy_settings,
        rewards: Rewards = BanditConfig.rewards,
        exploration: float = BanditConfig.exploration,
        exploration_mode: ExplorationMode = BanditConfig.exploration_mode,
        schema: Mapping[str, Any] | None = BanditConfig.schema,
        spare_slots: int | None = BanditConfig.spare_slots,
        arm_schema: Mapping[str, Any] | None = BanditConfig.arm_schema,
        slots: int = BanditConfig.slots,
        max_pending: int = BanditConfig.max_pending,
        reward_timeout: float | None = BanditConfig.reward_timeout,
        default_reward: float | None = BanditConfig.default_reward,
        reward_aggregation: RewardAggregation = BanditConfig.reward_aggregation,
        clock: Clock = BanditConfig.clock,
        half_life: int | None = BanditConfig.half_life,
        seed: int = BanditConfig.seed,
        shares: Mapping[Any, tuple[float, float]] | None = BanditConfig.shares,
    ) -> None:
        params: dict[str, Any] = dict(locals())
        del params["self"]
        if isinstance(arms, Iterator):  # it can be read only once
            params["arms"] = tuple(arms)
        self._start(BanditCore(BanditConfig(**params)), params)

    def _start(self, core: BanditCore, params: dict[str, Any]) -> None:
        self._lock, self._core, self._params = threading.RLock(), core, params
        self._slates = Slates(core)
        forks.watch(self)

    def _separate(self) -> None:
        self._core.separate()

    # ---- deciding and learning ------------------------------------------------------------------

    def decide(
        self,
        context: Any,
        *,
        arms: Any = None,
        eligible: Iterable[Arm] | None = None,
        uniform: bool = False,
        offsets: Mapping[Any, float] | None = None,
        serve: Arm | None = None,
        id: str | None = None,  # noqa: A002 (the name of the attribute of a decision)
    ) -> BanditDecision:
        """Choose an arm for a context. The decision is pending until its reward arrives.

        Parameters
        ----------
        context : dict, row of a data frame, named tuple, list or array
            The values of the features.
        arms : dict, optional
            The candidates of this request: the features of each, by name. New names are fine. Default: the
            catalog. Only for bandits whose arms have features.
        eligible : iterable of str or int, optional
            The arms to choose from, among the candidates. Default: all.
        uniform : bool, default False
            Choose each eligible arm with the same probability, as for a control group.
        offsets : dict, optional
            Numbers to add to the scores of arms, such as minus their costs. Nothing is learned from them.
        serve : str or int, optional
            An eligible arm that another system has chosen. The decision has this arm, with the propensity 1.
            Its rewards are learned like all others.
        id : str, optional
            The id of the decision: 1 to 100 characters from A–Z, a–z, 0–9, ``_`` and ``-``.

        Returns
        -------
        BanditDecision
            The arm, the id for its reward, and the probability of each arm.

        Raises
        ------
        InvalidContext
            If `context` has none of these forms, or does not match earlier contexts.
        InvalidInput
            If there are no candidates, the features of one are not a dict, or an offset is not a number.
        UnknownArm
            If `eligible` is empty or names an arm that is no candidate, or `offsets` does.
        DuplicateDecision
            If a decision with this id is pending, or among the last `max_pending` that are not.
        LogError
            If there is a log and it cannot be written.
        """
        with self._lock:
            core = self._core
            if arms is not None or core.catalog is not None or core.positions:
                return self._slates.decide(context, arms, eligible, uniform, id, offsets, serve)
            if eligible is None and offsets is None and serve is None and not uniform:
                return core.decide(context, id, NO_DEMANDS)
            allowed = None if eligible is None else _validation.eligible(eligible, core.index)
            served = None if serve is None else _validation.arm(serve, core.index)
            if served is not None and allowed is not None and served not in allowed:
                raise UnknownArm(f"serve must be an eligible arm, got {serve!r}")
            added = 0.0 if offsets is None else to_offsets(offsets, core.arms)
            return core.decide(context, id, Demands(allowed, uniform, added, served))

    def rank(
        self,
        context: Any,
        *,
        k: int,
        arms: Any = None,
        eligible: Iterable[Arm] | None = None,
        uniform: bool = False,
        serve: Sequence[Arm] = (),
        id: str | None = None,  # noqa: A002 (the name of the attribute of a ranking)
    ) -> Ranking:
        """Choose `k` different arms for a context, in order. Each slot is pending until its reward arrives.

        Parameters
        ----------
        context : dict, row of a data frame, named tuple, list or array
            The values of the features.
        k : int
            Number of slots.
        arms, eligible, uniform, id
            As for :meth:`decide`.
        serve : sequence of str or int
            Arms that another system has chosen for the first slots.

        Returns
        -------
        Ranking
            The arms, one id for their rewards, and the propensity of every slot, given the slots above it.

        Raises
        ------
        InvalidInput
            If `k` is larger than the number of candidates, or than `slots` if positions are features.
        InvalidContext, UnknownArm, DuplicateDecision, LogError
            As for :meth:`decide`.

        Examples
        --------
        >>> bandit = Bandit(arms={"m17": {"genre": "noir"}, "m4": {"genre": "comedy"}, "m9": {}})
        >>> ranking = bandit.rank({"age": 31}, k=2)
        >>> len(ranking.arms), bandit.reward(ranking.id, 1, slot=1, examined=2)
        (2, True)
        """
        with self._lock:
            return self._slates.rank(context, k, arms, eligible, uniform, id, serve=serve)

    def decide_many(self, contexts: Any, *, eligible: Iterable[Arm] | None = None) -> list[BanditDecision]:
        """Choose an arm for each of many contexts.

        The result is that of :meth:`decide` for each context in order. All contexts are checked first: if one
        is invalid, no decision is made. If the log cannot be written, earlier decisions remain.

        Parameters
        ----------
        contexts : pandas or Polars frame, 2-D array, or iterable of contexts
            One context per row.
        eligible : iterable of str or int, optional
            The arms to choose from, for all contexts. Default: all.

        Returns
        -------
        list of BanditDecision
            One decision per context, in the same order.

        Raises
        ------
        InvalidContext
            If a context is invalid. The message contains its row number, starting at 0.
        UnknownArm, LogError
            As for :meth:`decide`.

        Examples
        --------
        >>> bandit = Bandit(arms=["sports", "news"])
        >>> decisions = bandit.decide_many([{"age": 31}, {"age": 45}])
        >>> [decision.arm in bandit.arms for decision in decisions]
        [True, True]
        """
        rows = to_contexts(contexts)
        with self._lock:
            self._core.check_contexts(rows)
            return [self.decide(row, eligible=eligible) for row in rows]

    def reward(
        self,
        decision: str,
        value: float,
        *,
        slot: int | None = None,
        examined: int | None = None,
        idempotency_key: str | int | None = None,
    ) -> bool:
        """Learn the reward of a pending decision.

        With a default reward, or an aggregation other than "first", it is recorded now and learned later.

        Parameters
        ----------
        decision : str
            The id of the decision or the ranking.
        value : float
            The reward.
        slot : int, optional
            The slot of a ranking, from 0. Default: the reward is that of the whole ranking, and every slot
            that was examined learns it.
        examined : int, optional
            Number of slots that were seen. It completes a ranking: slots that were seen and have no reward
            learn the default reward, or the lowest one; nothing is learned from the others.
        idempotency_key : str or int, optional
            Makes retries safe: of several rewards of one decision with the same key, only the first counts.

        Returns
        -------
        bool
            False if the decision already had a reward with this key, else True.

        Raises
        ------
        InvalidReward
            If `value` is outside the range of rewards.
        UnknownDecision
            If no decision of this bandit has this id.
        ClosedDecision
            If the decision timed out, was evicted, or its arm was removed.
        DuplicateReward
            If the decision has already been rewarded.
        LogError
            If there is a log and it cannot be written.
        """
        with self._lock:
            return self._slates.reward(decision, value, slot, examined, idempotency_key)

    def affected_slots(
        self, decision: str, *, slot: int | None = None, examined: int | None = None
    ) -> AffectedSlots:
        """Return what :meth:`reward` with the same arguments would do to the slots of a ranking.

        Parameters
        ----------
        decision : str
            The id of the decision or the ranking.
        slot, examined : int, optional
            As for :meth:`reward`.

        Returns
        -------
        AffectedSlots
            The numbers of the slots that would be rewarded, learn the default reward, or be dropped.

        Raises
        ------
        InvalidInput
            If `slot` or `examined` is invalid.
        """
        with self._lock:
            return self._slates.affected(decision, slot, examined)

    def settle(self) -> bool:
        """Close all decisions that have timed out. Without this call, the next decision or reward does so.

        Returns
        -------
        bool
            Whether anything changed: a decision was closed, or its default reward was learned.
        """
        with self._lock:
            return self._core.settle(self._core.now())

    def has_due(self, more_than: int = 0) -> bool:
        """Return whether :meth:`settle`, or the next decision or reward, would settle many decisions.

        Parameters
        ----------
        more_than : int
            The number of decisions that are not many.

        Returns
        -------
        bool
            Whether more decisions than that have timed out, or are to be learned with the default reward.
        """
        with self._lock:
            return self._core.pending.has_due(self._core.now(), more_than)

    def on_reward(self, callback: RewardCallback | None) -> None:
        """Call ``callback(id, arm, reward)`` once the reward of a decision is final; None removes it.

        The callback is called last. If it raises an exception, the reward has already been recorded.

        Parameters
        ----------
        callback : callable or None
            Called with the id of the decision, its arm and its reward.
        """
        with self._lock:
            self._core.on_reward = callback

    def is_pending(self, decision: str) -> bool:
        """Return whether the decision with this id can still receive a reward.

        Parameters
        ----------
        decision : str
            The id of the decision.

        Returns
        -------
        bool
            Whether the decision is pending and has not timed out.
        """
        with self._lock:
            return self._core.pending.contains(decision, self._core.now())

    def explain(
        self, context: Any, *, arms: Any = None, eligible: Iterable[Arm] | None = None
    ) -> Explanation:
        """Explain the value of every arm: the contribution of each feature, and the evidence.

        Nothing is learned or counted, and no random numbers are drawn. Contributions are relative to a
        context in which every number is in the middle of its scale and every boolean and category is unknown.

        Parameters
        ----------
        context : dict, row of a data frame, named tuple, list or array
            The values of the features.
        arms, eligible
            For arms with features, the candidates. All that are in `eligible` are explained; without it, the
            20 with the best scores.

        Returns
        -------
        Explanation
            The value of each arm, the contribution of each feature, and the evidence. ``print`` shows it.

        Raises
        ------
        InvalidContext
            If `context` is invalid, as for :meth:`decide`.
        NotSupported
            If the policy cannot explain its values.
        """
        with self._lock:
            if self._core.catalog is None:
                return self._core.explain(context)
            return self._slates.explain(context, arms, eligible)

    # ---- arms -----------------------------------------------------------------------------------

    def add_arm(
        self, name: Arm, *, like: Arm | None = None, features: Mapping[str, Any] | None = None
    ) -> None:
        """Add an arm.

        Parameters
        ----------
        name : str or int
            The name of the new arm.
        features : dict, optional
            Its features, if the arms of this bandit have features.
        like : str or int, optional
            An arm to copy. The new arm has its values, but the evidence of at most 64 decisions, so that it
            is explored. Default: the new arm is untrained.

        Raises
        ------
        InvalidSettings
            If `name` is invalid or in use.
        UnknownArm
            If there is no arm `like`.
        NotSupported
            If the arms of the policy cannot change.
        """
        with self._lock:
            if self._core.catalog is None:
                if features is not None:
                    raise InvalidInput("the arms of this bandit have no features: omit features")
                self._core.add_arm(name, like)
            elif like is not None:
                raise InvalidInput("arms with features share what is learned: pass features instead of like")
            else:
                self._slates.add_arm(name, features)

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm and everything learned about it. Its pending decisions are closed.

        An arm with features only leaves the catalog: what was learned is shared, and its decisions remain.

        Parameters
        ----------
        name : str or int
            The name of the arm.

        Raises
        ------
        InvalidSettings
            If it is the only arm.
        UnknownArm
            If there is no such arm.
        NotSupported
            If the arms of the policy cannot change.
        """
        with self._lock:
            if self._core.catalog is None:
                self._core.remove_arm(name)
            else:
                self._slates.remove_arm(name)

    def set_arms(self, arms: Mapping[Any, Mapping[str, Any]]) -> None:
        """Replace the catalog, for bandits whose arms have features. What was learned remains.

        Parameters
        ----------
        arms : dict
            The features of each arm, by name.

        Raises
        ------
        InvalidInput
            If the arms of this bandit have no features, or `arms` are invalid.
        """
        with self._lock:
            self._slates.set_arms(arms)


def use_id_prefix(bandit: Bandit, prefix: str) -> str:
    """Let the ids of later decisions begin with a prefix; return the one before.

    Raises
    ------
    ValueError
        No id can begin with the prefix.
    """
    with bandit._lock:
        before, bandit._core.id_prefix = bandit._core.id_prefix, checked_prefix(prefix)
        return before

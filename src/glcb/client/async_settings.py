"""Settings and state of an experiment of the asynchronous client."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from glcb._api.guardrails import Change, ChangeList, Guardrail, Metric
from glcb._api.responses import ExperimentInfo
from glcb.client import _requests
from glcb.client.async_evaluations import AsyncEvaluations


class AsyncSettings(AsyncEvaluations):
    """What can be changed in an experiment: its settings, its state, and which arms are paused."""

    async def change(
        self,
        *,
        exploration: float | UnsetType = UNSET,
        exploration_mode: Literal["gap", "uniform"] | UnsetType = UNSET,
        schema: Mapping[str, Any] | UnsetType = UNSET,
        reward_timeout: float | UnsetType | None = UNSET,
        default_reward: float | UnsetType | None = UNSET,
        reward_aggregation: Literal["first", "last", "max", "sum"] | UnsetType = UNSET,
        half_life: int | UnsetType | None = UNSET,
        holdout: float | UnsetType = UNSET,
        shares: Mapping[str, tuple[float, float]] | UnsetType | None = UNSET,
        control: str | UnsetType | None = UNSET,
        baseline: Literal["random", "control"] | UnsetType | None = UNSET,
        traffic: float | UnsetType | None = UNSET,
        shadow: bool | UnsetType | None = UNSET,
        start_at: datetime | UnsetType | None = UNSET,
        end_at: datetime | UnsetType | None = UNSET,
        metrics: Mapping[str, Metric] | UnsetType | None = UNSET,
        guardrails: Sequence[Guardrail] | UnsetType | None = UNSET,
        trust_publishable: bool | UnsetType | None = UNSET,
        description: str | UnsetType | None = UNSET,
        owner: str | UnsetType | None = UNSET,
        hypothesis: str | UnsetType | None = UNSET,
        reward_unit: str | UnsetType | None = UNSET,
        segments: Sequence[str] | UnsetType | None = UNSET,
        reason: str | None = None,
    ) -> ExperimentInfo:
        """Change settings of the experiment. Omitted ones stay as they are; None removes one.

        Parameters
        ----------
        exploration
            Share of decisions spent on exploration.
        exploration_mode
            ``"gap"`` or ``"uniform"``.
        schema
            The declared features, by name; those of an empty dict are all inferred.
        reward_timeout
            Seconds a decision stays pending. A timeout cannot be removed.
        default_reward
            Reward of a decision without one.
        reward_aggregation
            How several rewards of one decision are combined.
        half_life
            Number of decisions after which evidence counts half as much.
        holdout
            Share of decisions that are served the baseline.
        shares
            Lowest and highest probability of arms in every decision, by name; in a ranking, of the first
            slot.
        control
            The control arm. A decision can have its own.
        baseline
            What the holdout, and the traffic that the bandit does not decide, are served.
        traffic
            Share of the traffic that the bandit decides. The rest is part of the holdout.
        shadow
            Whether everybody is served the control. What the bandit would have done is logged.
        start_at
            Time before which no decisions are made, with a time zone.
        end_at
            Time from which on no decisions are made, with a time zone.
        metrics
            Numbers that are reported with rewards, by name.
        guardrails
            Metrics that must not fall.
        trust_publishable
            Whether guardrails count what publishable API keys report. Visitors can then break them.
        description
            What the experiment is about.
        owner
            Who is responsible for it.
        hypothesis
            What it is to find out.
        reward_unit
            The unit of the reward, such as €, % or s.
        segments
            The features whose values are segments in the statistics, at most eight. By default, the service
            chooses them.
        reason
            Why, for the trail of changes.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        InvalidSettings
            If a setting is invalid.
        NotSupported
            If the policy cannot forget and ``half_life`` is set.
        NotRunning
            If the experiment is archived.
        """
        request = _requests.change(
            self.name,
            reason=reason or UNSET,
            exploration=exploration,
            exploration_mode=exploration_mode,
            schema=schema,
            reward_timeout=reward_timeout,
            default_reward=default_reward,
            reward_aggregation=reward_aggregation,
            half_life=half_life,
            holdout=holdout,
            shares=shares,
            control=control,
            baseline=baseline,
            traffic=traffic,
            shadow=shadow,
            start_at=start_at,
            end_at=end_at,
            metrics=metrics,
            guardrails=guardrails,
            trust_publishable=trust_publishable,
            description=description,
            owner=owner,
            hypothesis=hypothesis,
            reward_unit=reward_unit,
            segments=_requests.plain_list(segments),
        )
        return await self._request(request, ExperimentInfo)

    async def pause(self, *, reason: str | None = None) -> ExperimentInfo:
        """Refuse decisions until :meth:`resume`; rewards are still accepted."""
        return await self._request(_requests.set_state(self.name, "paused", reason), ExperimentInfo)

    async def resume(self, *, reason: str | None = None) -> ExperimentInfo:
        """Accept decisions again."""
        return await self._request(_requests.set_state(self.name, "running", reason), ExperimentInfo)

    async def archive(self, *, reason: str | None = None) -> ExperimentInfo:
        """Refuse decisions and rewards; everything can still be read."""
        return await self._request(_requests.set_state(self.name, "archived", reason), ExperimentInfo)

    async def pause_arm(self, name: str, *, reason: str | None = None) -> ExperimentInfo:
        """Stop choosing an arm until :meth:`resume_arm`; what was learned about it is kept.

        Parameters
        ----------
        name
            Name of the arm.
        reason
            Why, for the trail of changes.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        UnknownArm
            If the experiment has no such arm.
        InvalidSettings
            If it is the control, or all other arms are paused.
        """
        return await self._request(_requests.pause_arm(self.name, name, True, reason), ExperimentInfo)

    async def resume_arm(self, name: str, *, reason: str | None = None) -> ExperimentInfo:
        """Choose a paused arm again. Guardrails forget what they knew about it.

        Parameters
        ----------
        name
            Name of the arm.
        reason
            Why, for the trail of changes.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        UnknownArm
            If the experiment has no such arm.
        """
        return await self._request(_requests.pause_arm(self.name, name, False, reason), ExperimentInfo)

    async def changes(self, *, limit: int = 20, before: int = 0) -> tuple[Change, ...]:
        """Return who changed what, when and why: settings, arms, models and automatic pauses.

        Parameters
        ----------
        limit
            Number of changes, at most 100.
        before
            Return only changes before the event with this sequence number; 0 for the newest.

        Returns
        -------
        tuple of Change
            The changes, newest first.
        """
        return (await self._request(_requests.changes(self.name, limit, before), ChangeList)).changes

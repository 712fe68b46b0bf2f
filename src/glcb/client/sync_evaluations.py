"""Evaluations of an experiment of the blocking client."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from glcb._api.requests import DEFAULT_ESTIMATORS
from glcb._api.responses import EvaluationInfo, EvaluationList, EvaluationResult
from glcb.client import _requests
from glcb.client.sync_statistics import Statistics


class Evaluations(Statistics):
    """What an experiment can do with evaluations: start, wait, list and cancel."""

    def evaluate(
        self,
        policies: Sequence[str] | Mapping[str, str | Mapping[str, Any]],
        *,
        after: int | datetime | None = None,
        before: int | datetime | None = None,
        estimators: Sequence[str] = DEFAULT_ESTIMATORS,
        reference: str = "logged",
        default_reward: float | None = None,
        replay: bool = True,
        max_ratio: float | None = None,
        constant_values: bool = False,
        seed: int = 0,
        progress: Callable[[EvaluationInfo], None] | None = None,
    ) -> EvaluationResult:
        """Estimate what other policies or settings would have earned, and wait for the result.

        The service evaluates the decisions and rewards of the experiment, without changing it. If the call is
        interrupted, the evaluation goes on; see :meth:`evaluations`.

        Parameters
        ----------
        policies
            Names of policies, or a dict from any name to a policy. A policy is "uniform", "best-fixed-arm",
            "arm=NAME", the name of a policy that replaces the one of the experiment, or a dict of settings
            that replace those of the experiment, such as ``{"exploration": 0.02}`` or
            ``{"without": ["games"]}``.
        after, before
            Evaluate only decisions in this range of sequence numbers, or of times with a time zone.
        estimators
            Any of "ips", "snips", "clipped-ips", "dm", "dr", "switch-dr" and "shrunk-dr". Curves show the
            first one.
        reference
            The policy that differences are relative to; "logged" is the experiment itself.
        default_reward
            Reward of decisions without one. None for the one of the experiment.
        replay
            Whether to replay the policies that learn as well.
        max_ratio
            The bound of π / p for replay. None for 1 / the smallest propensity.
        constant_values
            Whether to add a confidence sequence that assumes constant values.
        seed
            Seed of all random numbers.
        progress
            Called with the evaluation a few times while it is queued or running.

        Returns
        -------
        EvaluationResult
            The estimated values with intervals and diagnostics.

        Raises
        ------
        InvalidSettings
            If a policy is unknown or has invalid settings.
        UnknownArm
            If an arm does not exist.
        InvalidInput
            If an argument is invalid, or too many evaluations are queued.
        ServiceError
            If the evaluation fails or is canceled.
        """
        info = self.start_evaluation(
            policies,
            after=after,
            before=before,
            estimators=estimators,
            reference=reference,
            default_reward=default_reward,
            replay=replay,
            max_ratio=max_ratio,
            constant_values=constant_values,
            seed=seed,
        )
        pauses = _requests.poll_pauses()
        while (result := _requests.evaluation_result(info)) is None:
            if progress is not None:
                progress(info)
            time.sleep(next(pauses))
            info = self.evaluation(info.id)
        return result

    def start_evaluation(
        self,
        policies: Sequence[str] | Mapping[str, str | Mapping[str, Any]],
        *,
        after: int | datetime | None = None,
        before: int | datetime | None = None,
        estimators: Sequence[str] = DEFAULT_ESTIMATORS,
        reference: str = "logged",
        default_reward: float | None = None,
        replay: bool = True,
        max_ratio: float | None = None,
        constant_values: bool = False,
        seed: int = 0,
    ) -> EvaluationInfo:
        """Start an evaluation without waiting for its result. The arguments are those of :meth:`evaluate`.

        Returns
        -------
        EvaluationInfo
            The evaluation, which is queued.
        """
        request = _requests.start_evaluation(
            self.name,
            policies,
            after=after,
            before=before,
            estimators=list(estimators),
            reference=reference,
            default_reward=default_reward,
            replay=replay,
            max_ratio=max_ratio,
            constant_values=constant_values,
            seed=seed,
        )
        return self._request(request, EvaluationInfo)

    def evaluation(self, id: int) -> EvaluationInfo:  # noqa: A002 (the name of the attribute)
        """Return an evaluation: its state, progress and result.

        Parameters
        ----------
        id
            The id of the evaluation.

        Returns
        -------
        EvaluationInfo
            The evaluation.
        """
        return self._request(_requests.evaluation(self.name, id), EvaluationInfo)

    def evaluations(self, *, limit: int = 20, before: int | None = None) -> tuple[EvaluationInfo, ...]:
        """Return the evaluations of the experiment without their results, newest first.

        Parameters
        ----------
        limit
            The largest number of evaluations, at most 100.
        before
            Return only evaluations with a smaller id.

        Returns
        -------
        tuple of EvaluationInfo
            The evaluations.
        """
        request = _requests.evaluations(self.name, limit, before)
        return self._request(request, EvaluationList).evaluations

    def cancel_evaluation(self, id: int) -> None:  # noqa: A002
        """Cancel an evaluation that is queued or running, or delete one that is not.

        Parameters
        ----------
        id
            The id of the evaluation.
        """
        self._client._send(_requests.cancel_evaluation(self.name, id))

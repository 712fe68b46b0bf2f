"""Decisions whose scores come from a copy of the model in another process.

A replica estimates the arms with a model that is a little older than that of the experiment. Everything else
happens in the experiment, as for any decision: the group, the draw, the id, the counts. The event contains
the estimates and the version of the model, which is the sequence number of the last event that it reflects.
A replay therefore needs no older models, and an audit can compute the estimates again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from glcb._api.requests import DecisionRequest
from glcb._errors import StorageError
from glcb.bandit.scorer import FrozenModel, Scorer, freeze
from glcb.policies.decision import Estimates
from glcb.service.storage.database import Event

if TYPE_CHECKING:
    from glcb.service.core.experiment import Experiment


class Scores(Struct, frozen=True, array_like=True):
    """The estimates of all arms, and the model that they are from."""

    origin: str
    """Identifies the experiment, in case another one has had its name."""
    version: int
    """Sequence number of the last event that the model reflects."""
    seed: int
    """Seed of the random numbers, if the policy is randomized."""
    values: bytes
    """The value of each arm, as 64-bit numbers."""
    bonuses: bytes

    def estimates(self) -> Estimates:
        """Return the estimates. Decisions do not depend on pseudocounts."""
        values = np.frombuffer(self.values)
        return Estimates(values, np.frombuffer(self.bonuses), np.zeros(values.size))


class ScoredRequest(DecisionRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request for a decision, as its event stores it."""

    scores: Scores | UnsetType = UNSET
    """Unset if the experiment estimates the arms itself."""


class Model(NamedTuple):
    """A copy of the model of an experiment."""

    origin: str
    version: int
    frozen: FrozenModel


class ModelScorer:
    """Adds scores to requests.

    Parameters
    ----------
    model
        The model.
    """

    def __init__(self, model: Model) -> None:
        self.origin, self.version = model.origin, model.version
        self._scorer = Scorer(model.frozen)

    def scores(self, context: Any, seed: int) -> Scores:
        """Return the scores for a context; raise InvalidContext if it is invalid."""
        estimates = self._scorer.estimate(context, seed)
        return Scores(
            self.origin, self.version, seed, estimates.values.tobytes(), estimates.bonuses.tobytes()
        )

    def scored(self, request: DecisionRequest, seed: int) -> ScoredRequest:
        """Return a request with scores; raise InvalidContext if its context is invalid."""
        fields = {name: getattr(request, name) for name in DecisionRequest.__struct_fields__}
        return ScoredRequest(**fields, scores=self.scores(request.context, seed))


def model_of(experiment: "Experiment", *, copy: bool = True) -> Model | None:
    """Return the model of an experiment, or None if there is none, or it cannot be copied.

    Without ``copy``, it is valid until the next event.
    """
    frozen = freeze(experiment.bandit, copy=copy)
    if frozen is None:
        return None
    return Model(experiment.state.creation.id_prefix, experiment.state.sequence, frozen)


def scores_of(request: Any) -> Scores | None:
    """Return the scores of a request of any kind, or None if it has none."""
    if not isinstance(request, ScoredRequest) or request.scores is UNSET:
        return None
    return request.scores


def without_old_scores(experiment: "Experiment", request: DecisionRequest, max_lag: int) -> DecisionRequest:
    """Return a request without its scores if they are too old, or newer than the experiment.

    Parameters
    ----------
    experiment
        The experiment.
    request
        The request.
    max_lag
        Number of events by which the model may be behind. Since then, the settings, the arms and the model
        must not have been changed.
    """
    scores, state = scores_of(request), experiment.state
    if scores is None:
        return request
    oldest = max(experiment.model_since, state.sequence - max_lag)
    is_current = scores.origin == state.creation.id_prefix and oldest <= scores.version <= state.sequence
    if is_current and request.arms is None:
        return request
    return msgspec.structs.replace(request, scores=UNSET)


def split(request: DecisionRequest) -> tuple[DecisionRequest, Estimates | None]:
    """Return a request without its scores, as the client sent it, and the estimates."""
    scores = scores_of(request)
    if scores is None:
        return request, None
    return msgspec.structs.replace(request, scores=UNSET), scores.estimates()


# ---- audit --------------------------------------------------------------------------------------


class ScoreCheck:
    """Computes stored scores again, with the models that they are from.

    Parameters
    ----------
    events
        All events, to know which models are needed, and for how long.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._last_use = {
            scores.version: event.sequence
            for event in events
            if (scores := scores_of(_request(event))) is not None
        }
        self._first: int | None = None
        self._scorers: dict[int, ModelScorer] = {}
        self.unknown = 0
        """Number of decisions with scores from models that cannot be replayed: their events were pruned."""

    def keep(self, experiment: "Experiment") -> None:
        """Copy the model of an experiment, if later events have scores from it. Call it after every event."""
        sequence = experiment.state.sequence
        self._first = sequence if self._first is None else self._first
        if sequence in self._last_use and (model := model_of(experiment)) is not None:
            self._scorers[sequence] = ModelScorer(model)

    def compare(self, event: Event) -> None:
        """Raise StorageError if the scores of an event are not those of its model."""
        request = _request(event)
        stored = scores_of(request)
        if request is None or stored is None:
            return
        if self._first is not None and stored.version < self._first:
            self.unknown += 1
            return
        scorer = self._scorers.get(stored.version)
        if scorer is None or scorer.scores(request.context, stored.seed) != stored:
            raise StorageError(
                f"the scores of event {event.sequence} are not those of the model after event "
                f"{stored.version}"
            )
        if self._last_use[stored.version] == event.sequence:
            del self._scorers[stored.version]


_SCORED_REQUEST = msgspec.json.Decoder(ScoredRequest)


def _request(event: Event) -> ScoredRequest | None:
    """Return the request of a decision, unless it certainly has no scores."""
    if event.kind != "decide" or b'"scores":' not in event.request:
        return None
    return _SCORED_REQUEST.decode(event.request)

"""An OpenFeature provider: flags are experiments, variants are arms, tracked events are rewards.

Every unit, such as a visitor, gets one decision per flag. The provider keeps it until it expires, so that
repeated evaluations return the same variant and :meth:`GlcbProvider.track` finds the decision to reward.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from glcb import Bandit
from glcb._errors import (
    DuplicateReward,
    GlcbError,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NotRunning,
    UnknownExperiment,
    install_command,
)

try:
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.exception import (
        FlagNotFoundError,
        GeneralError,
        InvalidContextError,
        TargetingKeyMissingError,
        TypeMismatchError,
    )
    from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
    from openfeature.provider import AbstractProvider, Metadata
    from openfeature.track import TrackingEventDetails
except ModuleNotFoundError as error:
    raise MissingExtra(f"the provider needs {error.name}: {install_command('openfeature')}") from error

if TYPE_CHECKING:
    from glcb.client import Client

__all__ = ["GlcbProvider"]

_LOGGER = logging.getLogger(__name__)
_LOCKS = 64
_SWITCH = {"true": True, "on": True, "false": False, "off": False}


class Decider(Protocol):
    """The interface of a flag: two methods that ``Bandit`` and ``glcb.client.Experiment`` share."""

    def decide(self, context: Any) -> Any:
        """Return a decision with an arm, an id and a propensity."""

    def reward(self, decision: str, value: float) -> bool:
        """Learn the reward of a decision."""


class _Assignment(NamedTuple):
    """The decision for one unit and one flag."""

    arm: str | int
    id: str
    propensity: float
    expires: float


class GlcbProvider(AbstractProvider):
    """An OpenFeature provider that chooses variants with bandits.

    Parameters
    ----------
    experiments : dict, or glcb.client.Client
        The flags: a ``Bandit`` or a client ``Experiment`` for each flag key. With a client, every experiment
        of the service is a flag.
    values : dict, optional
        The value of each arm, by flag key and arm. Default: the arm itself. For boolean flags, "on" and
        "true" mean True, "off" and "false" mean False; for numbers, the arm is a number. Required for
        objects.
    events : dict, optional
        The flags that each tracked event rewards: event name to one flag key, or to a list of flag keys.
        Default: an event rewards the flag of the same name.
    sticky_for : float, default 86400
        Seconds for which a unit keeps its variant, and its decision can be rewarded.
    max_units : int, default 100000
        Number of decisions kept. Beyond it, the oldest are dropped.
    clock : function, default time.monotonic
        Function that returns the time in seconds.

    Raises
    ------
    InvalidSettings
        If `sticky_for` or `max_units` is not positive.

    Notes
    -----
    An error returns the default value and an error code; the SDK raises nothing. A paused experiment returns
    the default without an error. In either case, there is no decision to reward.

    Decisions are kept in process memory: two processes can give a unit different variants. The arms of a
    service are known only after a decision, so a wrong type is reported after the decision, and a removed arm
    is shown to its units until their decisions expire.

    Examples
    --------
    >>> from glcb import Bandit
    >>> from openfeature import api
    >>> from openfeature.evaluation_context import EvaluationContext
    >>> api.set_provider(GlcbProvider({"checkout": Bandit(arms=["one-page", "steps"])}))
    >>> visitor = EvaluationContext("visitor-17", {"country": "FR", "items": 3})
    >>> flags = api.get_client()
    >>> flags.get_string_value("checkout", "steps", visitor) in ("one-page", "steps")
    True
    >>> flags.track("checkout", visitor)
    """

    def __init__(
        self,
        experiments: "Mapping[str, Decider] | Client",
        *,
        values: Mapping[str, Mapping[Any, Any]] | None = None,
        events: Mapping[str, str | Iterable[str]] | None = None,
        sticky_for: float = 86_400,
        max_units: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        if not sticky_for > 0:
            raise InvalidSettings(f"sticky_for must be positive, got {sticky_for!r}")
        if not max_units >= 1:
            raise InvalidSettings(f"max_units must be at least 1, got {max_units!r}")
        self._experiments = experiments
        self._values = values or {}
        self._events = {
            event: (flags,) if isinstance(flags, str) else tuple(flags)
            for event, flags in (events or {}).items()
        }
        self._sticky_for, self._max_units, self._clock = sticky_for, max_units, clock
        self._assignments: OrderedDict[tuple[str, str], _Assignment] = OrderedDict()
        self._lock = threading.Lock()
        # A lock per unit: other units need not wait for an answer of the service.
        self._unit_locks = [threading.Lock() for _ in range(_LOCKS)]

    def get_metadata(self) -> Metadata:
        """Return the name of the provider."""
        return Metadata(name="glcb")

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Return the value of a boolean flag. Called by the SDK, like the methods below."""
        return self._resolve(flag_key, default_value, evaluation_context, _to_boolean)

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Return the value of a string flag."""
        return self._resolve(flag_key, default_value, evaluation_context, _to_string)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Return the value of an integer flag."""
        return self._resolve(flag_key, default_value, evaluation_context, _to_integer)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Return the value of a float flag."""
        return self._resolve(flag_key, default_value, evaluation_context, _to_float)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Return the value of an object flag."""
        return self._resolve(flag_key, default_value, evaluation_context, _to_object)

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Reward the decisions of a unit.

        Parameters
        ----------
        The event: a key of `events`, or a flag key.
            The event: a key of `events`, or of a flag.
        evaluation_context : EvaluationContext
            Its targeting key names the unit. No effect if the unit has no decision or was already rewarded.
        tracking_event_details : TrackingEventDetails, optional
            Its value is the reward. Default: 1.
        """
        unit = evaluation_context.targeting_key if evaluation_context else None
        value = tracking_event_details.value if tracking_event_details else None
        for flag in self._events.get(tracking_event_name, (tracking_event_name,)):
            assignment = self._find(flag, unit) if unit else None
            if assignment is None:
                continue
            try:
                self._experiment(flag).reward(assignment.id, 1.0 if value is None else value)
            except DuplicateReward:
                _LOGGER.debug("decision %s of flag %r already has a reward", assignment.id, flag)
            except GlcbError as error:  # a failure to count an event must not break the application
                _LOGGER.warning("the reward of flag %r was rejected: %s", flag, error)

    # ---- decisions ------------------------------------------------------------------------------

    def _resolve(
        self, flag: str, default: Any, context: EvaluationContext | None, convert: Callable[[Any], Any]
    ) -> FlagResolutionDetails[Any]:
        experiment = self._experiment(flag)
        if context is None or not context.targeting_key:
            raise TargetingKeyMissingError("a targeting key is needed, such as the id of the visitor")
        arms = experiment.arms if isinstance(experiment, Bandit) else None
        for arm in arms or ():  # report a wrong type before making a decision
            self._value(flag, arm, convert)
        unit = context.targeting_key
        with self._unit_locks[hash((flag, unit)) % _LOCKS]:
            assignment, reason = self._find(flag, unit), Reason.CACHED
            if assignment is None or (arms is not None and assignment.arm not in arms):
                try:
                    assignment, reason = self._decide(experiment, flag, unit, context), Reason.SPLIT
                except NotRunning as error:
                    return FlagResolutionDetails(default, reason=Reason.DISABLED, error_message=str(error))
        return FlagResolutionDetails(
            self._value(flag, assignment.arm, convert),
            reason=reason,
            variant=str(assignment.arm),
            flag_metadata={"decision_id": assignment.id, "propensity": assignment.propensity},
        )

    def _experiment(self, flag: str) -> Decider:
        if isinstance(self._experiments, Mapping):
            if flag not in self._experiments:
                known = ", ".join(map(repr, self._experiments))
                raise FlagNotFoundError(f"there is no flag {flag!r}; there are {known}")
            return self._experiments[flag]
        return self._experiments.experiment(flag)

    def _decide(self, experiment: Decider, flag: str, unit: str, context: EvaluationContext) -> _Assignment:
        """Make a decision for a unit and keep it."""
        try:
            decision = experiment.decide(dict(context.attributes))
        except (UnknownExperiment, InvalidSettings) as error:  # no experiment can have this name
            raise FlagNotFoundError(str(error)) from error
        except NotRunning:
            raise
        except InvalidInput as error:
            raise InvalidContextError(str(error)) from error
        except GlcbError as error:
            raise GeneralError(str(error)) from error
        now = self._clock()
        kept = _Assignment(decision.arm, decision.id, decision.propensity, now + self._sticky_for)
        with self._lock:
            self._assignments.pop((flag, unit), None)
            self._assignments[flag, unit] = kept
            while len(self._assignments) > self._max_units or self._oldest().expires <= now:
                self._assignments.popitem(last=False)
        return kept

    def _find(self, flag: str, unit: str) -> _Assignment | None:
        """Return the decision of a unit, or None if it has none or the decision has expired."""
        with self._lock:
            found = self._assignments.get((flag, unit))
            if found is not None and found.expires <= self._clock():
                del self._assignments[flag, unit]
                return None
            return found

    def _oldest(self) -> _Assignment:
        return next(iter(self._assignments.values()))

    def _value(self, flag: str, arm: str | int, convert: Callable[[Any], Any]) -> Any:
        """Return the value of an arm, in the type of the flag."""
        values = self._values.get(flag)
        if values is None:
            return convert(arm)
        if arm not in values:
            raise TypeMismatchError(f"values[{flag!r}] has no value for arm {arm!r}: add one")
        return convert(values[arm])


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _SWITCH:
        raise TypeMismatchError(f"{value!r} is not boolean: use {', '.join(_SWITCH)}, or pass values")
    return _SWITCH[str(value).lower()]


def _to_string(value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise TypeMismatchError(f"{value!r} is not a string")
    return str(value)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeMismatchError(f"{value!r} is not a number: rename the arm, or pass values") from error


def _to_integer(value: Any) -> int:
    number = _to_float(value)
    if not number.is_integer():
        raise TypeMismatchError(f"{value!r} is not an integer: read the flag as a float")
    return int(number)


def _to_object(value: Any) -> Any:
    if not isinstance(value, dict | list):
        raise TypeMismatchError(f"{value!r} is not an object: pass values, with a dict or list for each arm")
    return value

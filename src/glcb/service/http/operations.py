"""The routes of the API: one table for routing, the OpenAPI document and the HTTP reference."""

import re
from typing import Any, NamedTuple

from glcb._api import guardrails, personalizer, requests, responses, sessions, statistics, workers
from glcb._api.reports import Report
from glcb.integrations.personalizer import PREFIX, VERSION
from glcb.service.access.api_keys import Role
from glcb.service.http import decisions
from glcb.service.http.static import JAVASCRIPT
from glcb.service.views import arms, curves, reports

LIVENESS = "/healthz"
"""Answered by the application itself, even before it serves other requests."""
READINESS = "/readyz"
_EXPERIMENT = "/v1/experiments/{name}"
_PERSONALIZER = PREFIX + VERSION
_SESSION = "/v1/session"


class Operation(NamedTuple):
    """A method of a route."""

    method: str
    path: str
    name: str
    """The operation id, which is the name of the method of ``Handlers``; that of ``PersonalizerHandlers``
    after the prefix ``personalizer_``, and that of ``SessionHandlers`` for sessions."""
    role: Role | None
    """The required role; None if no API key is needed."""
    summary: str
    body: Any = None
    """The type of the request body; bytes for a file."""
    response: Any = None
    """The type of the response; a list for a batch of them, a string for a media type other than JSON, or the
    types for most roles and for the role ``publish``."""
    status: int = 200
    codes: tuple[str, ...] = ()
    """Error codes beyond those common to all operations."""
    query: tuple[tuple[str, dict[str, Any]], ...] = ()
    also: Role | None = None
    """Another role that is sufficient."""

    @property
    def is_session(self) -> bool:
        """Whether people sign in or out with the operation."""
        return self.path.startswith(_SESSION)

    @property
    def is_personalizer(self) -> bool:
        """Whether the operation is compatible with Azure Personalizer."""
        return self.path.startswith(PREFIX)

    @property
    def is_decision(self) -> bool:
        """Whether it belongs to the decisions and rewards, which other requests must not delay."""
        return self.role in ("publish", "decide")


_FORMAT = {"type": "string", "enum": ["jsonl", "parquet"], "default": "jsonl"}
_AFTER = {
    "type": "integer",
    "minimum": 0,
    "default": 0,
    "description": "Export only events with a larger sequence number.",
}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "Size of a page."}
_BEFORE = {
    "type": "integer",
    "minimum": 0,
    "default": 0,
    "description": "List only evaluations with a smaller id; 0 for the newest.",
}
_BEFORE_EVENT = {
    **_BEFORE,
    "description": "List only changes with a smaller sequence number; 0 for the newest.",
}
_ARM_CODES = ("unknown_arm", "experiment_archived", "not_supported", "invalid_settings")
_STATE_CODES = ("experiment_paused", "experiment_archived")
_EVENT_CODES = (
    *("invalid_context", "unknown_arm", "duplicate_decision", "idempotency_key_reused"),
    *("too_many", "invalid_settings", *_STATE_CODES),
)
_EVENT_REWARD_CODES = ("unknown_decision", "closed_decision", "invalid_reward", "experiment_archived")

OPERATIONS = (
    Operation(
        "PUT", _EXPERIMENT, "create", "admin",
        "Create an experiment, or return it if it exists with the same settings.",
        requests.ExperimentSettings, responses.ExperimentInfo, 201,
        ("experiment_exists", "invalid_settings", "not_supported", "too_many"),
    ),
    Operation(
        "GET", "/v1/experiments", "list_all", "read", "List all experiments that the API key may access.",
        None, responses.ExperimentList,
    ),
    Operation("GET", _EXPERIMENT, "show", "read", "Get an experiment.", None, responses.ExperimentInfo),
    Operation(
        "PATCH", _EXPERIMENT, "change", "edit",
        "Pause, resume or archive an experiment, or change its settings.",
        requests.ExperimentChanges, responses.ExperimentInfo, 200,
        ("invalid_settings", "not_supported", "experiment_archived"),
    ),
    Operation(
        "DELETE", _EXPERIMENT, "delete", "admin",
        "Delete an experiment with its decisions, rewards and model.", status=204,
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/recover", "recover", "admin",
        "Let a damaged experiment continue from its last good state; later events are set aside.",
        None, responses.ExperimentInfo, 200, ("not_broken",),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/arms", "add_arm", "edit", "Add an arm.",
        requests.NewArm, responses.ExperimentInfo, 201, ("arm_exists", "too_many", *_ARM_CODES),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/arms", "list_arms", "read",
        "List arms with their features and statistics: search, sort and page.",
        None, statistics.ArmPage, 200, ("invalid_request",), arms.QUERY,
    ),
    Operation(
        "PUT", f"{_EXPERIMENT}/arms", "set_arms", "edit",
        "Replace all arms of an experiment whose arms have features.",
        requests.Catalog, responses.ExperimentInfo, 200, ("too_many", "experiment_archived"),
    ),
    Operation(
        "PATCH", f"{_EXPERIMENT}/arms", "change_arms", "edit",
        "Add and remove arms with features, or change their features.",
        requests.CatalogChanges, responses.ExperimentInfo, 200,
        ("too_many", "unknown_arm", "experiment_archived"),
    ),
    Operation(
        "PATCH", f"{_EXPERIMENT}/arms/{{arm}}", "change_arm", "edit",
        "Pause an arm without forgetting it, or resume it.",
        guardrails.ArmChanges, responses.ExperimentInfo, 200, _ARM_CODES,
    ),
    Operation(
        "DELETE", f"{_EXPERIMENT}/arms/{{arm}}", "remove_arm", "edit", "Remove an arm.",
        None, responses.ExperimentInfo, 200, _ARM_CODES,
    ),
    Operation(
        "POST", decisions.DECISION, "decide", "publish", "Make a decision.",
        requests.DecisionRequest, (responses.Decision, responses.PublicDecision), 200,
        ("rate_limited", *_EVENT_CODES),
    ),
    Operation(
        "POST", f"{decisions.DECISION}/batch", "decide_many", "decide", "Make many decisions, in order.",
        requests.DecisionBatch, [responses.Decision], 200, ("too_many",),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/rankings", "rank", "publish", "Choose several different arms, in order.",
        requests.RankingRequest, (responses.Ranking, responses.PublicRanking), 200,
        ("rate_limited", *_EVENT_CODES),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/rankings/batch", "rank_many", "decide", "Make many rankings, in order.",
        requests.RankingBatch, [responses.Ranking], 200, ("too_many",),
    ),
    Operation(
        "POST", decisions.REWARD, "reward", "publish", "Report the reward of a decision or a ranking.",
        requests.RewardRequest, responses.RewardAccepted, 200,
        (
            *("unknown_decision", "closed_decision", "duplicate_reward", "invalid_reward"),
            *("experiment_archived", "rate_limited"),
        ),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/rewards", "reward_many", "decide",
        "Report the rewards of many decisions and rankings.",
        requests.RewardBatch, [responses.RewardAccepted], 200, ("too_many",),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/decisions/{{id}}/activate", "activate", "decide",
        "Activate a deferred decision or ranking: it was shown.",
        status=204, codes=("unknown_decision", "closed_decision", "experiment_archived"),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/explanations", "explain", "read", "Explain a decision without making it.",
        requests.ExplanationRequest, responses.Explanation, 200,
        ("invalid_context", "unknown_arm", "not_supported", "too_many", "invalid_settings"),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/stats", "stats", "read",
        "Get statistics: lift, match rate, arms, history, features, latency and health.",
        None, statistics.Stats,
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/curves", "curves", "read",
        "Get an experiment over time: lift with its interval, rewards, shares and arms, in a range of dates.",
        None, statistics.Curves, 200, ("invalid_request", "unknown_arm"), curves.QUERY,
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/segments", "segments", "read",
        "Get lift and best arms by segment: values of categories and ranges of numbers.",
        None, statistics.SegmentList,
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/report", "report", "read",
        "Get a report of a period: a page for people without access, or a summary for chats.",
        None, Report, 200, ("invalid_request",), reports.QUERY,
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/changes", "changes", "read",
        "List changes of settings, arms and model, and automatic pauses, newest first.",
        None, guardrails.ChangeList, 200, ("invalid_request",),
        (("limit", _LIMIT), ("before", _BEFORE_EVENT)),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/export", "export", "read", "Stream all decisions and rewards.",
        None, "application/x-ndjson", 200, ("invalid_request",), (("format", _FORMAT), ("after", _AFTER)),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/model", "download", "read", "Download the bandit as a model file.",
        None, "application/octet-stream",
    ),
    Operation(
        "PUT", f"{_EXPERIMENT}/model", "upload", "admin", "Replace the bandit with one from a model file.",
        bytes, responses.ExperimentInfo, 200,
        ("invalid_model", "invalid_settings", "too_many", "experiment_archived"),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/evaluations", "start_evaluation", "edit",
        "Start to evaluate policies on the decisions and rewards of the experiment.",
        requests.EvaluationRequest, responses.EvaluationInfo, 202,
        ("unknown_arm", "invalid_settings", "not_supported", "too_many"),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/evaluations", "list_evaluations", "read", "List evaluations, newest first.",
        None, responses.EvaluationList, 200, ("invalid_request",), (("limit", _LIMIT), ("before", _BEFORE)),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/evaluations/{{id}}", "show_evaluation", "read",
        "Get an evaluation: its state, progress and result.",
        None, responses.EvaluationInfo, 200, ("unknown_evaluation",),
    ),
    Operation(
        "DELETE", f"{_EXPERIMENT}/evaluations/{{id}}", "remove_evaluation", "edit",
        "Cancel an evaluation that is queued or running, or delete one that is not.",
        status=204, codes=("unknown_evaluation",),
    ),
    Operation(
        "POST", f"{_PERSONALIZER}/rank", "personalizer_rank", "decide",
        "Personalizer: choose one of several actions.",
        personalizer.PersonalizerRankRequest, personalizer.PersonalizerRankResponse, 201, _EVENT_CODES,
    ),
    Operation(
        "POST", f"{_PERSONALIZER}/events/{{id}}/reward", "personalizer_reward", "decide",
        "Personalizer: report the reward of an event.",
        personalizer.PersonalizerRewardRequest, None, 204, _EVENT_REWARD_CODES,
    ),
    Operation(
        "POST", f"{_PERSONALIZER}/events/{{id}}/activate", "personalizer_activate", "decide",
        "Personalizer: activate a deferred event.", status=204, codes=_EVENT_REWARD_CODES,
    ),
    Operation(
        "POST", f"{_PERSONALIZER}/multislot/rank", "personalizer_rank_slots", "decide",
        "Personalizer: choose an action for each of several slots.",
        personalizer.PersonalizerMultiSlotRankRequest, personalizer.PersonalizerMultiSlotRankResponse, 201,
        _EVENT_CODES,
    ),
    Operation(
        "POST", f"{_PERSONALIZER}/multislot/events/{{id}}/reward", "personalizer_reward_slots", "decide",
        "Personalizer: report the rewards of slots.",
        personalizer.PersonalizerMultiSlotRewardRequest, None, 204, _EVENT_REWARD_CODES,
    ),
    Operation(
        "POST", f"{_PERSONALIZER}/multislot/events/{{id}}/activate", "personalizer_activate_slots", "decide",
        "Personalizer: activate a deferred event with several slots.",
        status=204, codes=_EVENT_REWARD_CODES,
    ),
    Operation(
        "POST", _SESSION, "sign_in", None, "Exchange an API key for a session cookie.",
        sessions.SignIn, sessions.Session, 200, ("unauthorized", "forbidden", "rate_limited"),
    ),
    Operation(
        "GET", _SESSION, "show_session", "read", "Get who sends the request, and with which role.",
        None, sessions.Session,
    ),
    Operation("DELETE", _SESSION, "sign_out", "read", "End the session of the request.", status=204),
    Operation(
        "DELETE", "/v1/sessions", "sign_out_everywhere", "read",
        "End all sessions of the same API key.", status=204,
    ),
    Operation(
        "GET", "/v1/workers", "list_workers", "read",
        "List the workers of the service, if it has several. Keys with the role decide may do so, too.",
        None, workers.WorkerList, also="decide",
    ),
    Operation(
        "POST", "/v1/workers/restart", "restart_workers", "admin",
        "Restart all workers, one after the other.",
        None, workers.WorkerList, 202, ("not_supported",),
    ),
    Operation(
        "POST", "/v1/workers/move", "move_experiment", "admin",
        "Move an experiment to a worker, together with all others of its partition.",
        workers.MoveRequest, workers.WorkerList, 202,
        ("unknown_worker", "unknown_experiment", "not_supported"),
    ),
    Operation(
        "PATCH", "/v1/workers/{worker}", "change_worker", "admin",
        "Drain a worker: its experiments move to others, and none come back; or end that.",
        workers.WorkerChanges, workers.WorkerList, 200, ("unknown_worker", "not_supported"),
    ),
    Operation("GET", LIVENESS, "health", None, "Liveness probe.", None, responses.Status),
    Operation("GET", READINESS, "ready", None, "Readiness probe.", None, responses.Status),
    Operation("GET", "/metrics", "metrics", "read", "Get metrics for Prometheus.", None, "text/plain"),
    Operation("GET", "/openapi.json", "openapi", None, "Get the OpenAPI document.", None, dict),
    Operation("GET", JAVASCRIPT, "javascript", None, "Get the JavaScript client.", None, "text/javascript"),
    Operation("GET", "/", "home", None, "Get the dashboard.", None, "text/html"),
)  # fmt: skip

DECISION_ROUTES = frozenset(operation.path for operation in OPERATIONS if operation.is_decision)
"""The routes of decisions and rewards: a successful response means that something is on disk."""

_PATTERNS = {
    path: re.compile(re.sub(r"{\w+}", "[^/]+", path.replace("{arm}", "(?s:.+)")))
    for path in {operation.path for operation in OPERATIONS}
}


def matches(route: str, path: str) -> bool:
    """Return whether a path belongs to a route.

    >>> matches("/v1/experiments/{name}/rankings", "/v1/experiments/home/rankings")
    True
    """
    return _PATTERNS[route].fullmatch(path) is not None


def allowed_methods(path: str) -> list[str]:
    """Return the methods that a path supports.

    >>> allowed_methods("/v1/experiments/home"), allowed_methods("/v1/nowhere")
    (['DELETE', 'GET', 'PATCH', 'PUT'], [])
    """
    return sorted({one.method for one in OPERATIONS if matches(one.path, path)})

"""The routes of the API: one table, from which requests find their way and the OpenAPI document is made."""

import re
from typing import Any, NamedTuple

from glcb._api import requests, responses
from glcb.service.auth import Role
from glcb.service.http import fast_path as hot

ALIVE = "/healthz"
"""Answered by the application itself, before there are any others."""
_EXPERIMENT = "/v1/experiments/{name}"


class Operation(NamedTuple):
    """A method of a path."""

    method: str
    path: str
    name: str
    """Of the function that deals with it."""
    role: Role | None
    """Who may; None for everybody."""
    summary: str
    body: Any = None
    """What a request holds; bytes for a file."""
    answer: Any = None
    """What an answer holds; a list for one of each item, or a refusal; a text for a media type but JSON."""
    status: int = 200
    codes: tuple[str, ...] = ()
    """Refusals beyond those that every operation knows."""
    query: tuple[tuple[str, dict[str, Any]], ...] = ()


_FORMAT = {"type": "string", "enum": ["jsonl", "parquet"], "default": "jsonl"}
_AFTER = {"type": "integer", "minimum": 0, "default": 0}
_ARM_CODES = ("unknown_arm", "experiment_archived", "not_supported", "invalid_settings")

_STATE_CODES = ("experiment_paused", "experiment_archived")

OPERATIONS = (
    Operation(
        "PUT", _EXPERIMENT, "create", "admin", "Create an experiment, or find it as it should be.",
        requests.Settings, responses.ExperimentInfo, 201,
        ("experiment_exists", "invalid_settings", "not_supported", "too_many"),
    ),
    Operation("GET", "/v1/experiments", "list_all", "read", "List experiments.", None, responses.Experiments),
    Operation("GET", _EXPERIMENT, "show", "read", "Show an experiment.", None, responses.ExperimentInfo),
    Operation(
        "PATCH", _EXPERIMENT, "change", "admin", "Pause, archive or resume it, or change its exploration.",
        requests.Changes, responses.ExperimentInfo, 200, ("invalid_settings", "experiment_archived"),
    ),
    Operation("DELETE", _EXPERIMENT, "delete", "admin", "Delete it and everything of it.", status=204),
    Operation(
        "POST", f"{_EXPERIMENT}/arms", "add_arm", "admin", "Add an arm.",
        requests.NewArm, responses.ExperimentInfo, 201, ("arm_exists", "too_many", *_ARM_CODES),
    ),
    Operation(
        "DELETE", f"{_EXPERIMENT}/arms/{{arm}}", "remove_arm", "admin", "Remove an arm.",
        None, responses.ExperimentInfo, 200, _ARM_CODES,
    ),
    Operation(
        "POST", hot.DECISION, "decide", "decide", "Decide.", requests.DecisionRequest, responses.Decision, 200,
        ("invalid_context", "unknown_arm", "idempotency_key_reused", "too_many", *_STATE_CODES),
    ),
    Operation(
        "POST", f"{hot.DECISION}/batch", "decide_many", "decide", "Decide many times, in the given order.",
        requests.DecisionRequests, [responses.Decision], 200, ("too_many",),
    ),
    Operation(
        "POST", hot.REWARD, "reward", "decide", "Report the reward of a decision.",
        requests.RewardRequest, responses.Taken, 200,
        ("unknown_decision", "closed_decision", "duplicate_reward", "invalid_reward", "experiment_archived"),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/rewards", "reward_many", "decide", "Report the rewards of many decisions.",
        requests.RewardRequests, [responses.Taken], 200, ("too_many",),
    ),
    Operation(
        "POST", f"{_EXPERIMENT}/explain", "explain", "read", "Explain a decision without making it.",
        requests.ExplainRequest, responses.Explanation, 200,
        ("invalid_context", "unknown_arm", "not_supported", "too_many"),
    ),
    Operation("GET", f"{_EXPERIMENT}/stats", "stats", "read", "Show how it fares.", None, responses.Stats),
    Operation(
        "GET", f"{_EXPERIMENT}/export", "export", "read", "Stream all decisions and rewards.",
        None, "application/x-ndjson", 200, ("invalid_request",), (("format", _FORMAT), ("after", _AFTER)),
    ),
    Operation(
        "GET", f"{_EXPERIMENT}/model", "download", "read", "Download the bandit.",
        None, "application/octet-stream",
    ),
    Operation(
        "PUT", f"{_EXPERIMENT}/model", "upload", "admin", "Put another bandit in its place.",
        bytes, responses.ExperimentInfo, 200,
        ("invalid_model", "invalid_settings", "too_many", "experiment_archived"),
    ),
    Operation("GET", ALIVE, "health", None, "Tell that the process runs.", None, requests.Status),
    Operation("GET", "/readyz", "ready", None, "Tell whether requests are answered.", None, requests.Status),
    Operation("GET", "/metrics", "metrics", "read", "Show numbers for Prometheus.", None, "text/plain"),
    Operation("GET", "/openapi.json", "openapi", None, "Show this document.", None, dict),
    Operation("GET", "/", "home", None, "Show a page for people.", None, "text/html"),
)  # fmt: skip

_PATTERNS = {
    path: re.compile(re.sub(r"{\w+}", "[^/]+", path.replace("{arm}", ".+")))
    for path in {operation.path for operation in OPERATIONS}
}


def allowed(path: str) -> list[str]:
    """Return the methods that are possible with a path.

    >>> allowed("/v1/experiments/home"), allowed("/v1/nowhere")
    (['DELETE', 'GET', 'PATCH', 'PUT'], [])
    """
    return sorted({one.method for one in OPERATIONS if _PATTERNS[one.path].fullmatch(path)})

"""The OpenAPI document, made from the table of routes and the messages themselves."""

import re
from http import HTTPStatus
from typing import Any

import msgspec

from glcb._api.responses import EXPERIMENT_NAME, Refused
from glcb._version import __version__
from glcb.service.errors import STATUS
from glcb.service.http.access import which
from glcb.service.http.operations import OPERATIONS, Operation

_REF = "#/components/schemas/{name}"
_ALWAYS = ("overloaded", "storage_unavailable", "starting", "stopping")
_PARAMETERS = {
    "name": {"type": "string", "pattern": f"^{EXPERIMENT_NAME.pattern}$"},
    "id": {"type": "string", "minLength": 1},
    "arm": {"type": "string", "minLength": 1, "maxLength": 200},
}


def document() -> dict[str, Any]:
    """Return the whole document."""
    kinds = [
        kind for operation in OPERATIONS for kind in (operation.body, operation.answer) if _is_struct(kind)
    ]
    kinds.append(Refused)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    references = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "glcb",
            "version": __version__,
            "description": "Contextual bandits that decide and learn on every reward.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, references: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}
            for name in re.findall(r"{(\w+)}", operation.path)
        ]
        + [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query],
        "responses": _responses(operation, references),
    }
    if operation.role is not None:
        told["security"] = [{"key": []}, {}]
        told["description"] = f"Needs a key with the role {which(operation.role)}, once there are keys."
    if operation.body is bytes:
        told["requestBody"] = _content("application/octet-stream", {})
        told["requestBody"]["required"] = True
    elif operation.body is not None:
        told["requestBody"] = {**_content("application/json", references[operation.body]), "required": True}
    return told


def _responses(operation: Operation, references: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done."}
    if isinstance(operation.answer, str):
        good.update(_content(operation.answer, {}))
    elif isinstance(operation.answer, list):
        either = [references[kind] for kind in (*operation.answer, Refused)]
        results = {"type": "array", "items": {"anyOf": either}}
        whole = {"type": "object", "properties": {"results": results}, "required": ["results"]}
        good.update(_content("application/json", whole))
    elif operation.answer is dict:
        good.update(_content("application/json", {"type": "object"}))
    elif operation.answer is not None:
        good.update(_content("application/json", references[operation.answer]))
    answers = {str(operation.status): good}
    if operation.name == "create":
        answers["200"] = {**good, "description": "It was there already."}
    if operation.name == "export":
        good["content"]["application/vnd.apache.parquet"] = {}
    refused: dict[int, list[str]] = {}
    for code in _codes(operation):
        refused.setdefault(STATUS[code], []).append(code)
    if operation.name == "remove_arm":  # in a path, not in a body
        refused[404].append("unknown_arm")
    for status, codes in sorted(refused.items()):
        answers[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(codes)}.",
            **_content("application/json", references[Refused]),
        }
    return answers


def _codes(operation: Operation) -> list[str]:
    codes = list(operation.codes)
    if operation.role is not None:
        codes += ["unauthorized", "forbidden", *_ALWAYS]
    if operation.name == "ready":
        codes += ["storage_unavailable", "starting", "stopping"]
    if "{name}" in operation.path:
        codes += ["unknown_experiment", "experiment_broken"]
    if operation.body is not None:
        codes += ["too_large", "unsupported_media_type", "request_timeout"]
    if _is_struct(operation.body):
        codes += ["invalid_json", "invalid_request"]
    return list(dict.fromkeys(codes))


def _content(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {media: {"schema": schema} if schema else {}}}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)

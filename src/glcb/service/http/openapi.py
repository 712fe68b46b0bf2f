"""The OpenAPI document and the HTTP reference, generated from the operations and their types."""

import ast
import inspect
import re
from dataclasses import fields
from http import HTTPStatus
from itertools import pairwise
from typing import Any

import msgspec

from glcb._api import guardrails, personalizer, reports, requests, responses, sessions, statistics, workers
from glcb._api.errors import ERROR_CODES
from glcb._api.personalizer import PersonalizerErrorResponse
from glcb._api.requests import EXPERIMENT_NAME, ExperimentChanges, ExperimentSettings
from glcb._api.responses import ErrorResponse
from glcb._version import __version__
from glcb.bandit.config import BanditConfig
from glcb.policies import registry
from glcb.service.http.authentication import roles
from glcb.service.http.operations import OPERATIONS, Operation

_REF = "#/components/schemas/{name}"
_ROLE_CODES = ("unauthorized", "forbidden", "overloaded", "storage_unavailable", "starting", "stopping")
"""Errors of every operation that requires a role."""
_PATH_PARAMETERS = {
    "name": {"type": "string", "pattern": f"^{EXPERIMENT_NAME.pattern}$"},
    "id": {"type": "string", "minLength": 1},
    "arm": {"type": "string", "minLength": 1, "maxLength": 200},
    "worker": {"type": "string", "minLength": 1},
}

Schema = dict[str, Any]


def document() -> Schema:
    """Return the OpenAPI document."""
    kinds = [
        kind
        for operation in OPERATIONS
        for kind in (operation.body, *_alternatives(operation.response))
        if _is_struct(kind)
    ]
    kinds += [ErrorResponse, PersonalizerErrorResponse]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    references = dict(zip(kinds, schemas, strict=True))
    for name, schema in components.items():
        modules = (requests, responses, personalizer, sessions, statistics, workers, reports, guardrails)
        _describe_attributes(schema, next(getattr(one, name) for one in modules if hasattr(one, name)))
    for settings in (ExperimentSettings, ExperimentChanges):
        _describe_settings(components[settings.__name__])
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "glcb",
            "version": __version__,
            "description": "Contextual bandits that decide and learn from every reward.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "subscription": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
            },
        },
    }


# ---- descriptions -------------------------------------------------------------------------------


def _describe_attributes(schema: Schema, kind: type[msgspec.Struct]) -> None:
    """Describe the properties of a schema with the attribute docstrings of its class and its bases."""
    for base in kind.__bases__:
        if base is not msgspec.Struct and issubclass(base, msgspec.Struct):
            _describe_attributes(schema, base)
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    for attribute, docstring in pairwise(definition.body):
        if not isinstance(attribute, ast.AnnAssign) or not isinstance(docstring, ast.Expr):
            continue
        assert isinstance(attribute.target, ast.Name)
        text = " ".join(ast.literal_eval(docstring.value).replace("``", "`").split())
        described = schema["properties"].get(names[attribute.target.id])
        if described is not None:
            described.setdefault("description", text)


def _describe_settings(schema: Schema) -> None:
    """Add the descriptions and bounds of ``BanditConfig`` to the properties of a schema."""
    for field in fields(BanditConfig):
        if field.name not in schema["properties"]:
            continue
        own = schema["properties"][field.name]
        own["description"] = field.metadata["doc"]
        for value in own.get("anyOf", [own]):
            if value.get("type") in ("integer", "number"):
                for key in ("minimum", "maximum"):
                    if field.metadata[key] is not None:
                        value[key] = field.metadata[key]
    if "arms" in schema["properties"]:
        schema["properties"]["arms"]["description"] = (
            "The names of the arms, or the features of each arm by name. With features, arms share what is "
            "learned, and there may be none at first."
        )
        schema["properties"]["policy"]["examples"] = [
            name for name in registry.names() if not registry.get(name).policy_class.requires
        ]


# ---- operations ---------------------------------------------------------------------------------


def _operation(operation: Operation, references: dict[Any, Schema]) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _PATH_PARAMETERS[name]}
            for name in re.findall(r"{(\w+)}", operation.path)
        ]
        + [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query],
        "responses": _responses(operation, references),
    }
    if operation.role is not None:
        described["security"] = [{"subscription" if operation.is_personalizer else "key": []}, {}]
        described["description"] = (
            f"Requires an API key with the role {roles(operation.role)}, once keys exist."
        )
    if operation.body is bytes:
        described["requestBody"] = {**_content("application/octet-stream", {}), "required": True}
    elif operation.body is not None:
        content = _content("application/json", references[operation.body])
        described["requestBody"] = {**content, "required": True}
    return described


def _responses(operation: Operation, references: dict[Any, Schema]) -> Schema:
    success: Schema = {"description": "Success."}
    if isinstance(operation.response, str):
        success.update(_content(operation.response, {}))
    elif isinstance(operation.response, list):
        either = [references[kind] for kind in (*operation.response, ErrorResponse)]
        results = {"type": "array", "items": {"anyOf": either}}
        batch = {"type": "object", "properties": {"results": results}, "required": ["results"]}
        success.update(_content("application/json", batch))
    elif isinstance(operation.response, tuple):
        either = [references[kind] for kind in operation.response]
        success.update(_content("application/json", {"anyOf": either}))
    elif operation.response is dict:
        success.update(_content("application/json", {"type": "object"}))
    elif operation.response is not None:
        success.update(_content("application/json", references[operation.response]))
    responses = {str(operation.status): success}
    if operation.name == "create":
        responses["200"] = {**success, "description": "The experiment exists with the same settings."}
    other = {"export": "application/vnd.apache.parquet", "report": "text/html"}.get(operation.name)
    if other is not None:
        success["content"][other] = {}
    for status, codes in _codes_by_status(operation).items():
        responses[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(codes)}.",
            **_content(
                "application/json",
                references[PersonalizerErrorResponse if operation.is_personalizer else ErrorResponse],
            ),
        }
    return responses


def _codes_by_status(operation: Operation) -> dict[int, list[str]]:
    """Return the error codes of an operation by HTTP status."""
    codes = list(operation.codes)
    if operation.role is not None:
        codes += _ROLE_CODES
    if operation.name == "ready":
        codes += ["storage_unavailable", "starting", "stopping"]
    if "{name}" in operation.path or operation.is_personalizer:
        codes += ["unknown_experiment", "experiment_broken", "experiment_opening"]
    if operation.body is not None:
        codes += ["too_large", "unsupported_media_type", "request_timeout"]
    if _is_struct(operation.body):
        codes += ["invalid_json", "invalid_request"]
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        status = ERROR_CODES[code].status
        by_status.setdefault(400 if status == 422 and operation.is_personalizer else status, []).append(code)
    if operation.name in ("remove_arm", "change_arm"):  # the arm is part of the path
        by_status[404].append("unknown_arm")
    return dict(sorted(by_status.items()))


def _alternatives(response: Any) -> tuple[Any, ...]:
    return tuple(response) if isinstance(response, list | tuple) else (response,)


def _content(media_type: str, schema: Schema) -> Schema:
    return {"content": {media_type: {"schema": schema} if schema else {}}}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


# ---- reference page -----------------------------------------------------------------------------


def markdown_reference() -> str:
    """Return the HTTP reference as Markdown: all routes, types and error codes.

    Returns
    -------
    str
        Sections with headings of the second level and below.
    """
    described = document()
    parts = ["## Routes", *(_route_section(operation) for operation in OPERATIONS), "## Types"]
    for name, schema in sorted(described["components"]["schemas"].items()):
        summary = _first_sentence(schema.get("description", ""))
        parts.append(f"### {name}\n\n{summary}\n\n{_fields_table(schema)}")
    rows = [
        f"| `{code}` | {entry.status} | `{entry.raises.__name__}` | {entry.meaning} |"
        for code, entry in ERROR_CODES.items()
    ]
    parts.append(
        "## Errors\n\nEvery error has a body of the type [ErrorResponse](#errorresponse). The Python client "
        "raises the exception in the third column. Besides the errors listed for it, every route that "
        f"requires a role can return {', '.join(f'`{code}`' for code in _ROLE_CODES)}.\n\n"
        + "\n".join(["| code | status | exception | meaning |", "|---|---|---|---|", *rows])
    )
    return "\n\n".join(parts) + "\n"


def _route_section(operation: Operation) -> str:
    lines = [f"### `{operation.method} {operation.path}`", "", operation.summary, ""]
    lines.append(f"- Role: {'none' if operation.role is None else roles(operation.role)}")
    for name, schema in operation.query:
        note = f" {schema['description']}" if "description" in schema else ""
        default = f", default `{schema['default']}`" if "default" in schema else ""
        lines.append(f"- Query parameter `{name}`: {_type(schema)}{default}.{note}")
    if operation.body is not None:
        lines.append(f"- Body: {_kind(operation.body)}")
    lines.append(f"- Response: {operation.status} {_kind(operation.response)}".rstrip())
    codes = {code: None for own in _codes_by_status(operation).values() for code in own}
    specific = [f"`{code}`" for code in codes if operation.role is None or code not in _ROLE_CODES]
    if specific:
        lines.append(f"- Errors: {', '.join(specific)}")
    return "\n".join(lines)


def _kind(kind: Any) -> str:
    if kind is None:
        return ""
    if kind is bytes:
        return "a model file (`application/octet-stream`)"
    if kind is dict:
        return "a JSON object"
    if isinstance(kind, str):
        return f"`{kind}`"
    if isinstance(kind, list):
        return (
            f'`{{"results": […]}}` with a {_link(kind[0].__name__)} or an {_link("ErrorResponse")} per item'
        )
    if isinstance(kind, tuple):
        full, public = (_link(one.__name__) for one in kind)
        return f"{full}, or {public} if the API key has the role publish"
    return _link(kind.__name__)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _first_sentence(docstring: str) -> str:
    return " ".join(docstring.split("\n\n")[0].split()).replace("``", "`")


def _fields_table(schema: Schema) -> str:
    required = schema.get("required", [])
    rows = []
    for name, own in schema.get("properties", {}).items():
        default = "required" if name in required else f"`{_json(own['default'])}`" if "default" in own else ""
        cells = (f"`{name}`", _type(own), default, own.get("description", ""))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows]) if rows else ""


def _bound(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{_json(value)}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array" and "prefixItems" in schema:
        return f"[{', '.join(map(_type, schema['prefixItems']))}]"
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind} from {_bound(low)} to {_bound(high)}"
    return str(kind)

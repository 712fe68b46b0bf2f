"""Limits on the size of experiments and models."""

import hashlib
import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from glcb import InvalidSettings, ModelFileError
from glcb._api.requests import DecisionRequest, encode
from glcb._formats import MODEL
from glcb._model_file import MAGIC
from glcb.bandit.encoding.values import count_features
from glcb.service.config import ServiceSettings
from glcb.service.core import limits, models
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from tests.support.builders import RecordedExperiment, rejected, settings
from tests.support.engine_harness import decide

LARGE: list[dict[str, Any]] = [
    {"layers": [20_000, 20_000, 1]},
    {"layers": [1000, 1], "hyperplanes": 16},
    {"layers": [1000, 100, 1], "hyperplanes": 14},
]


@pytest.mark.parametrize("policy_settings", LARGE, ids=str)
@pytest.mark.settings(max_model_memory=10**9)
async def test_settings_with_which_a_model_could_grow_too_large_are_refused(
    engine: Engine, policy_settings: dict[str, Any]
) -> None:
    wide = {f"feature {number}": 0.5 for number in range(30)}

    async def first_decision(engine: Engine, name: str, **changes: Any) -> None:
        await engine.create(name, settings(policy="glcb", **changes))
        await decide(engine, wide, name)

    with pytest.raises((InvalidSettings, ApiError), match=r"GiB, more than the limit of 0\.9 GiB"):
        await first_decision(engine, "large", policy_settings=policy_settings)
    await first_decision(engine, "small")


@pytest.mark.settings(max_model_memory=20_000_000)
async def test_an_explanation_cannot_create_a_model_that_is_too_large(engine: Engine) -> None:
    await engine.create("home", settings(policy="glcb"))
    with pytest.raises(InvalidSettings, match="GiB"):
        await engine.read("home", lambda experiment: experiment.bandit.explain([0.5] + [0] * 499))


@pytest.mark.settings(max_features=29)
async def test_nested_features_are_limited_like_others(engine: Engine) -> None:
    await engine.create("home", settings())
    await engine.create("shop", settings(arms={"a": {"price": 3}}))
    many = {"user": {str(number): 0.5 for number in range(30)}}
    with pytest.raises(ApiError, match="at most 29 features, got 30"):
        await decide(engine, many, "home")
    with pytest.raises(ApiError, match="at most 29 features of an arm, got 30"):
        await engine.create("wide", settings(arms={"a": many}))
    for context in (
        {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}},
        {"a": {"b": 1}, "a.b": 2},
        {"x": [1, "a"]},
    ):
        with rejected("invalid_context"):
            await decide(engine, context, "home")
    await decide(engine, {"user": {"age": 31}}, "home")


def test_too_many_nested_features_are_rejected_before_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming 100,000 features takes a second, in the event loop."""

    def fail(_: object) -> str:
        raise AssertionError

    recorded = RecordedExperiment()
    recorded.decide({"age": 31})
    monkeypatch.setattr("glcb.bandit.encoding.values.feature_name", fail)
    many = DecisionRequest(context={"user": {str(number): 1 for number in range(50_000)}})
    for settings_, name in (
        (ServiceSettings(), "bytes in a context"),
        (ServiceSettings(max_context_bytes=10**9), "features"),
    ):
        with pytest.raises(ApiError, match=f"there can be at most [0-9,]+ {name}"):
            limits.check(recorded.experiment, "decide", many, encode(many), settings_)
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep}
    assert count_features({"b": 1, "c": deep}) == 2


def packed(header: bytes, version: int = MODEL.number, arrays: bytes = b"") -> bytes:
    """Return a model file with this header and a valid checksum."""
    body = struct.pack("<8sIQ", MAGIC, version, len(header)) + header + arrays
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("version", [MODEL.number, MODEL.number + 1])
@pytest.mark.parametrize(
    "header",
    [
        b'{"policy":"Bandit","arguments":[' + b"{}," * 7_000_000 + b"{}]}",
        b'{"policy":"Bandit","arguments":"' + b"x" * 60_000_000 + b'"}',
    ],
    ids=["many values", "long string"],
)
def test_a_large_header_is_refused_before_it_is_parsed(header: bytes, version: int) -> None:
    content = packed(header, version)
    started = time.thread_time()
    with pytest.raises(ModelFileError, match="the header of the model is too large"):
        limits.check_model(content, ServiceSettings())
    assert time.thread_time() - started < 0.5


def replaced(value: Any, path: tuple[str, ...], other: object) -> Any:
    """Return a JSON value with another value at a path."""
    return {**value, path[0]: replaced(value[path[0]], path[1:], other)} if path else other


def paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of a JSON value and of everything in its objects."""
    yield path
    if isinstance(value, dict):
        for name, own in value.items():
            yield from paths(own, (*path, name))


@pytest.mark.parametrize("arms", [["a", "b"], {"a": {"price": 3}, "b": {}}], ids=["names", "features"])
def test_a_header_with_a_value_of_another_type_is_refused(arms: Any) -> None:
    recorded = RecordedExperiment(arms=arms)
    recorded.reward(recorded.decide({"age": 31, "topic": [0.5] * 200}).id, 1)
    content = models.model_file(recorded.experiment.bandit._snapshot())
    length = struct.unpack_from("<8sIQ", content)[2]
    header, arrays = json.loads(content[20 : 20 + length]), content[-(-(20 + length) // 64) * 64 : -32]
    refused = set()
    for path in paths({name: own for name, own in header.items() if name != "written_by"}):
        for other in (1, None, "x", [1]):
            changed = json.dumps(replaced(header, path, other)).encode()
            changed += b" " * (-(20 + len(changed)) % 64)
            try:
                limits.check_model(packed(changed, arrays=arrays), ServiceSettings())
            except ModelFileError:
                refused.add((path, other if other != [1] else "list"))
    for name in ("policy", "arguments", "about", "arrays", "generator"):
        assert {((name,), other) for other in (1, None, "list")} <= refused


def test_an_uploaded_model_that_asks_for_too_much_memory_is_refused() -> None:
    model = models.model_file(RecordedExperiment(policy="glcb").experiment.bandit._snapshot())
    header = json.loads(model[20 : 20 + struct.unpack_from("<8sIQ", model)[2]])
    header["arguments"]["policy_settings"] = {"layers": [1000, 1], "hyperplanes": 16}
    header["arguments"]["arms"] = [f"arm {number}" for number in range(100)]
    with pytest.raises(ModelFileError, match="GiB"):
        limits.check_model(packed(json.dumps(header).encode()), ServiceSettings())


def test_a_model_with_many_long_names_can_be_downloaded_and_uploaded() -> None:
    arms = [f"{number} " + "é" * 190 for number in range(1000)]
    recorded = RecordedExperiment(arms=arms, policy="ucb1")
    for number in range(6):
        recorded.decide({f"{place} " + "é" * 90: f"{number} " + "値" * 90 for place in range(1000)})
    limits.check_model(models.model_file(recorded.experiment.bandit._snapshot()), ServiceSettings())

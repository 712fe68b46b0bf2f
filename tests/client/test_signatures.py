"""Signatures and arguments of both clients, without a service."""

import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from msgspec import UNSET

import glcb
from glcb import InvalidSettings, NotRunning, ServiceUnavailable, Unauthorized, UnknownExperiment
from glcb._api.guardrails import STEERING
from glcb._api.requests import ExperimentChanges
from glcb.bandit.config import MUTABLE, BanditConfig, type_name
from glcb.client import AsyncClient, AsyncExperiment, Client, Experiment, ExperimentSettings


def test_the_synchronous_client_is_generated_from_the_asynchronous_one() -> None:
    script = Path(__file__).parents[2] / "scripts" / "unasync.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("kind", [Client, AsyncClient, Experiment, AsyncExperiment])
def test_properties_never_send_requests(kind: type) -> None:
    assert not [name for name, member in vars(kind).items() if isinstance(member, property)]


SETTINGS = {field.name: field.default for field in fields(BanditConfig) if field.metadata["json"]}
"""The arguments of a bandit that JSON can hold, with their defaults."""


def test_create_has_the_arguments_and_defaults_of_a_bandit_and_of_the_service() -> None:
    own = [name for name in STEERING if name != "shares"]
    for client in (Client, AsyncClient):
        parameters = inspect.signature(client.create).parameters
        settings = [name for name in parameters if name not in ("self", "name")]
        assert settings == [*SETTINGS, "holdout", *own]
        for name in SETTINGS:
            if name != "arms":
                assert parameters[name].default == SETTINGS[name]
        assert parameters["holdout"].default == ExperimentSettings(arms=[]).holdout
        assert all(parameters[name].default is UNSET for name in own)
    assert {*ExperimentSettings.__struct_fields__} == {*SETTINGS, "holdout", "paused_arms", *own}
    defaults = ExperimentSettings(arms=[])
    given = {name: getattr(defaults, name) for name in SETTINGS if name != "arms"}
    assert {name: None if value is UNSET else value for name, value in given.items()} == {
        name: value for name, value in SETTINGS.items() if name != "arms"
    }


@pytest.mark.parametrize("declaration", [ExperimentSettings, Client.create, AsyncClient.create])
def test_settings_have_the_types_of_the_arguments_of_a_bandit(declaration: Any) -> None:
    types, expected = get_type_hints(declaration), get_type_hints(BanditConfig)
    for name in SETTINGS:
        if name == "arms":  # names of arms are strings in JSON
            assert type_name(types[name]) == "list of str or dict"
        else:
            found = type_name(types[name]).replace(" or UnsetType", "")
            assert found == type_name(expected[name]), name


@pytest.mark.parametrize("create", [Client.create, AsyncClient.create])
def test_create_has_the_documentation_of_the_arguments_of_a_bandit(create: Any) -> None:
    documentation = " ".join((inspect.getdoc(create) or "").split())
    for field in fields(BanditConfig):
        if field.name in SETTINGS and field.name != "arms":
            assert f" {field.name} {field.metadata['doc']} " in documentation, field.name


@pytest.mark.parametrize("declaration", [ExperimentChanges, Experiment.change, AsyncExperiment.change])
def test_the_settings_that_can_change_are_those_of_a_bandit_and_of_the_service(declaration: Any) -> None:
    types, expected = get_type_hints(declaration), get_type_hints(ExperimentSettings)
    names = {name for name in types if name not in ("state", "reason", "return")}
    assert names == {*(name for name in MUTABLE if name in SETTINGS), "holdout", *STEERING}
    for name in names:
        own, other = (
            {*type_name(hints[name]).split(" or ")} - {"None", "UnsetType"} for hints in (types, expected)
        )
        assert own == other, name


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Client("localhost:8000"),
        lambda: Client("ftp://localhost"),
        lambda: Client("http://localhost", retry_for=-1),
        lambda: Client("http://localhost", retry_for=math.inf),
        lambda: Client("http://localhost", retry_for="long"),  # type: ignore[arg-type]
        lambda: Client("http://localhost:8000/v1/"),
        lambda: Client("http://localhost", timeout=0),
        lambda: Client("http://localhost", api_key="line\nbreak"),
        lambda: AsyncClient("http://"),
    ],
)
def test_invalid_arguments_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InvalidSettings):
        wrong()


def test_an_unreachable_service_raises_service_unavailable() -> None:
    with Client("http://127.0.0.1:9", retry_for=0.2) as client, pytest.raises(ServiceUnavailable, match=":9"):
        client.experiments()


def test_the_service_can_be_mounted_below_a_path() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200, json={"experiments": []})

    with Client("https://example.org/bandits/", transport=httpx.MockTransport(answer)) as client:
        assert client.experiments() == ()
    assert asked == ["https://example.org/bandits/v1/experiments"]


def test_client_errors_are_service_errors() -> None:
    for kind in (NotRunning, ServiceUnavailable, Unauthorized, UnknownExperiment):
        assert issubclass(kind, glcb.ServiceError)

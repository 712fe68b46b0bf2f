"""Signatures and arguments of both clients, without a service."""

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
from glcb._api.requests import ChangeArguments, CreationArguments, ExperimentChanges
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


def test_the_settings_are_the_arguments_of_a_bandit_and_of_the_service() -> None:
    own = {"holdout", "paused_arms", *STEERING} - SETTINGS.keys()
    assert {*ExperimentSettings.__struct_fields__} == {*SETTINGS, *own}
    assert CreationArguments.__optional_keys__ == {*SETTINGS, *own} - {"arms", "paused_arms"}
    assert ChangeArguments.__optional_keys__ == {*MUTABLE} & {*SETTINGS} | own - {"paused_arms"}
    assert {*ExperimentChanges.__struct_fields__} == {*ChangeArguments.__optional_keys__, "state", "reason"}
    defaults = ExperimentSettings(arms=[])
    for name in SETTINGS.keys() - {"arms"}:
        default = getattr(defaults, name)
        assert (None if default is UNSET else default) == SETTINGS[name], name


@pytest.mark.parametrize("declaration", [ExperimentSettings, ExperimentChanges, CreationArguments])
def test_settings_have_the_types_of_the_arguments_of_a_bandit(declaration: Any) -> None:
    types = get_type_hints(declaration)
    expected = get_type_hints(ExperimentSettings) | get_type_hints(BanditConfig)
    for name in types.keys() - {"arms", "state", "reason"}:
        own, other = ({*type_name(hints[name]).split(" or ")} for hints in (types, expected))
        assert own - {"None", "UnsetType"} == other - {"None", "UnsetType"}, name


def test_a_setting_that_does_not_exist_is_an_error_without_a_request() -> None:
    with Client("http://127.0.0.1:9", retry_for=0) as client:
        with pytest.raises(TypeError, match="'half_live' here: did you mean half_life"):
            client.create("home", ["a"], half_live=100)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="'seed' here: the settings are baseline, control"):
            client.experiment("home").change(seed=3)  # type: ignore[call-arg]


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

"""The routing strategy for LiteLLM, with its mock responses."""

import asyncio
import math
import os
import time
from typing import Any

import pytest

from glcb import InvalidInput
from glcb.integrations.litellm import RoutingStrategy
from glcb.route import Router

MODELS = {"openai/gpt-4o-mini": 0.6, "openai/gpt-4o": 10.0}

pytestmark = [pytest.mark.litellm, pytest.mark.filterwarnings("ignore")]


def litellm_router() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # the prices in the package, not online
    import litellm

    return litellm.Router(
        model_list=[
            {"model_name": "auto", "litellm_params": {"model": model, "api_key": "none"}} for model in MODELS
        ],
        num_retries=0,
    )


def wait_for_cost(router: Router, requests: int) -> None:
    """Wait for the callbacks, which LiteLLM calls in a thread of its own."""
    deadline = time.monotonic() + 20
    while sum(p.has_cost for p in router._ledger.pending.values()) < requests:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ask(deployments: Any, prompt: str, route: str, is_async: bool) -> Any:
    arguments = {
        "model": "auto",
        "messages": [{"role": "user", "content": prompt}],
        "mock_response": "It is.",
        "metadata": {"route_id": route},
    }
    if is_async:
        return asyncio.run(deployments.acompletion(**arguments))
    return deployments.completion(**arguments)


def test_requests_are_routed_and_costs_come_back() -> None:
    router, deployments = Router(MODELS, seed=1), litellm_router()
    strategy = RoutingStrategy(router, deployments)
    strategy.attach()
    chosen = []
    for number in range(12):
        response = ask(deployments, f"Is {number} prime?", f"request-{number}", is_async=number == 11)
        chosen.append(response.model)
        router.reward(f"request-{number}", 0.9 if "mini" in response.model else 0.2)
    assert router.summary["requests"] == 12
    assert chosen.count("gpt-4o-mini") > chosen.count("gpt-4o")
    wait_for_cost(router, 11)
    models = router.summary["models"]
    assert 0 < models["openai/gpt-4o-mini"]["mean_cost"] < 0.001
    assert {p.has_latency for p in router._ledger.pending.values() if p.has_cost} == {True}


def test_every_deployment_needs_a_model() -> None:
    with pytest.raises(InvalidInput, match="no model 'openai/gpt-4o'"):
        RoutingStrategy(Router({"openai/gpt-4o-mini": 0.6}), litellm_router())


@pytest.mark.parametrize(
    ("messages", "text", "words"),
    [
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one two"}], None, 2),
        ([{"role": "user", "content": [{"type": "text", "text": "one two three"}]}], None, 3),
        (None, ["one", "two"], 2),
    ],
)
def test_the_prompt_is_the_last_message_of_the_user(messages: Any, text: Any, words: int) -> None:
    router = Router(MODELS, seed=1)
    strategy = RoutingStrategy(router, litellm_router())
    request: dict[str, Any] = {}
    deployment = strategy.get_available_deployment("auto", messages, text, request_kwargs=request)
    assert deployment["litellm_params"]["model"] in MODELS
    (route,) = router._ledger.pending
    assert request["metadata"]["route_id"] == route
    assert router._ledger.pending[route].inputs[1] == pytest.approx(0.25 * round(math.log1p(words), 3))
    with pytest.raises(InvalidInput, match="no deployment in the group 'other'"):
        strategy.get_available_deployment("other", messages, text)

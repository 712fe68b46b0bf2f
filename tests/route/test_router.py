"""The router: choices, costs, budgets, changes, files and fallbacks."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import (
    DuplicateReward,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    ModelFileError,
    UnknownArm,
    UnknownDecision,
)
from glcb.route import Model, Router

PRICES = {"small": 0.1, "large": 2.0}
PROMPTS = ["Is 7 prime?", "Write a function def f(x): in Python { }; def g", "Hello there my friend", "1+1=?"]


def quality(model: str, prompt: str, rng: np.random.Generator) -> float:
    """Return the quality of an answer: the small model cannot write code."""
    good = 0.9 if model == "large" or "def" not in prompt else 0.2
    return float(np.clip(good + 0.05 * rng.standard_normal(), 0, 1))


def run(router: Router, requests: int, seed: int = 10_000, usage: float = 1.0) -> Counter[tuple[str, bool]]:
    """Route prompts and report quality and cost; return how often each model got code and other prompts."""
    rng = np.random.default_rng(seed)
    chosen: Counter[tuple[str, bool]] = Counter()
    for _ in range(requests):
        prompt = PROMPTS[rng.integers(len(PROMPTS))]
        route = router.route(prompt)
        chosen[route.model, "def" in prompt] += 1
        cost = router.models[route.model].price * usage
        router.reward(route.id, quality(route.model, prompt, rng), cost=cost)
    return chosen


def test_each_prompt_goes_to_the_model_that_is_worth_its_price() -> None:
    router = Router(PRICES, cost_penalty=0.2, seed=1)
    run(router, 200)
    chosen = run(router, 100)
    assert chosen["large", True] > 4 * chosen["small", True]
    assert chosen["small", False] > 4 * chosen["large", False]


@pytest.mark.parametrize("budget", [0.3, 1.0])
def test_the_mean_cost_approaches_the_budget(budget: float) -> None:
    router = Router(PRICES, budget=budget, pacing_rate=0.02, seed=6)
    run(router, 600)
    assert router.summary["mean_cost"] == pytest.approx(budget, rel=0.1)
    assert router.penalty > 0


def test_a_price_change_is_followed_without_relearning() -> None:
    router = Router({"a": 1.0, "b": 1.1}, cost_penalty=1.0, seed=1)
    for _ in range(60):
        route = router.route("Hello")
        router.reward(route.id, 0.8, cost=router.models[route.model].price)
    before = router.route("Hello")
    assert before.costs["a"] == pytest.approx(1.0, rel=0.05)
    router.set_price("a", 3.0)
    after = router.route("Hello")
    assert after.costs["a"] == pytest.approx(3.0, rel=0.05)
    assert after.values == pytest.approx(before.values, abs=0.05)
    assert after.probabilities["b"] > 0.9


def test_costs_are_predicted_from_the_length_of_the_prompt() -> None:
    router = Router({"a": 2.0}, seed=1)
    rng = np.random.default_rng(10_000)
    for _ in range(150):
        words = int(rng.integers(1, 200))
        route = router.route("word " * words)
        router.complete(route.id, cost=2.0 * (50 + 3 * words))
    short, long = (router.route("word " * words).costs["a"] for words in (5, 180))
    assert short == pytest.approx(2.0 * 65, rel=0.3)
    assert long == pytest.approx(2.0 * 590, rel=0.3)


def test_a_new_model_is_expected_to_use_as_much_as_the_others() -> None:
    router = Router({"a": 1.0}, seed=1)
    for _ in range(30):
        router.complete(router.route("Hello").id, cost=40.0)
    router.add_model("b", 3.0)
    assert router.route("Hello").costs["b"] == pytest.approx(120, rel=0.1)
    router.remove_model("a")
    assert list(router.models) == ["b"]
    assert router.route("Hello").model == "b"
    with pytest.raises(InvalidSettings, match="only model"):
        router.remove_model("b")


def test_known_costs_and_limits_decide_who_is_eligible() -> None:
    router = Router(PRICES, max_cost=1.0, seed=1)
    first = router.route("Hello", eligible=["large"])
    assert first.model == "large"  # nothing is known about costs yet
    router.complete(first.id, cost=2.0)
    assert {router.route("Hello").model for _ in range(20)} == {"small"}
    cheap = [router.route("Hello", costs={"large": 0.5, "small": 3.0}) for _ in range(5)]
    assert {route.model for route in cheap} == {"large"}
    assert cheap[0].costs == {"small": 3.0, "large": 0.5}
    assert router.route("Hello", max_cost=0.01).model == "small"  # the cheapest, if none is within the limit
    assert router.route("Hello", eligible=["large"], max_cost=5).probabilities == {"small": 0, "large": 1}


def test_latency_is_a_second_cost() -> None:
    router = Router({"fast": 1.0, "slow": 1.0}, latency_penalty=0.2, seed=1)
    seconds = {"fast": 0.2, "slow": 4.0}
    for _ in range(60):
        route = router.route("Hello")
        router.reward(route.id, 0.8, latency=seconds[route.model])
    assert router.route("Hello").probabilities["fast"] > 0.9
    limited = Router({"fast": 1.0, "slow": 1.0}, seed=1)
    for model in ("fast", "slow", "fast", "slow"):
        limited.complete(limited.route("Hello", eligible=[model]).id, latency=seconds[model])
    assert {limited.route("Hello", max_latency=1.0).model for _ in range(10)} == {"fast"}


def test_propensities_are_the_frequencies_of_the_final_choice() -> None:
    router = Router({"a": 1.0, "b": 2.0, "c": 3.0}, cost_penalty=0.3, exploration=0.3, seed=1)
    routes = [router.route("Hello") for _ in range(1200)]
    for model in "abc":
        share = np.mean([route.model == model for route in routes])
        expected = np.mean([route.probabilities[model] for route in routes])
        assert share == pytest.approx(expected, abs=0.05)
    assert all(route.propensity == route.probabilities[route.model] for route in routes)


@pytest.mark.parametrize("features", [False, True])
def test_a_loaded_router_continues_exactly(features: bool, tmp_path: Path) -> None:
    models: Any = PRICES
    if features:
        sizes = {"small": 8, "large": 70}
        models = {name: Model(price=price, features={"size": sizes[name]}) for name, price in PRICES.items()}
    router = Router(models, budget=0.5, seed=3, bandit_settings={"max_pending": 50})
    run(router, 40)
    router.set_price("small", 0.2)
    open_routes = [router.route("Hello") for _ in range(3)]
    router.save(tmp_path / "router.glcb")
    loaded = Router.load(tmp_path / "router.glcb")
    assert loaded.models == router.models
    assert (loaded.budget, loaded.penalty, loaded.summary) == (router.budget, router.penalty, router.summary)
    for one in (router, loaded):
        one.reward(open_routes[0].id, 0.4, cost=0.9)
        run(one, 20)
    for prompt in PROMPTS:
        route, same = router.route(prompt), loaded.route(prompt)
        assert (route.model, route.values, route.costs) == (same.model, same.values, same.costs)
        assert route.probabilities == same.probabilities


def test_a_file_of_something_else_is_rejected(tmp_path: Path) -> None:
    router = Router(PRICES)
    router.bandit.save(tmp_path / "bandit.glcb")
    with pytest.raises(ModelFileError, match="holds a Bandit, not a Router"):
        Router.load(tmp_path / "bandit.glcb")


# ---- embeddings -------------------------------------------------------------------------------------


def embed(prompt: str) -> list[float]:
    rng = np.random.default_rng(len(prompt))
    return [float(number) for number in rng.standard_normal(384)]


def test_an_embedding_is_a_feature() -> None:
    router = Router(PRICES, embed=embed, embed_timeout=30, seed=1)
    route = router.route("Hello")
    router.reward(route.id, 1.0)
    assert not route.is_fallback
    assert "embedding" in router.explain("Hello").features


def late(prompt: str) -> list[float]:
    time.sleep(30)
    return [0.0]


def failing(prompt: str) -> list[float]:
    raise RuntimeError("no connection")


@pytest.mark.parametrize("function", [late, failing, lambda prompt: "text", lambda prompt: [float("nan")]])
def test_without_an_embedding_the_unconditional_bandit_decides(function: Any) -> None:
    router = Router({"good": 1.0, "bad": 1.0}, embed=function, embed_timeout=0.01, seed=1)
    for _ in range(30):
        route = router.route("Hello", context={"embedding": [0.1, 0.2]})
        router.reward(route.id, 0.9 if route.model == "good" else 0.1)
    start = time.perf_counter()
    routes = [router.route("Hello") for _ in range(5)]
    assert time.perf_counter() - start < 5
    assert all(route.is_fallback for route in routes)
    assert Counter(route.model for route in routes)["good"] >= 4
    assert router.reward(routes[0].id, 1.0, cost=0.5)


def test_calls_that_never_return_do_not_pile_up() -> None:
    running = []
    stop = threading.Event()

    def hang(prompt: str) -> list[float]:
        running.append(prompt)
        stop.wait(30)
        return [0.0]

    router = Router(PRICES, embed=hang, embed_timeout=0.001, seed=1)
    assert all(router.route("Hello").is_fallback for _ in range(20))
    assert len(running) == 8
    stop.set()


# ---- explanations and errors ------------------------------------------------------------------------


def test_an_explanation_names_the_prompt_the_model_and_the_cost() -> None:
    models = {
        "small": Model(price=0.1, features={"size": 8, "provider": "meta"}),
        "large": Model(price=2.0, features={"size": 70, "provider": "google"}),
    }
    router = Router(models, cost_penalty=0.2, latency_penalty=0.1, seed=1)
    run(router, 60)
    explanation = router.explain(PROMPTS[1])
    assert {"words", "code", "arm.name", "arm.size", "arm.provider", "cost", "latency"} <= set(
        explanation.features
    )
    total = explanation.bases + explanation.contributions.sum(axis=1)
    assert total == pytest.approx(explanation.values, abs=1e-4)
    cost = {arm: explanation.contributions_of(arm)["cost"] for arm in explanation.arms}
    assert cost["large"] == pytest.approx(-0.2, abs=0.01)
    assert cost["small"] > cost["large"]
    assert "$2" in str(explanation)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": {}}, "models must be a dict"),
        ({"models": {"a": -1.0}}, "price must be"),
        ({"models": {"a": Model(), 3: Model()}}, "name of a model must be a string"),
        ({"models": {"a": Model()}, "budget": 0}, "budget must be a positive number"),
        ({"models": {"a": Model()}, "pacing_rate": "fast"}, "pacing_rate must be a number"),
        ({"models": {"a": Model()}, "bandit_settings": {"seed": 3}}, "seed is an argument of Router"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        Router(**arguments)


def test_invalid_requests_change_nothing() -> None:
    router = Router(PRICES, budget=0.5, seed=1)
    route = router.route("Hello")
    before = router.summary
    invalid: list[tuple[type[Exception], Any]] = [
        (InvalidInput, lambda: router.route()),
        (InvalidInput, lambda: router.route(7)),  # type: ignore[arg-type]
        (UnknownArm, lambda: router.route("Hello", eligible=["medium"])),
        (UnknownArm, lambda: router.route("Hello", eligible=[])),
        (UnknownArm, lambda: router.route("Hello", costs={"medium": 1.0})),
        (InvalidInput, lambda: router.route("Hello", costs={"small": -1.0})),
        (InvalidReward, lambda: router.reward(route.id, 7.0, cost=1.0)),
        (InvalidInput, lambda: router.reward(route.id, 0.5, cost=-1.0)),
        (UnknownDecision, lambda: router.complete("nothing", cost=1.0)),
        (UnknownDecision, lambda: router.reward("nothing", 0.5)),
        (UnknownArm, lambda: router.set_price("medium", 1.0)),
        (InvalidSettings, lambda: router.set_price("small", 0.0)),
        (InvalidSettings, lambda: router.add_model("small", 1.0)),
        (InvalidSettings, lambda: router.add_model("new", Model(features=3))),  # type: ignore[arg-type]
    ]
    for error, call in invalid:
        with pytest.raises(error):
            call()
        assert str(router.summary) == str(before)
    assert router.reward(route.id, 0.5, cost=1.0, idempotency_key="k")
    assert not router.reward(route.id, 0.5, cost=1.0, idempotency_key="k")
    with pytest.raises(DuplicateReward):
        router.reward(route.id, 0.5)
    with pytest.raises(InvalidInput, match="reported before"):
        router.complete(route.id, cost=1.0)


def test_costs_are_charged_when_a_model_is_chosen_and_corrected_when_they_are_known() -> None:
    router = Router({"a": 7.0}, budget=0.5, pacing_rate=0.1, seed=1)
    first = router.route("Hello")
    assert (router.penalty, router.summary["spend"]) == (0, 0)  # nothing is known about costs yet
    router.complete(first.id, cost=1.0)
    assert router.penalty == pytest.approx(0.1)
    routes = [router.route("Hello") for _ in range(3)]
    assert router.penalty == pytest.approx(0.4, rel=0.02)
    for route in routes:
        router.complete(route.id, cost=0.5)
    assert router.penalty == pytest.approx(0.1)
    assert router.summary["spend"] == pytest.approx(2.5)
    router.budget = 2.0
    assert router.budget == 2.0
    router.budget = None
    assert router.penalty == 0


def test_every_model_that_is_affordable_begins_with_some_trials(tmp_path: Path) -> None:
    prices = {"small": 0.1, "medium": 1.0, "large": 30.0}
    router = Router(prices, budget=1.0, trials=3, rewards=(0, 5), bandit_settings={"policy": "linucb"})
    first = Counter(router.route(prompt, costs=prices).model for prompt in PROMPTS[:3])
    assert first == {"small": 2, "medium": 1}
    router.save(tmp_path / "router.glcb")
    for one in (router, Router.load(tmp_path / "router.glcb")):
        rest = Counter(one.route(prompt, costs=prices).model for prompt in PROMPTS[:3])
        assert rest == {"small": 1, "medium": 2}
        assert one.route("Is 7 prime?", costs=prices).probabilities["large"] > 0, "there is no penalty yet"


def test_a_model_whose_cost_no_quality_makes_up_for_is_not_explored() -> None:
    router = Router(PRICES, cost_penalty=1.5, exploration=0.5, bandit_settings={"policy": "linucb"})
    for _ in range(10):
        router.route("Is 7 prime?", costs=PRICES)
    assert router.route("Is 7 prime?", costs=PRICES).probabilities == {"small": 1.0, "large": 0.0}
    near = {"small": 0.1, "large": 0.11}
    assert router.route("Is 7 prime?", costs=near).probabilities["large"] > 0

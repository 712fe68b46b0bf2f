"""Evaluation of logs with rankings."""

import json
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from glcb import Bandit
from glcb._errors import InvalidInput, InvalidSettings, LogError
from glcb.cli import app
from glcb.evaluate import Evaluation, Frozen, convert, evaluate
from glcb.evaluate import marginals as marginal_module
from glcb.evaluate.formats import Layout, read
from glcb.evaluate.marginals import marginal_probabilities
from glcb.evaluate.rows import Chunk, LoggedDecision, LogRow, chunks
from glcb.evaluate.targets import BanditTarget, BestFixedArm, RuleTarget, Target

ARMS = ("a", "b", "c", "d")
LOGGED = dict(zip(ARMS, (0.4, 0.3, 0.2, 0.1), strict=True))
TARGET = dict(zip(ARMS, (0.1, 0.2, 0.3, 0.4), strict=True))
RANKINGS = list(permutations(ARMS, 2))


def logging_policy(context: Any) -> dict[Any, float]:
    return dict(LOGGED)


def target_policy(context: Any) -> dict[Any, float]:
    return dict(TARGET)


def conditional(weights: dict[str, float], ranking: tuple[str, ...]) -> list[float]:
    """Return the probability of each slot, drawn without replacement in proportion to the weights."""
    left, result = 1.0, []
    for arm in ranking:
        result.append(weights[arm] / left)
        left -= weights[arm]
    return result


def click_rates(ranking: tuple[str, ...]) -> tuple[float, float]:
    """Return the mean reward of each slot; that of the second depends on the first."""
    rates = {"a": 0.1, "b": 0.3, "c": 0.5, "d": 0.7}
    return rates[ranking[0]], rates[ranking[1]] * (0.3 if ranking[0] == "d" else 1.0)


def value(weights: dict[str, float]) -> float:
    return sum(float(np.prod(conditional(weights, own))) * sum(click_rates(own)) for own in RANKINGS)


def events(count: int, seed: int) -> list[dict[str, Any]]:
    """Return the events of a log whose values are known."""
    rng = np.random.default_rng(seed)
    shares = [float(np.prod(conditional(LOGGED, own))) for own in RANKINGS]
    lines: list[dict[str, Any]] = [{"glcb_log": 4}]
    for number, drawn in enumerate(rng.choice(len(RANKINGS), count, p=shares)):
        ranking = RANKINGS[drawn]
        slots = [
            {"arm": arm, "propensity": p}
            for arm, p in zip(ranking, conditional(LOGGED, ranking), strict=True)
        ]
        lines.append({"event": "ranking", "id": f"r{number}", "slots": slots, "context": {"one": 1.0}})
        for slot, rate in enumerate(click_rates(ranking)):
            own = f"r{number}" if slot == 0 else f"r{number}.{slot}"
            lines.append({"event": "reward", "id": own, "reward": float(rng.random() < rate)})
    return lines


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "log.jsonl", events(4000, 0))


@pytest.fixture(scope="module")
def result(log: Path) -> Evaluation:
    policies: dict[str, Any] = {
        "target": target_policy,
        "d first": "arm=d",
        "fixed": lambda context: ["d", "c"],
        "uniform": "uniform",
        "best": "best-fixed-arm",
    }
    return evaluate(log, policies)


def true_value(policy: str) -> float:
    weights = {"target": TARGET, "uniform": dict.fromkeys(ARMS, 0.25), "logged": LOGGED}
    if policy in weights:
        return value(weights[policy])
    if policy == "fixed":
        return sum(click_rates(("d", "c")))
    return float(np.mean([sum(click_rates(("d", second))) for second in "abc"]))


@pytest.mark.parametrize("estimator", ["rips", "snips", "ips"])
@pytest.mark.parametrize("policy", ["logged", "target", "d first", "fixed", "uniform"])
def test_estimates_are_close_to_the_truth(result: Evaluation, policy: str, estimator: str) -> None:
    found = result[policy].estimates[estimator]
    assert abs(found.value - true_value(policy)) < 4 * found.error
    sequence = result[policy].sequence
    assert sequence is not None
    assert sequence.low < true_value(policy) < sequence.high


def test_standard_and_interaction_ips_are_unbiased_over_redrawn_logs(tmp_path: Path) -> None:
    errors = []
    for seed in range(20):
        path = write(tmp_path / "log.jsonl", events(200, 100 + seed))
        found = evaluate(path, {"target": target_policy}, estimators=("rips", "ips"))["target"]
        errors.append([found.estimates[name].value - value(TARGET) for name in ("rips", "ips")])
    means = np.mean(errors, axis=0)
    assert (np.abs(means) < 3 * np.std(errors, axis=0, ddof=1) / np.sqrt(20)).all()


def test_interaction_ips_is_more_precise_than_standard_ips(result: Evaluation) -> None:
    for policy in ("target", "uniform", "d first"):
        estimates = result[policy].estimates
        assert estimates["rips"].error < estimates["ips"].error


def test_values_are_rewards_per_ranking(result: Evaluation) -> None:
    assert (result.rows, result.slots, result.unit) == (4000, 2, "ranking")
    assert "4,000 rankings, 4 arms" in str(result)
    assert "does not depend on the slots below" in " ".join(result.notes)
    assert result.level == "ok"


INDEX: dict[Any, int] = {arm: position for position, arm in enumerate(ARMS)}


def chunk_of(rankings: Sequence[tuple[str, ...]], reward: float) -> Chunk:
    rows = [
        LoggedDecision({"one": 1.0}, arm, reward, 0.5, above=ranking[:slot])
        for ranking in rankings
        for slot, arm in enumerate(ranking)
    ]
    (chunk,) = chunks(rows, INDEX, (0.0, 1.0))
    return chunk


@pytest.mark.parametrize(
    "make",
    [lambda: BestFixedArm(len(ARMS)), lambda: BanditTarget(Bandit(arms=ARMS), ARMS, learns=True)],
    ids=["best-fixed-arm", "bandit"],
)
def test_a_policy_that_learns_fills_all_slots_before_their_rewards(make: Callable[[], Target]) -> None:
    assigned = []
    for reward in (0.0, 1.0):
        target = make()
        target.visit(chunk_of([("a", "b", "c", "d")], 1.0))
        assigned.append(target.visit(chunk_of([("a", "b")], reward)))
    assert assigned[0].tolist() == assigned[1].tolist()


# ---- independent IPS --------------------------------------------------------------------------------


def test_independent_ips_uses_exact_marginal_propensities(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", events(1500, 3))
    found = evaluate(path, {"target": target_policy}, estimators=("iips",), logging=logging_policy)
    assert "exact" in " ".join(found.notes)
    own = found["target"].estimates["iips"]
    # The reward of the second slot depends on the first, so the estimate has another expectation:
    marginal = {arm: [0.0, 0.0] for arm in ARMS}
    logged = {arm: [0.0, 0.0] for arm in ARMS}
    rates = dict.fromkeys(ARMS, 0.0)
    for ranking in RANKINGS:
        shares = [float(np.prod(conditional(weights, ranking))) for weights in (TARGET, LOGGED)]
        for slot, arm in enumerate(ranking):
            marginal[arm][slot] += shares[0]
            logged[arm][slot] += shares[1]
        rates[ranking[1]] += shares[1] * click_rates(ranking)[1]
    expected = sum(marginal[arm][0] * click_rates((arm, "a" if arm != "a" else "b"))[0] for arm in ARMS)
    expected += sum(marginal[arm][1] * rates[arm] / logged[arm][1] for arm in ARMS)
    assert abs(own.value - expected) < 4 * own.error


def test_independent_ips_resumes_with_the_random_numbers_of_the_logging_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glcb.evaluate.api._CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr("glcb.evaluate.rows.CHUNK_ROWS", 20)
    path, folder = write(tmp_path / "log.jsonl", events(30, 4)), tmp_path / "progress"
    bandit = Bandit(arms=ARMS, policy="lints", slots=2)
    bandit.learn_from(path)
    frozen = Frozen(bandit)
    arguments: dict[str, Any] = {"policies": {"frozen": frozen}, "estimators": ("iips",), "logging": frozen}

    def interrupt(stage: str, share: float) -> None:
        if (folder / "state.json").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(path, **arguments, checkpoint_folder=folder, progress=interrupt)
    resumed = evaluate(path, **arguments, checkpoint_folder=folder)
    assert resumed.to_dict() == evaluate(path, **arguments).to_dict()


def test_the_command_evaluates_rankings(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", events(50, 5))
    arguments = ["evaluate", str(path), "--policies", "uniform", "--estimators", "rips,iips"]
    out = CliRunner().invoke(app, [*arguments, "--logging", "uniform"], catch_exceptions=False).output
    assert "50 rankings, 4 arms" in out
    assert "marginal propensities of iips are exact" in out


def test_simulated_marginal_propensities_are_close_to_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk, target = chunk_of(RANKINGS, 0.0), RuleTarget(target_policy, INDEX, "target")
    exact = marginal_probabilities(target, chunk, np.random.default_rng(0))
    monkeypatch.setattr(marginal_module, "MAX_SETS", 0)
    simulated = marginal_probabilities(target, chunk, np.random.default_rng(0))
    assert simulated == pytest.approx(exact, abs=0.03)
    assert exact[0::2] == pytest.approx([TARGET[own[0]] for own in RANKINGS])


# ---- the log of a bandit ----------------------------------------------------------------------------


def test_the_log_of_a_bandit_that_ranks_is_evaluated(tmp_path: Path) -> None:
    bandit = Bandit(arms=ARMS, slots=3, exploration=0.5)
    bandit.log_to(tmp_path / "log.jsonl")
    rng = np.random.default_rng(0)
    for _ in range(150):
        ranking = bandit.rank({"age": float(rng.random())}, k=3)
        clicked = int(rng.integers(0, 3))
        bandit.reward(ranking.id, 1.0, slot=clicked, examined=clicked + 1)
    bandit.log_to(None)
    policies: dict[str, Any] = {
        "same": Bandit(arms=ARMS, slots=3),
        "frozen": Frozen(bandit),
        "plain": Bandit(arms=ARMS),
    }
    found = evaluate(tmp_path / "log.jsonl", policies)
    assert (found.rows, found.slots, found.replays) == (150, 3, [])
    assert found["logged"].estimates["rips"].value == pytest.approx(1.0)
    # Exactly one slot is clicked in every ranking.
    for name in policies:
        own = found[name].estimates["ips"]
        assert abs(own.value - 1.0) < 5 * own.error


def test_slots_of_arms_with_features_are_evaluated(tmp_path: Path) -> None:
    catalog = {name: {"price": 0.1 * i} for i, name in enumerate(ARMS)}
    bandit = Bandit(arms=catalog, slots=2, exploration=0.5)
    bandit.log_to(tmp_path / "log.jsonl")
    for number in range(60):
        extra = {**catalog, f"e{number % 3}": {"price": 0.9}}
        ranking = bandit.rank({"age": number % 7}, k=2, arms=extra if number % 2 else None)
        for slot, arm in enumerate(ranking.arms):
            bandit.reward(ranking.id, float(arm == "d"), slot=slot)
    bandit.log_to(None)
    found = evaluate(tmp_path / "log.jsonl", {"same": Bandit(arms=catalog, slots=2), "glcb": "glcb"})
    assert found.rows == 60
    assert set(found.arms) == {*ARMS, "e0", "e1", "e2"}
    assert [check.name for check in found.diagnostics if check.level != "ok"] == []


# ---- refusals ---------------------------------------------------------------------------------------


def refused(path: Path) -> list[LogRow]:
    return [row for row in read(path, None, Layout()) if row.decision is None]


SLOT = {"arm": "a", "propensity": 0.5}


@pytest.mark.parametrize(
    ("slots", "reward", "reason"),
    [
        ([], {"id": "x"}, "invalid row"),
        ([SLOT, SLOT], {"id": "x"}, "invalid row"),
        ([SLOT], {"id": "x.1"}, "unknown decision"),
        ([SLOT, {"arm": "b", "propensity": 0.5}], {"id": "x"}, "no reward"),
        ([SLOT, {"arm": "b", "propensity": 2}], {"id": "x"}, "invalid propensity"),
        ([{"arm": "a", "propensity": 1e-80}], {"id": "x"}, "invalid propensity"),
    ],
)
def test_rankings_that_cannot_be_used_are_refused_with_a_reason(
    tmp_path: Path, slots: list[Any], reward: dict[str, str], reason: str
) -> None:
    lines: list[dict[str, Any]] = [
        {"glcb_log": 4},
        {"event": "ranking", "id": "x", "slots": slots, "context": {"one": 1}},
        {"event": "reward", "reward": 1.0, **reward},
    ]
    if reason != "no reward":
        lines.append({"event": "reward", "reward": 0.0, "id": "x.1"})
    assert reason in {row.reason for row in refused(write(tmp_path / "log.jsonl", lines))}


def test_a_ranking_whose_last_slots_have_no_reward_takes_the_default(tmp_path: Path) -> None:
    lines = [line for line in events(200, 0) if not str(line.get("id", "")).endswith(".1")]
    path = write(tmp_path / "log.jsonl", lines)
    with pytest.raises(LogError, match="no decisions with a reward"):
        evaluate(path, ["uniform"])
    assert evaluate(path, ["uniform"], default_reward=0.0).rows == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimators": ("dr",)}, "rips, snips, ips, iips for a log of rankings"),
        ({"estimators": ("iips",)}, "pass the policy that wrote the log"),
        (
            {"estimators": ("iips",), "logging": logging_policy, "policies": ["best-fixed-arm"]},
            "'best-fixed-arm' does",
        ),
    ],
)
def test_invalid_arguments_are_refused(log: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        evaluate(log, **{"policies": ["uniform"], **arguments})


def test_a_bandit_with_fewer_slots_than_the_log_is_refused(tmp_path: Path) -> None:
    slots = [{"arm": arm, "propensity": 0.5} for arm in "abc"]
    lines: list[dict[str, Any]] = [
        {"glcb_log": 4},
        {"event": "ranking", "id": "x", "slots": slots, "context": {"one": 1}},
        *({"event": "reward", "id": own, "reward": 1.0} for own in ("x", "x.1", "x.2")),
    ]
    with pytest.raises(InvalidInput, match="create it with slots=3"):
        evaluate(write(tmp_path / "log.jsonl", lines), {"two": Bandit(arms=ARMS, slots=2)})


def test_rankings_are_not_converted(log: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="has rankings"):
        convert(log, tmp_path / "out.jsonl")

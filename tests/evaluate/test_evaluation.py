"""Evaluating policies on a log."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit
from glcb._errors import InvalidInput, InvalidSettings, LogError, UnknownArm
from glcb.evaluate import Evaluation, Frozen, api, evaluate
from glcb.evaluate.diagnostics import WeightSums
from glcb.evaluate.evaluation import Evaluator
from glcb.evaluate.executors import LocalLogExecutor
from glcb.evaluate.formats import Layout
from glcb.evaluate.log import LogFiles
from tests.evaluate.logs import ARMS, RULE_VALUE, UNIFORM_VALUE, rows, rule, value, write

FAST: dict[str, Any] = {"estimators": ("ips", "snips")}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "log.jsonl", rows(4000))


@pytest.fixture(scope="module")
def result(log: Path) -> Evaluation:
    policies: dict[str, Any] = {"uniform": "uniform", "rule": rule, "games": "arm=games", "linucb": "linucb"}
    return evaluate(log, policies, estimators=("dr", "snips", "ips", "clipped-ips", "dm", "switch-dr"))


@pytest.mark.parametrize("estimator", ["dr", "snips", "ips", "clipped-ips", "switch-dr"])
@pytest.mark.parametrize(
    ("policy", "truth"),
    [
        ("uniform", UNIFORM_VALUE),
        ("rule", RULE_VALUE),
        ("games", value(lambda age, arm: float(arm == "games"))),
    ],
)
def test_estimates_are_close_to_the_truth(
    result: Evaluation, policy: str, truth: float, estimator: str
) -> None:
    found = result[policy].estimates[estimator]
    assert abs(found.value - truth) < 3.5 * found.error
    assert found.normal.low < found.value < found.normal.high
    assert found.bootstrap is not None
    assert found.bootstrap.high - found.bootstrap.low == pytest.approx(3.92 * found.error, rel=0.25)


def test_confidence_sequences_contain_the_truth(result: Evaluation) -> None:
    for policy, truth in (("uniform", UNIFORM_VALUE), ("rule", RULE_VALUE)):
        sequence = result[policy].sequence
        assert sequence is not None
        assert sequence.low < truth < sequence.high
        assert sequence.high - sequence.low < 0.15


def test_doubly_robust_is_more_precise_than_ips(result: Evaluation) -> None:
    own = result["rule"]
    assert own.estimates["dr"].error < own.estimates["ips"].error
    assert own.sequence is not None
    assert own.ips_sequence is not None
    assert own.ips_sequence.low < RULE_VALUE < own.ips_sequence.high
    assert own.sequence.high - own.sequence.low < own.ips_sequence.high - own.ips_sequence.low


def test_a_better_policy_is_recognized(result: Evaluation) -> None:
    sequence = result["rule"].difference_sequence
    assert sequence is not None
    assert sequence.low > 0
    assert "rule is better than logged" in result.conclusion or "linucb is better" in result.conclusion


def test_a_learning_policy_approaches_the_best_rule(result: Evaluation) -> None:
    assert result["linucb"].estimates["dr"].value > 0.9 * RULE_VALUE
    replayed = result["linucb (replay)"]
    assert replayed.rows > 300
    assert replayed.estimates["replay"].value > UNIFORM_VALUE


def test_the_logged_policy_has_the_mean_reward_of_the_log(result: Evaluation, log: Path) -> None:
    mean = np.mean([json.loads(line)["reward"] for line in log.read_text().splitlines()])
    for found in result["logged"].estimates.values():
        assert found.value == pytest.approx(mean)


def test_evaluation_does_not_change_the_bandit(log: Path) -> None:
    bandit = Bandit(ARMS)
    evaluate(log, {"own": bandit, "frozen": Frozen(bandit)}, **FAST)
    assert bandit.counts["decisions"] == 0


def test_a_frozen_bandit_is_evaluated_as_it_is(log: Path) -> None:
    bandit = Bandit(ARMS, policy="linucb", exploration=0.0)
    bandit.learn_from(log)
    found = evaluate(log, {"trained": Frozen(bandit)}, **FAST)
    assert found["trained"].estimates["snips"].value == pytest.approx(RULE_VALUE, abs=0.05)
    assert not found.replays


def test_the_same_seed_gives_the_same_result(log: Path) -> None:
    first, second = (evaluate(log, ["linucb"], **FAST).to_dict() for _ in range(2))
    assert first == second


def test_integers_are_recognized_as_arms_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("age,arm,reward,propensity\n" + "".join(f"{i},{i % 2},{i % 2},0.5\n" for i in range(400)))
    found = evaluate(path, {"one": "arm=1", "rule": lambda context: 1, "bandit": Bandit(2)}, **FAST)
    assert found.arms == {0: 200, 1: 200}
    assert found["one"].estimates["snips"].value == found["rule"].estimates["snips"].value == 1.0


def test_best_fixed_arm_is_chosen_from_earlier_rows(tmp_path: Path) -> None:
    """With pure noise, the best arm in hindsight looks better than it is."""
    rng = np.random.default_rng(0)
    lines: list[dict[str, object]] = [
        {
            "context": {"x": 0},
            "arm": int(rng.integers(20)),
            "reward": float(rng.random() < 0.5),
            "propensity": 0.05,
        }
        for _ in range(2000)
    ]
    found = evaluate(write(tmp_path / "log.jsonl", lines), ["best-fixed-arm"], **FAST)
    own = found["best-fixed-arm"].estimates["snips"]
    assert abs(own.value - 0.5) < 3 * own.error


def test_rewards_of_any_range_keep_their_unit(tmp_path: Path) -> None:
    lines = [{**row, "reward": 100 * float(str(row["reward"])) - 20} for row in rows(2000)]
    found = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule})["rule"]
    truth = 100 * RULE_VALUE - 20
    assert abs(found.estimates["dr"].value - truth) < 3.5 * found.estimates["dr"].error
    assert found.sequence is not None
    assert found.sequence.low < truth < found.sequence.high


# ---- events -----------------------------------------------------------------------------------------


def test_the_log_of_a_bandit_is_joined_with_its_rewards(tmp_path: Path) -> None:
    bandit = Bandit(ARMS, exploration=0.5)
    bandit.log_to(tmp_path / "log.jsonl")
    decisions = [bandit.decide({"age": age / 100}) for age in range(100)]
    for decision in reversed(decisions[:90]):  # the last ten have no reward
        bandit.reward(decision.id, float(decision.arm == "news"))
    found = evaluate(tmp_path / "log.jsonl", {"news": "arm=news"}, **FAST)
    assert found.rows == 90
    assert found.refused == {"no reward": 10}
    assert found["news"].estimates["snips"].value == 1.0
    with_default = evaluate(tmp_path / "log.jsonl", {"news": "arm=news"}, default_reward=0.0, **FAST)
    assert with_default.rows == 100


# ---- interruption -----------------------------------------------------------------------------------


def test_an_interrupted_evaluation_resumes_with_the_same_result(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glcb.evaluate.api._CHECKPOINT_SECONDS", 0.0)
    policies: dict[str, Any] = {"linucb": "linucb", "best": "best-fixed-arm"}
    bandit = Bandit(ARMS, policy="lints")
    bandit.learn_from(log)
    policies["frozen and randomized"] = Frozen(bandit)
    arguments: dict[str, Any] = {"policies": policies, "estimators": ("dr", "snips")}
    evaluated = []

    def interrupt(stage: str, share: float) -> None:
        if stage == "evaluating":
            evaluated.append(share)
            if len(evaluated) == 3:
                raise KeyboardInterrupt

    folder = tmp_path / "progress"
    with pytest.raises(KeyboardInterrupt):
        evaluate(log, **arguments, checkpoint_folder=folder, progress=interrupt)
    assert folder.is_dir()
    resumed = evaluate(log, **arguments, checkpoint_folder=folder, progress=interrupt)
    assert evaluated == [0.25, 0.5, 0.75, 0.75, 1.0]
    assert not folder.exists()
    assert resumed.to_dict() == evaluate(log, **arguments).to_dict()


@pytest.fixture
def interrupted(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder with the state of an evaluation of the best fixed arm."""
    monkeypatch.setattr("glcb.evaluate.api._CHECKPOINT_SECONDS", 0.0)

    def interrupt(stage: str, share: float) -> None:
        if share == 1.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(log, ["best-fixed-arm"], checkpoint_folder=tmp_path / "progress", progress=interrupt, **FAST)
    return tmp_path / "progress"


@pytest.mark.parametrize(
    "change", [{"policies": ["uniform"]}, {"constant_values": True}, {"format": "jsonl"}, {"seed": 1}]
)
def test_progress_of_another_evaluation_is_not_used(
    log: Path, interrupted: Path, change: dict[str, Any]
) -> None:
    arguments: dict[str, Any] = {"policies": ["best-fixed-arm"], **FAST, **change}
    shares: list[float] = []
    found = evaluate(
        log,
        **arguments,
        checkpoint_folder=interrupted,
        progress=lambda stage, share: shares.append(share) if stage == "evaluating" else None,
    )
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert found.to_dict() == evaluate(log, **arguments).to_dict()


def test_progress_of_another_version_is_not_used(
    log: Path, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glcb.evaluate.api.__version__", "9.9", raising=False)
    shares: list[float] = []
    evaluate(
        log,
        ["best-fixed-arm"],
        checkpoint_folder=interrupted,
        progress=lambda stage, share: shares.append(share) if stage == "evaluating" else None,
        **FAST,
    )
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_models_that_have_learned_different_things_are_different_evaluations() -> None:
    models = [Bandit(ARMS, policy="linucb") for _ in range(2)]
    for model, reward in zip(models, (0.0, 1.0), strict=True):
        model.reward(model.decide({"age": 0.5}).id, reward)
    assert repr(models[0]) == repr(models[1])
    described = [api._described(Frozen(model)) for model in models]
    assert described[0] == api._described(Frozen(copy.deepcopy(models[0])))
    assert len({*described, api._described(models[0])}) == 3


def test_progress_that_does_not_fit_is_refused(log: Path, interrupted: Path) -> None:
    about = json.loads((interrupted / "state.json").read_text())
    about["parts"][-1] = "target.other"
    (interrupted / "state.json").write_text(json.dumps(about))
    with pytest.raises(LogError, match=r"cannot continue from .*progress .*best-fixed-arm.*: remove it"):
        evaluate(log, ["best-fixed-arm"], checkpoint_folder=interrupted, **FAST)


def test_an_evaluator_with_other_parts_is_not_changed(log: Path) -> None:
    files = LogFiles((log,), None, Layout())
    evaluators = []
    for constant_values in (False, True):
        plan = api.make_plan(
            LocalLogExecutor().survey(files, None),
            {"best": "best-fixed-arm"},
            estimators=("ips",),
            reference="logged",
            logging=None,
            seed=0,
            replay=True,
            max_ratio=None,
            min_propensity=None,
            constant_values=constant_values,
        )
        evaluators.append(Evaluator(plan))
    done, other = evaluators
    assert list(LocalLogExecutor().run(done, files, plan.reader))
    before = copy.deepcopy(other.snapshot().parts)
    with pytest.raises(ValueError, match="betting"):
        other.restore(done.snapshot())
    np.testing.assert_equal(other.snapshot().parts, before)


# ---- diagnostics ------------------------------------------------------------------------------------


def failed(result: Evaluation, policy: str) -> set[str]:
    return {each.name for each in result[policy].diagnostics if each.level != "ok"}


def test_a_good_log_passes_all_checks(result: Evaluation) -> None:
    assert result.level == "ok"
    assert [own.name for own in result.policies if own.level != "ok"] == []


def test_wrong_propensities_are_noticed(tmp_path: Path) -> None:
    lines = [{**row, "propensity": 0.9 * float(str(row["propensity"]))} for row in rows(4000)]
    found = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule, "uniform": "uniform"}, **FAST)
    assert found.level == "error"
    assert "propensities" in found.conclusion or "propensity" in found.conclusion
    assert "mean weight" in failed(found, "uniform")


@pytest.mark.parametrize("estimators", [("dr", "ips", "dm"), ("ips",)])
def test_bounds_that_contradict_each_other_are_no_interval(
    tmp_path: Path, estimators: tuple[str, ...]
) -> None:
    lines = [{**row, "propensity": 0.3 * float(str(row["propensity"]))} for row in rows(3000)]
    path = write(tmp_path / "log.jsonl", lines)
    found = evaluate(path, {"rule": rule, "uniform": "uniform"}, estimators=estimators, constant_values=True)
    for own in found.policies[1:]:
        intervals = (own.sequence, own.difference_sequence, own.ips_sequence, own.betting_sequence)
        assert all(interval is None or interval.low <= interval.high for interval in intervals)
        assert (own.sequence if estimators == ("ips",) else own.ips_sequence) is None
        assert "interval" in failed(found, own.name)
        assert all(point.low <= point.value <= point.high for point in own.curve)
    assert found.conclusion.startswith("Do not use these numbers: 1 / propensity averages")
    (page, *_) = found.write(tmp_path)
    assert "there is no interval" in page.read_text(encoding="utf-8")


def test_a_constant_propensity_of_arms_that_are_not_equally_frequent_is_noticed(tmp_path: Path) -> None:
    lines = [{**row, "propensity": 1 / 3} for row in rows(4000)]
    found = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule}, **FAST)
    levels = {each.name: each.level for each in found.diagnostics}
    assert (levels["propensities"], levels["arm frequencies"]) == ("ok", "error")
    count = found.arms["games"]
    assert f"'games' was chosen {count:,} times, but its propensities predict about 1,333" in found.conclusion


@pytest.mark.parametrize("seed", range(5))
def test_right_propensities_of_a_learning_policy_pass(tmp_path: Path, seed: int) -> None:
    bandit = Bandit(ARMS, policy="linucb", exploration=0.2, seed=seed)
    bandit.log_to(tmp_path / "log.jsonl")
    for row in rows(2000, seed):
        decision = bandit.decide(row["context"])
        bandit.reward(decision.id, int(decision.arm == "news"))
    bandit.log_to(None)
    found = evaluate(tmp_path / "log.jsonl", ["uniform"], **FAST)
    assert [each for each in found.diagnostics if each.level != "ok"] == []


@pytest.mark.parametrize(
    ("count", "arms", "epsilon"), [(2000, 10, 0.02), (20_000, 20, 0.005), (5000, 10, 0.01)]
)
def test_right_propensities_of_rare_choices_pass(count: int, arms: int, epsilon: float) -> None:
    levels = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        best = rng.integers(arms, size=count)
        arm = np.where(rng.random(count) < epsilon, rng.integers(arms, size=count), best)
        propensity = np.where(arm == best, 1 - epsilon + epsilon / arms, epsilon / arms)
        sums = WeightSums(1, arms)
        weight, reward = np.ones((count, 1)), np.zeros((count, 1))
        eligible = np.ones((count, arms), bool)
        sums.add(weight, weight, reward, np.zeros((1, arms)), arm, propensity, eligible)
        levels.append(sums.check_frequencies(range(arms)).level)
    assert levels.count("error") <= 1


def test_the_headline_of_a_better_policy_names_a_warning(tmp_path: Path) -> None:
    lines = rows(4000)
    for row in lines[2000:]:
        row["context"] = {**dict(row["context"]), "late": True}  # type: ignore[call-overload]
    found = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule}, estimators=("dr",))
    assert found.conclusion.startswith("rule is better than logged, with 95% confidence at any time. ")
    assert "differ between the two halves of the log" in found.conclusion


def test_the_direct_method_stands_apart_with_its_bias(log: Path) -> None:
    found = evaluate(log, {"rule": rule}, replay=False)
    assert list(found["rule"].estimates) == ["dr", "snips", "ips", "dm"]
    heads = found.table().splitlines()[2].split("  ")
    columns = [head.strip() for head in heads if head.strip()]
    assert columns == ["policy", "dr", "snips", "ips", "95% at any time", "rows", "check", "dm (biased)"]
    assert "as biased as the model" in found.table()
    assert "as biased as the model" not in evaluate(log, {"rule": rule}, **FAST).table()


def test_an_arm_that_was_never_logged_is_noticed(log: Path) -> None:
    found = evaluate(log, {"own": Bandit([*ARMS, "chess"], exploration=0.5)}, replay=False, **FAST)
    assert "support" in failed(found, "own")
    assert "'chess'" in found.table()


def test_a_log_without_power_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = [{**row, "reward": float(rng.random() < 0.005)} for row in rows(4000, uniform=True)]
    found = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule}, **FAST)
    assert "rewards" in failed(found, "rule")
    assert found.conclusion.startswith("Nothing can be concluded about rule: The estimate rests on")
    assert "no power" in found.conclusion


def test_a_rare_match_is_noticed(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines: list[dict[str, object]] = []
    for _ in range(2000):
        rare = rng.random() < 0.005
        lines.append(
            {"context": {"x": 1}, "arm": int(rare), "reward": 1.0, "propensity": 0.005 if rare else 0.995}
        )
    found = evaluate(write(tmp_path / "log.jsonl", lines), ["arm=1"], **FAST)
    assert {"effective sample size", "largest weight"} <= failed(found, "arm=1")


def test_identifiers_are_named(tmp_path: Path) -> None:
    lines = rows(1200)
    for number, row in enumerate(lines):
        extra = {"country": "AB"[number % 2], "user": {"visitor": f"v{number // 3}"}}
        row["context"] = {**dict(row["context"]), **extra}  # type: ignore[call-overload]
    found = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule}, **FAST)
    assert [each.level for each in found.diagnostics if each.name == "identifiers"] == ["warning"]
    assert "'user.visitor': another text in almost every row" in found.conclusion
    halves = [write(tmp_path / f"{half}.jsonl", lines[600 * half : 600 * half + 600]) for half in (0, 1)]
    assert evaluate(halves, {"rule": rule}, **FAST).conclusion == found.conclusion


def test_drifting_contexts_are_noticed(tmp_path: Path) -> None:
    lines = rows(2000)
    for row in lines[1000:]:
        row["context"] = {"age": 0.9 + 0.001 * len(str(row))}
    found = evaluate(write(tmp_path / "log.jsonl", lines), ["uniform"], estimators=("dr",))
    assert [each.level for each in found.diagnostics if each.name == "context drift"] == ["warning"]


# ---- bad input --------------------------------------------------------------------------------------


def test_a_log_without_propensities_is_refused_unless_it_is_uniform(tmp_path: Path) -> None:
    lines = [
        {name: own for name, own in row.items() if name != "propensity"} for row in rows(2000, uniform=True)
    ]
    path = write(tmp_path / "log.jsonl", lines)
    with pytest.raises(InvalidInput, match=r"no propensities.*logging='uniform'"):
        evaluate(path, {"rule": rule}, **FAST)
    found = evaluate(path, {"rule": rule}, logging="uniform", **FAST)
    own = found["rule"].estimates["ips"]
    assert abs(own.value - RULE_VALUE) < 3.5 * own.error
    assert "as requested" in found.table()


def test_the_direct_method_does_without_propensities_and_says_so(tmp_path: Path) -> None:
    lines = [
        {name: own for name, own in row.items() if name != "propensity"} for row in rows(1500, uniform=True)
    ]
    path = write(tmp_path / "log.jsonl", lines)
    found = evaluate(path, {"rule": rule, "linucb": "linucb"}, estimators=("dm",))
    own = found["rule"]
    assert own.estimates["dm"].value == pytest.approx(RULE_VALUE, abs=0.1)
    assert (own.sequence, own.difference_sequence, found.replays) == (None, None, [])
    assert found.level == "warning"
    assert "No policy is shown to be better than logged" in found.conclusion
    assert "predictions of a model" in found.table()
    assert "predictions of a model" in found.write(tmp_path)[0].read_text(encoding="utf-8")


def test_bad_rows_are_counted_by_reason(tmp_path: Path) -> None:
    bad: list[dict[str, object]] = [
        {"context": {"age": 1}, "arm": "news", "reward": "high", "propensity": 0.5},
        {"context": {"age": 1}, "arm": "news", "reward": 1, "propensity": 1.5},
        {"context": {"age": 1}, "arm": None, "reward": 1, "propensity": 0.5},
        {"context": {"age": 1}, "arm": "news", "reward": 1},
    ]
    found = evaluate(write(tmp_path / "log.jsonl", [*rows(300), *bad]), {"rule": rule}, **FAST)
    assert found.rows == 300
    assert found.refused == {
        "invalid reward": 1,
        "invalid propensity": 1,
        "unknown arm": 1,
        "missing propensity": 1,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": {}}, "at least one policy"),
        ({"policies": ["glcbb"]}, "no policy 'glcbb'"),
        ({"policies": ["arm=chess"]}, "no arm 'chess'"),
        ({"policies": {"logged": "uniform"}}, "choose another name"),
        ({"policies": ["uniform"], "estimators": ("ipw",)}, "estimators must be among"),
        ({"policies": ["uniform"], "reference": "rule"}, "reference must be"),
        ({"policies": ["uniform"], "max_ratio": 0.5}, "max_ratio must be at least 1"),
        ({"policies": ["uniform"], "logging": "random"}, "logging must be"),
        ({"policies": ["uniform"], "min_propensity": 0.9}, "min_propensity must be"),
        ({"policies": ["uniform"], "format": "xml"}, "format must be one of"),
    ],
)
def test_invalid_arguments_are_refused(log: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        evaluate(log, **arguments)


def test_a_bandit_with_another_range_of_rewards_is_refused(tmp_path: Path) -> None:
    lines = [{**row, "reward": 7.0} for row in rows(50)]
    with pytest.raises(InvalidInput, match="takes rewards from 0 to 1, the log has 7 to 7"):
        evaluate(write(tmp_path / "log.jsonl", lines), {"own": Bandit(ARMS)}, **FAST)


def test_a_rule_that_fails_is_named(log: Path) -> None:
    with pytest.raises(UnknownArm, match="'bad' chose 'chess'"):
        evaluate(log, {"bad": lambda context: "chess"}, **FAST)
    with pytest.raises(InvalidInput, match="'half' must return an arm, probabilities that add up to 1, or"):
        evaluate(log, {"half": lambda context: {"news": 0.5}}, **FAST)


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(LogError, match="no decisions with a reward"):
        evaluate(tmp_path / "log.jsonl", ["uniform"])


def test_a_missing_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot read"):
        evaluate(tmp_path / "log.jsonl", ["uniform"])

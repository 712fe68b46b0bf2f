"""Off-policy evaluation where the truth is known: bias, error and coverage on the tasks of the paper.

    python -m benchmarks.evaluation accuracy --logs 20      # needs GLCB_DATA_DIR
    python -m benchmarks.evaluation coverage --logs 1000
    python -m benchmarks.evaluation real                    # Hillstrom and Open Bandit; needs GLCB_DATA_DIR
    python -m benchmarks.evaluation speed
    python -m benchmarks.evaluation obp                     # compare with Open Bandit Pipeline, if installed

A log is a stream of a task in which only the reward of one arm is revealed. Three policies write logs:
ε-greedy (0.2) around a least-squares fit on other data, a softmax of the same fit, and a bandit that learns.
The true value of a policy on a log is its mean reward over the contexts of the log, from the full table of
rewards.
"""

import argparse
import csv
import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from glcb import Bandit
from glcb._arrays import Float64, Int64
from glcb._types import Arm, reward_range
from glcb.bandit.offline import OfflineBandit
from glcb.evaluate import evaluate
from glcb.evaluate.estimators import MAX_WEIGHT, NAMES, EstimateSums, Rows
from glcb.evaluate.robust import caps, robust_terms
from glcb.evaluate.rows import CHUNK_ROWS, Chunk, LoggedDecision, chunks
from glcb.evaluate.sequences import LowerSequence
from glcb.evaluate.targets import RewardModel
from glcb.tasks import registry
from glcb.tasks.base import Stream, Task
from glcb.tasks.data.directory import data_directory

TASKS = ("adult", "covertype", "statlog", "financial", "jester", "mushroom", "wheel")
LOGGING = ("epsilon-greedy", "softmax", "glcb")
TRAINING = 10_000
"""Added to the seed of a log: policies are trained on another stream."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    Console(width=200).print(table)


def scores(task: Task, seed: int, contexts: Float64) -> Float64:
    """Return linear predictions of the reward of each arm, fitted to a small stream with other data."""
    training = task.stream(TRAINING + seed, 500)
    ones = np.ones((len(training.contexts), 1))
    inputs = np.hstack([training.contexts, ones])
    matrix = inputs.T @ inputs + np.eye(inputs.shape[1])
    weights = np.linalg.solve(matrix, inputs.T @ training.rewards)
    result: Float64 = np.hstack([contexts, np.ones((len(contexts), 1))]) @ weights
    return result


def log_rows(task: Task, stream: Stream, logging: str, seed: int) -> Iterator[dict[str, object]]:
    """Yield the rows of a log."""
    rng = np.random.default_rng((seed, 77))
    arms = len(task.arms)
    low, high = reward_range(task.rewards)
    predicted = scores(task, seed, stream.contexts.astype(np.float64))
    bandit = Bandit(list(range(arms)), rewards=task.rewards, exploration=0.2, seed=seed)
    for step, context in enumerate(stream.contexts.tolist()):
        if logging == "glcb":
            decision = bandit.decide(context)
            arm, propensity = int(decision.arm), decision.propensity
            bandit.reward(decision.id, float(stream.rewards[step, arm]))
        else:
            if logging == "softmax":
                shares = np.exp(5 * (predicted[step] - predicted[step].max()) / (high - low))
                shares = 0.1 / arms + 0.9 * shares / shares.sum()
            else:
                shares = np.full(arms, 0.2 / arms)
                shares[predicted[step].argmax()] += 0.8
            arm = int(rng.choice(arms, p=shares))
            propensity = float(shares[arm])
        reward = float(stream.rewards[step, arm])
        yield {"context": context, "arm": arm, "reward": reward, "propensity": propensity}


def trained(task: Task, policy: str, seed: int) -> Bandit:
    """Return a bandit trained on another stream."""
    stream = task.stream(2 * TRAINING + seed, 1000)
    bandit = Bandit(list(range(len(task.arms))), policy=policy, rewards=task.rewards, seed=seed)
    for context, rewards in zip(stream.contexts.tolist(), stream.rewards, strict=True):
        decision = bandit.decide(context)
        bandit.reward(decision.id, float(rewards[int(decision.arm)]))
    bandit.set_params(exploration=0.05)
    return bandit


def accuracy(logs: int, rows: int, tasks: list[str], out: Path) -> None:
    """Write and print the bias and root mean squared error of every estimator."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done = (
        {tuple(json.loads(line)["key"]) for line in out.read_text().splitlines()} if out.exists() else set()
    )
    for name in tasks:
        task = registry.get(name)
        for logging in LOGGING:
            for seed in range(logs):
                if (name, logging, seed) not in done:
                    found = one_log(task, logging, seed, rows)
                    with out.open("a") as file:
                        file.write(json.dumps({"key": [name, logging, seed], "errors": found}) + "\n")
    summarize(out)


def one_log(task: Task, logging: str, seed: int, rows: int) -> dict[str, dict[str, float]]:
    """Return the error of every estimator for every evaluated policy, relative to the range of rewards."""
    stream = task.stream(seed, rows)
    arms = len(task.arms)
    low, high = reward_range(task.rewards)
    best = int(task.stream(TRAINING + seed, 1000).rewards.mean(axis=0).argmax())
    bandits = {policy: trained(task, policy, seed) for policy in ("linucb", "glcb")}
    assigned: dict[str, list[Float64]] = {policy: [] for policy in bandits}

    def watched(policy: str) -> Callable[[list[float]], dict[int, float]]:
        offline = OfflineBandit(bandits[policy])

        def rule(context: list[float]) -> dict[int, float]:
            shares = offline.preview(context).probabilities
            assigned[policy].append(shares)
            return dict(enumerate(shares.tolist()))

        return rule

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        with path.open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in log_rows(task, stream, logging, seed))
        policies: dict[str, Any] = {
            "uniform": lambda context: dict.fromkeys(range(arms), 1 / arms),
            "best arm": lambda context: best,
            **{policy: watched(policy) for policy in bandits},
        }
        result = evaluate(path, policies, estimators=NAMES)
    truth = {"uniform": stream.rewards.mean(), "best arm": stream.rewards[:, best].mean()}
    for policy, shares in assigned.items():
        truth[policy] = (np.array(shares) * stream.rewards).sum(axis=1).mean()
    return {
        policy: {
            estimator: float((result[policy].estimates[estimator].value - truth[policy]) / (high - low))
            for estimator in NAMES
        }
        for policy in policies
    }


def summarize(out: Path) -> None:
    """Print bias and root mean squared error by task and estimator, over logging and evaluated policies."""
    errors: dict[str, list[list[float]]] = {}
    for line in out.read_text().splitlines():
        record = json.loads(line)
        for found in record["errors"].values():
            errors.setdefault(record["key"][0], []).append([found[name] for name in NAMES])
    table, wins = [], 0
    for task, found in errors.items():
        values = np.array(found)
        rmse, bias = np.sqrt((values**2).mean(axis=0)), values.mean(axis=0)
        wins += bool(rmse[NAMES.index("dr")] <= rmse[NAMES.index("snips")])
        table.append(
            [task, str(len(found)), *(f"{e:.4f} ({b:+.4f})" for e, b in zip(rmse, bias, strict=True))]
        )
    print("root mean squared error (bias), in units of the range of rewards")
    print_table(["task", "estimates", *NAMES], table)
    print(f"dr has at most the error of snips on {wins} of {len(errors)} tasks")


def coverage(logs: int, rows: int, seed: int = 0) -> None:
    """Print how often confidence sequences, checked at every row, ever miss the truth, and their width."""
    table = []
    for name in ("wheel", "statlog"):
        task = registry.get(name)
        for sequence, (covered, width) in covered_at_all_rows(task, logs, rows, seed).items():
            table.append([name, sequence, f"{logs:,}", f"{rows:,}", f"{covered:.2%}", f"{width:.3f}"])
    print_table(["task", "sequence", "logs", "rows", "covered at all rows", "mean width at the end"], table)


def covered_at_all_rows(task: Task, logs: int, rows: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return the share of redrawn logs in which a sequence never misses the truth, and its mean width.

    The logging policy is ε-greedy; the evaluated policy prefers the arms that the logging policy avoids.
    Differences compare these two policies.
    """
    low, high = reward_range(task.rewards)
    stream = task.stream(seed, rows)
    arms, position = len(task.arms), np.arange(rows)
    rewards = (stream.rewards - low) / (high - low)
    predicted = scores(task, seed, stream.contexts.astype(np.float64))
    logged, target = np.full((rows, arms), 0.2 / arms), np.full((rows, arms), 0.1 / arms)
    logged[position, predicted.argmax(axis=1)] += 0.8
    target[position, (-predicted).argmax(axis=1)] += 0.9
    rng = np.random.default_rng(seed)
    terms: dict[str, list[tuple[Float64, Float64, Float64]]] = {}
    for number in range(logs):
        draws = rng.random((rows, 1))
        arm = (draws > np.cumsum(logged, axis=1)).sum(axis=1).clip(max=arms - 1)
        weight, reward = (target / logged)[position, arm], rewards[position, arm]
        predictions = model_predictions(task, stream, arm, number)
        errors = (weight * (reward - predictions[position, arm])) ** 2
        depth = caps(errors, np.zeros(()), 0.2 / arms)
        limits = depth * 0.2 / arms
        gain, loss = (
            robust_terms(outcome, arm, weight, target, model, limits)
            for outcome, model in ((reward, predictions), (1 - reward, 1 - predictions))
        )
        none = np.zeros(rows)
        for kind, found in {
            "ips": (weight * reward, weight * (1 - reward), none),
            "dr": (gain, loss, depth),
            "ips difference": (weight * reward + 1 - reward, weight * (1 - reward) + reward, none),
            "dr difference": (gain + 1 - reward, loss + reward, depth),
        }.items():
            terms.setdefault(kind, []).append(found)
    steps = np.arange(1, rows + 1)
    value = np.cumsum((target * rewards).sum(axis=1)) / steps
    result = {}
    for kind, own in terms.items():
        gains, losses, depths = (np.array(part).T for part in zip(*own, strict=True))
        is_difference = kind.endswith("difference")
        means: Float64 = np.broadcast_to(value[:, None], gains.shape)
        if is_difference:  # relative to the logging policy's expected rewards
            means = 1 + means - (np.cumsum((logged * rewards).sum(axis=1)) / steps)[:, None]
        total = 2.0 if is_difference else 1.0
        sequence = LowerSequence(2 * logs, largest=total)
        missed = np.zeros(logs, np.bool_)
        for row in range(rows):
            depth = np.concatenate([depths[row], depths[row]])[None, :]
            sequence.add(np.concatenate([gains[row], losses[row]])[None, :], depth)
            below, above = np.split(sequence.bounds(0.025), 2)
            missed |= (below > means[row]) | (total - above < means[row])
        result[kind] = float(1 - missed.mean()), float(np.mean(total - above - below))
    return result


def model_predictions(task: Task, stream: Stream, arm: Int64, seed: int) -> Float64:
    """Return the reward model's predictions for every arm in every row of a log, from earlier rows."""
    names = tuple(range(len(task.arms)))
    bandit = Bandit(names, rewards=task.rewards, exploration=0.0, seed=seed)
    model = RewardModel(bandit, names, reward_range(task.rewards))
    decisions = (
        LoggedDecision(context, int(chosen), float(rewards[chosen]), 1.0)
        for context, chosen, rewards in zip(stream.contexts.tolist(), arm, stream.rewards, strict=True)
    )
    index: dict[Arm, int] = {name: name for name in names}
    parts: list[Chunk] = list(chunks(decisions, index, reward_range(task.rewards)))
    return np.vstack([model.visit(part)[0] for part in parts])


def hillstrom(folder: Path) -> None:
    """Estimate constant policies from a tenth of a uniformly random log, and replay policies on all of it."""
    source = data_directory() / "logged" / "hillstrom.csv.xz"
    with lzma.open(source, "rt", newline="") as file:
        header, *lines = file.read().splitlines()
    names = header.split(",")
    arm, arms = names.index("segment"), ("Mens E-Mail", "No E-Mail", "Womens E-Mail")
    order = np.random.default_rng(0).permutation(len(lines))
    small = folder / "tenth.csv"
    tenth = len(lines) // 10
    small.write_text("\n".join([header, *(lines[i] for i in order[:tenth])]) + "\n")
    rest = [lines[i].split(",") for i in order[tenth:]]
    table = []
    for outcome in ("visit", "spend"):
        arguments = columns(outcome)
        result = evaluate(small, {name: f"arm={name}" for name in arms}, estimators=("snips",), **arguments)
        for name in arms:
            own = result[name].estimates["snips"]
            others = np.array([float(row[names.index(outcome)]) for row in rest if row[arm] == name])
            error = float(others.std(ddof=1) / np.sqrt(len(others)))
            gap, both = own.value - float(others.mean()), float(np.hypot(own.error, error))
            mean = f"{others.mean():.4g} ± {error:.2g}"
            table.append([outcome, name, str(own), mean, f"{gap:+.2g} ± {both:.2g}"])
    print_table(["outcome", "arm", "estimate from 10%", "mean in the rest", "difference"], table)
    policies = ["best-fixed-arm", "glcb", "linucb", "vw-squarecb"]
    for outcome in ("visit", "spend"):
        print(outcome)
        print(evaluate(source, policies, estimators=("dr", "snips"), **columns(outcome)))


def columns(outcome: str) -> dict[str, Any]:
    """Return column options for the Hillstrom data, with this outcome as the reward."""
    ignored = [name for name in ("visit", "conversion", "spend") if name != outcome]
    return {
        "arm_column": "segment",
        "reward_column": outcome,
        "ignore_columns": ignored,
        "logging": "uniform",
    }


def open_bandit() -> None:
    """Evaluate the Thompson sampling of the Open Bandit Dataset on its uniformly random log."""
    folder = data_directory() / "logged"
    shown: dict[int, Counter[int]] = {}
    clicks = rows = 0
    with lzma.open(folder / "openbandit_bts_men.csv.xz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            shown.setdefault(int(row["position"]), Counter())[int(row["item_id"])] += 1
            clicks, rows = clicks + int(row["click"]), rows + 1

    def thompson(context: dict[str, Any]) -> Mapping[Arm, float]:
        counts = shown[context["position"]]
        return {item: count / counts.total() for item, count in counts.items()}

    log = folder / "openbandit_random_men.csv.xz"
    result = evaluate(log, {"thompson": thompson}, estimators=("snips", "ips"))
    print(result)
    print(f"click rate in its own log: {clicks / rows:.4f} ± {np.sqrt(clicks) / rows:.4f} ({clicks} clicks)")


def speed(rows: int) -> None:
    """Print the time and memory of IPS and SNIPS on a large log, whole, and killed and resumed.

    One row in a hundred is damaged in one of three ways.
    """
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.csv"
        write_large_log(path, rows)
        command = [
            *(sys.executable, "-m", "glcb", "evaluate", str(path), "--estimators", "ips,snips"),
            *("--policies", "uniform,arm=3,best-fixed-arm", "--out"),
        ]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = time.perf_counter()
        subprocess.run([*command, f"{name}/whole"], check=True, **quiet)
        wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{rows:,} rows, 3 policies: {wall:.1f} s ({used.ru_utime + used.ru_stime:.1f} s of CPU), "
            f"largest memory {used.ru_maxrss / 1024:.0f} MB"
        )
        folder = Path(name) / "resumed"
        interrupted = subprocess.Popen([*command, str(folder)], **quiet)
        while interrupted.poll() is None and not (folder / "progress").is_dir():
            time.sleep(0.05)
        interrupted.terminate()
        interrupted.wait()
        state = folder / "progress" / "state.json"
        done = json.loads(state.read_text())["chunks"] * CHUNK_ROWS if state.exists() else 0
        subprocess.run([*command, str(folder)], check=True, **quiet)
        whole, resumed = (
            json.loads((Path(name) / own / "evaluation.json").read_text()) for own in ("whole", "resumed")
        )
        same = "equal" if whole == resumed else "different"
        print(f"killed after {done:,} rows and resumed: {same} results")
        print("rejected: " + ", ".join(f"{count:,} × {reason}" for reason, count in whole["refused"].items()))


def write_large_log(path: Path, rows: int) -> None:
    """Write a log whose rows are damaged now and then."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("country,age,arm,reward,propensity\n")
        for start in range(0, rows, 100_000):
            count = min(100_000, rows - start)
            ages, arms = rng.integers(18, 90, count), rng.integers(0, 5, count)
            clicks, damage = rng.random(count) < 0.05, rng.integers(0, 300, count)
            for age, arm, click, kind in zip(ages, arms, clicks, damage, strict=True):
                reward = "?" if kind == 0 else int(click)
                propensity = 1.5 if kind == 1 else 0.2
                extra = "," if kind == 2 else ""
                file.write(f"FR,{age},{arm},{reward},{propensity}{extra}\n")


def agreement() -> bool:
    """Compare the estimators with Open Bandit Pipeline; return False if they differ."""
    try:
        from obp import ope
    except ImportError as error:
        print(f"Open Bandit Pipeline is not compared, because it cannot be imported ({error}).")
        print("Install the package obp. The tests compare with values that obp 0.4.1 returned.")
        return True
    rng = np.random.default_rng(0)
    rows, arms = 5000, 6
    logged, target = rng.dirichlet(np.ones(arms), rows), rng.dirichlet(np.ones(arms), rows)
    logged = 0.1 / arms + 0.9 * logged
    arm = (rng.random((rows, 1)) > np.cumsum(logged, axis=1)).sum(axis=1).clip(max=arms - 1)
    position = np.arange(rows)
    reward, model = rng.random(rows), rng.random((rows, arms))
    propensity = logged[position, arm]
    weight, expected = target[position, arm] / propensity, (target * model).sum(axis=1)
    predicted = model[position, arm]
    data = Rows(reward[:, None], weight[:, None], predicted[:, None], expected[:, None])
    others = {
        "ips": ope.InverseProbabilityWeighting(),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting(),
        "dm": ope.DirectMethod(),
        "dr": ope.DoublyRobust(),
        "switch-dr": ope.SwitchDoublyRobust(tau=MAX_WEIGHT),
        "shrunk-dr": ope.DoublyRobustWithShrinkage(lambda_=MAX_WEIGHT**2),
    }
    table, largest = [], 0.0
    for name, other in others.items():
        sums = EstimateSums(name, 1)
        sums.add(sums.terms(data))
        own = float(sums.estimates()[0])
        theirs = float(
            other.estimate_policy_value(
                reward=reward,
                action=arm,
                pscore=propensity,
                action_dist=target[:, :, None],
                estimated_rewards_by_reg_model=model[:, :, None],
                position=np.zeros(rows, np.int64),
            )
        )
        largest = max(largest, abs(own - theirs))
        table.append([name, f"{own:.12f}", f"{theirs:.12f}", f"{own - theirs:+.1e}"])
    print_table(["estimator", "glcb", "obp", "difference"], table)
    return largest < 1e-9


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("accuracy", "coverage", "real", "speed", "obp"))
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/evaluation.jsonl"))
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.part == "accuracy":
        accuracy(arguments.logs, arguments.rows or 2000, arguments.tasks.split(","), arguments.out)
    elif arguments.part == "coverage":
        coverage(arguments.logs, arguments.rows or 500)
    elif arguments.part == "real":
        with tempfile.TemporaryDirectory() as folder:
            hillstrom(Path(folder))
        open_bandit()
    elif arguments.part == "obp":
        sys.exit(0 if agreement() else "the estimates differ from those of Open Bandit Pipeline")
    else:
        speed(arguments.rows or 1_000_000)


if __name__ == "__main__":
    main()

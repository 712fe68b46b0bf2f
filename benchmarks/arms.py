"""Arms with features: rewards, newcomers, times and memory, beside Vowpal Wabbit.

    python -m benchmarks.arms rewards --seeds 10
    python -m benchmarks.arms newcomer --seeds 10
    python -m benchmarks.arms times
    python -m benchmarks.arms memory
    python -m benchmarks.arms propensities
    python -m benchmarks.arms wide

``rewards`` compares the shared learner with a network per arm, shared LinUCB and Vowpal Wabbit on the tasks
of ``glcb.tasks.arm_features``; ``newcomer`` measures how soon a new arm gets its share of the decisions;
``wide`` measures the times of contexts with an embedding.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from glcb import GLCB, Bandit, LinUCB
from glcb._arrays import Float32, Float64
from glcb.bandit.ranking import Exploration, draw_slots
from glcb.policies import Estimates
from glcb.policies.shared import Candidates, OwnCorrections, estimate_candidates, join
from glcb.tasks.arm_features import ArmCatalog, ArmStream, ModelRouting


class Learner(Protocol):
    """Chooses one of the available arms and learns its reward."""

    def choose(self, x: Float32, available: list[int]) -> int:
        """Return one of the available arms."""

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of the arm that was chosen last."""


class Shared:
    """One policy for all arms, with or without what each arm has learned for itself."""

    def __init__(self, policy: Any, arms: Float32, own: OwnCorrections | None = None) -> None:
        self._policy, self._own, self._all = policy, own, Candidates(arms)
        self._rng = np.random.default_rng(0)

    def choose(self, x: Float32, available: list[int]) -> int:
        """Return the arm with the best score."""
        estimates = estimate_candidates(self._policy, x, self._all.take(available))
        if self._own is not None:
            estimates = self._own.correct(x, tuple(available), estimates)
        scores = estimates.values + estimates.bonuses
        return available[int(self._rng.choice(np.flatnonzero(scores == scores.max())))]

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of an arm."""
        joint = join(x, self._all, arm)
        if self._own is not None:
            self._own.learn(x, arm, reward, float(self._policy.estimate(joint).values[0]))
        self._policy.learn(joint, 0, reward)


class PerArm:
    """A policy with its own networks for each arm."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def choose(self, x: Float32, available: list[int]) -> int:
        """Return the arm with the best score."""
        chosen: int = self._policy.decide(x, eligible=available).arm
        return chosen

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of an arm."""
        self._policy.learn(x, arm, reward)


class VowpalWabbit:
    """SquareCB of Vowpal Wabbit, with the features of context and arm crossed."""

    def __init__(self, arms: Float32, low: float, high: float, seed: int) -> None:
        from vowpalwabbit import Workspace

        self._workspace: Any = Workspace("--cb_explore_adf --squarecb -q ca --quiet -b 20")
        self._lines = [f"|a {_features(row)}" for row in arms]
        self._low, self._span = low, high - low
        self._rng = np.random.default_rng(seed)
        self._last: tuple[list[int], int, float] = ([], 0, 1.0)

    def choose(self, x: Float32, available: list[int]) -> int:
        """Draw an arm from the probabilities of Vowpal Wabbit."""
        lines = [f"shared |c {_features(x)}", *(self._lines[arm] for arm in available)]
        probabilities = np.array(self._workspace.predict(lines), float)
        chosen = int(self._rng.choice(len(available), p=probabilities / probabilities.sum()))
        self._last = (available, chosen, float(probabilities[chosen]))
        return available[chosen]

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of the arm that was chosen last."""
        available, chosen, probability = self._last
        lines = [f"shared |c {_features(x)}", *(self._lines[other] for other in available)]
        cost = 1 - (reward - self._low) / self._span
        lines[1 + chosen] = f"0:{cost}:{probability} {lines[1 + chosen]}"
        self._workspace.learn(lines)


def _features(row: Float32) -> str:
    return " ".join(f"{i}:{value:.5g}" for i, value in enumerate(row.tolist()))


def learners(stream: ArmStream, rewards: Any, seed: int) -> dict[str, Callable[[], Learner]]:
    """Return a function for each learner that creates it."""
    context, features = stream.contexts.shape[1], stream.arms.shape[1]
    low, high = (0.0, 1.0) if rewards == "binary" else rewards
    joint = context + features

    def glcb() -> GLCB:
        return GLCB(1, joint, rewards=rewards, seed=seed)

    both: dict[str, Callable[[], Learner]] = {}
    if rewards == "binary":
        both["shared and own"] = lambda: Shared(glcb(), stream.arms, OwnCorrections(context))
    return {
        **both,
        "shared only": lambda: Shared(glcb(), stream.arms),
        "own only": lambda: PerArm(GLCB(len(stream.arms), context, rewards=rewards, seed=seed)),
        "shared LinUCB": lambda: Shared(LinUCB(1, joint, rewards=rewards, seed=seed), stream.arms),
        "Vowpal Wabbit": lambda: VowpalWabbit(stream.arms, low, high, seed),
    }


def total_reward(learner: Learner, stream: ArmStream) -> float:
    """Return the total reward of a learner on a stream."""
    total = 0.0
    for x, rewards, available in zip(stream.contexts, stream.rewards, stream.available, strict=True):
        arm = learner.choose(x, np.flatnonzero(available).tolist())
        total += rewards[arm]
        learner.learn(x, arm, float(rewards[arm]))
    return total


def _shown(numbers: list[float]) -> str:
    error = statistics.stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else float("nan")
    return f"{statistics.mean(numbers):8,.0f} ± {error:,.0f}"


def compare_rewards(seeds: range, steps: int, tasks: list[str], names: list[str] | None) -> None:
    """Print the total reward of every learner on every task."""
    for task in (ArmCatalog, ModelRouting):
        if tasks and task.name not in tasks:
            continue
        source = task()
        results: dict[str, list[float]] = {}
        for seed in seeds:
            stream = source.stream(seed, steps)
            results.setdefault("best", []).append(stream.optimum)
            results.setdefault("uniform", []).append(stream.uniform)
            for name, make in learners(stream, source.rewards, seed).items():
                if not names or name in names:
                    results.setdefault(name, []).append(total_reward(make(), stream))
        print(f"{task.name}, {steps:,} steps, {len(seeds)} seeds")
        for name, totals in results.items():
            print(f"  {name:<16}{_shown(totals)}", flush=True)


def newcomer(
    seeds: range, known: int = 200, arrival: int = 3000, steps: int = 6000, window: int = 100
) -> None:
    """Print how soon a new arm is chosen where it is the best, and not elsewhere.

    Each request has ten of 200 arms, and from the middle of the run on also a new one, which is the best in
    about a quarter of the requests. Measured is its share of the requests in which it is the best, minus its
    share of the others, within a window: after how many decisions it is 90% of what ``add_arm`` has in the
    last quarter of the run.
    """
    waits: dict[str, list[float]] = {"shared and own": [], "add_arm": []}
    finals: dict[str, list[float]] = {name: [] for name in waits}
    half = (steps - arrival) // 2
    for seed in seeds:
        rng = np.random.default_rng((seed, 22))
        contexts, arms = rng.random((steps, 12), np.float32), rng.random((known + 50, 6), np.float32)
        bilinear = rng.standard_normal((6, 6))
        logits = 1.5 * (2 * contexts[:, :6] - 1) @ bilinear @ (2 * arms - 1).T - 1.5
        logits += 0.3 * rng.standard_normal(known + 50)
        requests = np.array([rng.choice(known, 10, replace=False) for _ in range(steps)])
        rivals = np.take_along_axis(logits, requests, axis=1).max(axis=1, keepdims=True)
        shares = (logits[:, known:] > rivals).mean(axis=0)
        new = known + int(np.abs(shares - 0.25).argmin())
        best = logits[arrival:, new] > rivals[arrival:, 0]
        wins = rng.random((steps, 1)) < 1 / (1 + np.exp(-logits))
        skills: dict[str, Float64] = {}
        for name in waits:
            shared = name == "shared and own"
            policy = GLCB(1, 18, seed=seed) if shared else GLCB(known, 12, seed=seed)
            learner: Learner = Shared(policy, arms, OwnCorrections(12)) if shared else PerArm(policy)
            picked_all = []
            for step in range(steps):
                if step == arrival and not shared:
                    policy.add_arm(new)
                available = [*requests[step].tolist(), *([new] if step >= arrival else [])]
                arm = learner.choose(contexts[step], available)
                picked_all.append(arm == new)
                learner.learn(contexts[step], arm, float(wins[step, arm]))
            picked = np.array(picked_all[arrival:])
            kernel = np.ones(window)
            right = np.convolve(picked & best, kernel, "valid") / np.convolve(best, kernel, "valid")
            wrong = np.convolve(picked & ~best, kernel, "valid") / np.convolve(~best, kernel, "valid")
            skill = right - wrong
            skills[name] = skill
            finals[name].append(float(picked[half:][best[half:]].mean() - picked[half:][~best[half:]].mean()))
        for name, skill in skills.items():
            reached = np.flatnonzero(skill >= 0.9 * finals["add_arm"][-1])
            waits[name].append(float(reached[0] + window if reached.size else steps - arrival))
    print(f"a new arm in a catalog of {known}, {len(seeds)} seeds")
    for name in waits:
        print(f"  {name:<16}{_shown(waits[name])} decisions; finally {statistics.mean(finals[name]):.0%}")


def _milliseconds(function: Callable[[], object], repetitions: int) -> float:
    function()
    durations = []
    for _ in range(repetitions):
        start = time.process_time()  # other processes do not affect it
        function()
        durations.append(time.process_time() - start)
    return 1000 * statistics.median(durations)


def times(repetitions: int) -> None:
    """Print the time of a decision by number of candidates, with 50 features of the context and the arm."""
    print("CPU milliseconds per decision; 50 context features, 50 features per arm; median")
    print("  candidates   catalog  per request  Vowpal Wabbit")
    for count in (10, 100, 1000, 10_000):
        _print_times(count, max(3, repetitions // max(1, count // 100)))


def _print_times(count: int, runs: int) -> None:
    from vowpalwabbit import Workspace

    rng = np.random.default_rng(0)
    catalog = {f"m{i}": {"v": row.tolist()} for i, row in enumerate(rng.random((count, 50)))}
    bandit = Bandit(arms=catalog)
    for _ in range(100):
        decision = bandit.decide({"c": rng.random(50).tolist()})
        bandit.reward(decision.id, int(rng.integers(2)))
    context = {"c": rng.random(50).tolist()}
    workspace = Workspace("--cb_explore_adf --squarecb -q ca --quiet -b 20")
    lines = [f"|a {_features(np.array(each['v'], np.float32))}" for each in catalog.values()]
    shared = f"shared |c {_features(rng.random(50).astype(np.float32))}"
    ours = _milliseconds(lambda: bandit.decide(context), runs)
    request = _milliseconds(lambda: bandit.decide(context, arms=catalog), runs)
    theirs = _milliseconds(lambda: workspace.predict([shared, *lines]), runs)
    print(f"  {count:>10,}{ours:>10.2f}{request:>13.2f}{theirs:>15.2f}", flush=True)


def memory(names: int) -> None:
    """Print the memory of a bandit before and after many different names of arms."""
    rng = np.random.default_rng(0)
    bandit, start = Bandit(arms={}), 0
    for first in range(0, names, 10):
        arms = {f"m{first + i}": {"price": float(rng.random()), "genre": f"g{first % 7}"} for i in range(10)}
        bandit.reward(bandit.decide({"age": first % 60}, arms=arms).id, first % 3 == 0)
        if first == 20_000:
            start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{start / 1024:.0f} MiB after 20,000 names, {end / 1024:.0f} MiB after {names:,}")


def wide(repetitions: int) -> None:
    """Print the time of a decision and of an update with 9 arms, by the length of a vector in the context."""
    for width in (64, 128, 384, 768, 1536, 3072):
        bandit, rng = Bandit(9), np.random.default_rng(0)
        decide, learn = [], []
        for _ in range(50 + repetitions):
            context = {"words": float(rng.random()), "embedding": rng.standard_normal(width)}
            start = time.process_time()
            decision = bandit.decide(context)
            middle = time.process_time()
            bandit.reward(decision.id, 1)
            learn.append(time.process_time() - middle)
            decide.append(middle - start)
        medians = [1e6 * statistics.median(numbers[50:]) for numbers in (decide, learn)]
        print(f"{width:5} numbers: {medians[0]:6.0f} µs to decide, {medians[1]:6.0f} µs to learn", flush=True)


def propensities(draws: int) -> None:
    """Print χ² of observed against stated propensities of rankings, for k of 10 arms, also with ties."""
    rng = np.random.default_rng(0)
    for title, values in (("distinct", rng.random(10)), ("ties", np.array([0.5] * 4 + [0.2] * 6))):
        for k in (1, 3, 5):
            _print_chi_square(title, values, k, draws, rng)


def _print_chi_square(title: str, values: Float64, k: int, draws: int, rng: np.random.Generator) -> None:
    estimates = Estimates(values, np.zeros(10), np.ones(10))
    exploration = Exploration(0.3, "gap", uniform=False, focused=True)
    observed: Float64 = np.zeros((k, 10))
    stated: Float64 = np.zeros((k, 10))
    for _ in range(draws):
        for slot, drawn in enumerate(draw_slots(lambda _: estimates, None, k, exploration, rng)):
            observed[slot, drawn.chosen] += 1
            stated[slot] += drawn.probabilities
    chi_square = float(((observed - stated) ** 2 / np.maximum(stated, 1e-9)).sum())
    print(f"{title:<9} k={k}: χ² {chi_square:.1f} with {9 * k} degrees of freedom", flush=True)


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["rewards", "newcomer", "times", "memory", "propensities", "wide"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--learners", nargs="*", default=[])
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.what == "rewards":
        compare_rewards(seeds, options.steps, options.tasks, options.learners)
    elif options.what == "newcomer":
        newcomer(seeds)
    elif options.what == "times":
        times(options.repetitions)
    elif options.what == "memory":
        memory(options.names)
    elif options.what == "wide":
        wide(options.repetitions)
    else:
        propensities(options.draws)


if __name__ == "__main__":
    main()

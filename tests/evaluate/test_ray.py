"""Evaluating a log of several files, in one process and on a Ray cluster."""

import errno
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from glcb import Bandit, InvalidSettings, LogError, MissingExtra, _ray
from glcb._ray import connected
from glcb._version import __version__
from glcb.cli import app
from glcb.evaluate import Frozen, api, evaluate, ray_executor
from tests.evaluate.logs import ARMS, rows, rule, write

# Ray starts processes by forking, and other tests may have imported JAX, which warns of that.
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("log")
    parts = [rows(count, seed) for seed, count in enumerate((1200, 700, 1100))]
    parts[1].append({"arm": "news", "context": {"age": 0.5}, "propensity": 0.5})
    return [write(folder / f"{number}.jsonl", part) for number, part in enumerate(parts)]


@pytest.fixture(scope="module")
def connection() -> Iterator[None]:
    """Connect once: starting Ray takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # these workers would not be used
        with connected("local", cores=2, object_store=100_000_000):
            yield


def trained(policy: str) -> Bandit:
    bandit = Bandit(arms=ARMS, policy=policy)
    for row in rows(100, seed=9):
        decision = bandit.decide(row["context"])
        bandit.reward(decision.id, float(decision.arm == "games"))
    return bandit


def policies() -> dict[str, Any]:
    return {
        "linucb": "linucb",
        "best": "best-fixed-arm",
        "games": "arm=games",
        "rule": rule,
        "frozen": Frozen(trained("linucb")),
        "frozen and randomized": Frozen(trained("lints")),
    }


@pytest.fixture(scope="module")
def local(files: list[Path]) -> dict[str, Any]:
    return evaluate(files, policies()).to_dict()


# ---- several files ----------------------------------------------------------------------------------


def test_several_files_are_one_log(files: list[Path], local: dict[str, Any], tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(path.read_bytes() for path in files))
    joined = evaluate(whole, policies()).to_dict()
    assert local["rows"] == joined["rows"] == 3000
    assert local["arms"] == joined["arms"]
    for own, other in zip(local["policies"], joined["policies"], strict=True):
        for name, estimate in own["estimates"].items():
            assert estimate["value"] == pytest.approx(other["estimates"][name]["value"], rel=1e-9)
        assert own["sequence"] == pytest.approx(other["sequence"], rel=1e-9)


def test_a_refused_row_is_named_with_its_file(files: list[Path], local: dict[str, Any]) -> None:
    assert local["refused"] == {"missing reward": 1}
    assert local["examples"]["missing reward"].startswith(f"{files[1]}, row 701: ")


def test_a_file_that_is_named_twice_is_refused(files: list[Path]) -> None:
    with pytest.raises(InvalidSettings, match=r"1\.jsonl is named twice"):
        evaluate([*files, files[1]], ["uniform"])


def test_the_local_executor_has_neither_address_nor_jobs(files: list[Path]) -> None:
    with pytest.raises(
        InvalidSettings, match=r"'local' has no address: pass executor='ray' \(--executor ray\)"
    ):
        evaluate(files, ["uniform"], address="127.0.0.1:6379")
    with pytest.raises(
        InvalidSettings, match=r"'local' uses one process: pass executor='ray' \(--executor ray\)"
    ):
        evaluate(files, ["uniform"], jobs=2)
    with pytest.raises(InvalidSettings, match="there is no executor 'spark'"):
        evaluate(files, ["uniform"], executor="spark")  # type: ignore[arg-type]


@pytest.mark.parametrize("jobs", [0, -1])
def test_fewer_jobs_than_one_are_refused_before_anything_starts(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr("glcb._ray.connected", lambda *arguments, **others: pytest.fail("it has started"))
    with pytest.raises(InvalidSettings, match=f"jobs must be at least 1, got {jobs}"):
        evaluate(files, ["uniform"], executor="ray", jobs=jobs)


def test_without_ray_the_error_names_the_extra(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb._ray.find_spec", lambda package: None)
    result = CliRunner().invoke(app, ["evaluate", *map(str, files), "--executor", "ray"])
    assert isinstance(result.exception, MissingExtra)
    assert "'.[ray]'" in str(result.exception)


# ---- Ray --------------------------------------------------------------------------------------------


@pytest.mark.ray
@pytest.mark.parametrize("policy", ["lints", "squarecb", "epsilon-greedy"])
def test_a_frozen_policy_draws_the_same_random_numbers_in_tasks(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    def run_here(function: Callable[[Any], Any], queue: deque[Any], jobs: int | None) -> Iterator[Any]:
        while queue:
            task = queue.popleft()
            yield task, function(task)

    monkeypatch.setattr("glcb._ray.connected", lambda address, cores: nullcontext())
    monkeypatch.setattr(ray_executor, "require_files", lambda paths: None)
    monkeypatch.setattr(ray_executor, "capacity", lambda jobs: 2)
    monkeypatch.setattr(ray_executor, "run_tasks", run_here)
    frozen, fast = {"frozen": Frozen(trained(policy))}, ("ips",)
    expected = evaluate(files, frozen, estimators=fast).to_dict()
    assert evaluate(files, frozen, estimators=fast, executor="ray").to_dict() == expected


@pytest.mark.ray
def test_a_node_of_another_version_does_not_load_its_task() -> None:
    node, version, result = _ray._call("9.9", b"not a pickle")
    assert version == __version__
    assert result is None
    with pytest.raises(
        InvalidSettings, match=rf"node {node} has glcb 0\.1: install glcb {__version__} there"
    ):
        _ray._checked(node, "0.1", result)


def test_a_file_that_must_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(LogError, match=r"cannot read .*log\.jsonl: Permission denied"):
        _ray.require_files([tmp_path / "log.jsonl"])


@pytest.mark.live
@pytest.mark.ray
def test_ray_gives_the_same_results_although_a_process_dies(
    connection: None, files: list[Path], local: dict[str, Any], tmp_path: Path
) -> None:
    driver, died = os.getpid(), tmp_path / "died"

    def die_once(context: dict[str, float]) -> str:
        assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
        if not died.exists():
            assert os.getpid() != driver
            died.touch()
            os._exit(1)
        return rule(context)

    shares: list[float] = []
    found = evaluate(
        files,
        policies() | {"rule": die_once},
        executor="ray",
        progress=lambda stage, share: shares.append(share) if stage == "evaluating" else None,
    )
    assert died.exists()
    assert found.to_dict() == local
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.live
@pytest.mark.ray
@pytest.mark.parametrize(("first", "second"), [("local", "ray"), ("ray", "local")])
def test_an_executor_continues_what_another_one_began(
    connection: None,
    files: list[Path],
    local: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Any,
    second: Any,
) -> None:
    monkeypatch.setattr(api, "_CHECKPOINT_SECONDS", -1.0)
    folder = tmp_path / "progress"

    def interrupt(stage: str, share: float) -> None:
        state = folder / "state.json"
        if state.exists() and json.loads(state.read_text())["chunks"] > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(files, policies(), checkpoint_folder=folder, progress=interrupt, executor=first)
    found = evaluate(files, policies(), checkpoint_folder=folder, executor=second)
    assert found.to_dict() == local
    assert not folder.exists()


@pytest.mark.live
@pytest.mark.ray
def test_the_error_of_a_policy_is_raised_as_it_is(connection: None, files: list[Path]) -> None:
    def wrong(context: dict[str, float]) -> str:
        raise ZeroDivisionError("age")

    with pytest.raises(ZeroDivisionError, match="age"):
        evaluate(files, {"wrong": wrong}, executor="ray", estimators=("ips",))


@pytest.mark.live
@pytest.mark.ray
def test_a_node_that_joins_with_another_version_ends_the_evaluation(
    connection: None, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "require_files", lambda paths: None)  # it was not there yet
    monkeypatch.setattr(_ray, "__version__", "9.9")  # here, but not in the workers
    with pytest.raises(InvalidSettings, match=r"node .* has glcb .*: install glcb 9\.9 there"):
        evaluate(files, ["uniform"], executor="ray")


@pytest.mark.live
@pytest.mark.ray
def test_a_node_without_a_file_is_named_before_anything_runs(
    connection: None, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(LogError, match=r"cannot read .*missing\.jsonl: there is no such file"):
        evaluate([*files, missing], ["uniform"], executor="ray")
    monkeypatch.setattr("glcb._ray._size", lambda path: 17)  # here, but not in the workers
    with pytest.raises(
        LogError, match=r"node .* cannot read .*missing\.jsonl \(there is no such file\): share"
    ):
        evaluate([missing], ["uniform"], executor="ray")
    with pytest.raises(LogError, match=r"node .* has another file .*0\.jsonl: share its folder"):
        evaluate(files, ["uniform"], executor="ray")


@pytest.mark.live
@pytest.mark.ray
def test_the_command_says_where_the_files_are_read(connection: None, files: list[Path]) -> None:
    arguments = ["evaluate", *map(str, files), "--policies", "uniform", "--estimators", "snips"]
    result = CliRunner().invoke(app, [*arguments, "--executor", "ray", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert f"every node reads its files in {files[0].parent}; nothing is copied" in result.output
    assert "3,000 decisions, 3 arms, 1 rows rejected" in result.output

"""Evaluations of other policies on the log of an experiment."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from benchmarks.service import postgres
from glcb import Bandit
from glcb._api.requests import (
    DEFAULT_ESTIMATORS,
    EstimatorName,
    NewArm,
    encode,
)
from glcb._api.responses import EvaluationResult
from glcb._errors import StorageError
from glcb.evaluate import Evaluation, estimators, evaluate
from glcb.evaluate.evaluation import DEFAULT_ESTIMATORS as LIBRARY_DEFAULTS
from glcb.service.evaluations import worker
from glcb.service.storage import evaluations as stored
from glcb.service.storage import tables
from glcb.service.storage.database import Database
from tests.support.asgi import E, Service, create_experiment, running_service
from tests.support.builders import open_test_database
from tests.support.evaluation_jobs import job, recorded, stored_in

EVALUATIONS = f"{E}/evaluations"


# ---- results --------------------------------------------------------------------------------------


def assert_same(result: EvaluationResult, expected: Evaluation) -> None:
    """Assert that a result of the service has the numbers of the library."""
    assert result.conclusion == expected.conclusion
    assert result.rows == expected.rows
    assert result.arms == {str(arm): count for arm, count in expected.arms.items()}
    assert result.refused == expected.refused
    ours = [*result.policies, *result.replays]
    theirs = [*expected.policies, *expected.replays]
    assert [one.name for one in ours] == [one.name for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for values, others in ((one.estimates, other.estimates), (one.differences, other.differences)):
            assert {name: own.value for name, own in values.items()} == {
                name: own.value for name, own in others.items()
            }
        assert [tuple(own) for own in other.diagnostics] == [
            (own.name, own.level, own.message) for own in one.diagnostics
        ]
        assert (one.rows, one.effective_rows, one.match_rate) == (
            other.rows,
            other.effective_rows,
            other.match_rate,
        )
        intervals = (one.interval, one.difference_interval, one.betting_interval)
        assert [None if ends is None else (ends.low, ends.high) for ends in intervals] == [
            other.sequence,
            other.difference_sequence,
            other.betting_sequence,
        ]
        assert [(own.rows, own.value, own.low, own.high) for own in one.curve] == [
            tuple(own) for own in other.curve
        ]


@pytest.fixture
def normal_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process of an evaluation compete with other tests on equal terms."""
    *start, program = worker.COMMAND
    assert "os.nice(10); " in program
    monkeypatch.setattr(worker, "COMMAND", (*start, program.replace("os.nice(10); ", "")))


@pytest.mark.usefixtures("normal_priority")
async def test_an_evaluation_equals_that_of_the_exported_log(service: Service, tmp_path: Path) -> None:
    await create_experiment(service, exploration=0.3, holdout=0.1)
    draw = random.Random(4)
    contexts = [{"age": draw.random(), "country": draw.choice("AB")} for _ in range(1200)]
    for start in (0, 600):
        body = {"decisions": [{"context": context} for context in contexts[start : start + 600]]}
        made = (await service.ask("POST", f"{E}/decisions/batch", body)).data["results"]
        earned = [{"id": one["id"], "value": float(one["arm"] == "b")} for one in made[:590]]
        await service.ask("POST", f"{E}/rewards", {"rewards": earned})
    asked = {
        "policies": {
            "linucb": "linucb",
            "other": {"exploration": 0.02, "half_life": 500, "without": ["c"]},
            "best": "best-fixed-arm",
            "a": "arm=a",
        },
        "estimators": ["snips", "ips"],
        "reference": "linucb",
        "constant_values": True,
        "seed": 3,
    }
    answer = await service.ask("POST", EVALUATIONS, asked)
    assert answer.status == 202
    number = answer.data["id"]
    while (shown := (await service.ask("GET", f"{EVALUATIONS}/{number}")).data)["state"] != "finished":
        assert shown["reason"] is None
        await asyncio.sleep(0.1)
    assert shown["request"]["policies"] == asked["policies"]
    assert shown["created_at"] <= shown["started_at"] <= shown["finished_at"]
    assert (shown["progress"], shown["reason"]) == (None, None)
    log = tmp_path / "export.jsonl"
    log.write_bytes((await service.ask("GET", f"{E}/export")).content)
    expected = evaluate(
        log,
        {
            "linucb": Bandit(["a", "b", "c"], policy="linucb", exploration=0.3, seed=3),
            "other": Bandit(["a", "b"], policy="linucb", exploration=0.02, half_life=500, seed=3),
            "best": "best-fixed-arm",
            "a": "arm=a",
        },
        estimators=["snips", "ips"],
        reference="linucb",
        constant_values=True,
        seed=3,
    )
    result = msgspec.convert(shown["result"], EvaluationResult)
    assert_same(result, expected)
    assert result.refused == {"no reward": 20}
    first, *_, last = [point.at for point in result.policies[0].curve]
    assert result.first_at < first < last == result.last_at
    listed = (await service.ask("GET", EVALUATIONS)).data
    assert listed["next"] is None
    (summary,) = listed["evaluations"]
    assert summary == {**shown, "result": None}
    assert summary["conclusion"] == expected.conclusion
    assert (await service.ask("DELETE", f"{EVALUATIONS}/{number}")).status == 204
    assert (await service.ask("GET", f"{EVALUATIONS}/{number}")).code == "unknown_evaluation"


def test_the_default_estimators_and_arms_with_numbers_as_names(tmp_path: Path) -> None:
    experiment = recorded(120, arms=["10", "9"])
    database = open_test_database(tmp_path)
    number = stored_in(database, experiment)
    asked = job(database, number, experiment, policies=["linucb", "arm=9"], replay=False)
    sent: list[worker.Message] = []
    result = worker.evaluate(asked, sent.append)
    assert tuple(result.policies[1].estimates) == DEFAULT_ESTIMATORS == LIBRARY_DEFAULTS
    assert result.policies[2].shares == {"9": 1.0, "10": 0.0}
    assert result.replays == ()
    assert [(own.progress.stage, own.progress.total) for own in sent if own.progress] == [("evaluating", 120)]


def test_an_arm_that_was_added_later_is_not_expected_before(tmp_path: Path) -> None:
    experiment = recorded(400, exploration_mode="uniform")
    experiment.apply("add_arm", NewArm(name="d"))
    for age in range(100):
        experiment.reward(experiment.decide({"age": age / 100}).id, 0)
    database = open_test_database(tmp_path)
    number = stored_in(database, experiment)
    result = worker.evaluate(job(database, number, experiment, policies=["uniform"], estimators=("snips",)))
    assert result.level == "ok", result.diagnostics
    assert 0 < result.policies[1].shares["d"] < 0.1  # a quarter of a fifth


def test_every_estimator_of_the_library_can_be_asked_for() -> None:
    assert set(get_args(EstimatorName)) == set(estimators.NAMES)


# ---- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"policies": []}, "invalid_request", "length >= 1"),
        ({"policies": ["nope"]}, "invalid_settings", "no policy 'nope'"),
        ({"policies": ["logged"]}, "invalid_settings", "choose another name"),
        ({"policies": ["arm=z"]}, "unknown_arm", "the arms are 'a', 'b', 'c'"),
        ({"policies": {"x": {"without": ["z"]}}}, "unknown_arm", "'z'"),
        ({"policies": {"x": {"without": ["a", "b", "c"]}}}, "invalid_settings", "at least one arm"),
        ({"policies": {"x": {"exploration": 7}}}, "invalid_settings", "exploration"),
        ({"policies": {"x": {"policy_settings": {"width": 3}}}}, "invalid_settings", "width"),
        ({"policies": {"x": {"arms": ["a"]}}}, "invalid_request", "arms"),
        ({"policies": [f"arm={n}" for n in range(21)]}, "too_many", "at most 20 policies"),
        ({"policies": ["uniform"], "reference": "x"}, "invalid_settings", "reference"),
        ({"policies": ["uniform"], "estimators": ["best"]}, "invalid_request", "best"),
        ({"policies": ["uniform"], "max_ratio": 0.5}, "invalid_request", "max_ratio"),
        ({"policies": ["uniform"], "seed": -1}, "invalid_request", "seed"),
        ({"policies": ["uniform"], "after": "2026-01-01T00:00:00"}, "invalid_request", "timezone"),
    ],
)
async def test_bad_requests_start_nothing(service: Service, body: Any, code: str, message: str) -> None:
    await create_experiment(service)
    answer = await service.ask("POST", EVALUATIONS, body)
    assert (answer.status, answer.code) == (422, code)
    assert message in answer.message
    assert (await service.ask("GET", EVALUATIONS)).data == {"evaluations": [], "next": None}


async def test_unknown_evaluations_and_bad_queries(service: Service) -> None:
    await create_experiment(service)
    for method in ("GET", "DELETE"):
        for number in ("1", "x", "9" * 30):
            answer = await service.ask(method, f"{EVALUATIONS}/{number}")
            assert (answer.status, answer.code) == (404, "unknown_evaluation")
    for query in ("limit=0", "limit=101", "limit=x", "before=-1", "after=1"):
        assert (await service.ask("GET", EVALUATIONS, query=query)).code == "invalid_request"
    missing = EVALUATIONS.replace("home", "nowhere")
    assert (await service.ask("POST", missing, {"policies": ["uniform"]})).code == "unknown_experiment"


# ---- the queue ------------------------------------------------------------------------------------

SLEEPER = "import time; time.sleep(60)"
UNIFORM = {"policies": ["uniform"]}


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that replaces the program of the process, which gets the job on standard input."""

    def replace(program: str) -> None:
        monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-S", "-c", program))

    replace(SLEEPER)
    return replace


async def start(service: Service, path: str = EVALUATIONS) -> int:
    answer = await service.ask("POST", path, UNIFORM)
    assert answer.status == 202, answer.content
    return int(answer.data["id"])


async def show(service: Service, number: int, until: str | None = None) -> Any:
    """Return an evaluation, once it has a state."""
    while True:
        info = (await service.ask("GET", f"{EVALUATIONS}/{number}")).data
        if until in (None, info["state"]):
            return info
        assert info["finished_at"] is None, info
        await asyncio.sleep(0.01)


def children() -> list[int]:
    """Return the processes that this one has started and that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes()
            if int(parent) == os.getpid() and state != "Z" and b"-S" in command.split(b"\0"):
                found.append(int(folder.name))
    return found


async def started(service: Service, number: int) -> int:
    """Return the process of an evaluation."""
    await show(service, number, "running")
    while not children():
        await asyncio.sleep(0.01)
    (pid,) = children()
    return pid


@pytest.mark.usefixtures("process")
async def test_one_evaluation_runs_at_a_time_and_few_are_queued(tmp_path: Path) -> None:
    async with running_service(tmp_path, max_evaluations=3) as service:
        await create_experiment(service)
        first, second, third = [await start(service) for _ in range(3)]
        await started(service, first)
        assert (await show(service, second))["state"] == "queued"
        refused = await service.ask("POST", EVALUATIONS, UNIFORM)
        assert (refused.status, refused.code) == (422, "too_many")
        assert (await service.ask("DELETE", f"{EVALUATIONS}/{second}")).status == 204  # while it is queued
        assert (await show(service, second))["started_at"] is None
        assert (await service.ask("DELETE", f"{EVALUATIONS}/{first}")).status == 204  # while it is running
        canceled = await show(service, first)
        assert (canceled["state"], canceled["reason"]) == ("canceled", "it was canceled")
        await started(service, third)
        states = [one["state"] for one in (await service.ask("GET", EVALUATIONS)).data["evaluations"]]
        assert states == ["running", "canceled", "canceled"]
        page = (await service.ask("GET", EVALUATIONS, query="limit=2")).data
        assert [one["id"] for one in page["evaluations"]] == [third, second]
        page = (await service.ask("GET", EVALUATIONS, query=f"limit=2&before={page['next']}")).data
        assert [one["id"] for one in page["evaluations"]] == [first]
        assert page["next"] is None
        metrics = (await service.ask("GET", "/metrics")).content
        assert b"glcb_evaluations_active 1.0" in metrics
        assert b'glcb_evaluations_total{state="canceled"} 2.0' in metrics
    assert children() == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("raise SystemExit(3)", "ended with the status 3"),
        ('print(\'{"failure": "event 5 was altered"}\')', "event 5 was altered"),
        ("print('nonsense')", "JSON"),
    ],
)
async def test_a_process_that_ends_without_a_result(
    tmp_path: Path, process: Callable[[str], None], program: str, reason: str
) -> None:
    process(program)

    async with running_service(tmp_path) as service:
        await create_experiment(service)
        failed = await show(service, await start(service), "failed")
        assert reason in failed["reason"]
        assert failed["result"] is None
        await service.ask("POST", f"{E}/decisions", {"context": {"age": 1}})
        process(SLEEPER)
        await started(service, await start(service))  # the next one runs


@pytest.mark.usefixtures("process")
async def test_a_process_that_is_killed_and_a_command_that_does_not_exist(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_experiment(service)
    number = await start(service)
    os.kill(await started(service, number), signal.SIGKILL)
    assert "SIGKILL" in (await show(service, number, "failed"))["reason"]
    monkeypatch.setattr(worker, "COMMAND", (str(tmp_path / "missing"),))
    number = await start(service)
    assert "cannot be started" in (await show(service, number, "failed"))["reason"]


async def test_progress_is_shown(tmp_path: Path, process: Callable[[str], None]) -> None:
    report = {"progress": {"stage": "evaluating", "done": 5, "total": 9}}
    process(f"import time; print({json.dumps(report)!r}, flush=True); time.sleep(60)")

    async with running_service(tmp_path) as service:
        await create_experiment(service)
        number = await start(service)
        await started(service, number)
        while (shown := (await show(service, number))["progress"]) is None:
            await asyncio.sleep(0.01)
        assert shown == report["progress"]


RESULT = encode(
    worker.Message(
        conclusion="No policy is better.",
        level="error",
        result=msgspec.Raw(
            encode(
                EvaluationResult(
                    conclusion="No policy is better.",
                    level="error",
                    rows=5,
                    first_at=datetime.fromtimestamp(0, UTC),
                    last_at=datetime.fromtimestamp(9, UTC),
                    arms={},
                    reference="logged",
                    policies=(),
                    replays=(),
                    diagnostics=(),
                    refused={},
                    examples={},
                    notes=(),
                )
            )
        ),
    )
)


async def test_evaluations_survive_a_restart(tmp_path: Path, process: Callable[[str], None]) -> None:
    async with running_service(tmp_path) as service:
        await create_experiment(service)
        process(f"print({RESULT.decode()!r})")
        number = await start(service)
        assert (await show(service, number, "finished"))["result"]["rows"] == 5
        process(SLEEPER)
        await started(service, await start(service))
        await start(service)
    assert children() == []
    async with running_service(tmp_path) as service:
        listed = (await service.ask("GET", EVALUATIONS)).data["evaluations"]
        assert [one["state"] for one in listed] == ["canceled", "canceled", "finished"]
        assert listed[0]["reason"] == "the service was stopped: start it again"
        assert (listed[2]["conclusion"], listed[2]["level"]) == ("No policy is better.", "error")
        assert await start(service) == 4


async def test_evaluations_of_a_service_that_crashed_have_failed(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        await create_experiment(service)
    info = {"id": 0, "state": "queued", "created_at": "2026-01-01T00:00:00Z", "request": UNIFORM}
    for content in (encode(info), b"\xff damaged"):
        stored.add(open_test_database(tmp_path), 1, "queued", content, 50)

    async with running_service(tmp_path) as service:
        shown = await show(service, 1)
        assert (shown["state"], shown["reason"]) == (
            "failed",
            "the service ended unexpectedly: start it again",
        )
        assert [one["id"] for one in (await service.ask("GET", EVALUATIONS)).data["evaluations"]] == [1]
        damaged = await service.ask("GET", f"{EVALUATIONS}/2")
        assert (damaged.status, damaged.code) == (500, "experiment_broken")
        assert (await service.ask("DELETE", f"{EVALUATIONS}/2")).status == 204


@pytest.mark.usefixtures("process")
async def test_deleting_the_experiment_ends_its_evaluations(service: Service) -> None:
    await create_experiment(service)
    await started(service, await start(service))
    await start(service)
    assert (await service.ask("DELETE", E)).status == 204
    assert children() == []
    await create_experiment(service)
    assert (await service.ask("GET", EVALUATIONS)).data["evaluations"] == []
    while service.engine._tasks:
        await asyncio.sleep(0.01)
    with service.storage.read() as connection:
        assert connection.execute(tables.evaluations.select()).all() == []


@pytest.mark.parametrize("state", ["paused", "archived"])
@pytest.mark.usefixtures("process")
async def test_experiments_that_do_not_run_can_be_evaluated(service: Service, state: str) -> None:
    await create_experiment(service)
    await service.ask("PATCH", E, {"state": state})
    await started(service, await start(service))


async def test_the_oldest_evaluations_are_replaced(tmp_path: Path, process: Callable[[str], None]) -> None:
    process("raise SystemExit(1)")

    async with running_service(tmp_path, keep_evaluations=2) as service:
        await create_experiment(service)
        for _ in range(4):
            await show(service, await start(service), "failed")
        listed = (await service.ask("GET", EVALUATIONS)).data["evaluations"]
        assert [one["id"] for one in listed] == [4, 3]


async def test_the_outcome_is_stored_once_the_database_is_available(
    tmp_path: Path, process: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    process("raise SystemExit(1)")
    attempts = []

    def save(*arguments: Any) -> None:
        attempts.append(arguments)
        if len(attempts) == 1:
            raise StorageError("the disk is full")
        original(*arguments)

    original = stored.save
    monkeypatch.setattr(stored, "save", save)
    monkeypatch.setattr("glcb.service.evaluations.queue._RETRY_SECONDS", 0.01)

    async with running_service(tmp_path) as service:
        await create_experiment(service)
        await show(service, await start(service), "failed")
        assert len(attempts) == 2


# ---- processes and databases ----------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.usefixtures("normal_priority")
def test_the_process_ends_with_the_service(tmp_path: Path) -> None:
    experiment = recorded(1000)
    database = open_test_database(tmp_path)
    number = stored_in(database, experiment)
    asked = job(database, number, experiment, policies={str(n): {"seed": n} for n in range(20)})
    with subprocess.Popen(worker.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(encode(asked) + b"\n")
        running.stdin.flush()
        assert b'"progress"' in running.stdout.readline()
        running.stdin.close()
        assert running.wait(timeout=60) == 1


@pytest.mark.live
@pytest.mark.postgres
def test_an_evaluation_reads_postgresql_without_writing(cluster: postgres.Cluster) -> None:
    experiment = recorded(150)
    database = Database(cluster.url)
    number = stored_in(database, experiment)
    asked = job(database, number, experiment, policies=["uniform"], estimators=("snips",))
    assert worker.evaluate(asked).rows == 150
    reader = Database(cluster.url, read_only=True)
    with pytest.raises(StorageError, match="read-only"):
        stored.add(reader, number, "queued", b"{}", 50)
    reader.close()
    first, *_ = [stored.add(database, number, "finished", b"{}", 2) for _ in range(3)]
    assert [row.id for row in stored.page(database, number, None, 9)] == [first + 2, first + 1]
    stored.save(database, first + 1, "failed", b"[]", b"{}")
    loaded = stored.load(database, number, first + 1)
    assert loaded is not None
    assert (loaded.state, bytes(loaded.info), loaded.result) == ("failed", b"[]", b"{}")
    database.close()

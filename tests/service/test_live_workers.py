"""Real workers on one PostgreSQL: forwarding, kills, stops, drains, restarts and moves."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.service import postgres
from benchmarks.service.client import Answer, Client
from benchmarks.service.server import Server
from benchmarks.workers import WorkersTest
from glcb import client as clients
from glcb.service.storage.ownership import partition_of
from tests.service.conftest import Serve

pytestmark = [pytest.mark.live, pytest.mark.postgres]
ADVERTISE = ("--set", "advertise=http://127.0.0.1")


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Cluster]:
    with postgres.cluster("max_connections = 200") as running:
        yield running


@pytest.fixture(scope="module")
def service(database: postgres.Cluster) -> Iterator[Server]:
    """Two workers, which clients can also reach directly."""
    server = Server(["--database", database.url], "--workers", "2", *ADVERTISE)
    try:
        server.start()
        await_that(lambda: is_balanced(server.client))
        yield server
    finally:
        server.close()


def listed(client: Client) -> dict[str, Any]:
    answer = client.get("/v1/workers")
    assert answer.status == 200, answer
    data: dict[str, Any] = answer.data
    return data


def at_owner_and_at_another(client: Client, name: str) -> tuple[Client, Client]:
    """Return clients of the worker that owns an experiment, and of another one."""
    found = listed(client)
    owner = found["owners"][str(partition_of(name))]
    (own,) = (one["url"] for one in found["workers"] if one["name"] == owner)
    other = next(one["url"] for one in found["workers"] if one["name"] != owner)
    return Client(own), Client(other)


def await_that(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_balanced(client: Client, workers: int = 2) -> bool:
    found = listed(client)["workers"]
    return len(found) == workers and all(
        one["state"] == "ready" and one["partitions"] == 256 // workers and not one["restarting"]
        for one in found
    )


def create(client: Client, name: str, **settings: Any) -> None:
    assert client.put(f"/v1/experiments/{name}", {"arms": ["a", "b"], **settings}).status == 201


def test_every_worker_answers_every_request_in_the_same_way(service: Server) -> None:
    create(service.client, "same")
    own, other = at_owner_and_at_another(service.client, "same")
    path = "/v1/experiments/same"
    ids = [one.post(f"{path}/decisions", {"context": {"age": 3}}).data["id"] for one in (own, other) * 3]
    assert len(set(ids)) == 6
    for one, decision in zip((other, own) * 3, ids, strict=True):
        assert one.post(f"{path}/decisions/{decision}/reward", {"value": 1}).data["status"] == "accepted"
    for request in (
        ("GET", path),
        ("GET", f"{path}/stats"),
        ("GET", f"{path}/export"),
        ("GET", f"{path}/model"),
        ("GET", f"{path}/nowhere"),
        ("POST", f"{path}/decisions", {"context": 5}),
        ("POST", f"{path}/decisions/none/reward", {"value": 1}),
        ("GET", "/v1/experiments/missing"),
        ("TRACE", path),
    ):
        answers = [one.ask(*request) for one in (own, other)]
        assert answers[0].status == answers[1].status, request
        assert len(answers[0].content) == pytest.approx(len(answers[1].content), rel=0.2)
        hop = {"connection", "date", "glcb-worker", "content-length", "transfer-encoding"}
        headers = [{name: one.headers[name] for name in one.headers.keys() - hop} for one in answers]
        assert headers[0] == headers[1]
    assert [one["event"] for one in other.events("same")].count("reward") == 6


def test_large_bodies_and_responses_pass_through_another_worker(service: Server) -> None:
    create(service.client, "large")
    own, other = at_owner_and_at_another(service.client, "large")
    decisions = [{"context": {f"f{place}": number for place in range(200)}} for number in range(300)]
    for start in range(0, 300, 100):
        made = other.post(
            "/v1/experiments/large/decisions/batch", {"decisions": decisions[start : start + 100]}
        )
        assert made.status == 200
    exported = other.get("/v1/experiments/large/export").content
    assert exported == own.get("/v1/experiments/large/export").content
    assert len(exported) > 500_000
    model = other.get("/v1/experiments/large/model").content
    headers = {"Content-Type": "application/octet-stream"}
    upload = other.ask("PUT", "/v1/experiments/large/model", content=model, headers=headers)
    assert upload.status == 200, upload
    too_large = other.ask("POST", "/v1/experiments/large/decisions", content=b" " * 1_000_001)
    assert (too_large.status, too_large.code) == (413, "too_large")


def test_a_model_above_the_body_limit_is_passed_on_in_parts(
    database: postgres.Cluster, service: Server
) -> None:
    create(service.client, "huge", policy="lints", max_pending=10, spare_slots=900)
    own, other = at_owner_and_at_another(service.client, "huge")
    context = {f"f{place}": place / 7 for place in range(700)}
    assert other.post("/v1/experiments/huge/decisions", {"context": context}).status == 200
    model = own.get("/v1/experiments/huge/model").content
    assert len(model) > 1_000_000
    headers = {"Content-Type": "application/octet-stream"}
    for one in (other, own):
        answer = one.ask("PUT", "/v1/experiments/huge/model", content=model, headers=headers)
        assert answer.status == 200, answer


def test_the_list_and_the_metrics_are_those_of_all_workers(service: Server) -> None:
    names = [f"list-{number}" for number in range(6)]
    for name in names:
        create(service.client, name)
    client = service.client
    assert {partition_of(name) for name in names}
    answer = client.get("/v1/experiments").data
    assert answer["missing"] == []
    found = [one["name"] for one in answer["experiments"]]
    assert set(names) <= set(found)
    assert found == sorted(found)
    metrics = client.get("/metrics").content.decode()
    for worker in ("worker-0", "worker-1"):
        assert f'glcb_worker_up{{worker="{worker}"}} 1.0' in metrics
        assert f'glcb_loaded_experiments{{worker="{worker}"}}' in metrics
    for path in ("/healthz", "/readyz"):
        assert client.get(path).status == 200


def test_a_mark_that_a_client_forges_is_dropped(service: Server) -> None:
    create(service.client, "mark")
    for one in at_owner_and_at_another(service.client, "mark"):
        answer = one.ask("GET", "/v1/experiments/mark", headers={"glcb-hop": "99 10.0.0.1 1"})
        assert answer.status == 200
        answer = one.ask("GET", "/v1/workers", headers={"glcb-hop": "0 10.0.0.1 1"})
        assert len(answer.data["workers"]) == 2


def test_a_direct_client_reaches_the_owner_and_falls_back(service: Server) -> None:
    create(service.client, "direct")
    with clients.Client(service.url, direct=True, retry_for=0) as direct:
        experiment = direct.experiment("direct")
        sent = forwarded(service.client)
        for _ in range(20):
            decision = experiment.decide({"age": 3})
            experiment.reward(decision.id, 1)
        assert forwarded(service.client) == sent
        assert direct._owners is not None
        direct._owners._urls = dict.fromkeys(range(256), "http://127.0.0.1:9")
        experiment.decide({"age": 3})  # nobody listens there
        wrong = next(one["url"] for one in listed(service.client)["workers"])
        direct._owners._urls = dict.fromkeys(range(256), wrong)
        for _ in range(2):
            experiment.decide({"age": 3})


def forwarded(client: Client) -> float:
    """Return how many requests for experiments workers have sent to each other."""
    lines = client.get("/metrics").content.decode().splitlines()
    found = [line for line in lines if line.startswith("glcb_http_requests_total")]
    return sum("421" in line for line in found)


def test_an_unknown_worker_or_experiment_changes_nothing(service: Server) -> None:
    create(service.client, "here")
    client = service.client
    for body, code in (
        ({"experiment": "here", "worker": "nobody"}, "unknown_worker"),
        ({"experiment": "nowhere", "worker": "worker-0"}, "unknown_experiment"),
    ):
        answer = client.post("/v1/workers/move", body)
        assert (answer.status, answer.code) == (404, code)
    assert client.ask("PATCH", "/v1/workers/nobody", {"draining": True}).code == "unknown_worker"
    assert (
        "the workers are worker-0, worker-1"
        in client.post("/v1/workers/move", {"experiment": "here", "worker": "x"}).data["error"]["message"]
    )
    assert listed(client)["pins"] == {}


class Load:
    """Decisions for one experiment, one after the other, over new connections to any worker."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._path = f"/v1/experiments/{name}/decisions"
        self.answers: list[Answer] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                self.answers.append(self._server.client.post(self._path, {"context": {"age": 3}}))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Assert that nothing was rejected, lost or doubled."""
        rejected = [one.content for one in self.answers if one.status != 200]
        assert rejected == [], self._server.output()[-5000:]
        assert len(self.answers) > 20
        ids = [one.data["id"] for one in self.answers]
        name = self._path.split("/")[3]
        logged = [one["id"] for one in self._server.client.events(name) if one["event"] == "decision"]
        assert sorted(ids) == sorted(logged)


def test_an_experiment_moves_during_traffic_and_stays_after_restarts(
    serve: Serve, cluster: postgres.Cluster
) -> None:
    server = serve("--workers", "2", *ADVERTISE, store=("--database", cluster.url))
    client = server.client
    create(client, "home")
    number = str(partition_of("home"))
    await_that(lambda: is_balanced(client))
    with Load(server, "home") as load:
        for _ in range(4):
            time.sleep(0.3)
            owner = listed(client)["owners"][number]
            other = {"worker-0": "worker-1", "worker-1": "worker-0"}[owner]
            assert client.post("/v1/workers/move", {"experiment": "home", "worker": other}).status == 202
            await_that(lambda other=other: listed(client)["owners"].get(number) == other)  # type: ignore[misc]
    load.check()
    assert server.stop() == 0
    server.start()
    await_that(lambda: listed(server.client)["owners"].get(number) == other)
    assert listed(server.client)["pins"] == {number: other}
    ran = subprocess.run(
        [*_glcb(), "workers", "move", "home", "--url", server.url], capture_output=True, check=True
    )
    assert ran.returncode == 0
    assert listed(server.client)["pins"] == {}


def _glcb() -> list[str]:
    import sys

    return [sys.executable, "-m", "glcb"]


def test_a_drain_and_a_rolling_restart_reject_nothing(serve: Serve, cluster: postgres.Cluster) -> None:
    server = serve("--workers", "2", *ADVERTISE, store=("--database", cluster.url))
    client = server.client
    create(client, "home")
    await_that(lambda: is_balanced(client))
    before = {one["process"] for one in listed(client)["workers"]}
    with Load(server, "home") as load:
        owner = listed(client)["owners"][str(partition_of("home"))]
        subprocess.run([*_glcb(), "workers", "drain", owner, "--url", server.url], check=True)
        found = {one["name"]: one["partitions"] for one in listed(client)["workers"]}
        assert sorted(found.values()) == [0, 256]
        subprocess.run([*_glcb(), "workers", "undrain", owner, "--url", server.url], check=True)
        await_that(lambda: is_balanced(client))
        subprocess.run([*_glcb(), "workers", "restart", "--url", server.url], check=True)
    load.check()
    await_that(lambda: is_balanced(client))
    assert not before & {one["process"] for one in listed(client)["workers"]}
    shown = subprocess.run(
        [*_glcb(), "workers", "list", "--url", server.url], capture_output=True, text=True, check=True
    )
    assert "worker-1  ready" in shown.stdout


def test_the_partitions_of_a_killed_worker_are_taken_and_the_worker_comes_back(
    serve: Serve, cluster: postgres.Cluster
) -> None:
    server = serve("--workers", "2", *ADVERTISE, store=("--database", cluster.url))
    client = server.client
    create(client, "home")
    await_that(lambda: is_balanced(client))
    own, other = at_owner_and_at_another(client, "home")
    (victim,) = (one for one in listed(client)["workers"] if one["url"] == own.url)
    os.kill(victim["process"], signal.SIGKILL)
    began = time.monotonic()
    await_that(lambda: other.get("/v1/experiments/home").status == 200, 15)
    assert time.monotonic() - began < 15
    await_that(lambda: is_balanced(other))
    assert other.get("/v1/experiments").data["missing"] == []


def test_a_stopped_worker_is_replaced_and_can_then_neither_write_nor_answer(
    serve: Serve, cluster: postgres.Cluster
) -> None:
    server = serve("--workers", "2", *ADVERTISE, store=("--database", cluster.url))
    create(server.client, "home")
    await_that(lambda: is_balanced(server.client))
    own, other = at_owner_and_at_another(server.client, "home")
    (victim,) = (one for one in listed(other)["workers"] if one["url"] == own.url)
    os.kill(victim["process"], signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:  # at the same time: the worker is replaced soon
        experiments, workers = threads.map(other.get, ("/v1/experiments", "/v1/workers"))
    assert experiments.data["missing"] == ["home"]
    states = {one["name"]: one["state"] for one in workers.data["workers"]}
    assert (states.pop(victim["name"]), *states.values()) == ("away", "ready")
    with socket.create_connection(("127.0.0.1", int(own.url.rpartition(":")[2]))) as waiting:
        body = json.dumps({"context": {"age": 3}}).encode()
        head = b"POST /v1/experiments/home/decisions HTTP/1.1\r\nHost: localhost\r\n"
        waiting.sendall(
            b"%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        )

        def answers() -> bool:
            with contextlib.suppress(OSError):
                return Client(other.url, timeout=2).get("/v1/experiments/home").status == 200
            return False

        await_that(answers, 20)
        events = len(other.events("home"))
        os.kill(victim["process"], signal.SIGCONT)
        waiting.settimeout(10)
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = waiting.recv(65_536)
        assert answer == b"" or b" 503 " in answer.split(b"\r\n")[0]
    assert len(other.events("home")) == events
    await_that(lambda: is_balanced(other))


def test_workers_end_with_their_parent(serve: Serve, cluster: postgres.Cluster) -> None:
    server = serve("--workers", "2", store=("--database", cluster.url))
    processes = [one["process"] for one in listed(server.client)["workers"]]
    server.kill()
    await_that(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))
    assert server.start().client.get("/readyz").status == 200


def test_a_worker_that_is_stopped_hands_over_to_one_on_another_machine(
    serve: Serve, cluster: postgres.Cluster
) -> None:
    """As pods of Kubernetes: no parent, and connections over TCP."""
    store = ("--database", cluster.url)
    first, second = (
        serve("--set", f"inner_address=127.0.0.1:{free_port()}", *ADVERTISE, store=store) for _ in range(2)
    )
    await_that(lambda: is_balanced(second.client))
    own, _ = at_owner_and_at_another(second.client, "home")
    urls = {one["url"]: one["process"] for one in listed(second.client)["workers"]}
    leaving, staying = (first, second) if urls[own.url] == first.pid else (second, first)
    create(staying.client, "home")
    with Load(staying, "home") as load:
        time.sleep(0.5)
        assert leaving.stop() == 0  # with SIGTERM
        time.sleep(0.5)
    load.check()
    (left,) = listed(staying.client)["workers"]
    assert (left["process"], left["partitions"]) == (staying.pid, 256)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_nothing_is_lost_when_workers_and_machines_die_stop_and_restart(cluster: postgres.Cluster) -> None:
    """The machines have unlike processors, and reach each other over TCP with the secret of the database."""
    test = WorkersTest(cluster.url, seed=10_000, nodes=2, workers=2, pause=0.01)
    try:
        test.start()
        tally = test.run(["kill worker", "move", "stop worker while moving", "restart", "kill node"])
    finally:
        test.close()
    assert len(tally.ways) == 5
    assert tally.decisions > 100
    assert tally.rewards > 50


def test_a_second_service_on_the_same_database_is_rejected(serve: Serve, cluster: postgres.Cluster) -> None:
    store = ("--database", cluster.url)
    server = serve("--workers", "2", store=store)
    for flags in ((), ("--workers", "2"), ("--set", "inner_address=127.0.0.1")):
        second = Server(store, *flags, "--set", "lock_wait_seconds=1")
        try:
            with pytest.raises(RuntimeError, match="another service uses this database"):
                second.start()
        finally:
            second.close()
    assert server.client.get("/readyz").status == 200

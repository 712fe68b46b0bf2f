"""Events are synced to disk before the response is sent. A kill cannot show this, strace can."""

import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from benchmarks.service import postgres
from benchmarks.service.client import Client
from tests.service.conftest import Serve

_CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>fsync|fdatasync)\(\d+<(?P<path>[^>]*)>(?P<end>.*)$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (fsync|fdatasync) resumed>.*= 0$")
PAIRS = 5

pytestmark = [pytest.mark.live, pytest.mark.tools]


def _syncs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield ("request", ""), ("synced", path) and ("response", "") in the order of completion."""
    started: dict[str, str] = {}
    for line in lines:
        if '"POST ' in line:
            yield "request", ""
        elif '"HTTP/1.1 200' in line:
            yield "response", ""
        elif call := _CALL.match(line):
            if call["end"].endswith("= 0"):
                yield "synced", call["path"]
            started[call["pid"]] = call["path"]
        elif resumed := _RESUMED.match(line):
            yield "synced", started[resumed["pid"]]


def _use(client: Client) -> None:
    """Create an experiment, then send decisions and rewards alternately."""
    assert client.put("/v1/experiments/e", {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    for step in range(PAIRS):
        decision = client.post("/v1/experiments/e/decisions", {"context": {"x": step}})
        assert decision.status == 200
        reward = client.post(f"/v1/experiments/e/decisions/{decision.data['id']}/reward", {"value": 1})
        assert reward.status == 200


def test_sqlite_syncs_before_every_response(serve: Serve, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    # -D: the server stays our child process, and strace exits with it.
    calls = "trace=fsync,fdatasync,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg"
    strace = f"strace -D -f -qq -y -s 24 -e {calls} -e signal=none -o {trace}".split()
    server = serve(wrapper=strace)
    _use(server.client)
    assert server.stop() in (0, -signal.SIGTERM)
    responses, synced, requested = [], False, False
    for what, path in _syncs(trace.read_text(errors="replace").splitlines()):
        if what == "request":
            synced, requested = False, True
        elif what == "synced" and path.endswith("glcb.db-wal"):
            synced = True
        elif what == "response" and requested:
            responses.append(synced)
            requested = False
    assert responses == [True] * (2 * PAIRS)


@pytest.mark.postgres
@pytest.mark.parametrize("configured", ["on", "off"])
def test_postgresql_syncs_every_commit_regardless_of_its_configuration(
    serve: Serve, tmp_path: Path, configured: str
) -> None:
    trace = tmp_path / "trace"
    with postgres.cluster(f"synchronous_commit = {configured}", "autovacuum = off") as cluster:
        assert cluster.ask("show fsync") == "on"
        assert cluster.ask("show synchronous_commit") == configured
        watching = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-y",
                "-e",
                "trace=fsync,fdatasync",
                "-o",
                str(trace),
                "-p",
                str(cluster.pid),
            ]
        )
        try:
            time.sleep(0.5)
            server = serve(store=("--database", cluster.url))
            before = _wal_syncs(trace)
            _use(server.client)
            after = _wal_syncs(trace)
            server.kill()
        finally:
            watching.send_signal(signal.SIGTERM)
            watching.wait()
    assert after - before >= 2 * PAIRS


def _wal_syncs(trace: Path) -> int:
    time.sleep(0.2)
    return sum(
        1 for what, path in _syncs(trace.read_text().splitlines()) if what == "synced" and "/pg_wal/" in path
    )

"""Missing and wrong keys, insufficient roles, foreign experiments: rejected, and nothing leaks."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from benchmarks.service.client import Answer, Client
from benchmarks.service.server import Server
from tests.service.conftest import Serve

pytestmark = pytest.mark.live

MINE, THEIRS = "/v1/experiments/mine", "/v1/experiments/theirs"
ROLES = ("decide", "read", "admin")
SECRET = "secret-category-of-theirs"

ROUTES: list[tuple[str, str, Any, str]] = [
    ("GET", "", None, "read"),
    ("PATCH", "", {"state": "paused"}, "admin"),
    ("DELETE", "", None, "admin"),
    ("POST", "/arms", {"name": "c"}, "admin"),
    ("DELETE", "/arms/b", None, "admin"),
    ("POST", "/decisions", {"context": {"x": 1}}, "decide"),
    ("POST", "/decisions/batch", {"decisions": [{"context": {"x": 1}}]}, "decide"),
    ("POST", "/decisions/0-00000000/reward", {"value": 1}, "decide"),
    ("POST", "/rewards", {"rewards": [{"id": "0-00000000", "value": 1}]}, "decide"),
    ("POST", "/explanations", {"context": {"x": 1}}, "read"),
    ("GET", "/stats", None, "read"),
    ("GET", "/export", None, "read"),
    ("GET", "/export?format=parquet", None, "read"),
    ("GET", "/model", None, "read"),
    ("PUT", "/model", {}, "admin"),
]
ALL_ROUTES: list[tuple[str, str, Any, str]] = [
    ("GET", "/v1/experiments", None, "read"),
    ("GET", "/metrics", None, "read"),
    *((method, MINE + path, body, role) for method, path, body, role in ROUTES),
    ("PUT", MINE, {"arms": ["a", "b"]}, "admin"),
]


@dataclass(frozen=True)
class SecuredServer:
    """A server with keys of every role, some of them bound to one experiment."""

    server: Server
    keys: dict[str, str]

    def client(self, key: str) -> Client:
        return replace(self.server.client, api_key=self.keys[key])


def _key(server: Server, *arguments: str) -> str:
    ran = server.command("keys", "add", *arguments)
    assert ran.returncode == 0, ran
    found: list[str] = re.findall(r"[\w-]{32,}", ran.stdout)
    return max(found, key=len)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    server = Server(["--data", str(tmp_path_factory.mktemp("keys") / "glcb.db")])
    keys = {role: _key(server, role, "--role", role) for role in ROLES}
    for role in ROLES:
        keys[f"{role} mine"] = _key(server, f"{role}-mine", "--role", role, "--experiments", "mine")
    server.start()
    secured = SecuredServer(server, keys)
    for path in (MINE, THEIRS):
        made = secured.client("admin").put(path, {"arms": ["a", "b"], "policy": "linucb"})
        assert made.status == 201, made
    asked = secured.client("decide").post(f"{THEIRS}/decisions", {"context": {"city": SECRET}})
    assert asked.status == 200
    yield secured
    output = server.output()
    server.close()
    for key in keys.values():
        assert key not in output, "a key is in the log"
    assert SECRET not in output, "a context is in the log"


def _assert_rejected(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer
    assert set(answer.data) == {"error"}
    assert set(answer.data["error"]) == {"code", "message"}
    assert SECRET.encode() not in answer.content


def test_requests_without_a_valid_key_are_rejected(secured: SecuredServer) -> None:
    clients = [
        secured.server.client,
        replace(secured.server.client, api_key="x" * 43),
        replace(secured.server.client, api_key="é"),
    ]
    for client in clients:
        for method, path, body, _ in ALL_ROUTES:
            answer = client.ask(method, path, body)
            _assert_rejected(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        _assert_rejected(client.get("/v1/experiments/nonesuch"), 401, "unauthorized")
    for path in ("/healthz", "/readyz", "/openapi.json", "/"):
        assert secured.server.client.get(path).status == 200, path
    basic = secured.server.client.ask(
        "GET", MINE, headers={"Authorization": f"Basic {secured.keys['admin']}"}
    )
    _assert_rejected(basic, 401, "unauthorized")


def test_a_role_permits_its_own_routes_only(secured: SecuredServer) -> None:
    for role in ("decide", "read"):
        for method, path, body, needed in ALL_ROUTES:
            answer = secured.client(role).ask(method, path, body)
            if needed == role:
                assert answer.status not in (401, 403), (role, method, path, answer)
            else:
                _assert_rejected(answer, 403, "forbidden")
    assert secured.client("admin").get(MINE).data["state"] == "running"
    assert secured.client("admin").get(MINE).data["settings"]["arms"] == ["a", "b"]


def test_a_foreign_experiment_looks_like_a_missing_one(secured: SecuredServer) -> None:
    for method, path, body, role in ROUTES:
        client = secured.client(f"{role} mine")
        theirs = client.ask(method, THEIRS + path, body)
        _assert_rejected(theirs, 404, "unknown_experiment")
        missing = client.ask(method, "/v1/experiments/missing" + path, body)
        assert missing.status == 404
        assert missing.content.replace(b"missing", b"theirs") == theirs.content
    listed = secured.client("read mine").get("/v1/experiments").data["experiments"]
    assert [one["name"] for one in listed] == ["mine"]
    assert b"theirs" not in secured.client("read mine").get("/metrics").content
    made = secured.client("admin mine").put(THEIRS, {"arms": ["a", "b"]})
    assert made.status in (403, 404), made
    made = secured.client("admin mine").put("/v1/experiments/another", {"arms": ["a", "b"]})
    assert made.status in (403, 404), made
    _assert_rejected(secured.client("admin mine").post("/v1/workers/restart", {}), 403, "forbidden")
    drained = secured.client("admin mine").ask("PATCH", "/v1/workers/a", {"draining": True})
    _assert_rejected(drained, 403, "forbidden")
    moved = secured.client("admin mine").post("/v1/workers/move", {"experiment": "mine", "worker": None})
    _assert_rejected(moved, 403, "forbidden")


def test_all_keys_except_publishable_ones_may_list_the_workers(secured: SecuredServer) -> None:
    for role in ROLES:
        assert secured.client(role).get("/v1/workers").status == 200
        assert secured.client(f"{role} mine").get("/v1/workers").status == 200


def test_keys_can_be_added_and_removed_while_the_service_runs(secured: SecuredServer) -> None:
    server = secured.server
    new = replace(server.client, api_key=_key(server, "new", "--role", "read"))
    assert _becomes_true(lambda: new.get(MINE).status == 200)
    assert server.command("keys", "remove", "new").returncode == 0
    assert _becomes_true(lambda: new.get(MINE).status == 401)
    assert secured.client("admin").get(MINE).status == 200


def _becomes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_keys_are_listed_without_their_secrets_and_stored_hashed(secured: SecuredServer) -> None:
    listed = secured.server.command("keys", "list")
    assert listed.returncode == 0
    assert "decide-mine" in listed.stdout
    data = Path(secured.server.store[1])
    stored = b"".join(path.read_bytes() for path in data.parent.glob(f"{data.name}*"))
    for key in secured.keys.values():
        assert key not in listed.stdout
        assert key.encode() not in stored


def test_a_public_address_requires_a_key(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"exited with code [1-9]") as error:
        serve("--host", "0.0.0.0")
    assert "keys add" in str(error.value)
    assert "Traceback" not in str(error.value)
    assert not list(tmp_path.glob("glcb.db*")), "no database file is created"


def test_a_public_address_stays_closed_after_its_last_key_is_removed(serve: Serve, tmp_path: Path) -> None:
    stopped = Server(["--data", str(tmp_path / "glcb.db")])
    first = _key(stopped, "first", "--role", "admin")
    stopped.close()
    server = serve("--host", "0.0.0.0")
    local = Client(server.url.replace("0.0.0.0", "127.0.0.1"))
    assert replace(local, api_key=first).get("/v1/experiments").status == 200
    assert server.command("keys", "remove", "first").returncode == 0
    assert _becomes_true(lambda: replace(local, api_key=first).get("/v1/experiments").status == 401)
    for host in ("localhost", "127.0.0.1", "example.org"):
        answer = local.ask("GET", "/v1/experiments", headers={"Host": host})
        _assert_rejected(answer, 401, "unauthorized")
    second = _key(server, "second", "--role", "admin")
    assert _becomes_true(lambda: replace(local, api_key=second).get("/v1/experiments").status == 200)


NAMES = [
    "..",
    "../etc",
    "a/b",
    "a%2fb",
    "a%00b",
    "A",
    "é",
    "a'; DROP TABLE events; --",
    "x" * 65,
    "",
    "-a",
    ".a",
    "a b",
]


@pytest.mark.parametrize("name", NAMES)
def test_invalid_experiment_names_are_rejected(server: Server, name: str) -> None:
    answer = server.client.put(f"/v1/experiments/{quote(name, safe='%/.')}", {"arms": ["a", "b"]})
    assert answer.status in (404, 405, 422), answer
    assert set(answer.data["error"]) == {"code", "message"}


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/openapi.json", "/v1/experiments", "/nonesuch", "/v1/experiments/none"]
)
def test_every_response_has_security_headers(server: Server, path: str) -> None:
    headers = server.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]

"""No key, a wrong key, a role too small, somebody else's experiment: refused, and nothing leaks."""

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
    ("POST", "/explain", {"context": {"x": 1}}, "read"),
    ("GET", "/stats", None, "read"),
    ("GET", "/export", None, "read"),
    ("GET", "/export?format=parquet", None, "read"),
    ("GET", "/model", None, "read"),
    ("PUT", "/model", {}, "admin"),
]
EVERYWHERE: list[tuple[str, str, Any, str]] = [
    ("GET", "/v1/experiments", None, "read"),
    ("GET", "/metrics", None, "read"),
    *((method, MINE + path, body, role) for method, path, body, role in ROUTES),
    ("PUT", MINE, {"arms": ["a", "b"]}, "admin"),
]


@dataclass(frozen=True)
class House:
    """A server with keys of every role, some of them for one experiment only."""

    server: Server
    keys: dict[str, str]

    def client(self, who: str) -> Client:
        return replace(self.server.client, key=self.keys[who])


def _key(server: Server, *arguments: str) -> str:
    ran = server.command("keys", "add", *arguments)
    assert ran.returncode == 0, ran
    found: list[str] = re.findall(r"[\w-]{32,}", ran.stdout)
    return max(found, key=len)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    server = Server(["--data", str(tmp_path_factory.mktemp("keys") / "glcb.db")])
    keys = {role: _key(server, role, "--role", role) for role in ROLES}
    for role in ROLES:
        keys[f"{role} mine"] = _key(server, f"{role}-mine", "--role", role, "--experiment", "mine")
    server.start()
    here = House(server, keys)
    for path in (MINE, THEIRS):
        made = here.client("admin").put(path, {"arms": ["a", "b"], "policy": "linucb"})
        assert made.status == 201, made
    asked = here.client("decide").post(f"{THEIRS}/decisions", {"context": {"city": SECRET}})
    assert asked.status == 200
    yield here
    said = server.said()
    server.forget()
    for key in keys.values():
        assert key not in said, "a key is in the log"
    assert SECRET not in said, "a context is in the log"


def _refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer
    assert set(answer.data) == {"error"}
    assert set(answer.data["error"]) == {"code", "message"}
    assert SECRET.encode() not in answer.content


def test_without_a_good_key_nothing_is_open(house: House) -> None:
    strangers = [
        house.server.client,
        replace(house.server.client, key="x" * 43),
        replace(house.server.client, key="é"),
    ]
    for stranger in strangers:
        for method, path, body, _ in EVERYWHERE:
            answer = stranger.ask(method, path, body)
            _refused(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        _refused(stranger.get("/v1/experiments/nonesuch"), 401, "unauthorized")
    for path in ("/healthz", "/readyz", "/openapi.json", "/"):
        assert house.server.client.get(path).status == 200, path
    basic = house.server.client.ask("GET", MINE, headers={"Authorization": f"Basic {house.keys['admin']}"})
    _refused(basic, 401, "unauthorized")


def test_a_role_opens_its_own_routes_only(house: House) -> None:
    for role in ("decide", "read"):
        for method, path, body, needed in EVERYWHERE:
            answer = house.client(role).ask(method, path, body)
            if needed == role:
                assert answer.status not in (401, 403), (role, method, path, answer)
            else:
                _refused(answer, 403, "forbidden")
    assert house.client("admin").get(MINE).data["state"] == "running"
    assert house.client("admin").get(MINE).data["arms"] == ["a", "b"]


def test_somebody_elses_experiment_looks_like_none(house: House) -> None:
    for method, path, body, role in ROUTES:
        client = house.client(f"{role} mine")
        theirs = client.ask(method, THEIRS + path, body)
        _refused(theirs, 404, "unknown_experiment")
        nobodys = client.ask(method, "/v1/experiments/nobodys" + path, body)
        assert nobodys.status == 404
        assert nobodys.content.replace(b"nobodys", b"theirs") == theirs.content
    listed = house.client("read mine").get("/v1/experiments").data["experiments"]
    assert [one["name"] for one in listed] == ["mine"]
    assert b"theirs" not in house.client("read mine").get("/metrics").content
    made = house.client("admin mine").put(THEIRS, {"arms": ["a", "b"]})
    assert made.status in (403, 404), made
    made = house.client("admin mine").put("/v1/experiments/another", {"arms": ["a", "b"]})
    assert made.status in (403, 404), made


def test_keys_come_and_go_while_the_service_runs(house: House) -> None:
    server = house.server
    late = replace(server.client, key=_key(server, "late", "--role", "read"))
    assert _soon(lambda: late.get(MINE).status == 200)
    assert server.command("keys", "remove", "late").returncode == 0
    assert _soon(lambda: late.get(MINE).status == 401)
    assert house.client("admin").get(MINE).status == 200


def _soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_keys_are_listed_without_their_secrets_and_stored_hashed(house: House) -> None:
    listed = house.server.command("keys", "list")
    assert listed.returncode == 0
    assert "decide-mine" in listed.stdout
    data = Path(house.server.store[1])
    stored = b"".join(path.read_bytes() for path in data.parent.glob(f"{data.name}*"))
    for key in house.keys.values():
        assert key not in listed.stdout
        assert key.encode() not in stored


def test_another_address_needs_a_key(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ended with [1-9]") as refused:
        serve("--host", "0.0.0.0")
    assert "keys add" in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert not list(tmp_path.glob("glcb.db*")), "where nothing is served, no file is made"


def test_without_its_last_key_another_address_is_closed(serve: Serve, tmp_path: Path) -> None:
    unborn = Server(["--data", str(tmp_path / "glcb.db")])
    first = _key(unborn, "first", "--role", "admin")
    unborn.forget()
    server = serve("--host", "0.0.0.0")
    here = Client(server.url.replace("0.0.0.0", "127.0.0.1"))
    assert replace(here, key=first).get("/v1/experiments").status == 200
    assert server.command("keys", "remove", "first").returncode == 0
    assert _soon(lambda: replace(here, key=first).get("/v1/experiments").status == 401)
    for host in ("localhost", "127.0.0.1", "example.org"):
        answer = here.ask("GET", "/v1/experiments", headers={"Host": host})
        _refused(answer, 401, "unauthorized")
    second = _key(server, "second", "--role", "admin")
    assert _soon(lambda: replace(here, key=second).get("/v1/experiments").status == 200)


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
def test_names_cannot_escape(server: Server, name: str) -> None:
    answer = server.client.put(f"/v1/experiments/{quote(name, safe='%/.')}", {"arms": ["a", "b"]})
    assert answer.status in (404, 405, 422), answer
    assert set(answer.data["error"]) == {"code", "message"}


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/openapi.json", "/v1/experiments", "/nonesuch", "/v1/experiments/none"]
)
def test_every_answer_has_the_headers_of_a_careful_server(server: Server, path: str) -> None:
    headers = server.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]

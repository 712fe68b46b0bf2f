"""Count the functions of glcb that one warm request passes through: ``python -m benchmarks.call_paths``.

Calls of Python functions in glcb are counted with ``sys.setprofile``, in the thread that handles the request:
for HTTP, the thread of the event loop, from the call of the ASGI application to its last message. Kernels,
comprehensions and other packages are not counted.
"""

import asyncio
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from typer.testing import CliRunner

import glcb
from glcb import GLCB, Bandit
from glcb.cli import app as command_line
from glcb.service.access.api_keys import Keyring, add_key
from glcb.service.access.sessions import Sessions
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.http.admission import Admission
from glcb.service.http.app import Application
from glcb.service.http.authentication import Authenticator
from glcb.service.http.handlers import Handlers
from glcb.service.http.people import People, SessionHandlers
from glcb.service.http.routes import Routes
from glcb.service.storage.database import open_database

ARMS = ("a", "b", "c")
CONTEXT = {"age": 31, "country": "IT", "visits": 4}
WARM = 20
"""Requests before the counted one."""
_REPEATS = 15
"""Number of decisions in the median: some are held out, and some draw once more."""
_ROOT = str(Path(glcb.__file__).parent)
_HOME = "/v1/experiments/home"


class Walk(NamedTuple):
    """The calls of one request."""

    calls: int
    functions: int
    modules: int


class Calls:
    """Counts calls of functions in glcb, in the thread that enters it."""

    def __init__(self) -> None:
        self.counts: Counter[CodeType] = Counter()
        self._frames: set[FrameType] = set()

    def _count(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        is_own = code.co_filename.startswith(_ROOT) and not code.co_name.startswith("<")
        is_kernel = frame.f_back is None  # Numba reports them with a separate frame
        if event == "call" and is_own and not is_kernel and frame not in self._frames:
            self._frames.add(frame)  # a coroutine that continues is not called again
            self.counts[code] += 1

    def __enter__(self) -> None:
        sys.setprofile(self._count)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    @property
    def walk(self) -> Walk:
        """The figures."""
        modules = {code.co_filename for code in self.counts}
        return Walk(self.counts.total(), len(self.counts), len(modules))

    def lines(self) -> Iterator[str]:
        """Yield each function and how often it was called, most often first."""
        for code, count in self.counts.most_common():
            place = Path(code.co_filename).relative_to(_ROOT)
            yield f"{count:5}  {place}: {code.co_qualname}"


def measure() -> dict[str, Calls]:
    """Return the calls of each kind of request."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            "GLCB.decide": _policy(),
            **_bandit(Path(folder)),
            **asyncio.run(_http(Path(folder))),
            "glcb evaluate": _evaluation(Path(folder)),
        }


def _policy() -> Calls:
    policy = GLCB(list(ARMS), 5, seed=1)
    context, calls = np.full(5, 0.5), Calls()
    for _ in range(WARM):
        policy.learn(context, policy.decide(context).arm, 1.0)
    with calls:
        policy.decide(context)
    return calls


def _bandit(folder: Path) -> dict[str, Calls]:
    logged = Bandit(ARMS, seed=1)
    logged.log_to(folder / "log.jsonl")
    for number in range(WARM):
        logged.reward(logged.decide(CONTEXT).id, number % 2)
    logged.log_to(None)
    bandit, deciding, rewarding = Bandit(ARMS, seed=1), Calls(), Calls()
    for number in range(WARM):
        bandit.reward(bandit.decide(CONTEXT).id, number % 2)
    with deciding:
        decision = bandit.decide(CONTEXT)
    with rewarding:
        bandit.reward(decision.id, 1)
    return {"Bandit.decide": deciding, "Bandit.reward": rewarding}


def _evaluation(folder: Path) -> Calls:
    calls, command = Calls(), ["evaluate", str(folder / "log.jsonl")]
    CliRunner().invoke(command_line, command)
    with calls:
        ran = CliRunner().invoke(command_line, command)
    assert ran.exit_code == 0, ran.output
    return calls


async def _http(folder: Path) -> dict[str, Calls]:
    """Count a decision and a change of settings with an API key."""
    database, settings = open_database(ServiceSettings(data=str(folder / "glcb.db"))), ServiceSettings()
    key = add_key(database, "team", "admin")
    engine, app, keyring = Engine(database, settings), Application(_no_lifespan), Keyring(database)
    await engine.start()
    people, admission = People(settings, Sessions(database, keyring, 3600)), Admission(settings)
    authenticator = Authenticator(keyring, settings.host, settings.require_keys, people)
    handlers = Handlers(engine, database, admission)
    sessions = SessionHandlers(people, authenticator.find, settings.request_seconds)
    routes = Routes(handlers, sessions, settings, authenticator, admission)
    app.open(engine, authenticator, admission, routes.app)

    async def ask(method: str, path: str, body: object, calls: Calls | None = None) -> Any:
        content = msgspec.json.encode(body)
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers += [(b"authorization", b"Bearer " + key.encode())]
        headers += [(b"content-length", str(len(content)).encode())]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "root_path": "",
            "client": ("127.0.0.1", 4000),
        }
        sent = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)
            if calls is not None and message["type"] == "http.response.body":
                calls.__exit__()  # later calls delay no response

        with contextlib.nullcontext() if calls is None else calls:
            await app(scope, receive, send)
        assert sent[0]["status"] < 300, sent[1]["body"]
        return msgspec.json.decode(sent[1]["body"])

    await ask("PUT", _HOME, {"arms": ARMS})
    for number in range(WARM):
        decision = await ask("POST", f"{_HOME}/decisions", {"context": CONTEXT})
        await ask("POST", f"{_HOME}/decisions/{decision['id']}/reward", {"value": number % 2})
        await ask("PATCH", _HOME, {"description": f"number {number}"})
        await ask("POST", f"{_HOME}/decisions", {"context": CONTEXT})
    deciding = [Calls() for _ in range(_REPEATS)]
    for calls in deciding:
        await ask("POST", f"{_HOME}/decisions", {"context": CONTEXT}, calls)
    changing = Calls()
    await ask("PATCH", _HOME, {"description": "another"}, changing)
    await engine.stop()
    database.close()
    deciding.sort(key=lambda calls: calls.walk)
    return {"HTTP decision": deciding[_REPEATS // 2], "HTTP settings change": changing}


async def _no_lifespan(*_: object) -> None:
    return


def main() -> None:
    """Print the figures; with the name of a request, its calls."""
    measured = measure()
    for name in sys.argv[1:]:
        print(*measured[name].lines(), sep="\n")
    print(f"{'':22}{'calls':>8}{'functions':>11}{'modules':>9}")
    for name, calls in measured.items():
        walk = calls.walk
        print(f"{name:22}{walk.calls:8}{walk.functions:11}{walk.modules:9}")


if __name__ == "__main__":
    main()

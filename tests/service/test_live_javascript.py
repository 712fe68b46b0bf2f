"""The JavaScript client in Chromium and in Node, against a real service."""

import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.service.client import Client
from benchmarks.service.server import Server, serving
from glcb._version import __version__
from glcb.service.access.api_keys import add_key
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from tests.bench.browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "glcb" / "service" / "javascript"
HOME = "/v1/experiments/home"
RATE = 20


@contextmanager
def http_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Answer all requests with a function, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_OPTIONS = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def respond(handler: BaseHTTPRequestHandler, status: int, content: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def empty_page(handler: BaseHTTPRequestHandler) -> None:
    respond(handler, 200, b"<!doctype html><title>A shop</title>", Content_Type="text/html")


@dataclass(frozen=True)
class Shop:
    """A service with an experiment, keys, and the origin of a page that may call it."""

    server: Server
    origin: str
    admin: str
    page: str
    limited: str

    @property
    def team(self) -> Client:
        return replace(self.server.client, api_key=self.admin)

    def counts(self) -> Any:
        return self.team.get(HOME).data["counts"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    data = tmp_path_factory.mktemp("shop") / "glcb.db"
    database = Database(sqlite_url(data))
    admin = add_key(database, "team", "admin")
    page, limited = (add_key(database, name, "publish", ["home"]) for name in ("page", "limited"))
    database.close()
    with http_server(empty_page) as origin:
        flags = ("--set", f"cors_origins={origin}", "--set", f"publish_rate={RATE}")
        with serving(["--data", str(data)], *flags) as server:
            shop = Shop(server, origin, admin, page, limited)
            made = shop.team.put(HOME, {"arms": ["a", "b", "c"], "policy": "linucb"})
            assert made.status == 201, made
            yield shop


# ---- Node -------------------------------------------------------------------------------------------


def node(script: str, **variables: Any) -> Any:
    """Run a module with the client and variables; return what it passes to ``show``."""
    lines = [f"const {name} = {json.dumps(value)};" for name, value in variables.items()]
    module = "\n".join(
        [
            f'import {{ Client, GlcbError }} from "{PACKAGE.as_uri()}/glcb.js";',
            "const show = (value) => console.log(JSON.stringify(value));",
            "const failure = async (promise) => {",
            "  try { await promise; return null; }",
            "  catch (error) {",
            "    if (!(error instanceof GlcbError)) throw error;",
            "    return { code: error.code, status: error.status, message: error.message };",
            "  }",
            "};",
            *lines,
            script,
        ]
    )
    ran = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=module,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.tools
def test_node_decides_ranks_and_reports_rewards(shop: Shop) -> None:
    script = """
        const home = new Client(url, { apiKey: key }).experiment("home");
        const visit = { country: "FR", age: 31, now: new Date(0), note: undefined };
        const options = { eligible: ["a", "b"], unit: "u1", control: "a", idempotencyKey: "visit 1" };
        const decision = await home.decide(visit, options);
        const again = await home.decide(visit, options);
        const ranking = await home.rank({ country: "FR" }, 2);
        const rewards = [
            await home.reward(decision.id, 1, { idempotencyKey: "click" }),
            await home.reward(decision.id, true, { idempotencyKey: "click" }),
            await home.reward(ranking.id, 1, { slot: 0, examined: 2 }),
        ];
        const metric = (await failure(home.reward(decision.id, 1, { metrics: { revenue: 2 } }))).code;
        show({ decision, again, ranking, rewards, metric });
    """
    before = shop.counts()["decisions"]
    shown = node(script, url=shop.server.url, key=shop.admin)
    assert shown["decision"] == shown["again"]
    assert shown["decision"]["arm"] in ("a", "b")
    assert shown["decision"]["propensity"] > 0
    assert len(set(shown["ranking"]["arms"])) == 2
    assert shown["rewards"] == [True, False, True]
    assert shop.counts()["decisions"] > before
    (event,) = [event for event in shop.team.events("home") if event.get("id") == shown["decision"]["id"]][:1]
    assert event["context"]["now"] == {"date": "1970-01-01T00:00:00.000Z"}
    assert "note" not in event["context"]
    assert shown["decision"]["control"] == "a"
    assert shown["metric"] == "invalid_reward", "the experiment has no metrics"


@pytest.mark.tools
def test_errors_in_node_have_the_code_and_the_message_of_the_service(shop: Shop) -> None:
    script = """
        const home = new Client(url, { apiKey: key }).experiment("home");
        show({
            unauthorized: await failure(new Client(url, { apiKey: "wrong" }).experiment("home").decide({})),
            unknown_experiment: await failure(new Client(url, { apiKey: key }).experiment("cart").decide({})),
            unknown_arm: await failure(home.decide({}, { eligible: ["x"] })),
            forbidden: await failure(home.decide({}, { id: "mine" })),
            unknown_decision: await failure(home.reward("1-0", 1)),
            invalid_reward: await failure(home.reward("1-0", NaN)),
            invalid_settings: await failure((async () => new Client(`${url}/v1`))()),
            invalid_request: await failure((async () => new Client(url).experiment("No such name"))()),
        });
    """
    statuses = {"unauthorized": 401, "unknown_experiment": 404, "unknown_arm": 422, "forbidden": 403}
    shown = node(script, url=shop.server.url, key=shop.page)
    for code, error in shown.items():
        assert error["code"] == code
        assert error["status"] == statuses.get(code, 404 if code == "unknown_decision" else 0)
    assert shown["unknown_arm"]["message"].startswith("there is no arm 'x'")


class Lossy:
    """Passes requests on to a service; the first ones of each path get no answer, or an error."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)
        self._seen: dict[str, int] = {}
        self.bodies: list[Any] = []

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        content = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.bodies.append(json.loads(content))
        attempt = self._seen[handler.path] = self._seen.get(handler.path, 0) + 1
        if attempt == 1:  # the request is lost
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif attempt == 2:
            error = {
                "error": {"code": "overloaded", "message": "the service has too many open requests: retry"}
            }
            respond(handler, 503, json.dumps(error).encode(), Retry_After="0")
        else:
            headers = {"Authorization": handler.headers["Authorization"]}
            answer = self._client.ask("POST", handler.path, content=content, headers=headers)
            if attempt == 3:  # the answer is lost
                handler.connection.shutdown(socket.SHUT_RDWR)
            else:
                respond(handler, answer.status, answer.content)


@pytest.mark.tools
def test_lost_requests_and_answers_are_repeated_with_the_same_idempotency_key(shop: Shop) -> None:
    script = """
        const home = new Client(url, { apiKey: key }).experiment("home");
        const { id } = await home.decide({ country: "FR" });
        show({ id, rewarded: await home.reward(id, 1) });
    """
    before = shop.counts()
    lossy = Lossy(shop.server.url)
    with http_server(lossy) as url:
        shown = node(script, url=url, key=shop.page)
    assert shown["rewarded"]
    decisions, rewards = lossy.bodies[:4], lossy.bodies[4:]
    assert len(decisions) == len(rewards) == 4
    for repeated in (decisions, rewards):
        assert repeated == [repeated[0]] * 4
        assert len(repeated[0]["idempotency_key"]) == 32
    after = shop.counts()
    assert after["decisions"] - before["decisions"] == after["rewarded"] - before["rewarded"] == 1


@pytest.mark.tools
def test_a_client_gives_up_in_time() -> None:
    script = """
        const dead = new Client("http://127.0.0.1:9", { retryFor: 200 }).experiment("home");
        const slow = new Client(url, { timeout: 100, retryFor: 0 }).experiment("home");
        const stopped = new AbortController();
        setTimeout(() => stopped.abort(new Error("the visitor has left")), 50);
        const patient = new Client("http://127.0.0.1:9", { retryFor: 60_000 }).experiment("home");
        delete globalThis.crypto;  // as in Node 18
        show({
            dead: await failure(dead.decide({})),
            slow: await failure(slow.decide({})),
            aborted: await patient.decide({}, { signal: stopped.signal }).catch((error) => error.message),
            proxy: await failure(new Client(`${url}/404`).experiment("home").decide({})),
        });
    """
    released = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path.startswith("/404"):
            respond(handler, 404, b"<h1>Not found</h1>")
        else:
            released.wait(10)

    with http_server(answer) as url:
        shown = node(script, url=url)
        released.set()
    assert (shown["dead"]["code"], shown["slow"]["code"]) == ("no_response", "timeout")
    assert "check that the service is running" in shown["dead"]["message"]
    assert "cors_origins" not in shown["dead"]["message"]
    assert shown["aborted"] == "the visitor has left"
    assert (shown["proxy"]["code"], shown["proxy"]["status"]) == ("unexpected_response", 404)


@pytest.mark.tools
def test_requests_over_the_rate_are_reported_or_repeated(shop: Shop) -> None:
    script = """
        const all = async (retryFor) => {
            const home = new Client(url, { apiKey: key, retryFor }).experiment("home");
            return Promise.all(Array.from({ length: count }, () => failure(home.decide({}))));
        };
        show({ once: await all(0), repeated: await all(10_000) });
    """
    shown = node(script, url=shop.server.url, key=shop.limited, count=RATE + 10)
    late = [error for error in shown["once"] if error]
    assert late
    assert {(error["code"], error["status"]) for error in late} == {("rate_limited", 429)}
    assert shown["repeated"] == [None] * (RATE + 10)


@pytest.mark.tools
def test_npm_packs_the_client_with_its_types_and_license(tmp_path: Path) -> None:
    about = json.loads((PACKAGE / "package.json").read_text())
    assert about["version"] == __version__
    folder = tmp_path.joinpath(*PACKAGE.relative_to(ROOT).parts)
    shutil.copytree(PACKAGE, folder)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    environment = {**os.environ, "npm_config_cache": str(tmp_path / "cache"), "npm_config_offline": "true"}
    subprocess.run(["npm", "pack", "--silent"], cwd=folder, env=environment, capture_output=True, check=True)
    with tarfile.open(folder / f"glcb-{__version__}.tgz") as package:
        packed = {name.removeprefix("package/") for name in package.getnames()}
        package.extractall(tmp_path / "node_modules", filter="data")
    assert packed == {"LICENSE", "README.md", "glcb.d.ts", "glcb.js", "package.json"}
    assert not (folder / "LICENSE").exists()
    (tmp_path / "node_modules" / "package").rename(tmp_path / "node_modules" / "glcb")
    program = 'import * as glcb from "glcb"; console.log(Object.keys(glcb).join())'
    command = ["node", "--input-type=module", "-e", program]
    imported = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert imported.stdout == "Client,GlcbError\n"


def test_the_types_declare_the_methods_and_options_of_the_client() -> None:
    source, types = ((PACKAGE / name).read_text() for name in ("glcb.js", "glcb.d.ts"))
    assert set(re.findall(r"^export class (\w+)", source, re.M)) == set(
        re.findall(r"^export class (\w+)", types, re.M)
    )
    methods = re.findall(r"^  async (\w+)\(", source, re.M)
    assert methods == ["decide", "rank", "reward"]
    for method in methods:
        assert re.search(rf"^  {method}\(", types, re.M)
    for options in re.findall(r"\(.*\{ (.*) \} = \{\}\)", source):
        for option in re.findall(r"(\w+)(?: = [^,]+)?(?:,|$)", options):
            assert re.search(rf"^ .*\b{option}\?: ", types, re.M), option


# ---- Chromium ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(shop: Shop) -> "Iterator[Page]":
    """A page of the listed origin."""
    with browser() as running:
        yield running.new_context().new_page()


def run(page: "Page", shop: Shop, script: str, key: str | None = None) -> Any:
    """Run a script with ``home``, the experiment of the client that the service serves."""
    program = f"""
        const {{ Client }} = await import("{shop.server.url}/glcb.js");
        const client = new Client("{shop.server.url}", {{ apiKey: "{key or shop.page}", retryFor: 0 }});
        const home = client.experiment("home");
        const failure = (promise) => promise.then(() => null, (error) => [error.code, error.message]);
        {script}
    """
    return page.evaluate(f"(async () => {{ {program} }})()")


@pytest.mark.browser
def test_a_page_of_a_listed_origin_decides_and_reports_rewards(shop: Shop, page: "Page") -> None:
    page.goto(shop.origin)
    script = """
        const outlive = [];
        const send = globalThis.fetch;
        globalThis.fetch = (url, request) => {
            outlive.push(request.keepalive);
            return send(url, request);
        };
        const decision = await home.decide({ country: "FR", age: 31 });
        const ranking = await home.rank({ country: "FR" }, 2);
        const rewards = [await home.reward(decision.id, 1), await home.reward(ranking.id, 1, { slot: 1 })];
        const late = await failure(home.reward(decision.id, 1));
        return { decision, ranking, rewards, late, outlive };
    """
    shown = run(page, shop, script)
    assert set(shown["decision"]) == {"id", "arm"}
    assert len(set(shown["ranking"]["arms"])) == 2
    assert shown["rewards"] == [True, True]
    assert shown["late"][0] == "duplicate_reward"
    assert shown["outlive"] == [False, False, True, True, True], "rewards outlive the page"
    assert run(page, shop, "return failure(home.decide({}))", key="wrong")[0] == "unauthorized"


@pytest.mark.browser
def test_a_reward_that_is_sent_while_the_page_unloads_arrives(shop: Shop, page: "Page") -> None:
    page.goto(shop.origin)
    script = """
        const { id } = await home.decide({ country: "FR" });
        addEventListener("pagehide", () => { home.reward(id, 1); });
        return id;
    """
    decision = run(page, shop, script)
    page.goto("about:blank")
    for _ in range(100):
        rewarded = {event["id"] for event in shop.team.events("home") if "reward" in event}
        if decision in rewarded:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"the reward of {decision} has not arrived")


@pytest.mark.browser
def test_a_page_of_another_origin_is_refused(shop: Shop, page: "Page") -> None:
    before = shop.counts()
    with http_server(empty_page) as other:
        page.goto(other)
        code, message = run(page, shop, "return failure(home.decide({}))")
    assert code == "no_response"
    assert f"cors_origins has {other}" in message
    assert shop.counts() == before
    page.goto(shop.origin)
    stats = f'fetch("{shop.server.url}{HOME}/stats", {{headers: {{Authorization: "Bearer {shop.admin}"}}}})'
    assert page.evaluate(f"{stats}.then(() => 'read', () => 'refused')") == "refused"


@pytest.mark.browser
def test_a_page_over_the_rate_reads_why(shop: Shop, page: "Page") -> None:
    page.goto(shop.origin)
    script = f"return Promise.all(Array.from({{length: {RATE + 10}}}, () => failure(home.decide({{}}))))"
    codes = {error[0] for error in run(page, shop, script, key=shop.limited) if error}
    assert codes == {"rate_limited"}

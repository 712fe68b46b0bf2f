"""The plainest client: one connection per request, so that nothing outlives a killed server."""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def data(self) -> Any:
        """Return the body, read as JSON."""
        return json.loads(self.content)

    @property
    def code(self) -> str:
        """Return the code of an error."""
        return str(self.data["error"]["code"])


@dataclass(frozen=True)
class Client:
    """Asks one server, with one key or none."""

    url: str
    key: str | None = None
    seconds: float = 30.0

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send ``body`` as JSON, or ``content`` as it is, and return the answer."""
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            content = json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=self.seconds)
        try:
            connection.request(method, path, content, {**sent, **(headers or {})})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        """Ask for ``path``."""
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        """Send ``body`` to ``path``."""
        return self.ask("POST", path, body)

    def put(self, path: str, body: Any) -> Answer:
        """Put ``body`` at ``path``."""
        return self.ask("PUT", path, body)

    def events(self, experiment: str, after: int = 0) -> list[dict[str, Any]]:
        """Return the exported events of an experiment."""
        answer = self.get(f"/v1/experiments/{experiment}/export?format=jsonl&after={after}")
        assert answer.status == 200, answer
        return [json.loads(line) for line in answer.content.splitlines()]

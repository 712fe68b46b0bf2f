"""A minimal HTTP client: one connection per request, so that no connection outlives a killed server."""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def data(self) -> Any:
        """The body, parsed as JSON."""
        return json.loads(self.content)

    @property
    def code(self) -> str:
        """The error code."""
        return str(self.data["error"]["code"])


@dataclass(frozen=True)
class Client:
    """Sends requests to one server, with an API key if there is one."""

    url: str
    api_key: str | None = None
    timeout: float = 30.0

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send ``body`` as JSON, or ``content`` unchanged, and return the response.

        The request is repeated while its experiment is being opened.
        """
        while True:
            answer = self._ask(method, path, body, content, headers)
            if answer.status != 503 or b'"experiment_opening"' not in answer.content:
                return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: Any,
        content: bytes | Iterator[bytes] | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        all_headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        if body is not None:
            content = json.dumps(body).encode()
        if content is not None:
            all_headers["Content-Type"] = "application/json"
        url = urlsplit(self.url)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=self.timeout)
        try:
            connection.request(method, path, content, {**all_headers, **(headers or {})})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        """Send a GET request."""
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        """Send a POST request."""
        return self.ask("POST", path, body)

    def put(self, path: str, body: Any) -> Answer:
        """Send a PUT request."""
        return self.ask("PUT", path, body)

    def changes(self, experiment: str) -> list[dict[str, Any]]:
        """Return the change history of an experiment, newest first."""
        found: list[dict[str, Any]] = []
        while True:
            before = found[-1]["sequence"] if found else 0
            answer = self.get(f"/v1/experiments/{experiment}/changes?limit=100&before={before}")
            assert answer.status == 200, answer
            found += answer.data["changes"]
            if len(answer.data["changes"]) < 100:
                return found

    def events(self, experiment: str, after: int = 0) -> list[dict[str, Any]]:
        """Return the exported events of an experiment."""
        answer = self.get(f"/v1/experiments/{experiment}/export?format=jsonl&after={after}")
        assert answer.status == 200, answer
        _header, *events = map(json.loads, answer.content.splitlines())
        return events

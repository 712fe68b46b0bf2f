"""The steps of the Dockerfile in an empty virtual environment: build, install, compile, serve, check health.

Part of ``make soak``, for machines without Docker. It runs the commands of the Dockerfile itself, with the
folders of the image replaced by temporary ones, and makes a first decision.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
START_TIMEOUT = 120.0
"""Seconds within which the service must be healthy."""
_AS_ROOT = "useradd"
"""The step that creates the user, which is skipped."""


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with their arguments."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def replace_folders(text: str, folder: Path) -> str:
    """Replace the folders of the image by folders below ``folder``."""
    return re.sub(r"(?<![\w/])/(wheels|var/lib/glcb|var/cache/glcb)\b", rf"{folder}/\1", text)


class Container:
    """The state after each step: environment variables, and the commands that start and check the service.

    Parameters
    ----------
    folder
        An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)
        for name in ("wheels", "var/lib/glcb", "var/cache/glcb", "home"):
            (folder / name).mkdir(parents=True)
        self.environment = {
            "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder / "home"),
        }
        self.commands: dict[str, list[str]] = {}

    def build(self, text: str) -> None:
        """Run all steps of a Dockerfile and print their durations."""
        for name, rest in instructions(replace_folders(text, self.folder)):
            if name in ("ARG", "ENV"):
                self.environment |= dict(item.split("=", 1) for item in shlex.split(rest))
            elif name == "RUN" and _AS_ROOT not in rest:
                started = time.perf_counter()
                subprocess.run(
                    ["sh", "-c", rest], cwd=ROOT, env=self.environment, check=True, stdout=subprocess.DEVNULL
                )
                print(f"{time.perf_counter() - started:6.1f} s  {shlex.split(rest)[:2]}", flush=True)
            elif name in ("ENTRYPOINT", "CMD"):
                self.commands[name] = json.loads(rest)
            elif name == "HEALTHCHECK":
                self.commands[name] = json.loads(rest[rest.index("[") :])

    def run(self, *arguments: str) -> str:
        """Run the entry point with arguments instead of the default command; return what it prints."""
        command = [*self.commands["ENTRYPOINT"], *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    def serve(self, port: int) -> "subprocess.Popen[bytes]":
        """Start the service and wait until the health check succeeds."""
        environment = {**self.environment, "GLCB_SERVE_PORT": str(port)}
        command = [*self.commands["ENTRYPOINT"], *self.commands["CMD"]]
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.DEVNULL)
        check = [part.replace(":8000", f":{port}") for part in self.commands["HEALTHCHECK"]]
        while subprocess.run(check, env=self.environment, stderr=subprocess.DEVNULL).returncode != 0:
            if process.poll() is not None or time.perf_counter() - started > START_TIMEOUT:
                process.kill()
                raise RuntimeError("the service is not healthy")
            time.sleep(0.1)
        print(f"{time.perf_counter() - started:6.1f} s  from start to healthy", flush=True)
        return process


def request(url: str, key: str, method: str, body: Mapping[str, object]) -> object:
    """Send a JSON request with an API key and return the answer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    message = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(message, timeout=30) as answer:
        return json.load(answer)


def main() -> None:
    """Build, serve and decide."""
    with tempfile.TemporaryDirectory(prefix="glcb-container-") as folder:
        container = Container(Path(folder))
        container.build((ROOT / "Dockerfile").read_text())
        key = container.run("keys", "add", "team", "--role", "admin")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = container.serve(port)
        url = f"http://127.0.0.1:{port}/v1/experiments/homepage"
        try:
            request(url, key, "PUT", {"arms": ["sports", "news"]})
            started = time.perf_counter()
            answer = request(f"{url}/decisions", key, "POST", {"context": {"age": 31}})
            print(f"{time.perf_counter() - started:6.1f} s  for the first decision: {answer}")
        finally:
            process.terminate()
            code = process.wait(60)
        print(f"stopped with exit code {code}")
        sys.exit(code)


if __name__ == "__main__":
    main()

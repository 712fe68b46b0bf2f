"""Start, stop and kill a real ``glcb serve`` process."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.service.client import Client

START_TIMEOUT = 120.0
"""Seconds within which a server must be ready; the first start compiles the kernels."""
_SERVING = re.compile(rb"serving on (http://[\w.:\[\]-]+)")


class Server:
    """A ``glcb serve`` process on one database; it can be restarted."""

    def __init__(
        self,
        store: Sequence[str],
        *flags: str,
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        """Configure a server; ``store`` selects the database, ``wrapper`` is a command prefix."""
        self.store = tuple(store)
        self.flags = flags
        self.url = ""
        self._wrapper = tuple(wrapper)
        self.environment = dict(environment or {})
        """Changes of the environment, from the next start on."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with tempfile.NamedTemporaryFile(prefix="glcb-serve-", suffix=".log", delete=False) as log:
            self.log = Path(log.name)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def client(self) -> Client:
        """A client without an API key."""
        return Client(self.url)

    def start(self, *, wait: bool = True, seconds: float = START_TIMEOUT) -> "Server":
        """Start on a free port; with ``wait``, return once it serves or fail after ``seconds``."""
        command = [
            *self._wrapper,
            sys.executable,
            "-m",
            "glcb",
            "serve",
            "--port",
            "0",
            *self.store,
            *self.flags,
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stderr=log, stdout=log, env={**os.environ, **self.environment}, cwd=self._folder
            )
        if wait:
            self._wait(seconds)
        return self

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not (match := _SERVING.search(self.log.read_bytes())):
            if self.exit_code() is not None:
                raise RuntimeError(f"the server exited with code {self.exit_code()}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the server was not ready after {seconds:.0f} s:\n{self.output()}")
            time.sleep(0.01)
        self.url = match[1].decode()

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        assert self._process is not None, "the server was not started"
        return self._process.poll()

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """Stop the process gracefully (SIGTERM) and return its exit code."""
        assert self._process is not None, "the server was not started"
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        finally:
            self.kill()

    def output(self) -> str:
        """Return the output so far."""
        return self.log.read_text(errors="replace")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another ``glcb`` command on the same database, such as ``audit``."""
        return subprocess.run(
            [sys.executable, "-m", "glcb", *arguments, *self.store],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self.environment},
        )

    def close(self) -> None:
        """Kill the process and remove its log file."""
        self.kill()
        self.log.unlink(missing_ok=True)


@contextmanager
def serving(
    store: Sequence[str], *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a server for the duration of the block."""
    server = Server(store, *flags, environment=environment)
    try:
        yield server.start()
    finally:
        server.close()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its running descendants (Linux)."""
    total, parents = 0.0, {pid}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) in parents or int(fields[1]) in parents:
            parents.add(int(folder.name))
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

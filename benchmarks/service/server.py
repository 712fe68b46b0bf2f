"""Starting, stopping and killing a real ``glcb serve``."""

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

REWARD_TIMEOUT = 120.0
"""Seconds within which a server must be ready; the first one ever compiles the kernels."""
_SERVING = re.compile(rb"serving on (http://[\w.:\[\]-]+)")


class Server:
    """One ``glcb serve`` process over one place of data, started as often as one likes."""

    def __init__(
        self,
        store: Sequence[str],
        *flags: str,
        environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        """Prepare; ``store`` is the flag that names the data, ``before`` a command to run it under."""
        self.store = tuple(store)
        self.flags = flags
        self.url = ""
        self._before = tuple(before)
        self._environment = {**os.environ, **(environment or {})}
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with tempfile.NamedTemporaryFile(prefix="glcb-serve-", suffix=".log", delete=False) as log:
            self.log = Path(log.name)

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def client(self) -> Client:
        """Return a client without a key."""
        return Client(self.url)

    def start(self, *, wait: bool = True, seconds: float = REWARD_TIMEOUT) -> "Server":
        """Start on a free port, and wait until it serves, at most so long."""
        command = [
            *self._before,
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
                command, stderr=log, stdout=log, env=self._environment, cwd=self._folder
            )
        if wait:
            self._wait(seconds)
        return self

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not (found := _SERVING.search(self.log.read_bytes())):
            if self.ended() is not None:
                raise RuntimeError(f"the server ended with {self.ended()}:\n{self.said()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the server was not ready after {seconds:.0f} s:\n{self.said()}")
            time.sleep(0.01)
        self.url = found[1].decode()

    def ended(self) -> int | None:
        """Return the exit code, or nothing while it runs."""
        assert self._process is not None, "the server was not started"
        return self._process.poll()

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """Ask it to end, and return its exit code."""
        assert self._process is not None, "the server was not started"
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        finally:
            self.kill()

    def said(self) -> str:
        """Return what it wrote so far."""
        return self.log.read_text(errors="replace")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another ``glcb`` command on the same data, such as ``verify``."""
        return subprocess.run(
            [sys.executable, "-m", "glcb", *arguments, *self.store],
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
        )

    def forget(self) -> None:
        """Kill it and remove its log."""
        self.kill()
        self.log.unlink(missing_ok=True)


@contextmanager
def serving(
    store: Sequence[str], *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Serve until the end of the block."""
    server = Server(store, *flags, environment=environment)
    try:
        yield server.start()
    finally:
        server.forget()


def cpu_seconds(pid: int) -> float:
    """Return the time on the CPU of a process and those that it started, as far as they live (Linux)."""
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
    """Return how much memory a process holds (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""A temporary PostgreSQL cluster in its own folder, run by an unprivileged user."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = Path("/usr/lib/postgresql")
_USERS = ("postgres", "nobody")
"""Users that may run the cluster when the caller is root, because PostgreSQL refuses to run as root."""


def binaries() -> Path | None:
    """Return the folder of ``initdb`` and ``pg_ctl`` (on the path, or Debian's newest), or None."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


class Cluster:
    """A database cluster with a Unix socket in its own folder."""

    def __init__(self, folder: Path, user: str | None) -> None:
        folder_of_binaries = binaries()
        assert folder_of_binaries is not None, "PostgreSQL is not installed"
        self._bin = folder_of_binaries
        self._folder = folder
        self._user = user

    @property
    def url(self) -> str:
        """The URL for ``glcb serve --database``."""
        return f"postgresql://{self._name}@/postgres?host={self._folder}"

    @property
    def pid(self) -> int:
        """The id of the main process."""
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    @property
    def _name(self) -> str:
        return self._user or pwd.getpwuid(os.geteuid()).pw_name

    def create(self, *settings: str) -> None:
        """Create the cluster, with extra lines for its configuration file."""
        self._run("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "-D", str(self._folder / "data"))
        configuration = self._folder / "data" / "postgresql.conf"
        lines = ("listen_addresses = ''", f"unix_socket_directories = '{self._folder}'", *settings)
        configuration.write_text(configuration.read_text() + "\n".join(lines) + "\n")

    def start(self) -> None:
        """Start the cluster and wait until it accepts connections."""
        self._control("start", "-l", str(self._folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop the cluster; ``fast`` closes all connections, ``immediate`` simulates a crash."""
        self._control("stop", "-m", mode)

    def is_running(self) -> bool:
        """Return whether the cluster runs."""
        return (self._folder / "data" / "postmaster.pid").exists()

    def ask(self, statement: str) -> str:
        """Run one statement with ``psql`` and return its output."""
        return self._run("psql", "-h", str(self._folder), "-d", "postgres", "-At", "-c", statement).strip()

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-w", "-s", "-D", str(self._folder / "data"), *arguments)

    def _run(self, program: str, *arguments: str) -> str:
        ran = subprocess.run(
            [str(self._bin / program), *arguments],
            cwd=self._folder,
            user=self._user,
            group=pwd.getpwnam(self._user).pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            stdin=subprocess.DEVNULL,
            # The server inherits pg_ctl's output: reading a pipe would never end.
            stdout=subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE,
            text=True,
            check=True,
        )
        return ran.stdout or ""


@contextmanager
def cluster(*settings: str) -> Iterator[Cluster]:
    """Run a new cluster for the duration of the block."""
    user = None
    if os.geteuid() == 0:
        existing = {entry.pw_name for entry in pwd.getpwall()}
        user = next(name for name in _USERS if name in existing)
    # Not in pytest's temporary folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="glcb-pg-") as name:
        folder = Path(name)
        if user:
            os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        running = Cluster(folder, user)
        running.create(*settings)
        running.start()
        try:
            yield running
        finally:
            if running.is_running():
                running.stop("immediate")

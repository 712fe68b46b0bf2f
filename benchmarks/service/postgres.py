"""A PostgreSQL of our own in a temporary folder, run by somebody who is not root."""

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
"""Who runs it when we are root, whom PostgreSQL refuses."""


def binaries() -> Path | None:
    """Return the folder with ``initdb`` and ``pg_ctl``, if there is one: on the path, or Debian's newest."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


class Cluster:
    """One database cluster, reached through a socket in its own folder."""

    def __init__(self, folder: Path, user: str | None) -> None:
        found = binaries()
        assert found is not None, "PostgreSQL is not here"
        self._bin = found
        self._folder = folder
        self._user = user

    @property
    def url(self) -> str:
        """Return the address for ``glcb serve --database``."""
        return f"postgresql://{self._name}@/postgres?host={self._folder}"

    @property
    def pid(self) -> int:
        """Return the number of its first process."""
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    @property
    def _name(self) -> str:
        return self._user or pwd.getpwuid(os.geteuid()).pw_name

    def create(self, *settings: str) -> None:
        """Make it, with lines of its configuration file beyond the defaults."""
        self._run("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "-D", str(self._folder / "data"))
        configuration = self._folder / "data" / "postgresql.conf"
        ours = ("listen_addresses = ''", f"unix_socket_directories = '{self._folder}'", *settings)
        configuration.write_text(configuration.read_text() + "\n".join(ours) + "\n")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._control("start", "-l", str(self._folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` breaks all connections off, ``immediate`` is a crash."""
        self._control("stop", "-m", mode)

    def runs(self) -> bool:
        """Tell whether it runs."""
        return (self._folder / "data" / "postmaster.pid").exists()

    def ask(self, statement: str) -> str:
        """Return what ``psql`` says to one statement."""
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
            # The database goes on holding what pg_ctl was given: a pipe would never end.
            stdout=subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE,
            text=True,
            check=True,
        )
        return ran.stdout or ""


@contextmanager
def cluster(*settings: str) -> Iterator[Cluster]:
    """Run a fresh cluster until the end of the block."""
    user = None
    if os.geteuid() == 0:
        known = {entry.pw_name for entry in pwd.getpwall()}
        user = next(name for name in _USERS if name in known)
    # Not below the folder of pytest, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="glcb-pg-") as name:
        folder = Path(name)
        if user:
            os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        ours = Cluster(folder, user)
        ours.create(*settings)
        ours.start()
        try:
            yield ours
        finally:
            if ours.runs():
                ours.stop("immediate")

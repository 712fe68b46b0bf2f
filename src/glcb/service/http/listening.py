"""Sockets on which a service listens, and when it may."""

import contextlib
import errno
import os
import resource
import socket
import sys
from collections.abc import Iterator, Sequence

from glcb._errors import InvalidSettings
from glcb.service.access.api_keys import ApiKey
from glcb.service.config import ServiceSettings
from glcb.service.http.authentication import is_loopback

BACKLOG = 2048


def require_keys_if_public(settings: ServiceSettings, keys: Sequence[ApiKey]) -> None:
    """Refuse a public address without API keys."""
    if not keys and not is_loopback(settings.host):
        raise InvalidSettings(
            f"other machines can reach {settings.host}, and there are no API keys: create one with "
            "`glcb keys add NAME --role admin`, or serve on 127.0.0.1"
        )


def raise_file_limit() -> int:
    """Raise the limit on open files as far as the system permits; return the new limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket, and close it after the block."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with _listen_errors(host, port):
            listener.bind((host, port))
        listener.setblocking(False)
        yield listener


def listen(listener: socket.socket) -> None:
    """Accept connections from now on."""
    with _listen_errors(*listener.getsockname()[:2]):
        listener.listen(BACKLOG)


def url_of(listener: socket.socket) -> str:
    """Return the URL of a service on a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def _listen_errors(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = (
            ": choose another with --port, or --port 0 for a free one"
            if error.errno == errno.EADDRINUSE
            else ""
        )
        raise InvalidSettings(f"cannot listen on {host} port {port}: {reason}{advice}") from error

"""Connections to Ray, an optional dependency."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from glcb._errors import InvalidSettings, MissingExtra, install_command

_CONNECT_SECONDS = 5.0


def require_ray() -> None:
    """Raise MissingExtra if Ray is not installed."""
    if find_spec("ray") is None:
        raise MissingExtra(f"the executor ray, and several workers, need Ray: {install_command('ray')}")


def _require_reachable(address: str) -> None:
    """Raise OSError if nothing listens at an address: Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


@contextmanager
def connected(
    address: str | None = None, cores: int | None = None, object_store: int | None = None
) -> Iterator[None]:
    """Connect this process to Ray within the block. A process that is already connected stays so.

    Parameters
    ----------
    address : str, optional
        Address of the cluster, such as ``"10.0.0.1:6379"``. Default: the environment variable
        ``RAY_ADDRESS``, or an instance of Ray on this machine that ends with the block.
    cores : int, optional
        Number of cores of the instance on this machine. Default: all.
    object_store : int, optional
        Bytes of its object store. Default: a share of the memory.

    Raises
    ------
    InvalidSettings
        The cluster cannot be reached.
    MissingExtra
        Ray is not installed.
    """
    require_ray()
    # An instance that we start reports nothing to anybody, unless the user wants it to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    is_local = address == "local"
    try:
        _require_reachable(address)
        ray.init(
            address,
            num_cpus=cores if is_local else None,
            object_store_memory=object_store if is_local else None,
            include_dashboard=False if is_local else None,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidSettings(
            f"cannot connect to Ray at {address} ({reason}): start a cluster with `ray start --head`, and "
            "pass the address that it prints"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()

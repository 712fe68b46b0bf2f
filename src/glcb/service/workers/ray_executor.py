"""Workers on the nodes of a Ray cluster. Ray starts their parents, and starts them again; requests do not
pass it.

Each node with CPUs gets one parent with some workers, as if somebody had started ``glcb serve --workers``
there. Who owns what is in PostgreSQL, as on one machine. Workers of a node that Ray drains hand their
experiments over.
"""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import msgspec

from glcb._errors import StorageError
from glcb._ray import connected, require_ray
from glcb.service.config import ServiceSettings
from glcb.service.process.log_output import configure_logging
from glcb.service.storage.database import open_database
from glcb.service.storage.tables import read_about
from glcb.service.workers.orders import check_workers
from glcb.service.workers.parent import serve_workers

log = logging.getLogger("glcb.service")

_COMMAND = (sys.executable, "-c", "from glcb.service.workers.ray_executor import run_node; run_node()")
_CPUS = 0.001
"""What a parent takes of the CPUs of its node: nodes without CPUs get none."""
_POLL_SECONDS = 1.0
_START_SECONDS = 180.0
_SERVING = re.compile(rb"serving on (\S+)")


class _NodeOrders(msgspec.Struct):
    """What a parent on a node is told."""

    settings: ServiceSettings
    host: str


_ORDERS = msgspec.json.Decoder(_NodeOrders)


def serve_on_ray(settings: ServiceSettings) -> None:
    """Run workers on all nodes of a Ray cluster until SIGINT or SIGTERM.

    If this process is killed, the workers go on, and another one can take its place.

    Parameters
    ----------
    settings
        The settings of the service; ``workers`` is the number on each node.

    Raises
    ------
    InvalidSettings
        The database is not PostgreSQL, or the cluster cannot be reached.
    MissingExtra
        Ray is not installed.
    StorageError
        The database cannot be opened.
    """
    configure_logging(settings.log_level, settings.log_format)
    check_workers(settings)
    require_ray()
    from ray.exceptions import RayError

    with contextlib.closing(open_database(settings)) as database, database.read() as connection:
        namespace = f"glcb-{read_about(connection, 'id')}"
    is_stopping = threading.Event()
    with connected(settings.address):
        for number in (signal.SIGINT, signal.SIGTERM):  # now: Ray has handlers of its own
            signal.signal(number, lambda *_: is_stopping.set())
        placed = _Placed(settings, namespace)
        try:
            while not is_stopping.wait(_POLL_SECONDS):
                try:
                    placed.step()
                except RayError as error:  # the workers go on
                    log.error("the cluster does not answer", extra={"reason": str(error)})
        finally:
            placed.stop()


class _Placed:
    """The parents on the nodes of a cluster."""

    def __init__(self, settings: ServiceSettings, namespace: str) -> None:
        self._settings = settings
        self._namespace = namespace
        self._hosts: dict[str, Any] = {}
        self._starting: dict[Any, str] = {}

    def step(self) -> None:
        """Start a parent on each node that has none, and say where those that are ready serve."""
        import ray
        from ray._private.state import state
        from ray.exceptions import RayError

        leaving = state.get_draining_nodes()
        nodes = [one for one in ray.nodes() if one["Alive"] and one["Resources"].get("CPU")]
        names = Counter(one["NodeManagerHostname"] for one in nodes)
        for one in nodes:
            node, host = one["NodeID"], one["NodeManagerHostname"]
            if node in leaving:
                if node in self._hosts:
                    self._hosts.pop(node).stop.remote()
            elif node not in self._hosts:
                name = host if names[host] == 1 else f"{host}-{node[:8]}"  # several nodes on one machine
                self._hosts[node] = made = self._start(node, one["NodeManagerAddress"], name)
                self._starting[made.url.remote()] = node
        alive = {one["NodeID"] for one in nodes}
        self._hosts = {node: host for node, host in self._hosts.items() if node in alive}
        done, _ = ray.wait(list(self._starting), timeout=0) if self._starting else ([], [])
        for reference in done:
            node = self._starting.pop(reference)
            try:
                sys.stderr.write(f"serving on {ray.get(reference)}\n")
                sys.stderr.flush()
            except RayError as error:  # try again, unless the node is gone
                first, *_ = str(error).strip().split("\n")
                log.error("workers cannot start on a node", extra={"node": node, "reason": first})
                if node in self._hosts:
                    ray.kill(self._hosts.pop(node), no_restart=True)

    def _start(self, node: str, address: str, name: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        settings = self._settings
        inner = settings.inner_address or address
        own = msgspec.structs.replace(settings, executor="local", inner_address=inner)
        actor = ray.remote(NodeParent).options(
            name=f"node-{node}",
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=4,
            num_cpus=_CPUS,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return actor.remote(msgspec.json.encode(_NodeOrders(own, name)))

    def stop(self) -> None:
        """Stop all parents, and wait for them."""
        import ray
        from ray.exceptions import RayError

        stops = [host.stop.remote() for host in self._hosts.values()]
        if stops:
            with contextlib.suppress(RayError):
                ray.wait(stops, num_returns=len(stops), timeout=2 * self._settings.shutdown_seconds)
        for host in self._hosts.values():
            ray.kill(host, no_restart=True)


class NodeParent:
    """A parent and its workers on a node, as a Ray actor. Ray starts it again when it ends.

    Parameters
    ----------
    orders
        What the parent is told.
    """

    def __init__(self, orders: bytes) -> None:
        self._url = ""
        self._is_ready = threading.Event()
        self._is_stopping = False
        self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(orders + b"\n")
        self._process.stdin.flush()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Pass the log on; end this process with the parent, so that Ray starts both again."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            sys.stderr.buffer.write(line)
            sys.stderr.flush()
            found = _SERVING.match(line)
            if found is not None:
                self._url = found[1].decode()
                self._is_ready.set()
        self._process.wait()
        if not self._is_stopping:
            time.sleep(_POLL_SECONDS)
            os._exit(1)

    def url(self) -> str:
        """Return where the parent serves, once it does."""
        if not self._is_ready.wait(_START_SECONDS):
            raise StorageError("the workers of this node are not ready: see its log")
        return self._url

    def stop(self) -> None:
        """Let the workers hand their experiments over, and end."""
        self._is_stopping = True
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def run_node() -> None:
    """Run a parent with the orders on standard input, until that is closed."""
    orders = _ORDERS.decode(sys.stdin.buffer.readline())

    def wait_for_the_end() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)  # the actor has ended

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    serve_workers(orders.settings, host=orders.host)

"""The actors of a service in a Ray cluster: their names, their options, and the nodes."""

from typing import Any, NamedTuple

from glcb.service.shards.actors import ShardActor
from glcb.service.shards.plan import Node, stored_plan
from glcb.service.storage.database import Database
from glcb.service.storage.ownership import Owner, owner_of
from glcb.service.storage.tables import read_about

_CPUS = 0.001
"""What a shard takes of the CPUs of its node: nodes without CPUs get none."""
_CONCURRENT_CALLS = 10_000
_HEAD = "node:__internal_head__"
"""The resource by which Ray marks the head."""


class ShardLayout(NamedTuple):
    """What the process of a shard needs to know."""

    claim: str
    shards: int
    """Their number."""
    settings: bytes


class Cluster:
    """The nodes of Ray, and the actors of one service.

    Parameters
    ----------
    database
        The database of the service: its id names the actors, and it knows which process has a shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.read() as connection:
            self._namespace = f"glcb-{read_about(connection, 'id')}"

    def nodes(self) -> list[Node]:
        """Return all nodes that are alive, by id."""
        import ray
        from ray._private.state import state

        leaving = state.get_draining_nodes()
        found = [
            Node(
                one["NodeID"],
                one["NodeManagerAddress"],
                one["NodeManagerHostname"],
                one["Resources"].get("CPU", 0.0),
                one["NodeID"] in leaving,
            )
            for one in ray.nodes()
            if one["Alive"]
        ]
        return sorted(found)

    def coordinator(self, kind: type[Any], *arguments: Any) -> Any:
        """Return the coordinator; start it if there is none, beside the head if possible."""
        import ray

        head = next((one["NodeID"] for one in ray.nodes() if _HEAD in one["Resources"]), None)
        return self._actor(kind, "coordinator", head, 0).remote(*arguments)

    def owner(self, number: int) -> Owner:
        """Return the process that took a shard last."""
        with self._database.read() as connection:
            return owner_of(connection, number)

    def shard(self, number: int, owner: Owner | None = None) -> Any:
        """Return the actor that has a shard, or had it as ``owner``; None if there is none."""
        import ray

        try:
            return ray.get_actor(actor_name(number, owner or self.owner(number)), self._namespace)
        except ValueError:
            return None

    def start_shard(self, number: int, generation: int, layout: ShardLayout, node: str | None = None) -> Any:
        """Return the actor of a generation of a shard; start it if there is none.

        Parameters
        ----------
        number
            The shard.
        generation
            The one after that of the owner. Read the owner once: somebody else may start the same actor.
        layout
            What its process needs to know.
        node
            Where to start it to take over from another process, once it is told to. By default, it takes the
            shard at once, on one of the nodes that get shards.
        """
        place = node or self._home(number)
        actor = self._actor(ShardActor, actor_name(number, Owner(layout.claim, generation)), place, _CPUS)
        return actor.remote(
            layout.settings, layout.claim, number, layout.shards, generation, node is not None
        )

    def _home(self, number: int) -> str | None:
        """Return the node for the first process of a shard: all front ends choose the same."""
        draining = stored_plan(self._database).draining
        homes = [node.id for node in self.nodes() if node.cpus > 0 and not node.leaves]
        homes = [node for node in homes if node not in draining] or homes
        return homes[number % len(homes)] if homes else None

    def _actor(self, kind: type[Any], name: str, node: str | None, cpus: float) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return ray.remote(kind).options(
            name=name,
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=cpus,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True) if node else "SPREAD",
            enable_task_events=False,
            max_concurrency=_CONCURRENT_CALLS if kind is ShardActor else 1,
        )


def actor_name(number: int, owner: Owner) -> str:
    """Return the name of the actor of a shard."""
    return f"shard-{owner.claim}-{number}-{owner.generation}"

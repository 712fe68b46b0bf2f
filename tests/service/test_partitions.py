"""Which worker owns which partition: decisions, and leases, fencing, moves and pins in PostgreSQL."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks.service import postgres
from glcb._errors import StorageError
from glcb.service.events import Event
from glcb.service.storage.database import Database
from glcb.service.storage.ownership import PARTITIONS, partition_of
from glcb.service.workers import partitions
from glcb.service.workers.partitions import (
    PartitionOwner,
    WorkerRow,
    WorkerView,
    should_restart,
    wanted_changes,
)

TAKEN = "another service has taken over"


def row(name: str, incarnation: str = "", **changes: object) -> WorkerRow:
    made = WorkerRow(name, incarnation or f"{name}1", f"/{name}", None, "host", 1, False, 0)
    return made._replace(**changes)  # type: ignore[arg-type]


def view_of(owned: dict[str, int], free: int = 0, **changes: object) -> WorkerView:
    """Return a view of workers with so many partitions each."""
    owners: dict[int, PartitionOwner] = {}
    for name, count in owned.items():
        for _ in range(count):
            owners[len(owners)] = PartitionOwner(f"{name}1", 1)
    for _ in range(free):
        owners[len(owners)] = PartitionOwner(None, 1)
    made = WorkerView(tuple(map(row, owned)), owners, {}, frozenset())
    return made._replace(**changes)  # type: ignore[arg-type]


# ---- decisions ----------------------------------------------------------------------------------


def settle(view: WorkerView) -> tuple[WorkerView, int]:
    """Let all workers change what they want until nobody wants anything; return the number of rounds."""
    for rounds in range(20):
        owners = dict(view.owners)
        for one in view.workers:
            changes = wanted_changes(view, one.name)
            for number in changes.take:
                assert view.owners[number].worker is None
                if owners[number].worker is None:  # PostgreSQL lets the first one have it
                    owners[number] = PartitionOwner(one.incarnation, owners[number].epoch + 1)
            for number, name in changes.give.items():
                assert view.owners[number].worker == one.incarnation
                owners[number] = PartitionOwner(f"{name}1", owners[number].epoch + 1)
        if owners == view.owners:
            return view, rounds
        view = view._replace(owners=owners)
    raise AssertionError("it does not settle")


def counts(view: WorkerView) -> list[int]:
    return [len(view.owned_by(one.name)) for one in view.workers]


@pytest.mark.parametrize(
    ("owned", "free"),
    [
        ({"a": 0}, 256),
        ({"a": 0, "b": 0, "c": 0}, 256),
        ({"a": 256, "b": 0}, 0),
        ({"a": 128, "b": 128, "c": 0}, 0),
        ({"a": 86, "b": 85}, 85),
        ({"a": 250, "b": 3, "c": 0, "d": 0, "e": 1}, 2),
    ],
)
def test_partitions_are_divided_evenly_within_few_rounds(owned: dict[str, int], free: int) -> None:
    settled, rounds = settle(view_of(owned, free))
    assert sum(counts(settled)) == 256
    assert max(counts(settled)) <= -(-256 // len(owned))
    assert rounds <= 4


def test_nobody_takes_a_partition_of_another_worker() -> None:
    changes = wanted_changes(view_of({"a": 200, "b": 0}, 56), "b")
    assert set(changes.take) == set(range(200, 256))
    assert changes.give == {}


def test_a_worker_that_is_drained_or_stops_gives_everything_away() -> None:
    for view in (
        view_of({"a": 86, "b": 85, "c": 85}, drained=frozenset("a")),
        view_of({"a": 86, "b": 85, "c": 85}, workers=(row("a", stopping=True), row("b"), row("c"))),
    ):
        settled, _ = settle(view)
        assert counts(settled) == [0, 128, 128]


def test_the_last_worker_keeps_its_partitions_although_it_is_drained() -> None:
    assert wanted_changes(view_of({"a": 256}, drained=frozenset("a")), "a") == ((), {})


def test_nobody_is_given_anything_if_all_workers_stop() -> None:
    rows = (row("a", stopping=True), row("b", stopping=True))
    assert wanted_changes(view_of({"a": 128, "b": 128}, workers=rows), "a") == ((), {})


def test_a_worker_whose_lease_has_expired_gets_nothing() -> None:
    view = view_of({"a": 256, "b": 0}, workers=(row("a"), row("b", is_live=False)))
    assert wanted_changes(view, "a") == ((), {})


def test_a_pinned_partition_goes_to_its_worker_and_stays_there() -> None:
    settled, _ = settle(view_of({"a": 128, "b": 128}, pins={0: "b", 200: "b"}))
    assert {0, 200} <= settled.owned_by("b")
    full = view_of({"a": 128, "b": 128}, pins=dict.fromkeys(range(200), "b"))
    settled, _ = settle(full)
    assert settled.owned_by("b") >= set(range(200))


def test_a_pin_to_a_worker_that_is_away_does_not_count() -> None:
    settled, _ = settle(view_of({"a": 0, "b": 0}, 256, pins={0: "c"}))
    assert sum(counts(settled)) == 256


def test_workers_restart_one_after_the_other_and_wait_until_all_are_back() -> None:
    view = view_of({"a": 128, "b": 128}, restarts=1, expected=2)
    assert [should_restart(view, name) for name in "ab"] == [True, False]
    stopping = view._replace(workers=(row("a", stopping=True), row("b")))
    assert not should_restart(stopping, "b")
    away = view._replace(workers=(row("b"),))
    assert not should_restart(away, "b")
    back = view._replace(workers=(row("a", restarts=1), row("b")))
    assert should_restart(back, "b")
    over = view._replace(workers=(row("a", restarts=1), row("b", restarts=1)))
    assert not any(should_restart(over, name) for name in "ab")


# ---- PostgreSQL ---------------------------------------------------------------------------------


class Member:
    """A worker without a service."""

    def __init__(self, url: str, name: str, incarnation: str = "", timeout: float = 0) -> None:
        self.database = Database(url, 5.0)
        try:
            self.row = partitions.join(self.database, row(name, incarnation), timeout)
        except StorageError:
            self.database.close()
            raise
        self.database.partitions = frozenset(range(PARTITIONS))

    @property
    def owned(self) -> set[int]:
        return partitions.renew(self.database, self.row).owned_by(self.row.name)

    def take(self) -> None:
        partitions.take(self.database, self.row, range(PARTITIONS))

    def give(self, other: "Member", *numbers: int) -> None:
        partitions.give(self.database, self.row, dict.fromkeys(numbers, other.row))


@pytest.fixture
def member(cluster: postgres.Cluster) -> Iterator[Callable[..., Member]]:
    """Return a function that makes workers."""
    made: list[Member] = []

    def make(*arguments: object) -> Member:
        made.append(Member(cluster.url, *arguments))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.database.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases expire at once."""
    from sqlalchemy import func

    monkeypatch.setattr(partitions, "_EXPIRES", func.clock_timestamp())


Make = Callable[..., Member]


def event(sequence: int) -> Event:
    return Event(sequence, 0.0, "decide", b"request", b"outcome")


def everything_fails(member: Member, number: int) -> None:
    """Assert that a worker can neither write nor confirm what it has read."""
    database = member.database
    for refused in (
        lambda: database.append([(number, *event(2))]),
        lambda: database.create("another", event(1)),
        lambda: database.delete(number, 0.0),
        database.confirm,
        database.fence,
        database.probe,
        lambda: partitions.renew(database, member.row),
        member.take,
        lambda: member.give(member, 1),
    ):
        with pytest.raises(StorageError, match=TAKEN):
            refused()


@pytest.mark.live
@pytest.mark.postgres
def test_a_worker_whose_lease_has_expired_is_replaced_and_can_neither_write_nor_answer(
    member: Make, quick: None
) -> None:
    first, second = member("a"), member("b")
    first.take()
    number = first.database.create("home", event(1))
    first.database.confirm()
    partitions.renew(first.database, first.row)  # the lease has expired, and nobody has noticed
    assert partitions.take_over(second.database, first.row)
    second.take()
    everything_fails(first, number)
    assert len(second.owned) == PARTITIONS
    second.database.append([(number, *event(2))])
    second.database.confirm()


@pytest.mark.live
@pytest.mark.postgres
def test_a_lease_that_was_renewed_is_not_taken(member: Make) -> None:
    first, second = member("a"), member("b")
    first.take()
    assert not partitions.take_over(second.database, first.row)
    partitions.expire(second.database, first.row.incarnation)
    partitions.renew(first.database, first.row)
    assert not partitions.take_over(second.database, first.row)
    assert len(first.owned) == PARTITIONS


@pytest.mark.live
@pytest.mark.postgres
def test_a_takeover_waits_for_the_transactions_of_the_worker(member: Make, quick: None) -> None:
    first, second = member("a"), member("b")
    first.take()
    with first.database.write():
        began = time.monotonic()
        with pytest.raises(StorageError, match="lock timeout"):
            partitions.take_over(second.database, first.row)
        assert time.monotonic() - began < 3
    assert partitions.take_over(second.database, first.row)


@pytest.mark.live
@pytest.mark.postgres
def test_each_partition_has_one_owner_when_many_take_at_the_same_time(member: Make) -> None:
    members = [member(name) for name in "abcd"]
    threads = [threading.Thread(target=one.take) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owned = [one.owned for one in members]
    assert sum(map(len, owned)) == PARTITIONS
    assert set().union(*owned) == set(range(PARTITIONS))


@pytest.mark.live
@pytest.mark.postgres
def test_a_partition_that_is_given_away_has_a_new_epoch(member: Make) -> None:
    first, second = member("a"), member("b")
    first.take()
    before = partitions.renew(first.database, first.row).owners
    first.give(second, 3, 4)
    after = partitions.renew(second.database, second.row).owners
    assert {number for number in after if after[number] != before[number]} == {3, 4}
    assert after[3] == PartitionOwner("b1", before[3].epoch + 1)
    assert second.owned == {3, 4}


@pytest.mark.live
@pytest.mark.postgres
def test_giving_waits_for_the_transactions_of_the_giver(member: Make) -> None:
    first, second = member("a"), member("b")
    first.take()
    done = threading.Event()

    def give() -> None:
        first.give(second, 3)
        done.set()

    thread = threading.Thread(target=give)
    with first.database.write():  # one whose connection was lost may still commit
        thread.start()
        assert not done.wait(0.3)
    thread.join()
    assert second.owned == {3}


@pytest.mark.live
@pytest.mark.postgres
def test_a_partition_given_to_a_worker_that_has_died_becomes_free(member: Make, quick: None) -> None:
    first, second, third = member("a"), member("b"), member("c")
    first.take()
    partitions.renew(second.database, second.row)
    assert partitions.take_over(third.database, second.row)
    first.give(second, 3)
    assert partitions.renew(first.database, first.row).owners[3].worker is None


@pytest.mark.live
@pytest.mark.postgres
def test_a_second_process_with_the_name_of_a_worker_waits_and_is_rejected(member: Make) -> None:
    first = member("a", "a1")
    first.take()
    with pytest.raises(StorageError, match="with a worker named a on host: stop it"):
        member("a", "a2")
    assert len(first.owned) == PARTITIONS


@pytest.mark.live
@pytest.mark.postgres
def test_a_worker_that_is_started_again_replaces_itself(member: Make) -> None:
    first = member("a", "a1")
    first.take()
    number = first.database.create("home", event(1))
    partitions.expire(first.database, "a1")
    again = member("a", "a2")
    everything_fails(first, number)
    assert again.owned == set()  # they are free
    again.take()
    assert len(again.owned) == PARTITIONS


@pytest.mark.live
@pytest.mark.postgres
def test_workers_that_cannot_reach_each_other_are_rejected(member: Make, cluster: postgres.Cluster) -> None:
    member("a")
    for other in (row("b", host="elsewhere"), row("b", address="10.0.0.7:9000", host="elsewhere")):
        with contextlib.closing(Database(cluster.url)) as database:
            with pytest.raises(StorageError, match=r"cannot be reached from here: .*inner_address"):
                partitions.join(database, other, 0)
            assert partition_names(database) == ["a"]


def partition_names(database: Database) -> list[str]:
    with database.read() as connection:
        return [one.name for one in partitions.read_view(connection).workers]


@pytest.mark.live
@pytest.mark.postgres
def test_a_service_that_is_one_process_fences_all_workers_and_is_fenced_by_them(
    member: Make, cluster: postgres.Cluster
) -> None:
    with contextlib.closing(Database(cluster.url)) as single:
        with single.exclusive(0):
            number = single.create("home", event(1))
        first = member("a")
        first.take()
        with single.exclusive(0):
            everything_fails(first, number)
            with (
                contextlib.closing(Database(cluster.url)) as other,
                pytest.raises(StorageError, match="another service uses this database"),
                other.share(0),
            ):
                pass
            again = member("a", "a2")
            with pytest.raises(StorageError, match=TAKEN):
                single.append([(number, *event(2))])
        assert again.owned == set()
        again.take()
        again.database.append([(number, *event(2))])


@pytest.mark.live
@pytest.mark.postgres
def test_workers_share_a_lock_that_keeps_a_single_process_off(cluster: postgres.Cluster) -> None:
    with contextlib.ExitStack() as stack:
        first, second, single = (
            stack.enter_context(contextlib.closing(Database(cluster.url))) for _ in range(3)
        )
        rejected = pytest.raises(StorageError, match="another service uses")
        with first.share(0), second.share(0), rejected, single.exclusive(0):
            pass
        with single.exclusive(0):
            pass


@pytest.mark.live
@pytest.mark.postgres
def test_pins_drains_and_restarts_outlive_all_workers(member: Make) -> None:
    first = member("a")
    partitions.pin(first.database, "home", "b")
    partitions.drain(first.database, "c", True)
    partitions.restart(first.database)
    partitions.leave(first.database, first.row)
    again = member("a", "a2")
    view = partitions.renew(again.database, again.row)
    assert view.pins == {partition_of("home"): "b"}
    assert view.drained == {"c"}
    assert (view.restarts, view.expected) == (1, 1)
    assert again.row.restarts == 1
    partitions.pin(again.database, "home", None)
    partitions.drain(again.database, "c", False)
    view = partitions.renew(again.database, again.row)
    assert (view.pins, view.drained) == ({}, frozenset())


@pytest.mark.live
@pytest.mark.postgres
def test_a_worker_that_leaves_frees_its_partitions(member: Make) -> None:
    first, second = member("a"), member("b")
    first.take()
    partitions.leave(first.database, first.row)
    with pytest.raises(StorageError, match=TAKEN):
        first.database.create("home", event(1))
    second.take()
    assert len(second.owned) == PARTITIONS


@pytest.mark.live
@pytest.mark.postgres
def test_experiments_are_listed_by_partition(member: Make) -> None:
    first = member("a")
    names = [f"e{number}" for number in range(20)]
    for name in names:
        first.database.create(name, event(1))
    some = {partition_of(name) for name in names[:5]}
    expected = sorted(name for name in names if partition_of(name) in some)
    assert [one.name for one in first.database.experiments(some)] == expected
    assert first.database.experiment_names() == sorted(names)
    assert first.database.experiments(()) == []

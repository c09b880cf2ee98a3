"""
A lake on which a race is played by hand: who goes on is said step by step.

The observer watches as in a random run, so a scenario asserts only what it is about.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import greenlet
from pyiceberg.types import StringType

from tests.simulation import rows, strangers
from tests.simulation.actions import SCHEMA
from tests.simulation.attempts import Attempt, Operation, Read
from tests.simulation.audit import audit
from tests.simulation.determinism import simulated
from tests.simulation.faults import FaultPlan
from tests.simulation.run import new_lake, quiet
from tests.simulation.scheduler import Process, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.catalogs import Identifier
    from tests.simulation.rows import Rows

A: Identifier = ("lake", "t0")
B: Identifier = ("lake", "t1")
C: Identifier = ("lake", "t2")
NEW: Identifier = ("lake", "n0")


class Stage:
    """A lake with the registered tables A, B and C, of three rows each."""

    def __init__(self, world: World, *, server: bool) -> None:
        self.world = world
        self.lake = new_lake(world, server=server)
        self.observer = self.lake.observer
        self.history = self.lake.observer.history

    def handle(self, **options: Any) -> Any:
        """Open a handle; nothing is applied but by who asks for it."""
        self.lake.options = {"apply": "next", "tidy_after": 1000, **options}
        return self.lake.open()

    def begin(self, handle: Any, **options: Any) -> Txn:
        """Begin a transaction."""
        return Txn(self, handle, **options)

    # ------------------------------------------------------------ strangers

    def raw(self, name: Identifier) -> Any:
        """Load a table past the protocol."""
        return self.lake.connect().load_table(name)

    @contextmanager
    def stranger(self) -> Iterator[None]:
        """Do something as somebody who knows nothing of the protocol."""
        actor = self.world.actor
        actor.stranger = True
        try:
            yield
        finally:
            actor.stranger = False

    def foreign_append(self, name: Identifier) -> Rows:
        """Append a row past the protocol."""
        row = self.lake.new_row()
        with self.stranger():
            strangers.append_rows(self.raw(name), [row])
        return frozenset({row})

    def foreign_compaction(self, name: Identifier) -> None:
        """Compact a table past the protocol."""
        with self.stranger():
            strangers.compact_table(self.lake, self.raw(name))

    def foreign_expiry(self, name: Identifier, keep: int = 1) -> None:
        """Expire all but the newest snapshots of `main`, whatever the retention says."""
        with self.stranger():
            table = self.raw(name)
            newest = [one.snapshot_id for one in table.metadata.snapshots][-keep:]
            heads = [ref.snapshot_id for ref in table.metadata.refs.values()]
            strangers.expire_but(self.lake, table, {*newest, *heads})

    def purge(self, handle: Any, name: Identifier) -> Any:
        """Purge a dropped table, whose drop is a day old by now."""
        key = f"purge {len(self.history.attempts)}"
        attempt = Attempt(key, isolation="autocommit", purges=True)
        attempt.operations = [Operation(name, "drop")]
        self.history.attempts.append(attempt)
        self.world.actor.attempt = attempt
        return handle.purge(name)

    # ------------------------------------------------------------ looking

    def rows(self, handle: Any, name: Identifier, read_ts: int | None = None) -> Rows:
        """Read a table as of a timestamp, or the newest."""
        table = handle.snapshot(read_ts).load_table(name)
        return _rows(table)

    def raw_rows(self, name: Identifier, branch: str = "main") -> Rows:
        """Read a table as somebody who knows nothing of the protocol."""
        metadata = self.observer.registry.metadata(name)
        return self.observer.contents.rows(metadata.snapshot_by_name(branch))

    def reachable(self, name: Identifier) -> Rows:
        """Give the rows of a table on any branch."""
        refs = self.observer.registry.metadata(name).refs
        return frozenset().union(*(self.raw_rows(name, branch) for branch in refs))

    def audit(self, *, reject: bool = True) -> None:
        """Settle everything, and compare all of history with the model."""
        audit(self.lake, reject=reject)

    # ------------------------------------------------------------ interleaving

    def actor(self, name: str, body: Callable[[], Any]) -> Actor:
        """Make a process that goes on only when it is told to."""
        return Actor(self.world, name, body)


class Txn:
    """A transaction whose meaning the model of history knows."""

    def __init__(self, stage: Stage, handle: Any, **options: Any) -> None:
        self._stage = stage
        isolation = options.setdefault("isolation", "strict-serializable")
        self.catalog = handle.begin(**options)
        self.attempt = Attempt(
            f"txn {len(stage.history.attempts)}",
            self.catalog.txn_id,
            isolation,
            self.catalog.read_ts,
        )
        stage.history.attempts.append(self.attempt)

    def read(self, name: Identifier) -> Rows:
        """Read a table."""
        found = _rows(self.catalog.load_table(name))
        self.attempt.reads.append(Read(name, found, tuple(self.attempt.operations)))
        return found

    def append(self, name: Identifier, branch: str = "main") -> Rows:
        """Append a row that nobody has."""
        added = frozenset({self._stage.lake.new_row()})
        table = self.catalog.load_table(name)
        with (
            table.transaction() as changes,
            changes.update_snapshot(branch=branch).fast_append() as producer,
        ):
            producer.append_data_file(rows.data_file(table.metadata, added, 0))
        self._did(name, "append", added, branch=branch)
        return added

    def overwrite(self, name: Identifier) -> Rows:
        """Replace all rows by one that nobody has."""
        added = frozenset({self._stage.lake.new_row()})
        table = self.catalog.load_table(name)
        tasks = list(table.scan().plan_files())
        with table.transaction() as changes, changes.update_snapshot().overwrite() as producer:
            for task in tasks:
                producer.delete_data_file(task.file)
            producer.append_data_file(rows.data_file(table.metadata, added, 0))
        removed = rows.held(tasks)
        self._did(name, "overwrite", added, removed)
        return added

    def alter(self, name: Identifier) -> None:
        """Add a column."""
        column = f"c{self._stage.lake.new_row()}"
        with self.catalog.load_table(name).update_schema() as update:
            update.add_column(column, StringType())
        self._did(name, "alter", columns=frozenset({f"{column} string"}))

    def create(self, name: Identifier) -> None:
        """Create a table."""
        self.catalog.create_table(name, SCHEMA)
        self._did(name, "create")

    def drop(self, name: Identifier) -> None:
        """Drop a table."""
        self.catalog.drop_table(name)
        self._did(name, "drop")

    def _did(self, name: Identifier, verb: str, *given: Rows, **more: Any) -> None:
        self.attempt.operations.append(Operation(name, verb, *given, **more))

    def commit(self) -> int:
        """Commit, and apply where the handle does; give the `commit_ts`."""
        self._stage.world.actor.attempt = self.attempt
        return self.catalog.commit().commit_ts

    def commit_at(self) -> Any:
        """Commit without applying."""
        self._stage.world.actor.attempt = self.attempt
        return self.catalog.commit_at()


class Actor:
    """A process that is moved by hand."""

    def __init__(self, world: World, name: str, body: Callable[[], Any]) -> None:
        self._world = world
        self._process = Process(name, doing=name)
        self.result: Any = None
        self.error: Exception | None = None

        def run() -> None:
            try:
                self.result = body()
            except Exception as error:  # noqa: BLE001 -- the scenario asserts it
                self.error = error
            self._process.dead = True

        self._process.greenlet = greenlet.greenlet(run)

    def until(self, kind: str, label: str) -> Actor:
        """Go on up to just before a step; it must come."""
        while not self._process.dead:
            self._switch()
            at = self._process.pending
            if not self._process.dead and at[0] == kind and label in at[1]:
                return self
        raise AssertionError(f"ended before {kind} {label}: {self.error or self.result}")

    def finish(self) -> Any:
        """Go on to the end; what it raises is raised here."""
        while not self._process.dead:
            self._switch()
        if self.error is not None:
            raise self.error
        return self.result

    def die(self) -> None:
        """Never go on."""
        self._process.dead = True

    def _switch(self) -> None:
        self._world.current = self._process
        assert self._process.greenlet is not None
        self._process.greenlet.switch()
        self._world.current = None


def _rows(table: Any) -> Rows:
    return rows.held(table.scan().plan_files())


@contextmanager
def staged(*, server: bool) -> Iterator[Stage]:
    """Set a stage in a simulated world without faults."""
    world = World(0, FaultPlan())
    with simulated(world), quiet():
        yield Stage(world, server=server)

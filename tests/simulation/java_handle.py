"""
The Java core as the actions of the simulation use the Python one: a handle, transactions, tables.

Only what they use, with the names that pyiceberg and `txns` give it. A data file is its path here,
too: Java is told which rows it holds, and gives the paths that a scan would read.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationException,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from tests.simulation import deletes
from tests.simulation.deletes import Deletes
from tests.simulation.java_changes import (
    Branches,
    Changes,
    Columns,
    Fields,
    Files,
    added_file,
    tasks,
    told,
)
from tests.simulation.java_steps import Steps
from tests.simulation.jvm import JavaError
from tests.simulation.rows import data_files, held
from tests.simulation.where import ALL, of_key
from txns._catalog.outcome import State
from txns.errors import (
    CommitStateUnknown,
    Conflict,
    CorruptLog,
    InvalidUsage,
    Quarantined,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.catalogs import Identifier, SimulatedCatalog
    from tests.simulation.jvm import Jvm
    from tests.simulation.rows import Row, Rows
    from tests.simulation.scheduler import World
    from tests.simulation.where import Where

_MOVED = (
    "Expected sorted snapshot log entries",
    "Invalid update timestamp",
    "is not an ancestor of",
)
"""How Iceberg says that a table is ahead of its clock, or has been set back under a writer."""

_OPTIONS = {
    "apply": "txns.apply",
    "tidy_after": "txns.tidy-after",
    "register": "txns.register",
    "id_retention_days": "txns.id-retention-days",
    "conflicts": "txns.conflicts",
}
"""What `txns.open` calls the options of a Java catalog."""

_REFUSALS = {"58000": BadRequestError, "42501": ForbiddenError, "28000": UnauthorizedError}
"""Java's words for what a catalog says of a swap, which is no outcome, and is Python's as it is."""

_ICEBERGS = {
    "NoSuchTable": NoSuchTableError,
    "NoSuchNamespace": NoSuchNamespaceError,
    "AlreadyExists": TableAlreadyExistsError,
    "CommitFailed": CommitFailedException,
    "IcebergCommitStateUnknown": CommitStateUnknownException,
    "Validation": ValidationException,
    "NotFound": FileNotFoundError,
    "IO": OSError,
    "BadRequest": BadRequestError,
    "Unauthorized": UnauthorizedError,
    "Forbidden": ForbiddenError,
    "CorruptLog": CorruptLog,
    "Unsupported": Unsupported,
}
"""What Python calls the errors that take a message and nothing else."""


class JavaCrash(Exception):
    """Java has thrown what is no answer to anybody."""


def translated(line: dict[str, Any]) -> Exception:
    """Give the error of Python that says the same as one of Java."""
    kind, message = line["type"], line.get("message") or ""
    if kind in _ICEBERGS:
        return _ICEBERGS[kind](message)
    if kind == "Conflict":
        return Conflict(message, table=line.get("table", ""), least_ts=line.get("least_ts") or 0)
    if kind == "CommitStateUnknown":
        return CommitStateUnknown(message)
    if kind == "InvalidUsage":
        state = line["sqlstate"]
        refusal = _REFUSALS.get(state)
        return (
            refusal(message)
            if refusal
            else InvalidUsage(state, message, least_ts=line.get("least_ts"))
        )
    if kind == "Quarantined":
        return Quarantined("", message)
    return JavaCrash(message)


class JavaEngine:
    """An engine on the JVM that knows nothing of the protocol, in a simulated process."""

    def __init__(self, jvm: Jvm, world: World, catalog: SimulatedCatalog, *, server: bool) -> None:
        """Start it for the process that runs."""
        self._jvm, self.world, self._process = jvm, world, world.actor.name
        self._steps = Steps(world, catalog, lambda: jvm.changes[self._process])
        self.call("connect", server=server)

    def call(self, verb: str, /, **arguments: Any) -> Any:
        """Let Java do something; its errors are Python's."""
        try:
            return self._jvm.call(self.world, self._process, verb, arguments, self._steps.take)
        except JavaError as error:
            if type(self) is JavaEngine and any(one in str(error.line) for one in _MOVED):
                raise CommitFailedException("the table is not what the engine saw") from error
            raise translated(error.line) from error

    def load_table(self, name: Identifier) -> JavaTable:
        """Load a table as the catalog has it."""
        return JavaCatalog(self, "plain").load_table(name)

    def new_version(self) -> int:
        """Give a number that tells files with the same rows apart."""
        return int.from_bytes(self.world.random_bytes(6), "big")


class JavaHandle(JavaEngine):
    """A handle of Java's core, in a simulated process of its own."""

    def __init__(
        self,
        jvm: Jvm,
        world: World,
        catalog: SimulatedCatalog,
        options: dict[str, Any],
        *,
        server: bool,
        queues: bool,
        payloads_in_files: bool,
    ) -> None:
        """Open it for the process that runs."""
        super().__init__(jvm, world, catalog, server=server)
        named = {_OPTIONS[name]: str(value) for name, value in options.items()}
        self.call("open", options=named, queues=queues, payloads_in_files=payloads_in_files)
        self.call("upper")  # it has seen the log, as Python's has that opens a handle

    def begin(
        self,
        *,
        txn_id: str | None = None,
        isolation: str | None = None,
        as_of: int | None = None,
        comment: str | None = None,
        after: JavaTransaction | None = None,
    ) -> JavaTransaction:
        """Begin a transaction, maybe after a try that has lost."""
        return self._begin(txn_id, isolation, as_of, comment, read_only=False, after=after)

    def give_up(self, lost: JavaTransaction) -> None:
        """Take back what was reserved for tries after one that has lost: there is none."""
        self.call("give_up", txn=lost.number)

    def _begin(
        self,
        txn_id: str | None,
        isolation: str | None,
        as_of: int | None,
        comment: str | None,
        *,
        read_only: bool,
        after: JavaTransaction | None = None,
    ) -> JavaTransaction:
        lost = {"after": after.number, "took_ms": after.took_ms} if after else {}
        begun = self.call(
            "begin",
            **lost,
            id=txn_id,
            isolation=isolation,
            as_of=as_of,
            comment=comment,
            read_only=read_only,
        )
        return JavaTransaction(self, begun, self.world.now_ms)

    def snapshot(self, read_ts: int | None = None) -> JavaTransaction:
        """Give the tables as of a timestamp."""
        return self._begin(None, "snapshot", read_ts, None, read_only=True)

    def catalog(self) -> JavaCatalog:
        """Give the tables, each write a transaction of its own."""
        return JavaCatalog(self, "autocommit")

    @property
    def upper(self) -> int:
        """The greatest `commit_ts`, in ms."""
        return int(self.call("upper"))

    def register(self, name: Identifier) -> None:
        """Put a table under care."""
        self.call("register", table=name)

    def forget(self, name: Identifier) -> None:
        """Take a table from care."""
        self.call("forget", table=name)

    def repair_adopt(self, name: Identifier) -> None:
        """Take in what strangers did."""
        self.call("repair_adopt", table=name)

    def repair_reject(self, name: Identifier) -> None:
        """Set aside what strangers did."""
        self.call("repair_reject", table=name)

    def apply_le(self, _commit_ts: int | None = None) -> None:
        """Apply what is outstanding: Java's applies all of it."""
        self.call("apply")

    def tidy(self) -> None:
        """Archive what is applied."""
        self.call("tidy")

    def purge(self, name: Identifier, *, max_age_ms: int) -> None:
        """Remove a dropped table, for a lake in which no transaction gets older."""
        self.call("purge", table=name, max_age_ms=max_age_ms)

    def off(self) -> None:
        """Turn the protocol's writers away."""
        self.call("off")

    def on(self) -> None:
        """Let them in again."""
        self.call("on")


class JavaCatalog:
    """Java's tables: in a transaction, each write as one of its own, or past the protocol."""

    def __init__(self, handle: JavaEngine, within: int | str) -> None:
        """Show them within a transaction, by its number, "autocommit", or "plain"."""
        self._handle = handle
        self._within = within

    def load_table(self, name: Identifier) -> JavaTable:
        """Load a table."""
        loaded = self._handle.call("load_table", catalog=self._within, table=name)
        return JavaTable(self._handle, tuple(name), loaded)

    def create_table(self, name: Identifier, _schema: object) -> None:
        """Create a table of one column, as all tables of the simulation are."""
        self._handle.call("create_table", catalog=self._within, table=name)

    def drop_table(self, name: Identifier) -> None:
        """Drop a table."""
        self._handle.call("drop_table", catalog=self._within, table=name)

    def rename_table(self, name: Identifier, to: Identifier) -> None:
        """Rename a table."""
        self._handle.call("rename_table", catalog=self._within, table=name, to=to)

    def list_tables(self, namespace: str) -> list[Identifier]:
        """List the tables of a namespace."""
        names = self._handle.call("list_tables", catalog=self._within, namespace=[namespace])
        return [tuple(name) for name in names]


class JavaTransaction(JavaCatalog):
    """A transaction of Java's, which is a catalog of its tables."""

    def __init__(self, handle: JavaHandle, begun: dict[str, Any], now_ms: int) -> None:
        """Keep what its beginning gave."""
        self.number: int = begun["txn"]
        super().__init__(handle, self.number)
        self._began_ms, self._world = now_ms, handle.world
        self.txn_id: str = begun["id"]
        self.read_ts: int = begun["read_ts"]
        committed = begun["committed"]
        self.committed = SimpleNamespace(**committed) if committed else None

    @property
    def took_ms(self) -> int:
        """For how long it has been there, in ms."""
        return self._world.now_ms - self._began_ms

    @property
    def state(self) -> State:
        """Where it is in its life."""
        name = self._handle.call("state", txn=self._within)
        return State.ACTIVE if name == "ABORTED" else State[name]

    def commit(self) -> SimpleNamespace:
        """Commit."""
        return SimpleNamespace(**self._handle.call("commit", txn=self._within))

    def commit_at(self, _commit_ts: int | None = None) -> SimpleNamespace:
        """Commit: Java's takes no timestamp, and applies as its options say."""
        return SimpleNamespace(**vars(self.commit()), apply=lambda: None)

    def rollback(self) -> None:
        """Roll back."""
        self._handle.call("rollback", txn=self._within)

    def savepoint(self, name: str) -> None:
        """Set a savepoint."""
        self._handle.call("savepoint", txn=self._within, name=name)

    def rollback_to(self, name: str) -> None:
        """Go back to a savepoint."""
        self._handle.call("rollback_to", txn=self._within, name=name)

    def release(self, name: str) -> None:
        """Forget a savepoint."""
        self._handle.call("release", txn=self._within, name=name)


class JavaTable:
    """A table of Java's, and what changes it: each change is one operation of Iceberg's."""

    def __init__(self, handle: JavaEngine, name: Identifier, loaded: dict[str, Any]) -> None:
        """Keep what loading it gave."""
        self._handle = handle
        self._name = name
        self._number = loaded["table"]
        self._schema = Schema.model_validate_json(loaded["schema"])
        specs = map(PartitionSpec.model_validate_json, loaded["specs"])
        self._specs = {spec.spec_id: spec for spec in specs}
        self._spec_id = loaded["spec_id"]
        orders = map(SortOrder.model_validate_json, loaded["sort_orders"])
        self._sort_orders = {order.order_id: order for order in orders}
        self.metadata = SimpleNamespace(
            location=loaded["location"],
            schema=self.schema,
            spec=self.spec,
            refs=loaded["refs"],
            format_version=loaded["format_version"],
        )

    def name(self) -> Identifier:
        """Its name."""
        return self._name

    def schema(self) -> Schema:
        """Its schema."""
        return self._schema

    def spec(self) -> PartitionSpec:
        """Its partition spec."""
        return self._specs[self._spec_id]

    def specs(self) -> dict[int, PartitionSpec]:
        """Its partition specs, by id."""
        return self._specs

    def sort_orders(self) -> dict[int, SortOrder]:
        """Its sort orders, by id."""
        return self._sort_orders

    def current_snapshot(self) -> SimpleNamespace | None:
        """What `main` points to."""
        main = self.metadata.refs.get("main")
        return None if main is None else SimpleNamespace(snapshot_id=main)

    def scan(self) -> JavaTable:
        """Scan it all."""
        return self

    def plan_files(self, where: Where = ALL) -> list[SimpleNamespace]:
        """Plan the scan: the files that it would read."""
        return tasks(self.change("plan_files", **told(where)))

    @contextmanager
    def transaction(self) -> Iterator[Changes]:
        """Change it; each operation is one of its own."""
        yield Changes(self)

    @contextmanager
    def update_schema(self) -> Iterator[Columns]:
        """Change its columns."""
        columns = Columns()
        yield columns
        self.change("update_schema", changes=columns.changes)

    @contextmanager
    def update_spec(self) -> Iterator[Fields]:
        """Change what it is partitioned by."""
        fields = Fields()
        yield fields
        self.change("update_spec", changes=fields.changes)

    def clean(self) -> None:
        """Remove schemas and specs that no snapshot has."""
        self.change("clean")

    def delete(self, _row_filter: object) -> None:
        """Remove all rows: no other filter is used."""
        self.change("truncate")

    def delete_files(self, where: Where) -> None:
        """Remove all rows of some parts: files hold rows of one."""
        self.change("truncate", **told(where))

    def write_key(self, key: Row, *, adds: bool, replaces: bool) -> None:
        """
        Put a key in the place of itself, or of nothing, or remove it.

        Args:
            key: What.
            adds: Whether it is there afterwards.
            replaces: Whether it is written again where it is there.
        """
        where = of_key(key)
        there = any(key in held([task]) for task in self.plan_files(where))
        added = frozenset({key} if adds else ())
        self.write_where(where, added, writes=replaces or not there)

    def write_where(self, where: Where, added: Rows, *, writes: bool = True) -> None:
        """
        Put rows in the place of those that match, as an UPDATE, a DELETE or a MERGE does.

        Args:
            where: These are looked for.
            added: Which are there afterwards.
            writes: Whether anything is written, or only looked at.
        """
        found = [task for task in self.plan_files(where) if where.of(held([task]))]
        left, files = (held(found) - where.of(held(found))) | added, Files()
        for task in found if writes else ():
            files.delete_data_file(task.file)
        if left and writes:
            metadata = cast("TableMetadata", self.metadata)
            for each in data_files(metadata, left, self._handle.new_version()):
                files.append_data_file(each)
        self.change("write_where", **told(where), removed=files.removed, added=files.added)

    def rewrite(self, files: list[Any], made: list[DataFile], *, as_old: bool) -> None:
        """
        Put files in the place of others that hold the same.

        Args:
            files: These.
            made: What comes in their place.
            as_old: Whether it counts as old as what was scanned: then what is deleted by value
                meanwhile is deleted of it, too.
        """
        removed = [file.file_path for file in files]
        added = [added_file(file) for file in made]
        self.change("rewrite", removed=removed, added=added, as_old=as_old)

    def delete_rows(self, task: Any, kind: Deletes, rows: Rows, where: Where = ALL) -> None:
        """Take rows of a scanned file away by a file that says which; they were found so."""
        if kind is Deletes.VECTOR:  # there is one for a data file: it says what others did, too
            rows |= deletes.by_position(task)
        path = deletes.path(self.metadata, kind, rows, self._handle.new_version())
        self.change(
            "delete_rows",
            **told(where),
            file=task.file.file_path,
            kind=kind.name,
            deletes={"path": path, "rows": len(rows)},
        )

    def manage_snapshots(self) -> Branches:
        """Make branches of it."""
        return Branches(self)

    def change(self, verb: str, /, **arguments: Any) -> Any:
        """Let Java do something with it."""
        return self._handle.call(verb, table=self._number, **arguments)

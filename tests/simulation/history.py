"""
The model of history: what every table holds at every timestamp, if the log is right.

A version of a table follows from the version before it and from what the committing
process meant to do, never from what the core stored; `observer` compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation import schemas
from tests.simulation.scheduler import Violation
from tests.simulation.where import ALL, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.rows import Row, Rows

Identifier = tuple[str, ...]
NONE: Rows = frozenset()


@dataclass(frozen=True)
class Version:
    """
    A table from a timestamp on.

    Attributes:
        ts: The `commit_ts` that made it, in ms.
        exists: Whether there is a table under the name.
        cared: Whether it is under the commit table's care.
        rows: Rows of `main`.
        columns: Users' columns and the fields of its partition spec (`schemas.columns`).
        branches: Rows of other branches, by name.
    """

    ts: int
    exists: bool = False
    cared: bool = True
    rows: Rows = NONE
    columns: frozenset[str] = frozenset()
    branches: tuple[tuple[str, Rows], ...] = ()

    def branch(self, name: str) -> Rows:
        """Give the rows of a branch."""
        return self.rows if name == "main" else dict(self.branches).get(name, NONE)

    def with_branch(self, name: str, rows: Rows) -> Version:
        """Give this version with other rows on a branch."""
        if name == "main":
            return replace(self, rows=rows)
        return replace(self, branches=tuple(sorted({**dict(self.branches), name: rows}.items())))


def folded(name: Identifier) -> Identifier:
    """Give a name as catalogs have it that do not tell letters apart, and as the model has all."""
    return tuple(part.lower() for part in name)


ABSENT = Version(0)
NEWEST = 1 << 62
"""Above every timestamp."""


@dataclass(frozen=True)
class Operation:
    """One thing that a transaction means to do to a table."""

    table: Identifier
    verb: str
    rows: Rows = NONE
    removed: Rows = NONE
    branch: str = "main"
    columns: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    """Columns that it takes away, or makes others of."""

    @property
    def is_append(self) -> bool:
        """Whether it can stand on any newer state."""
        return self.verb == "append" and self.branch == "main"

    def __str__(self) -> str:
        """Say it for a trace."""
        more = [f"+{sorted(self.rows)}"] if self.rows else []
        more += [f"-{sorted(self.removed)}"] if self.removed else []
        more += [f"columns +{sorted(self.columns)} -{sorted(self.gone)}"] * (self.verb == "alter")
        branch = "" if self.branch == "main" else f" of branch {self.branch}"
        return " ".join([f"{self.verb} {'.'.join(self.table)}{branch}", *more])

    def on(self, version: Version, *, lenient: bool = False) -> Version:
        """Give the version that it makes of one; a row that is not there cannot be removed."""
        if self.verb == "create" and version.exists:
            raise Violation("lost update", f"creates {self.table}, which exists")
        if self.verb == "create":
            return Version(version.ts, exists=True)
        if self.verb == "drop":
            return Version(version.ts)
        if self.verb == "alter":
            return replace(version, columns=version.columns - self.gone | self.columns)
        if self.verb == "tag":
            return version
        if self.verb == "branch":
            return version.with_branch(self.branch, version.rows)
        before = version.branch(self.branch)
        if not (version.exists or lenient):
            raise Violation("lost update", f"{self.verb} on the absent table {self.table}")
        if not self.removed <= before:
            raise Violation(
                "lost update",
                f"{self.table}: removes rows {sorted(self.removed - before)} that are gone",
            )
        return version.with_branch(self.branch, (before - self.removed) | self.rows)


@dataclass(frozen=True)
class Read:
    """
    What a transaction saw of a table (None: absent), `after` what it had done itself.

    Attributes:
        columns: What it saw of its columns, as a version has them; None where it did not look.
        where: By which filter it looked: it saw the rows that match.
        conditional: Whether it was to write by what it saw, if that was nothing.
    """

    table: Identifier
    rows: Rows | None
    after: tuple[Operation, ...]
    columns: frozenset[str] | None = None
    where: Where = ALL
    conditional: bool = False

    def expected(self, base: Version) -> Version:
        """Give what is to be seen when others have left the table as `base`."""
        for operation in self.after:
            if operation.table == self.table:
                base = operation.on(base)
        return base


@dataclass(frozen=True)
class Listing:
    """What a transaction saw in a namespace, `after` what it had done itself."""

    namespace: Identifier
    names: frozenset[Identifier]
    after: tuple[Operation, ...]


@dataclass
class Attempt:
    """
    A transaction as its process means it.

    Attributes:
        began_above: The log's upper before it began, in ms.
        acknowledged: `commit_ts` that its process was told, in ms.
        refused: Whether its process was told that it has not committed.
        logged_ts: `commit_ts` of its entry, in ms, when there is one.
        purges: Whether it is a purger, which may claim a table more than once.
        passes_the_log: Whether it wrote a table as the catalog has it, while transactions were off.
        repeats: Whether it tries again under the id of one whose outcome is unknown.
        touched: The tables that it asked for, or meant to change, whatever came of it.
        by_table: Whether it clashes with all that others do to a table, whichever rows they change.
    """

    key: str
    txn_id: str = ""
    isolation: str = "strict-serializable"
    read_ts: int = 0
    began_above: int = 0
    operations: list[Operation] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    listed: list[Listing] = field(default_factory=list)
    acknowledged: int | None = None
    refused: bool = False
    logged_ts: int | None = None
    purges: bool = False
    passes_the_log: bool = False
    repeats: bool = False
    touched: set[Identifier] = field(default_factory=set)
    by_table: bool = False
    tell: Callable[[str], None] = lambda _text: None
    """Adds a line to the trace."""

    def state(self, table: Identifier, base: Version) -> Version:
        """Give a table as the transaction leaves it."""
        for operation in self.operations:
            if operation.table == table:
                base = operation.on(base)
        return base

    @property
    def tables(self) -> set[Identifier]:
        """The tables that it writes."""
        return {operation.table for operation in self.operations}

    def changed(self, history: History, ts: int = NEWEST) -> set[Identifier]:
        """Give the tables that its operations leave different from what they were at `ts`."""
        changed = set()
        for table in self.tables:
            before = history.at(table, ts) or ABSENT
            if self.state(table, before) != before:
                changed.add(table)
        return changed

    def writes_over(self, table: Identifier) -> bool:
        """Whether it does more to a table than appending, or altering nothing that is seen here."""
        of_table = [one for one in self.operations if one.table == table]
        moot = [one for one in of_table if one.verb == "alter" and not (one.columns or one.gone)]
        return any(not one.is_append for one in of_table if one not in moot)

    def changes_only_rows(self, table: Identifier) -> bool:
        """Whether it does nothing to a table but to add rows and to take some away."""
        of_table = [one for one in self.operations if one.table == table]
        return all(one.verb in _OF_ROWS and one.branch == "main" for one in of_table)


_OF_ROWS = {"append", "overwrite"}


class History:
    """Versions of every table, ascending, and everything that was tried."""

    def __init__(self) -> None:
        self._versions: dict[Identifier, list[Version]] = {}
        self.attempts: list[Attempt] = []
        self.removed: dict[Identifier, set[Row]] = {}
        self.since: dict[Identifier, int] = {}
        self.purged: dict[Identifier, int] = {}
        """Below which timestamp in ms tables are gone, for transactions older than is allowed."""
        self.upset: dict[Identifier, int] = {}
        """Tables that strangers have replaced, or whose mark they took; the upper then, in ms."""
        self.strange: set[Identifier] = set()
        """Tables that strangers have written, moved, or taken away."""
        self.unmarked: set[Identifier] = set()
        """Tables of which nobody knows what is in them: strangers took the mark, or all of ours."""
        self.anothers: set[Identifier] = set()
        """Tables that another log has had, after strangers took the mark."""
        self.passed: dict[Identifier, set[str]] = {}
        """Columns that were changed past the log, while transactions were off."""
        self.specs_passed = False
        """Whether strangers have had some table go by another spec: the log keeps none."""
        self.called: dict[Identifier, Identifier] = {}
        """What tables were renamed to last, by their name before."""
        self.rootless: set[Identifier] = set()
        self.put_back: set[Identifier] = set()
        """Tables whose `main` strangers have moved to an earlier snapshot."""
        self.renamed: dict[Identifier, int] = {}
        self.holds: dict[str, tuple[tuple[Identifier, ...], int]] = {}
        self.lost: dict[Identifier, list[tuple[int, int]]] = {}
        """Between which timestamps in ms, both exclusive, a recovery has left nothing of tables."""
        self.moved: dict[Identifier, list[tuple[int, int]]] = {}
        """From which to which `commit_ts` in ms a recovery has moved what tables show."""
        self.upper = 0
        self.by_file = False
        """Whether two may write one table that meet in none of its rows."""
        self.passed_by = 0
        """How often somebody wrote over a table of which others had changed other rows."""

    def tables(self) -> list[Identifier]:
        """Give the names that there ever was a version of."""
        return sorted(self._versions)

    def at(self, table: Identifier, ts: int) -> Version | None:
        """Give a table as of a timestamp; None where the log knows nothing of it."""
        found = None
        for version in self._versions.get(table, ()):
            if version.ts <= ts:
                found = version
        return found

    def newest(self, table: Identifier) -> Version | None:
        """Give the newest version of a table."""
        return self.at(table, NEWEST)

    def cared_since(self, table: Identifier, ts: int) -> bool:
        """Whether a table was under care at a timestamp and ever since."""
        first = self.at(table, ts)
        later = [version for version in self.versions(table) if version.ts > ts]
        return first is not None and all(version.cared for version in (first, *later))

    def versions(self, table: Identifier) -> list[Version]:
        """Give all versions of a table."""
        return list(self._versions.get(table, ()))

    def add(self, table: Identifier, version: Version) -> None:
        """Add a version; one with the same timestamp is replaced."""
        versions = self._versions.setdefault(table, [])
        if versions:
            gone = versions[-1].rows - version.rows
            self.removed.setdefault(table, set()).update(gone)
            if versions[-1].ts == version.ts:
                versions.pop()
        versions.append(version)
        versions.sort(key=lambda one: one.ts)

    def replace(self, table: Identifier, versions: list[Version]) -> None:
        """Let a table have other versions, ascending: a recovery has left no others."""
        self._versions[table] = versions

    def is_lost(self, table: Identifier, ts: int) -> bool:
        """Whether a recovery has left nothing of a table at a timestamp in ms."""
        return any(low < ts < high for low, high in self.lost.get(table, ()))

    def is_moved(self, table: Identifier, ts: int) -> bool:
        """Whether a table shows at a timestamp in ms what the log has at a later one."""
        return any(then <= ts < now for then, now in self.moved.get(table, ()))

    def rename(self, old: Identifier, new: Identifier) -> None:
        """
        Note that a table has another name: nothing is promised below, under either one.

        It may be under care: others may have registered it since it was forgotten for this. Where
        it is not, the log may name it all the same, as a stranger took its mark: it is still there.
        """
        newest = self.newest(old)
        self.called[old] = new
        self.called.pop(new, None)
        self.renamed[old] = self.renamed[new] = self.upper
        self._versions.pop(new, None)  # of another table, which has gone on under another name
        if newest is not None:
            self.add(new, replace(newest, ts=self.upper))
        if newest is not None and newest.cared:
            # What is logged under its old name from now on is applied once somebody registers it.
            self.upset.setdefault(old, self.upper)
            self.add(old, replace(newest, ts=self.upper, cared=False))
        self.removed.setdefault(new, set()).update(self.removed.get(old, ()))

    def purge(self, table: Identifier, ts: int) -> None:
        """Note that what a table was below a timestamp in ms may be gone."""
        self.purged[table] = ts
        self.since[table] = max(ts, self.since.get(table, 0))

    def create(self, table: Identifier, ts: int) -> None:
        """Note that what a table was below a timestamp in ms may be too old: it is another one."""
        self.since[table] = max(ts, self.since.get(table, 0))

    def barred_with(self, attempt: Attempt) -> list[Attempt]:
        """
        Give the attempts of which a conflict that one's commit is told says that they never commit.

        It, those under its id that read where it did or below, and those over before it began.
        """
        return [
            one
            for one in self.same_txn(attempt.txn_id)
            if one is attempt
            or 0 < one.read_ts <= attempt.read_ts
            or (one.logged_ts is not None and one.logged_ts <= attempt.began_above)
        ]

    def same_txn(self, txn_id: str) -> list[Attempt]:
        """Give every attempt under one transaction id."""
        return [attempt for attempt in self.attempts if attempt.txn_id == txn_id]

    def may_be_unreadable(self, table: Identifier, ts: int) -> bool:
        """Whether a table may be too old to read at a timestamp: expired, lost, or made again."""
        if self.is_lost(table, ts):
            return True
        since = max(self.since.get(table, 0), self.renamed.get(table, 0))
        if table in self.rootless:  # unreadable below the first change after the expiry
            later = [one.ts for one in self.versions(table) if one.ts > since]
            since = min(later, default=since)
        if ts < since:
            return True
        existed = False
        for version in self.versions(table):
            if version.exists and existed is False and version.ts > ts and version.ts:
                return True
            existed = version.exists
        return False

    def settled_ts(self, txn_id: str) -> int | None:
        """Give the `commit_ts` under which a transaction id stands in the log, in ms."""
        found = [one.logged_ts for one in self.same_txn(txn_id) if one.logged_ts is not None]
        return found[0] if found else None

    # ------------------------------------------------------------ judging

    def judge_read(self, attempt: Attempt, read: Read) -> None:
        """Check a read against the state at `read_ts` and the transaction's own changes."""
        base = self.at(read.table, attempt.read_ts)
        if base is None or not base.cared or self.is_lost(read.table, attempt.read_ts):
            return
        if read.rows is None and self.renamed.get(read.table, 0) >= attempt.read_ts:
            return  # catalogs know a table by its newest name only
        if read.rows is None and attempt.read_ts < self.purged.get(read.table, 0):
            return
        self._compare(attempt, read, base, "snapshot read")

    def judge_commit(self, attempt: Attempt, commit_ts: int) -> None:
        """Check that a transaction may stand at its `commit_ts`."""
        if attempt.isolation == "autocommit":
            return  # one Iceberg operation: its own retry decides on the newest state
        for table in attempt.tables:
            newest = self.at(table, commit_ts - 1)
            if newest and newest.cared and attempt.writes_over(table):
                self._check_written_over(attempt, table, newest)
        snapshot = attempt.isolation == "snapshot"
        promise = "lost update" if snapshot else "serializable"
        for read in attempt.reads:
            if snapshot and not self._is_held_at_snapshot(attempt, read):
                continue
            here = read.table if read.rows is None else self._called_now(read.table)
            base = self.at(here, commit_ts - 1)
            then = self.at(read.table, attempt.read_ts)
            if read.rows is None and base and self._is_marked_alone(read.table, base, attempt):
                continue
            if base and base.cared and then and then.cared:
                self._compare(attempt, read, base, promise)
                self._check_by_table(attempt, read, then, base)
        for listing in attempt.listed if not snapshot else ():
            self.judge_listing(attempt, listing, commit_ts - 1, "serializable")

    def _is_held_at_snapshot(self, attempt: Attempt, read: Read) -> bool:
        """Whether what was read is held against others at every level: it was written by it."""
        if not self.by_file or read.rows is None or not attempt.changes_only_rows(read.table):
            return False
        return read.conditional or read.table in attempt.tables

    def _check_by_table(self, attempt: Attempt, read: Read, then: Version, newest: Version) -> None:
        """Check what was asked for: to clash with any change of what was read."""
        known = read.table not in self.unmarked and read.table not in self.upset
        if attempt.by_table and known and read.rows is not None and then.rows != newest.rows:
            raise Violation(
                "by table",
                f"{attempt.key} read {read.table} at {attempt.read_ts}, {newest.ts} changed it",
            )

    def _is_marked_alone(self, table: Identifier, newest: Version, attempt: Attempt) -> bool:
        """Whether a table took a name that was absent, and is marked, but not registered yet."""
        return newest.ts <= attempt.read_ts <= self.renamed.get(table, 0)

    def _check_written_over(self, attempt: Attempt, table: Identifier, newest: Version) -> None:
        then = self.at(table, attempt.read_ts)
        if then is None or not then.cared:  # it came under care since, maybe for this very one
            later = (one for one in self.versions(table) if one.ts > attempt.read_ts and one.cared)
            then = next(later, None)
        elif self.by_file and attempt.changes_only_rows(table) and not attempt.by_table:
            # That the rows it takes away are there, each operation sees; what it read is compared.
            self.passed_by += then.rows != newest.rows
            then = replace(then, rows=newest.rows, branches=newest.branches)
        if newest.ts > attempt.read_ts and (then is None or newest != replace(then, ts=newest.ts)):
            raise Violation(
                "lost update",
                f"{attempt.key} writes over {table} of {newest.ts}, read at {attempt.read_ts}",
            )

    def _called_now(self, table: Identifier) -> Identifier:
        """Give the name under which a table goes on that was renamed since it was read."""
        newest = self.newest(table)
        return table if newest is None or newest.cared else self.called.get(table, table)

    def _compare(self, attempt: Attempt, read: Read, base: Version, promise: str) -> None:
        if read.table in self.unmarked or (read.rows is None and read.table in self.upset):
            return  # without its mark it is what the catalog has; moved away it is not there
        version = read.expected(base)
        expected = read.where.of(version.rows) if version.exists else None
        who = f"{attempt.key} ({attempt.isolation}, read_ts {attempt.read_ts})"
        if expected != read.rows:
            raise Violation(
                promise,
                f"{who} saw {show(read.rows)} in {read.table}, expected {show(expected)}"
                f" ({read.where})",
            )
        if read.columns is not None:
            where = f"{who}: {read.table}"
            self.judge_columns(promise, where, read.columns, version, read.table)

    def judge_columns(
        self, promise: str, where: str, columns: frozenset[str], version: Version, table: Identifier
    ) -> None:
        """
        Compare columns with a version's, but for what passed the log, and the newest one's spec.

        Iceberg keeps no spec with a snapshot: who reads the past sees the newest one.
        """
        if table in self.upset or table in self.unmarked:
            return
        differ = (columns ^ version.columns) - self.passed.get(table, set())
        newest = self.newest(table)
        if self.specs_passed or (newest is not None and version.ts < newest.ts):
            differ = {one for one in differ if not schemas.is_of_spec(one)}
        if differ:
            shown, expected = sorted(columns), sorted(version.columns)
            raise Violation(promise, f"{where} has the columns {shown}, expected {expected}")

    def _is_gone(self, table: Identifier, ts: int) -> bool:
        """Whether lists of a timestamp lack a table: it was purged since."""
        return ts < self.purged.get(table, 0)

    def judge_listing(self, attempt: Attempt, listing: Listing, ts: int, promise: str) -> None:
        """Check which names a transaction saw against the state at a timestamp."""
        for table in self.tables():
            base = self.at(table, ts)
            if base is None or not base.cared or table[:-1] != listing.namespace:
                continue
            # A list knows names: of a table that was dropped it shows the one that a stranger gave.
            if table in self.upset or (table not in listing.names and self._is_gone(table, ts)):
                continue
            for operation in listing.after:
                if operation.table == table:
                    base = operation.on(base)
            renamed = table not in listing.names and self.renamed.get(table, 0) >= ts
            if not renamed and base.exists != (table in listing.names):
                raise Violation(
                    promise,
                    f"{attempt.key} listed {sorted(listing.names)}, {table} at {ts}: {base.exists}",
                )


def show(rows: Rows | None) -> str:
    """Give rows as a message shows them."""
    return "no table" if rows is None else str(sorted(rows))

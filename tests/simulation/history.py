"""
The model of history: what every table holds at every timestamp, if the log is right.

A version of a table follows from the version before it and from what the committing
process meant to do, never from what the core stored; `observer` compares the two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation import schemas
from tests.simulation.attempts import NEWEST, show
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from tests.simulation.attempts import Attempt, Identifier, Listing, Read, Version
    from tests.simulation.rows import Row


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

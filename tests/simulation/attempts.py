"""What processes mean: the versions of tables that they see, and what they do to these."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.scheduler import Violation
from tests.simulation.where import ALL, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.history import History
    from tests.simulation.rows import Rows

Identifier = tuple[str, ...]
NONE: Rows = frozenset()
_OF_ROWS = {"append", "overwrite"}
"""What only adds rows, and takes some away."""


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

    @property
    def is_idle(self) -> bool:
        """Whether it leaves every version as it is."""
        return self.verb in _OF_ROWS and not (self.rows or self.removed)

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


def show(rows: Rows | None) -> str:
    """Give rows as a message shows them."""
    return "no table" if rows is None else str(sorted(rows))

"""
What a transaction has read: tables with their filters, names found absent, namespaces listed.

And which tables it has written by what they hold. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue

from txns._iceberg.filter_words import words
from txns._identifier import folded

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table.metadata import TableMetadata

    from txns._identifier import Identifier


@dataclass(frozen=True, slots=True)
class RowFilter:
    """
    Which rows of a table were read.

    Attributes:
        expression: They match it; its columns are names.
        case_sensitive: Whether the letters of those names count.
        schema_id: Of which of the table's schemas the names are; None where there are none. A
            transaction may have renamed columns, and gone back to a savepoint since.
    """

    expression: BooleanExpression
    case_sensitive: bool = True
    schema_id: int | None = None

    @staticmethod
    def of(
        metadata: TableMetadata,
        expression: BooleanExpression,
        case_sensitive: bool,  # noqa: FBT001 -- as pyiceberg passes it on
    ) -> RowFilter:
        """Give the filter of a read of a table as its metadata shows it."""
        return RowFilter(expression, case_sensitive, metadata.current_schema_id)

    def within(self, base: TableMetadata) -> RowFilter:
        """Give it in the columns of a state of its table: all rows where it has others."""
        return self if self.schema_id in {None, base.current_schema_id} else EVERYTHING

    def __str__(self) -> str:
        """Give it in words; `true` for all rows."""
        return words(self.expression)


EVERYTHING = RowFilter(AlwaysTrue())
"""All rows, and whatever tells of them."""


@dataclass
class ReadSet:
    """
    What was seen. It only grows, also when the transaction goes back to a savepoint.

    Attributes:
        tables: The filters under which a table was read.
        present: Names that were looked for and found.
        absent: Names that were looked for and not found.
        listed: Namespaces whose tables were listed.
        conditional: Tables that were written by what they hold, as upserts, deletes and overwrites
            do, if only where that was nothing.
        without: Paths of files that were looked for in a table, to be added to it, and not found.
        outstanding: By table the `commit_ts` in ms of what was not applied to it when it was
            loaded, where there was any.
        names: The names under which each table was loaded, by its uuid: somebody else may write
            it under another one.
        bases: Each table by its uuid, as it was loaded first.
        written: The uuids of the tables that it had written when it was given up.
        unprotected: What the protocol does not protect, by the name people know it by.
    """

    tables: dict[Identifier, list[RowFilter]] = field(default_factory=dict)
    present: set[Identifier] = field(default_factory=set)
    absent: set[Identifier] = field(default_factory=set)
    listed: set[Identifier] = field(default_factory=set)
    conditional: set[Identifier] = field(default_factory=set)
    without: dict[Identifier, set[str]] = field(default_factory=dict)
    outstanding: dict[Identifier, frozenset[int]] = field(default_factory=dict)
    names: dict[str, set[Identifier]] = field(default_factory=dict)
    bases: dict[str, TableMetadata] = field(default_factory=dict)
    written: dict[str, None] = field(default_factory=dict)
    unprotected: set[str] = field(default_factory=set)

    def load(self, table: Identifier, base: TableMetadata, outstanding: frozenset[int]) -> None:
        """Note how a table was loaded; it may have been loaded under other names."""
        uuid = str(base.table_uuid)
        self.names.setdefault(uuid, set()).add(table)
        self.bases.setdefault(uuid, base)
        if outstanding:
            self.outstanding[table] = outstanding

    def read(self, table: Identifier, row_filter: RowFilter = EVERYTHING) -> None:
        """Note that rows of a table were read."""
        filters = self.tables.setdefault(table, [])
        if row_filter not in filters:
            filters.append(row_filter)

    def write_by_rows(self, table: Identifier, row_filter: RowFilter = EVERYTHING) -> None:
        """Note a write that depends on a table's rows, if only on there being none."""
        self.read(table, row_filter)
        self.conditional.add(table)

    def find_no_files(self, table: Identifier, paths: Iterable[str]) -> None:
        """Note that files are not in a table, to which they are to be added."""
        self.without.setdefault(table, set()).update(paths)

    def end(self, written: Container[Identifier]) -> None:
        """Note what stays seen where files were to be added, and that was undone: a whole table."""
        for table in self.without:
            if table not in written:
                self.read(table)

    def wrote_by_rows(self, table: Identifier, uuid: str) -> bool:
        """Whether a table of another entry was written by what it holds."""
        return not self.conditional.isdisjoint(self.known_as(table, uuid))

    def known_as(self, table: Identifier, uuid: str) -> set[Identifier]:
        """Give the names under which a table of another entry may have been noted here."""
        return {table, *self.names.get(uuid, ())}

    def filters_of(self, names: set[Identifier]) -> list[RowFilter]:
        """Give the filters under which a table was read; none where it was not."""
        filters = [each for name in sorted(names) for each in self.tables.get(name, [])]
        return [EVERYTHING] if EVERYTHING in filters else filters

    @property
    def is_blind(self) -> bool:
        """Whether nothing was seen that somebody else could change."""
        return not (self.tables or self.listed or self.absent or self.without)

    def touched(self, *, all_reads: bool) -> list[str]:
        """
        Give the uuids of the tables at which one that was given up can lose again.

        Args:
            all_reads: Whether everything that was read is validated, or only what was written by
                what it holds.

        Returns:
            Those that it had written, then those that it has read.
        """
        read = self.tables.keys() if all_reads else self.conditional
        also = (uuid for uuid, names in self.names.items() if names & read)
        return list(dict.fromkeys((*self.written, *also)))

    def left(self, standing: set[int]) -> Iterator[tuple[Identifier, str, int]]:
        """
        Give the tables of which something was read that a head has no more.

        Args:
            standing: The `commit_ts` in ms of the entries that the head has.

        Returns:
            Names, uuids, and the newest of what was outstanding then and has left the head.
        """
        for uuid, names in self.names.items():
            for table in names & (self.tables.keys() | self.present):
                if left := self.outstanding.get(table, frozenset()) - standing:
                    yield table, uuid, max(left)

    def was_absent(self, table: Identifier) -> bool:
        """Whether a name was looked for and not found."""
        return folded(table) in map(folded, self.absent)

    def was_listed(self, namespace: Identifier) -> bool:
        """Whether the tables of a namespace were listed."""
        return folded(namespace) in map(folded, self.listed)

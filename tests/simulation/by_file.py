"""
Statements with a filter: users meet in the files that hold what they read, and what they write.

Which rows a filter matches the model of history knows; the cores go by partitions and bounds.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tests.simulation import deletes, keys
from tests.simulation.attempts import Operation
from tests.simulation.deletes import Deletes
from tests.simulation.java_handle import JavaTable
from tests.simulation.meaning import meaning, saw
from tests.simulation.rows import held
from tests.simulation.settings import Switch
from tests.simulation.where import PART, PARTS, Where, has_parts, of_key, part_of

if TYPE_CHECKING:
    from tests.simulation.attempts import Attempt, Identifier
    from tests.simulation.rows import Row, Rows
    from tests.simulation.worker import Worker

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, PART, LongType(), required=False),
)
"""Of the tables of such a run."""

BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), PART))

VERBS = {
    "read_where": 5,
    "append": 4,
    "delete_matching": 4,
    "overwrite_matching": 4,
    "compact": 2,
    "overwrite": 1,
    "savepoint": 1,
    **dict.fromkeys(keys.VERBS, 1),
}
"""What a transaction of such a run does mostly."""
MARKS = {"mark_matching": 5}
"""What pyiceberg does not write, and engines on the JVM do: delete files."""
_OWN = {"read_where", "delete_matching", "overwrite_matching", "mark_matching"}
_SHARE = 0.75
"""How many transactions do nothing else: to alter a table is to write over all of it."""
_SKEWED = 0.25
"""How many of these read a part, and append somewhere: the shape of write skew."""
_MAINTAINS = 0.2
"""How many others do nothing but compact: the same rows are in other files then."""
_BY_TABLE = 0.2
"""How many users want to clash with all that others do to a table."""
_PARTITIONED = 0.75
"""How many tables are partitioned."""


def spec(rng: random.Random) -> PartitionSpec:
    """Draw by what a table is partitioned."""
    return BY_PART if rng.random() < _PARTITIONED else UNPARTITIONED_PARTITION_SPEC


def options(seed: int, names: list[str]) -> dict[str, dict[str, object]]:
    """Draw who goes by tables, by the names of users."""
    rng = random.Random(f"{seed}/by-file")
    return {name: {"conflicts": "table"} for name in names if rng.random() < _BY_TABLE}


def verbs(worker: Worker) -> list[str] | None:
    """Draw the statements of a transaction; None for those that any run has."""
    rng = worker.rng
    if rng.random() >= _SHARE:
        return None
    if rng.random() < _SKEWED:
        return ["read_where", rng.choice(("append", "overwrite_matching"))]
    if rng.random() < _MAINTAINS:
        return ["compact"]
    known = VERBS | (MARKS if worker.java else {})
    return rng.choices(list(known), list(known.values()), k=rng.randint(1, 4))


def is_own(worker: Worker, verb: str) -> bool:
    """Whether a statement has a filter here: those of keys have it in other runs, too."""
    return verb in _OWN or (verb in keys.VERBS and worker.has(Switch.BY_FILE))


def goes_by_tables(worker: Worker) -> bool:
    """Whether a user wants to clash with all that others do to a table."""
    return worker.options.get("conflicts") == "table"


def tables(worker: Worker) -> tuple[Identifier, ...]:
    """Give the tables among which users choose: few, so that they meet."""
    known = worker.lake.tables
    return (known[0], *known)


def run(worker: Worker, table: Any, attempt: Attempt, verb: str) -> None:
    """Do one thing to the rows of a table that a filter matches."""
    if verb != "read_where" and not worker.writes(table):
        return
    if verb in keys.VERBS:
        _write_key(worker, table, attempt, verb)
        return
    where = _drawn(worker, table)
    if verb == "read_where":
        saw(worker, attempt, table.name(), _scanned(worker, table, where), where=where)
    elif verb == "mark_matching":
        _mark(worker, table, attempt, where)
    else:
        _write(worker, table, attempt, where, adds=verb == "overwrite_matching")


def _drawn(worker: Worker, table: Any) -> Where:
    """Draw a filter: a part, some ids, or both."""
    rng, made = worker.rng, worker.lake.rows_made
    part = rng.randrange(PARTS) if has_parts(table) else None
    low = rng.randint(1, made)
    kind = rng.random()
    if part is None or kind < 0.2:
        return rng.choice((of_key(low), Where(low=low, high=low + 4), Where(high=low)))
    if kind < 0.8:
        return Where(part)
    return Where(part, high=low)


def _scanned(worker: Worker, table: Any, where: Where) -> Rows:
    """Scan a table by a filter; give the rows that match."""
    if isinstance(table, JavaTable) or not worker.lake.has_equality_deletes(table):
        return where.of(held(_planned(table, where)))
    return where.of(worker.lake.rows(table))  # past pyiceberg: that is a read of all rows


def _planned(table: Any, where: Where) -> list[Any]:
    if isinstance(table, JavaTable):
        return table.plan_files(where)
    return list(table.scan(row_filter=where.expression()).plan_files())


def _write(worker: Worker, table: Any, attempt: Attempt, where: Where, *, adds: bool) -> None:
    """Remove what matches, and put a row in its place, or none."""
    name, there = table.name(), _found(worker, table, where)
    saw(worker, attempt, name, there, where=where, conditional=True)
    added = frozenset({worker.lake.new_row()} if adds else ())
    # A file of which nothing is left may go where nothing is found.
    with meaning(attempt, Operation(name, "overwrite", added, there)):
        _change(worker, table, where, there, added)


def _write_key(worker: Worker, table: Any, attempt: Attempt, verb: str) -> None:
    """Put a key into a table, or take it out, by what is there: two may want the same."""
    key = worker.rng.choice(keys.KEYS)
    there = _found(worker, table, of_key(key))
    saw(worker, attempt, table.name(), there, where=of_key(key), conditional=True)
    keys.change(table, verb, key, there, partial(meaning, attempt))


def _found(worker: Worker, table: Any, where: Where) -> Rows:
    """Give what a statement with a filter is going to find, without a look of its own."""
    if isinstance(table, JavaTable):
        return where.of(held(_planned(table, where)))
    snapshot = table.metadata.current_snapshot()  # of the table itself it would be a read
    return where.of(worker.lake.observer.contents.rows(snapshot))


def _change(worker: Worker, table: Any, where: Where, there: Rows, added: Rows) -> None:
    if isinstance(table, JavaTable):
        of_files = where == Where(where.part) and not added and _is_by_part(table)
        if of_files and there and worker.rng.random() < 0.5:
            table.delete_files(where)
        else:
            table.write_where(where, added, writes=bool(there or added))
    elif added:
        table.overwrite(_frame(table, added), where.expression())
    else:
        table.delete(where.expression())


def _is_by_part(table: Any) -> bool:
    """Whether all files hold rows of one part each: their table has always been partitioned."""
    return all(any(field.name == PART for field in each.fields) for each in table.specs().values())


def _frame(table: Any, rows: Rows) -> pa.Table:
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    found = [{"id": row, PART: part_of(row)} for row in sorted(rows)]
    return pa.Table.from_pylist(found, schema=schema)


def _mark(worker: Worker, table: JavaTable, attempt: Attempt, where: Where) -> None:
    """Take one row that matches away by a delete file, as merge-on-read does."""
    tasks = _planned(table, where)
    there = where.of(held(tasks))
    saw(worker, attempt, table.name(), there, where=where, conditional=True)
    kinds = [Deletes.VECTOR if table.metadata.format_version > 2 else Deletes.POSITION]
    kinds += [Deletes.EQUALITY] * deletes.are_by_value(worker.lake.world.faults.settings, table)
    kind = worker.rng.choice(kinds)
    # A key may stand in a file that it was taken from before, where a name tells no position.
    rows: list[tuple[Any, Row]] = [
        (task, row)
        for task in tasks
        for row in sorted(where.of(held([task])))
        if kind is Deletes.EQUALITY or row not in keys.KEYS
    ]
    if rows:
        task, row = worker.rng.choice(rows)
        with meaning(attempt, Operation(table.name(), "overwrite", removed=frozenset({row}))):
            table.delete_rows(task, kind, frozenset({row}), where)

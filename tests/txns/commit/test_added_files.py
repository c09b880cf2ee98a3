"""Files that programs add to a table: who adds others, or only appends, does not clash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import txns
from tests.txns.lake import ids, rows

if TYPE_CHECKING:
    from tests.txns.lake import Lake

LEVELS = ["SNAPSHOT", "SERIALIZABLE", "STRICT SERIALIZABLE"]


@pytest.fixture
def named(lake: Lake, handle: txns.Handle) -> str:
    """A table with one row, and with names by which columns of others' files are found."""
    a = lake.table("a", [1])
    with handle.begin() as txn, txn.load_table(a).transaction() as steps:
        names = steps.table_metadata.schema().name_mapping.model_dump_json()
        steps.set_properties({"schema.name-mapping.default": names})
    return a


def a_file(lake: Lake, *values: int) -> str:
    """Write rows past everybody; give the path of their file."""
    path = lake.folder / f"given-{values[0]}.parquet"
    pq.write_table(rows(*values), path)
    return f"file://{path}"


@pytest.mark.parametrize("conflicts", ["file", "table"])
@pytest.mark.parametrize("level", LEVELS)
def test_different_files_do_not_clash(lake, handle, named, level, conflicts):
    """Whatever else is appended meanwhile; each file is there once."""
    begun = [handle.begin(isolation=level, conflicts=conflicts) for _ in range(3)]
    for number, txn in enumerate(begun):
        txn.load_table(named).add_files([a_file(lake, 10 + number)])
    handle.catalog().load_table(named).append(rows(2))
    for txn in reversed(begun):
        txn.commit()
    assert [1, 2, 10, 11, 12] == lake.plain_ids(named)


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_file_clashes(lake, handle, named, level):
    """Its rows would be there twice; who was first is named, not who came after."""
    given = a_file(lake, 10)
    one, two = (handle.begin(isolation=level) for _ in range(2))
    for txn in (one, two):
        txn.load_table(named).add_files([a_file(lake, int(11 + (txn is two))), given])
    one.commit()
    handle.catalog().load_table(named).append(rows(2))
    with pytest.raises(txns.Conflict, match=r"added by others \(.*given-10\.parquet") as raised:
        two.commit()
    assert one.txn_id == raised.value.other_txn_id
    assert [1, 2, 10, 11] == lake.plain_ids(named)


def test_the_same_file_that_was_replaced_since(lake, handle, named):
    """Its rows are there, in another file; who added it is named, not who replaced it."""
    given = a_file(lake, 10)
    txn, other = handle.begin(), handle.begin()
    for each in (txn, other):
        each.load_table(named).add_files([given])
    other.commit()
    handle.catalog().load_table(named).overwrite(rows(11), "id = 10")
    with pytest.raises(txns.Conflict, match=r"added by others \(.*given-10\.parquet") as raised:
        txn.commit()
    assert other.txn_id == raised.value.other_txn_id


def test_the_same_file_beside_a_delete(lake, handle, named):
    """What is made again as one operation is held against others' files as well."""
    given = a_file(lake, 10)
    txn = handle.begin()
    txn.load_table(named).delete("id = 1")
    txn.load_table(named).add_files([given])
    with handle.begin() as other:
        other.load_table(named).add_files([given])
    with pytest.raises(txns.Conflict, match=r"added by others \(.*given-10\.parquet"):
        txn.commit()


@pytest.mark.parametrize("by_name", [True, False])
def test_who_does_not_look_does_not_clash(lake, handle, named, by_name):
    """By name, or in its place."""
    given = a_file(lake, 10)
    txn = handle.begin()
    table = txn.load_table(named)
    if by_name:
        table.add_files([given], check_duplicate_files=False)
    else:
        with table.transaction() as steps:
            steps.add_files([given], {}, False)  # noqa: FBT003 -- as pyiceberg takes it
    with handle.begin() as other:
        other.load_table(named).add_files([given])
    txn.commit()
    assert [1, 10, 10] == lake.plain_ids(named)


def test_what_is_undone_was_seen(lake, handle, named):
    """A file that was to be added was not there: that holds of the table as a whole, then."""
    b = lake.table("b")
    txn = handle.begin()
    txn.savepoint("before")
    txn.load_table(named).add_files([a_file(lake, 10)])
    txn.rollback_to("before")
    txn.load_table(b).append(rows(1))
    handle.catalog().load_table(named).append(rows(2))
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


def test_a_file_that_is_there_was_seen(lake, handle, named):
    b = lake.table("b")
    given = a_file(lake, 10)
    handle.catalog().load_table(named).add_files([given])
    txn = handle.begin()
    with pytest.raises(ValueError, match="already referenced"):
        txn.load_table(named).add_files([given])
    txn.load_table(b).append(rows(1))
    handle.catalog().load_table(named).append(rows(2))
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


def test_a_file_that_a_stranger_adds(lake, handle, named):
    """He is adopted first, and has come before."""
    given = a_file(lake, 10)
    txn = handle.begin()
    txn.load_table(named).add_files([given])
    lake.another_catalog().load_table(named).add_files([given])
    with pytest.raises(txns.Conflict, match=r"added by others \(.*given-10\.parquet"):
        txn.commit()
    assert [1, 10] == ids(handle.snapshot().load_table(named))


def test_the_first_files_alter_the_table(lake, handle):
    """By pyiceberg it gets names for its columns: docs/isolation.md says what to do."""
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.load_table(a).add_files([a_file(lake, 10)])
    handle.catalog().load_table(a).append(rows(2))
    with pytest.raises(txns.Conflict):
        txn.commit()

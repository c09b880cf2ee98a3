"""A table object stands for the table that was loaded, not for a later one of its name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import txns
from tests.txns.lake import ids, rows

A = "shop.a"
TEXT = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", LongType()))


def _append(table) -> None:
    table.append(rows(2))


def _overwrite(table) -> None:
    table.overwrite(rows(2))


def _delete(table) -> None:
    table.delete("id > 0")


def _add_column(table) -> None:
    with table.update_schema() as update:
        update.add_column("more", StringType())


def _set_property(table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(color="blue")


DEEDS = [_append, _overwrite, _delete, _add_column, _set_property]


@pytest.fixture(params=["inline", "next"])
def before(request, lake):
    """A table with a row, as it was loaded."""
    lake.table("a", [1])
    catalog = lake.open(apply=request.param).catalog()
    catalog.load_table(A).append(rows(7))
    return catalog.load_table(A)


def _everything(lake):
    table = lake.open(lake.another_catalog()).catalog().load_table(A)
    return table.schema(), table.properties.get("color"), ids(table)


@pytest.mark.sampled
@pytest.mark.parametrize("deed", DEEDS)
def test_nothing_is_written_into_a_table_that_was_created_again(lake, before, deed):
    """1. It is loaded. 2. Others drop it, and create another one of its name. 3. It is written."""
    other = lake.open(lake.another_catalog()).catalog()
    other.drop_table(A)
    other.create_table(A, TEXT).append(pa.table({"id": [9], "name": [9]}))
    now = _everything(lake)
    with pytest.raises((txns.Conflict, CommitFailedException)):
        deed(before)
    assert now == _everything(lake)


@pytest.mark.sampled
@pytest.mark.parametrize("deed", DEEDS)
def test_nothing_is_written_into_a_table_that_has_taken_the_name(lake, before, deed):
    """1. It is loaded. 2. Others rename it, and another one to its name. 3. It is written."""
    other = lake.open(lake.another_catalog()).catalog()
    other.create_table("shop.n", TEXT).append(pa.table({"id": [9], "name": [9]}))
    other.rename_table(A, "shop.old")
    other.rename_table("shop.n", A)
    now = _everything(lake)
    with pytest.raises((ValueError, CommitFailedException), match="UUID"):
        deed(before)
    assert now == _everything(lake)


def test_a_later_table_is_not_what_a_refresh_gives(lake, before):
    other = lake.open(lake.another_catalog()).catalog()
    other.drop_table(A)
    other.create_table(A, TEXT)
    with pytest.raises(txns.Conflict, match="load it again"):
        before.refresh()
    assert [1, 7] == ids(before)


def test_a_later_table_is_not_what_a_write_leaves(lake, monkeypatch):
    """1. It is written. 2. Others drop it, and create another one. 3. The writer looks at it."""
    lake.table("a", [1])
    handle = lake.open()
    table = handle.catalog().load_table(A)
    committer = type(handle.parts.committer)
    apply = committer.apply

    def and_then(self, entry):
        apply(self, entry)
        if self is handle.parts.committer:
            other = lake.open(lake.another_catalog()).catalog()
            other.drop_table(A)
            other.create_table(A, TEXT)

    monkeypatch.setattr(committer, "apply", and_then)
    table.append(rows(2))
    monkeypatch.undo()
    assert [1, 2] == ids(table)
    with pytest.raises(txns.Conflict):
        table.append(rows(3))


def test_a_table_that_leaves_care_and_comes_back_is_the_same(lake):
    catalog = (handle := lake.open()).catalog()
    table = catalog.create_table(A, rows(1).schema)
    table.append(rows(1))
    handle.forget(A)
    handle.register(A)
    table.append(rows(2))
    assert [1, 2] == ids(table)

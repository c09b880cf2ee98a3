"""Which writes clash: an append is what was made by an append, whatever its snapshot says."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException

import txns
from tests.txns.lake import ids, rows


def _upsert(table):
    table.upsert(rows(5), ["id"])


def _overwrite_of_nothing(table):
    table.overwrite(rows(5), "id = 5")


def _delete_of_nothing_and_append(table):
    with table.transaction() as steps:
        steps.delete("id = 5")
        steps.append(rows(5))


def _append_and_delete_of_nothing(table):
    with table.transaction() as steps:
        steps.append(rows(5))
        steps.delete("id = 7")


CONDITIONAL = [
    _upsert,
    _overwrite_of_nothing,
    _delete_of_nothing_and_append,
    _append_and_delete_of_nothing,
]


@pytest.mark.parametrize("write", CONDITIONAL)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_a_conditional_write_that_only_adds_rows_clashes(lake, handle, write):
    """Two that add the same new key by what the table holds: one of them commits."""
    a = lake.table("a", [1])
    one, two = (handle.begin(isolation="SNAPSHOT") for _ in range(2))
    for txn in (one, two):
        write(txn.load_table(a))
        assert "append" == txn.load_table(a).current_snapshot().summary.operation.value
    one.commit()
    with pytest.raises(txns.Conflict, match="wrote over"):
        two.commit()
    assert [1, 5] == lake.plain_ids(a)


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_a_conditional_write_of_nothing_is_validated_at_every_level(lake, handle):
    """It saw that no row matches: that must still hold at the commit, at SNAPSHOT too."""
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin(isolation="SNAPSHOT")
    txn.load_table(a).delete("id = 5")
    txn.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(5))
    with pytest.raises(txns.Conflict, match="looked through for rows to change"):
        txn.commit()


@pytest.mark.parametrize("write", CONDITIONAL)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_a_single_operation_ends_as_on_a_plain_table(lake, handle, write):
    """
    What moved since is decided by pyiceberg's retry and validation, as on a plain table.

    1. A table is loaded.
    2. Somebody else adds the key.
    3. The operation runs on the table as it was loaded.
    """

    def outcome(catalog, name):
        table = catalog.load_table(name)
        catalog.load_table(name).append(rows(5))
        try:
            write(table)
        except (CommitFailedException, ValidationException) as error:
            return type(error), lake.plain_ids(name)
        return None, lake.plain_ids(name)

    plain = lake.table("p", [1], register=False)
    assert outcome(lake.catalog, plain) == outcome(handle.catalog(), lake.table("a", [1]))


@pytest.mark.parametrize("tidied", [False, True])
def test_a_conflict_says_who_won(lake, handle, tidied):
    """The comment of the other entry, also of one that was archived, in one line that is cut."""
    a = lake.table("a", [1])
    words = "nightly `load`\n\x1b]52;c;x\x07\u202e" + 300 * "x"
    txn = handle.begin()
    txn.load_table(a).delete("id >= 1")
    with handle.begin(comment=words) as first:
        first.load_table(a).append(rows(2))
    if tidied:
        handle.tidy()
    with pytest.raises(txns.Conflict) as raised:
        txn.commit()
    error = raised.value
    assert (first.txn_id, 200) == (error.other_txn_id, len(error.other_comment))
    assert error.other_comment.startswith(r"nightly 'load'\n\x1b]52;c;x\x07\u202exxx")
    assert error.other_comment.endswith("xxx...")
    assert error.other_engine.startswith("python ")
    assert f" other_comment=`{error.other_comment}`" in str(error)
    assert str(error).isprintable()


def test_what_a_stranger_renamed_is_known_by_its_uuid(lake, handle):
    """
    A table is found under another name, too: two that each read what the other one writes.

    1. T reads `a`, and writes `b`.
    2. A stranger renames `a` to `z`.
    3. Somebody writes `z`.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin()
    assert [1] == ids(txn.load_table(a))
    txn.load_table(b).append(rows(1))
    lake.catalog.rename_table(a, "shop.z")
    lake.open().catalog().load_table("shop.z").append(rows(2))
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


def _reads(table):
    assert [1] == ids(table)


def _deletes_nothing(table):
    table.delete("id = 2")


@pytest.mark.parametrize(
    ("level", "look", "clash"),
    [
        ("SERIALIZABLE", _reads, "a table that it read was written"),
        ("SNAPSHOT", _deletes_nothing, "looked through for rows"),
    ],
)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_a_table_is_known_under_each_of_its_names(lake, handle, level, look, clash):
    """
    What it found of a table under one name holds under the next one, too.

    1. T reads `a`, or writes it by what it holds.
    2. A stranger renames `a` to `z`; T asks whether there is a `z`.
    3. Somebody writes `z`.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin(isolation=level)
    look(txn.load_table(a))
    lake.catalog.rename_table(a, "shop.z")
    assert txn.table_exists("shop.z")
    lake.open().catalog().load_table("shop.z").append(rows(2))
    txn.load_table(b).append(rows(1))
    with pytest.raises(txns.Conflict, match=clash):
        txn.commit()


@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE"])
def test_a_table_that_was_written_is_known_by_its_uuid(lake, handle, level):
    """What it wrote, a stranger has renamed, and somebody has written there."""
    a = lake.table("a", [1])
    txn = handle.begin(isolation=level)
    txn.load_table(a).append(rows(2))
    lake.catalog.rename_table(a, "shop.z")
    lake.open().catalog().load_table("shop.z").append(rows(3))
    with pytest.raises(txns.Conflict, match="was renamed and written"):
        txn.commit()
    assert [1, 3] == lake.plain_ids("shop.z")


def test_a_namespace_that_was_listed_is_one_in_any_case(lake, handle):
    """In some catalogs `Shop` and `shop` are one namespace."""
    b = lake.table("b")
    lake.catalog.create_namespace("Shop")
    txn = handle.begin()
    assert [] == txn.list_tables("Shop")
    txn.load_table(b).append(rows(1))
    handle.catalog().create_table("shop.new", rows(1).schema)
    with pytest.raises(txns.Conflict, match="a namespace that it listed"):
        txn.commit()


def test_a_name_found_absent_is_one_in_any_case(lake, handle):
    """In some catalogs `New` and `new` are one name."""
    b = lake.table("b")
    txn = handle.begin()
    assert not txn.table_exists("shop.New")
    txn.load_table(b).append(rows(1))
    handle.catalog().create_table("shop.new", rows(1).schema)
    with pytest.raises(txns.Conflict, match="found absent"):
        txn.commit()

"""A rename takes a table from care and puts it back, whatever the catalog makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

import txns
from tests.txns.lake import SCHEMA, ids, rows


class Forgetful(SqlCatalog):
    """Renames, whose answer is lost; or does not, and cannot be written any more."""

    renames = True
    broken = False

    def rename_table(self, *names: Any) -> Any:
        if not self.renames:
            self.broken = True
        else:
            super().rename_table(*names)
        raise OSError("connection reset by peer")

    def commit_table(self, table: Any, *changes: Any) -> Any:
        if self.broken and table.name() != ("txns", "commits"):
            raise CommitFailedException("not now")
        return super().commit_table(table, *changes)


def is_registered(lake, name: str) -> bool:
    properties = lake.catalog.load_table(name).properties
    return properties.get("txns.table-uuid") == str(
        lake.catalog.load_table(name).metadata.table_uuid
    )


def test_a_rename_into_a_namespace_that_is_missing(lake, handle):
    """The table stays where it is, under care."""
    a = lake.table("a", [1])
    with pytest.raises(NoSuchNamespaceError):
        handle.catalog().rename_table(a, "nowhere.b")
    assert is_registered(lake, a)
    handle.catalog().load_table(a).append(rows(2))
    assert [1, 2] == ids(handle.snapshot().load_table(a))


class Hiding(SqlCatalog):
    """Has no commit table any more once somebody has forgotten a table."""

    hidden = False

    def commit_table(self, table: Any, *changes: Any) -> Any:
        committed = super().commit_table(table, *changes)
        self.hidden = "forget" in str(changes) and table.name() == ("txns", "commits")
        return committed

    def load_table(self, identifier: Any) -> Any:
        if self.hidden and tuple(identifier) == ("txns", "commits"):
            raise NoSuchTableError("Table does not exist: txns.commits")
        return super().load_table(identifier)


def test_a_commit_table_that_is_gone_is_not_one_that_has_nothing_to_apply(lake):
    """Under its new name nobody would look for the forget: it would be set back for ever."""
    a = lake.table("a", [1])
    catalog = Hiding("lake", **lake.catalog.properties)
    with pytest.raises(txns.errors.InvalidUsage) as refused:
        lake.open(catalog).catalog().rename_table(a, "shop.b")
    assert refused.value.sqlstate == "55000"
    assert not lake.catalog.table_exists("shop.b")
    handle = lake.open()
    handle.tidy()
    handle.register(a)
    handle.catalog().rename_table(a, "shop.b")
    assert [1] == ids(handle.snapshot().load_table("shop.b"))


def test_a_rename_whose_answer_is_lost(lake):
    """The table is under care under the name that it has, and the caller is told."""
    a = lake.table("a", [1])
    handle = lake.open(Forgetful("lake", **lake.catalog.properties))
    with pytest.raises(OSError, match="reset"):
        handle.catalog().rename_table(a, "shop.b")
    assert not lake.catalog.table_exists(a)
    assert is_registered(lake, "shop.b")


class Overloaded(SqlCatalog):
    """Refuses the next changes of one table."""

    refusals = 0

    def commit_table(self, table: Any, *changes: Any) -> Any:
        if self.refusals and table.name() == ("shop", "a"):
            self.refusals -= 1
            raise OSError("too many requests")
        return super().commit_table(table, *changes)


def test_a_rename_before_the_log_is_applied(lake):
    """It is refused: under another name nobody would find what is still to be applied."""
    a = lake.table("a", [1])
    catalog = Overloaded("lake", **lake.catalog.properties)
    handle = lake.open(catalog)
    catalog.refusals = 2
    with pytest.raises(txns.Quarantined, match="entries of the table are not applied"):
        handle.catalog().rename_table(a, "shop.b")
    assert catalog.refusals == 0
    assert not lake.catalog.table_exists("shop.b")
    assert is_registered(lake, a)
    handle.catalog().rename_table(a, "shop.b")
    assert is_registered(lake, "shop.b")


def test_a_rename_of_a_table_whose_forget_cannot_be_applied(lake):
    """
    It is refused: under its new name the table would be set back for ever.

    1. A process forgets it, and dies. 2. The catalog refuses changes of it for a while.
    3. Another one renames it.
    """
    a = lake.table("a", [1])
    catalog = Overloaded("lake", **lake.catalog.properties)
    handle = lake.open(catalog)
    catalog.refusals = 2
    handle.forget(a)
    with pytest.raises(txns.Quarantined, match="entries of the table are not applied"):
        handle.catalog().rename_table(a, "shop.b")
    assert catalog.refusals == 0
    assert not lake.catalog.table_exists("shop.b")
    handle.catalog().rename_table(a, "shop.b")
    handle.tidy()
    assert [1] == ids(handle.snapshot().load_table("shop.b"))


def test_a_rename_that_cannot_be_taken_back(lake):
    """The error says that the table is not under care, why, and what to do."""
    a = lake.table("a", [1])
    catalog = Forgetful("lake", **lake.catalog.properties)
    catalog.renames = False
    handle = lake.open(catalog)
    with pytest.raises(
        txns.InvalidUsage, match=r"reset.*others write the table.*handle\.register\('shop\.a'\)"
    ):
        handle.catalog().rename_table(a, "shop.b")
    assert not is_registered(lake, a)
    lake.open().register(a)
    assert [1] == ids(lake.open().snapshot().load_table(a))


class Between(SqlCatalog):
    """Lets others do something just before a rename, or just after it, whose answer is lost."""

    before = after = staticmethod(lambda: None)
    away = False

    def rename_table(self, *names: Any) -> Any:
        self.before()
        super().rename_table(*names)
        self.after()
        raise OSError("connection reset by peer")

    def load_table(self, identifier: Any) -> Any:
        if self.away:
            raise OSError("catalog is away")
        return super().load_table(identifier)


def test_a_lost_rename_whose_old_name_somebody_takes(lake):
    """The table is under care where it stands, and nobody else's is."""
    a = lake.table("a", [1])
    catalog = Between("lake", **lake.catalog.properties)
    catalog.after = lambda: lake.catalog.create_table(a, SCHEMA)
    with pytest.raises(OSError, match="reset"):
        lake.open(catalog).catalog().rename_table(a, "shop.z")
    assert not is_registered(lake, a)
    assert is_registered(lake, "shop.z")


def test_a_failed_rename_of_a_table_that_is_gone(lake):
    """Whose name it was to have keeps a table that nobody registered."""
    a = lake.table("a", [1])
    catalog = Between("lake", **lake.catalog.properties)
    catalog.before = lambda: (
        lake.catalog.create_table("shop.z", SCHEMA),
        lake.catalog.drop_table(a),
    )
    with pytest.raises((NoSuchTableError, TableAlreadyExistsError)):
        lake.open(catalog).catalog().rename_table(a, "shop.z")
    assert not is_registered(lake, "shop.z")


def test_a_lost_rename_after_which_nobody_can_look(lake):
    """The error says that the table is not under care, and what to do under either name."""
    a = lake.table("a", [1])
    catalog = Between("lake", **lake.catalog.properties)
    catalog.after = lambda: setattr(catalog, "away", True)
    with pytest.raises(
        txns.InvalidUsage, match=r"reset.*away.*handle\.register\('shop\.a'\).*shop\.z"
    ):
        lake.open(catalog).catalog().rename_table(a, "shop.z")
    lake.open().register("shop.z")

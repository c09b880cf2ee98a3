"""What the protocol asks of a catalog, whatever it does to a data table."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    SetSnapshotRefUpdate,
)

from tests.txns.lake import SCHEMA, rows


class Witness(SqlCatalog):
    """Notes of each swap of a data table whether it asserts `main`, and whether it moves it."""

    refuses = False
    """Whether no data table can be swapped now."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.swaps: list[tuple[Any, bool, bool]] = []

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        if table.name() != ("txns", "commits"):
            if self.refuses:
                raise CommitFailedException("not now")
            asserted = any(
                isinstance(each, AssertCreate)
                or (isinstance(each, AssertRefSnapshotId) and each.ref == "main")
                for each in requirements
            )
            added = {u.snapshot.snapshot_id for u in updates if isinstance(u, AddSnapshotUpdate)}
            moved = any(
                isinstance(each, SetSnapshotRefUpdate)
                and each.ref_name == "main"
                and each.snapshot_id in added
                for each in updates
            )
            self.swaps.append((table.name(), asserted, moved))
        return super().commit_table(table, requirements, updates)


def test_every_swap_asserts_main_and_moves_it(lake):
    """
    A late one can then never pass for a new one, on a catalog that asserts what it is asked to.

    Of the rest a REST catalog asserts the uuid alone: a forget that was applied late took a mark
    away that had been set since, and lowered `txns.applied`.
    """
    witness = Witness("lake", **lake.catalog.properties)
    handle = lake.open(witness)
    for name in ("a", "b"):
        lake.catalog.create_table(f"shop.{name}", SCHEMA)
        handle.register(f"shop.{name}")
    catalog = handle.catalog()
    catalog.load_table("shop.a").append(rows(1))
    with catalog.load_table("shop.a").transaction() as changes:
        changes.set_properties(a="b")
    with catalog.load_table("shop.a").manage_snapshots() as refs:
        refs.create_tag(catalog.load_table("shop.a").metadata.current_snapshot_id, "kept")
    for repair in (handle.repair_adopt, handle.repair_reject):
        lake.catalog.load_table("shop.a").append(rows(2))
        repair("shop.a")
    witness.refuses = True
    handle.forget("shop.b")
    witness.refuses = False
    lake.catalog.load_table("shop.b").append(rows(10))
    assert [] == handle.apply_le()
    created = catalog.create_table("shop.c", SCHEMA)
    created.append(rows(1))
    catalog.drop_table("shop.c")
    assert len(witness.swaps) > 8
    assert [] == [swap for swap in witness.swaps if swap[1:] != (True, True)]


def test_a_forget_that_comes_late_keeps_what_others_wrote(lake):
    """
    It puts an empty snapshot on their `main`; a registration afterwards reads all of it.

    1. A forget is logged, and not applied.
    2. A stranger appends; the forget is applied; the table is registered again.
    """
    a = lake.table("a", [1])
    witness = Witness("lake", **lake.catalog.properties)
    handle = lake.open(witness)
    witness.refuses = True
    handle.forget(a)
    witness.refuses = False
    lake.catalog.load_table(a).append(rows(2))
    before = lake.catalog.load_table(a).metadata.current_snapshot_id
    assert [] == handle.apply_le()
    after = lake.catalog.load_table(a).metadata.current_snapshot()
    assert (before, "append") == (after.parent_snapshot_id, after.summary.operation.value)
    assert [1, 2] == lake.plain_ids(a)
    handle.register(a)
    assert [1, 2] == sorted(handle.catalog().load_table(a).scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_old_metadata_goes_where_a_table_says_so(lake, apply):
    """As with plain pyiceberg, whose tables see to it themselves, and Iceberg's Java."""
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    handle = lake.open(apply=apply)
    for name in ("shop.plain", "shop.ours", "shop.all"):
        lake.catalog.create_table(name, SCHEMA, properties={} if name == "shop.all" else properties)
    handle.register("shop.ours")
    handle.register("shop.all")
    for number in range(5):
        lake.catalog.load_table("shop.plain").append(rows(number))
        with handle.begin() as txn:
            txn.load_table("shop.ours").append(rows(number))
            txn.load_table("shop.all").append(rows(number))
    assert 3 == _versions(lake, "plain") == _versions(lake, "ours")
    assert 7 == _versions(lake, "all")
    assert [*range(5)] == lake.plain_ids("shop.ours")


def _versions(lake, name):
    return sum(path.endswith(".metadata.json") and f"/{name}/" in path for path in lake.files())

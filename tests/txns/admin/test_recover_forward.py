"""Tables that a recovery takes to where the log is, by their own later versions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType

from tests.txns.admin.recovering import append, assert_whole, recovered, txn_ids
from tests.txns.backups import pointers, restore
from tests.txns.lake import ids, rows
from tests.txns.wrapped import Wrapped
from txns._admin.recover import recover, recoverable
from txns._config import Config

A, B = ("shop", "a"), ("shop", "b")


def test_a_catalog_that_was_set_back_says_what_is_gone(shop):
    """Log and tables agree, of a moment before: what was committed since is named, by its id."""
    restore(shop.catalog, shop.backup)
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = recovered(shop)
    for each in (dry, found):
        assert [] == each.found.taken_back
        assert [shop.last] == txn_ids([*each.found.gone, *each.found.unknown])
    assert_whole(shop, 1, 2)


@pytest.mark.parametrize("tidied", [False, True])
def test_a_catalog_that_was_set_back_is_taken_forward(apply, shop, tidied):
    """The log comes back, and tables with it: by payloads, or by their own files where none is."""
    later = append(shop, 4)
    if tidied:
        assert shop.open().tidy()
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=True)
    found = recovered(shop, forward=True)
    assert [shop.last, later] == txn_ids(found.found.taken_back)
    assert 1 == len(found.found.unknown)
    assert ((A, B) if tidied or apply == "atomic" else ()) == dry.forward == found.forward
    assert {} == found.broken
    assert_whole(shop, 1, 2, 3, 4)


@pytest.mark.parametrize("gone", ["version", "manifest", "other line"])
def test_a_table_whose_later_version_is_not_whole_stays_where_it_was(shop, gone):
    """It is told to lack what the log has, and readable as it was; the other one goes forward."""
    append(shop, 4)
    assert shop.open().tidy()
    after = pointers(shop.catalog)["shop.a"]
    later = shop.catalog.load_table("shop.a")
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    if gone == "version":
        Path(urlparse(after).path).unlink()
    elif gone == "manifest":
        manifest = later.current_snapshot().manifests(later.io)[0].manifest_path
        Path(urlparse(manifest).path).unlink()
    else:
        shop.another_catalog().load_table("shop.a").append(rows(8))
    found = recovered(shop, forward=True)
    assert (B,) == found.forward
    assert {A} == found.broken.keys()
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 4] == ids(handle.snapshot().load_table("shop.b"))
    expected = [1, 2, 8] if gone == "other line" else [1, 2]
    assert expected == shop.plain_ids("shop.a")


@pytest.mark.parametrize("since", ["schema", "spec", "branch"])
def test_a_table_that_somebody_has_changed_since_its_restore_does_not_go_forward(shop, since):
    """Its `main` is what it was; the ids of what was added since mean something else, though."""
    with shop.open().begin() as txn:
        with txn.load_table("shop.a").transaction() as changes:
            with changes.update_schema() as schema:
                schema.add_column("more", StringType())
            with changes.update_spec() as spec:
                spec.add_identity("id")
        txn.load_table("shop.b").append(rows(4))
    assert shop.open().tidy()
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    table = shop.another_catalog().load_table("shop.a")
    if since == "schema":
        with table.update_schema() as schema:
            schema.add_column("other", LongType())
    elif since == "spec":
        with table.update_spec() as spec:
            spec.add_field("id", BucketTransform(2), "bucket")
    else:
        at = table.metadata.current_snapshot_id
        table.manage_snapshots().create_branch(at, "audit").commit()
        table.append(rows(8), branch="audit")
    before = shop.another_catalog().load_table("shop.a").metadata
    found = recovered(shop, forward=True)
    assert (B,) == found.forward
    assert {A} == found.broken.keys()
    after = shop.another_catalog().load_table("shop.a").metadata
    assert (before.schema(), before.spec()) == (after.schema(), after.spec())
    assert before.refs.items() - {("main", before.refs["main"])} <= after.refs.items()


def test_a_table_that_nobody_has_changed_goes_forward_whatever_its_version_has_no_more(shop):
    """A tag, say, that was dropped, and whose snapshot has expired, which a backup still has."""
    first = shop.catalog.load_table("shop.a").metadata.snapshots[0].snapshot_id
    shop.catalog.load_table("shop.a").manage_snapshots().create_tag(first, "old").commit()
    backup = pointers(shop.catalog)
    shop.catalog.load_table("shop.a").manage_snapshots().remove_tag("old").commit()
    shop.catalog.load_table("shop.a").maintenance.expire_snapshots().by_id(first).commit()
    append(shop, 4)
    assert shop.open().tidy()
    append(shop, 5)
    restore(shop.catalog, backup)
    assert (A, B) == recovered(shop, forward=True).forward
    assert {"main"} == shop.another_catalog().load_table("shop.a").refs().keys()
    assert_whole(shop, 1, 2, 3, 4)


def test_a_table_goes_forward_by_metadata_that_has_its_uuid_in_capitals(shop):
    """Other engines may write it so, of the log as of a table."""
    append(shop, 4)
    assert shop.open().tidy()
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    for location in shop.backup.values():
        for path in Path(urlparse(location).path).parent.glob("*.metadata.json"):
            text = path.read_text()
            uuid = json.loads(text)["table-uuid"]
            path.write_text(text.replace(f'id":"{uuid}"', f'id":"{uuid.upper()}"', 1))
            assert uuid != json.loads(path.read_text())["table-uuid"]
    assert (A, B) == recovered(shop, forward=True).forward
    assert_whole(shop, 1, 2, 3, 4)


def test_a_table_goes_forward_by_metadata_that_is_compressed(shop):
    """Other engines write it so, where the table's properties ask for it."""
    append(shop, 4)
    assert shop.open().tidy()
    after = Path(urlparse(pointers(shop.catalog)["shop.a"]).path)
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    packed = after.with_name(after.name.replace(".metadata.json", ".gz.metadata.json"))
    packed.write_bytes(gzip.compress(after.read_bytes()))
    after.unlink()
    assert (A, B) == recovered(shop, forward=True).forward
    assert_whole(shop, 1, 2, 3, 4)


def test_a_metadata_file_that_nobody_can_read_keeps_no_table_back(shop):
    """Half a file, say, of who died in the middle: the others tell."""
    append(shop, 4)
    assert shop.open().tidy()
    folder = Path(urlparse(pointers(shop.catalog)["shop.a"]).path).parent
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    (folder / "00009-torn.metadata.json").write_text('{"format-version": 2,')
    (folder / "00009-list.metadata.json").write_text("[]")
    assert (A, B) == recovered(shop, forward=True).forward
    assert_whole(shop, 1, 2, 3, 4)


class _Refuses(Wrapped):
    """A catalog that takes no snapshot for one table."""

    def commit_table(self, table, requirements, updates):
        added = [each for each in updates if isinstance(each, AddSnapshotUpdate)]
        if table.name() == A and not any("txns.restored" in str(one.snapshot) for one in added):
            raise RuntimeError("not this one")
        return super().commit_table(table, requirements, updates)


def test_a_table_that_cannot_go_forward_keeps_neither_others_nor_the_recovery(shop):
    """The catalog refuses it: it is told to lack what the log has."""
    append(shop, 4)
    assert shop.open().tidy()
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    found = recover(_Refuses(shop.another_catalog()), Config.of(), shop.clock, forward=True)
    assert (B,) == found.forward
    assert {A} == found.broken.keys()
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 4] == ids(handle.snapshot().load_table("shop.b"))


def test_a_table_of_a_format_that_is_not_written_does_not_go_forward(shop):
    """A dry run says so, too."""
    append(shop, 4)
    assert shop.open().tidy()
    after = Path(urlparse(pointers(shop.catalog)["shop.a"]).path)
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    stored = json.loads(after.read_text()) | {"format-version": 3, "next-row-id": 9}
    after.write_text(json.dumps(stored))
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=True)
    found = recovered(shop, forward=True)
    assert (B,) == dry.forward == found.forward
    assert {A} == found.broken.keys()


@pytest.mark.usefixtures("apply")
def test_a_table_that_goes_forward_has_all_that_its_version_has(shop):
    """Its columns, partitions, order, properties and references, too."""
    with shop.open().begin() as txn:
        with txn.load_table("shop.a").transaction() as changes:
            changes.set_properties({"owner": "me"})
            with changes.update_schema() as schema:
                schema.add_column("more", StringType())
            with changes.update_spec() as spec:
                spec.add_identity("id")
        txn.load_table("shop.b").manage_snapshots().create_tag(
            shop.catalog.load_table("shop.b").metadata.current_snapshot_id, "kept"
        ).commit()
    assert shop.open().tidy()
    later = {name: shop.catalog.load_table(name).metadata for name in ("shop.a", "shop.b")}
    append(shop, 5)
    restore(shop.catalog, shop.backup)
    assert (A, B) == recovered(shop, forward=True).forward
    for name, metadata in later.items():
        now = shop.another_catalog().load_table(name).metadata
        assert metadata.schema() == now.schema()
        assert metadata.spec() == now.spec()
        assert metadata.sort_order() == now.sort_order()
        assert metadata.properties.get("owner") == now.properties.get("owner")
        assert metadata.refs.items() - {("main", metadata.refs["main"])} <= now.refs.items()
        assert {each.snapshot_id for each in metadata.snapshots} <= {
            each.snapshot_id for each in now.snapshots
        }
    assert_whole(shop, 1, 2, 3)

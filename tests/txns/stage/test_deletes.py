"""DELETE by what manifests say: the same as pyiceberg's own, for any filter and any manifests."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _DeleteFiles, _OverwriteFiles
from pyiceberg.transforms import BucketTransform, IdentityTransform

from tests.txns.lake import rows
from txns._iceberg.deletes import Deletes, Overwrites
from txns._iceberg.manifest_entries import live_entries

SEED = 20261126
_ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def _rows(rng: random.Random) -> pa.Table:
    names = [None, "", "a", "b", "c"]
    count = rng.randint(1, 4)
    least = rng.randrange(8)
    return pa.table(
        {
            "id": [rng.choice([None, least, least + 1]) for _ in range(count)],
            "name": [rng.choice(names) for _ in range(count)],
        },
        schema=_ROWS,
    )


def _filter(rng: random.Random) -> str:
    number = rng.randrange(10)
    one = rng.choice(
        [
            f"id = {number}",
            f"id < {number}",
            f"id >= {number}",
            "id is null",
            "id is not null",
            "name = 'a'",
            "name in ('a', 'b')",
            "name is null",
            f"id not in ({number}, {number + 1})",
            "NAME = 'b'",
        ]
    )
    return rng.choice([one, one, f"{one} and id = {number}", f"{one} or name = 'c'", "true"])


def _table(lake, rng: random.Random):
    table = lake.catalog.create_table("shop.a", _ROWS)
    for spec in rng.sample([None, ("name", IdentityTransform()), ("id", BucketTransform(2))], 2):
        if spec:
            with table.update_spec() as update:
                update.add_field(*spec)
        for _ in range(rng.randint(1, 3)):
            table.append(_rows(rng))
        if rng.random() < 0.5:
            table.delete(_filter(rng), case_sensitive=False)
    return table


def _said(producer) -> tuple[list[object], list[object], bool]:
    kept, gone, partly = producer._compute_deletes
    return (
        [_of_manifest(producer._io, each) for each in kept if _has_files(each)],
        [_of_entry(each, producer) for each in gone],
        partly,
    )


def _has_files(manifest) -> bool:
    """Java leaves out of a list what has none, pyiceberg's DELETE does not."""
    return manifest.has_added_files() or manifest.has_existing_files()


def _of_manifest(io, manifest) -> tuple[object, ...]:
    """A manifest that was written anew is what stands in it."""
    entries = sorted(_of_entry(each) for each in live_entries(io, manifest))
    return manifest.content, manifest.partition_spec_id, manifest.existing_files_count, entries


def _of_entry(entry, producer=None) -> tuple[object, ...]:
    own = producer is not None and entry.snapshot_id == producer.snapshot_id
    snapshot = "its own" if own else str(entry.snapshot_id)
    return entry.data_file.file_path, entry.status, snapshot, entry.sequence_number


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("number", range(25))
def test_it_is_pyicebergs_own(lake, number):
    rng = random.Random(f"{SEED}/{number}")
    table = _table(lake, rng)
    for _ in range(4):
        wanted, sensitive = _filter(rng), rng.random() < 0.5
        if sensitive:
            wanted = wanted.replace("NAME", "name")
        both = []
        for kind in (_DeleteFiles, Deletes):
            producer = kind(Operation.DELETE, table.transaction(), table.io)
            producer.delete_by_predicate(parse(wanted), sensitive)
            both.append((_said(producer), len(producer._deleted_data_files)))
            producer._refresh_for_retry()  # what was planned stands, whoever has come between
            both[-1] += (_said(producer),)
        assert both[0] == both[1], f"seed={SEED}/{number} filter={wanted}"


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("number", range(25))
def test_so_is_what_replaces_files(lake, number):
    rng = random.Random(f"{SEED}/{number}")
    table = _table(lake, rng)
    now = table.current_snapshot()
    files = [
        each.data_file for one in now.manifests(table.io) for each in live_entries(table.io, one)
    ]
    gone = rng.sample(files, rng.randint(0, len(files)))
    both = []
    for kind in (_OverwriteFiles, Overwrites):
        producer = kind(Operation.OVERWRITE, table.transaction(), table.io)
        for file in gone:
            producer.delete_data_file(file)
        producer._build_delete_files_partition_predicate()
        kept = [
            _of_manifest(producer._io, each)
            for each in producer._existing_manifests()
            if _has_files(each)
        ]
        both.append(
            (kept, sorted(_of_entry(each, producer) for each in producer._deleted_entries()))
        )
    assert both[0] == both[1], f"seed={SEED}/{number}"
    assert len(gone) == len(both[0][1])


def test_a_list_has_no_manifests_in_which_earlier_deletes_stand(lake, handle):
    """Else a table of whose rows each is replaced once would have one more with each DELETE."""
    name = lake.table("a", [0])
    for number in range(5):
        with handle.begin() as txn:
            txn.load_table(name).delete(f"id = {number}")
            txn.load_table(name).append(rows(number + 1))
    table = lake.catalog.load_table(name)
    assert [5] == lake.plain_ids(name)
    listed = [
        (bool(each.deleted_files_count), _has_files(each))
        for each in table.current_snapshot().manifests(table.io)
    ]
    assert [(False, True), (True, False)] == listed  # the row's, and the one of the last DELETE


def test_nor_those_of_overwrites(lake, handle):
    """A DELETE of some rows of a file writes the others into another one: so nearly all do."""
    name = lake.table("a", [*range(9)])
    for number in range(5):
        with handle.begin() as txn:
            txn.load_table(name).delete(f"id = {number}")
            txn.load_table(name).append(rows(number))
    table = lake.catalog.load_table(name)
    assert [*range(9)] == lake.plain_ids(name)
    listed = [_has_files(each) for each in table.current_snapshot().manifests(table.io)]
    assert 1 == listed.count(False)  # that of the last one, which says what it has removed

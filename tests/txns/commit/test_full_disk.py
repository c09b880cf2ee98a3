"""A storage that fails in the swap is no unknown outcome, and is given time (docs/spec.md 11.1)."""

from __future__ import annotations

import errno
import io

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

import txns
from tests.txns.commit.test_commit_loop import staged
from tests.txns.lake import ids
from tests.txns.wrapped import Wrapped


class Disk(PyArrowFileIO):
    """Has no room for metadata files of the commit table for some time, or for ever."""

    failures = 0
    error: Exception = OSError(errno.ENOSPC, "no space left on device")

    def new_output(self, location):
        if Disk.failures and "/txns/commits/metadata/" in location and location.endswith(".json"):
            Disk.failures -= 1
            if Disk.failures % 2:
                raise Disk.error
            output = super().new_output(location)
            output.create(overwrite=True).close()
            output.create = FullStream
            return output
        return super().new_output(location)


class FullStream(io.BytesIO):
    """A file that is there, and takes nothing of what is written to it."""

    def __init__(self, overwrite):
        del overwrite
        super().__init__()

    def write(self, _):
        raise Disk.error


def but_metadata(files: set[str]) -> set[str]:
    return {each for each in files if not each.endswith(".metadata.json")}


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(Disk, "failures", 0)
    monkeypatch.setattr(Disk, "error", Disk.error)
    return Disk


@pytest.fixture
def catalog(lake, disk):
    """A catalog that has it."""
    where = f"{disk.__module__}.{disk.__name__}"
    return SqlCatalog("lake", **{**lake.catalog.properties, "py-io-impl": where})


@pytest.mark.parametrize("txn_id", [None, "nightly"])
def test_a_full_disk_is_no_outcome(lake, catalog, disk, txn_id):
    """The storage's own error is told, what was staged stays, and nothing is left to settle."""
    a = lake.table("a", [1])
    txn = staged(lake.open(catalog), a, 2, txn_id=txn_id)
    disk.failures = 1_000
    with pytest.raises(OSError, match="no space"):
        txn.commit()
    assert txns.State.ACTIVE is txn.state
    disk.failures = 0
    txn.commit()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_a_transaction_that_met_a_full_disk_can_be_rolled_back(lake, catalog, disk):
    a = lake.table("a", [1])
    before = but_metadata(lake.files())
    txn = staged(lake.open(catalog), a, 2)
    disk.failures = 1_000
    with pytest.raises(OSError, match="no space"):
        txn.commit()
    txn.rollback()
    assert txns.State.ROLLED_BACK is txn.state
    assert before == but_metadata(lake.files())


def test_a_disk_that_is_freed_in_time(lake, catalog, disk):
    """Its commit is won, after pauses that grow."""
    a = lake.table("a", [1])
    txn = staged(lake.open(catalog), a, 2)
    disk.failures, before_ms = 12, lake.clock.slept_ms
    txn.commit()
    assert 0 == disk.failures
    assert sum(min(10 * 2**n, 2000) for n in range(12)) == lake.clock.slept_ms - before_ms
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_what_may_land_stays_unknown_on_a_full_disk(lake, catalog, disk):
    """An attempt that was sent is not taken back by a later one that was not."""
    a = lake.table("a", [1])
    on_its_way = []

    def swap(real):
        if on_its_way:
            return real()
        on_its_way.append(real)
        disk.failures = 1_000
        raise ConnectionError("no answer")

    txn = staged(lake.open(Wrapped(catalog, swap)), a, 2)
    with pytest.raises(txns.CommitStateUnknown) as raised:
        txn.commit()
    assert isinstance(raised.value.__cause__, OSError)
    disk.failures = 0
    on_its_way.pop()()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


@pytest.mark.parametrize(
    "denied",
    [
        PermissionError(errno.EACCES, "not yours"),
        # As pyarrow 23 words it, of MinIO, S3 and moto.
        OSError(
            "When initiating multiple part upload for key 'x' in bucket 'lake': AWS Error"
            " ACCESS_DENIED during CreateMultipartUpload operation: not yours"
        ),
        OSError("google::cloud::Status(PERMISSION_DENIED: Permanent error: not yours)"),
    ],
    ids=["disk", "object store", "google"],
)
def test_who_may_not_write_is_told_at_once(lake, catalog, disk, denied):
    """No time helps there."""
    a = lake.table("a", [1])
    txn = staged(lake.open(catalog), a, 2)
    disk.error, disk.failures = denied, 1_000
    with pytest.raises(OSError, match="not yours"):
        txn.commit()
    assert 999 == disk.failures
    assert txns.State.ACTIVE is txn.state


def test_a_tidy_on_a_full_disk_leaves_no_files(lake, catalog, disk):
    a = lake.table("a", [1])
    staged(lake.open(), a, 2).commit()
    before, disk.failures = but_metadata(lake.files()), 1
    assert 0 == lake.open(catalog).tidy()
    assert before == but_metadata(lake.files())


@pytest.mark.parametrize("is_answered", [True, False])
def test_pauses_grow_where_nothing_is_answered(lake, is_answered):
    """Who loses races tries again at once; who is not answered leaves the catalog time."""
    a = lake.table("a", [1])

    def swap(_real):
        raise CommitFailedException("lost") if is_answered else ConnectionError("no answer")

    txn = staged(lake.open(Wrapped(lake.another_catalog(), swap)), a, 2)
    before_ms = lake.clock.slept_ms
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    slept_ms = lake.clock.slept_ms - before_ms
    assert (slept_ms < 500) is is_answered
    assert (slept_ms > 60_000) is not is_answered


def test_attempts_end_in_time(lake, monkeypatch):
    """However long the pauses have become."""
    a = lake.table("a", [1])
    clock, tried = lake.clock, []

    def swap(_real):
        tried.append(clock.ahead_ms)
        raise ConnectionError("no answer")

    txn = staged(lake.open(Wrapped(lake.another_catalog(), swap)), a, 2)
    monkeypatch.setattr(clock, "back_off", clock.sleep)
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    assert 28_000 <= tried[-1] < 32_000
    assert [1] == ids(lake.open().snapshot().load_table(a))


@pytest.mark.parametrize("again", [True, False])
def test_a_database_without_room_is_no_outcome(lake, again):
    """
    What it says it has no room for has not landed: that is told, and there is nothing to settle.

    An update of the catalog writes a large row as well, and the database may not grow.
    """
    catalog = SqlCatalog("lake", **lake.catalog.properties)
    a = lake.table("a", [1])
    txn = staged(lake.open(catalog), a, 2)
    with lake.catalog.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE ballast (bytes BLOB)")
        connection.exec_driver_sql(
            "CREATE TRIGGER fills AFTER UPDATE ON iceberg_tables"
            " BEGIN INSERT INTO ballast VALUES (zeroblob(10000000)); END"
        )
    catalog.engine.dispose()

    @event.listens_for(catalog.engine, "connect")
    def limit(connection, _record):
        connection.execute("PRAGMA max_page_count = 200")

    with pytest.raises(OperationalError, match="full"):
        txn.commit()
    assert txns.State.ACTIVE is txn.state
    with lake.catalog.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER fills")
    if again:
        txn.commit()
    else:
        txn.rollback()
    assert ([1, 2] if again else [1]) == ids(lake.open().snapshot().load_table(a))

"""Physical removal of dropped tables, over a SQLite catalog and real files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.snapshots import Operation

from tests.txns.lake import SCHEMA, ids, rows
from tests.txns.wrapped import Wrapped
from txns._admin.purge import Purger
from txns._admin.purged_files import PurgedFiles
from txns._cli import main
from txns._table import mark, purge_claim
from txns._verify.compaction import Compaction
from txns.errors import Conflict, ForeignWrite, InvalidUsage, Quarantined, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    import txns
    from tests.txns.lake import Lake

AGE_MS = 60_000
LEASE_MS = 11 * 60 * 1000


@pytest.fixture
def handle(lake: Lake) -> txns.Handle:
    handle = lake.open()
    handle.change_settings(max_age_ms=AGE_MS)
    return handle


@pytest.fixture
def dropped(lake: Lake, handle: txns.Handle) -> str:
    """A table of some snapshots that was dropped just now."""
    name = lake.table("a", [1, 2])
    handle.catalog().load_table(name).append(rows(3))
    handle.catalog().load_table(name).delete("id = 1")
    handle.catalog().drop_table(name)
    return name


def _of(lake: Lake, name: str = "a") -> set[str]:
    return {path for path in lake.files() if f"/{name}/" in path}


def test_purge_removes_the_table_and_all_its_files(lake, handle, dropped):
    lake.clock.sleep(AGE_MS)
    before = _of(lake)
    purged = handle.purge(dropped)
    assert not _of(lake)
    assert len(before) < purged.deleted_files  # the claim has written some more
    assert ("shop", "a") == purged.identifier
    assert [] == lake.catalog.list_tables("shop")
    with pytest.raises(NoSuchTableError):
        handle.purge(dropped)


def test_a_list_of_before_a_purge(lake, handle, dropped):
    """A purge drops in the log what had been dropped: that is not what comes first of a name."""
    between = handle.upper
    then = between - 1
    lake.clock.sleep(AGE_MS)
    handle.purge(dropped)
    _create(handle, dropped)
    assert [] == handle.snapshot(between).list_tables("shop")
    assert [("shop", "a")] == handle.snapshot(then).list_tables("shop")  # it was there
    handle.apply_le()
    handle.tidy()
    assert [] == handle.snapshot(between).list_tables("shop")
    assert [("shop", "a")] == handle.snapshot().list_tables("shop")


def test_the_name_is_free_after_a_purge(lake, handle, dropped):
    """A new table, with an uuid of its own; older timestamps are an error, no empty table."""
    before_ts = handle.upper
    old = lake.catalog.load_table(dropped).metadata.table_uuid
    lake.clock.sleep(AGE_MS)
    handle.purge(dropped)
    handle.catalog().create_table(dropped, SCHEMA).append(rows(7))
    table = handle.catalog().load_table(dropped)
    assert [7] == ids(table)
    assert old != table.metadata.table_uuid
    with pytest.raises(Conflict, match="too old"):
        handle.snapshot(before_ts).load_table(dropped)


def test_a_young_drop_says_from_when_on(lake, handle, dropped):
    """The message has the timestamp, and at that the purge works."""
    before = _of(lake)
    with pytest.raises(Unsupported, match=r"too young.*possible from [0-9]+ ") as raised:
        handle.purge(dropped)
    assert before == _of(lake)
    lake.clock.sleep(AGE_MS)
    purgeable = handle.purgeable(dropped)
    assert f"possible from {purgeable.possible_ts} " in str(raised.value)
    assert purgeable.dropped_ts + AGE_MS == purgeable.possible_ts
    assert before == _of(lake)


def test_a_table_that_is_not_dropped_is_refused(lake, handle):
    live, plain = lake.table("b", [1]), lake.table("c", [1], register=False)
    with pytest.raises(InvalidUsage, match="drop it first"):
        handle.purge(live)
    with pytest.raises(InvalidUsage, match="not under care"):
        handle.purge(plain)
    with pytest.raises(NoSuchTableError):
        handle.purge("shop.nowhere")
    assert [1] == ids(handle.catalog().load_table(live))


def test_a_hold_keeps_a_dropped_table(lake, handle):
    """Until it is released, or over."""
    name = lake.table("a", [1])
    handle.hold("audit", [name], ttl_ms=10 * AGE_MS)
    handle.catalog().drop_table(name)
    lake.clock.sleep(2 * AGE_MS)
    with pytest.raises(Unsupported, match="audit"):
        handle.purge(name)
    lake.clock.sleep(10 * AGE_MS)
    handle.purge(name)
    assert not _of(lake)


def test_what_a_stranger_wrote_blocks_purge_and_creation(lake, handle, dropped):
    """It is kept; rejected, it is kept on a branch, until somebody drops that."""
    lake.clock.sleep(AGE_MS)
    lake.catalog.load_table(dropped).append(rows(9))
    for deed in (lambda: handle.purge(dropped), lambda: _create(handle, dropped)):
        with pytest.raises(ForeignWrite, match="reject"):
            deed()
    handle.repair_reject(dropped)
    with pytest.raises(Unsupported, match="txns-foreign-"):
        handle.purge(dropped)
    raw = lake.catalog.load_table(dropped)
    branch = next(name for name in raw.refs() if name.startswith("txns-foreign-"))
    assert [9] == sorted(raw.scan().use_ref(branch).to_arrow()["id"].to_pylist())
    raw.manage_snapshots().remove_branch(branch).commit()
    handle.purge(dropped)
    assert not _of(lake)


def test_what_a_stranger_put_on_a_branch_since_the_drop_blocks_purge(lake, handle, dropped):
    lake.clock.sleep(AGE_MS)
    table = lake.catalog.load_table(dropped)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "side").commit()
    lake.catalog.load_table(dropped).append(rows(9), branch="side")
    with pytest.raises(Unsupported, match="side"):
        handle.purge(dropped)


def test_what_a_stranger_compacted_on_a_branch_blocks_purge(lake, handle, dropped):
    """Also when an expiry has taken the snapshot that brought its rows."""
    lake.clock.sleep(AGE_MS)
    lake.catalog.load_table(dropped).append(rows(9))
    handle.repair_reject(dropped)
    raw = lake.catalog.load_table(dropped)
    branch = next(name for name in raw.refs() if name.startswith("txns-foreign-"))
    appended = raw.snapshot_by_name(branch)
    (file,) = (task.file for task in raw.scan().use_ref(branch).plan_files())
    with (
        raw.transaction() as changes,
        Compaction(Operation.OVERWRITE, changes, raw.io, branch=branch) as producer,
    ):
        producer.delete_data_file(file)
        producer.append_data_file(file)
    lake.catalog.load_table(dropped).maintenance.expire_snapshots().by_id(
        appended.snapshot_id
    ).commit()
    with pytest.raises(Unsupported, match=branch):
        handle.purge(dropped)


def test_what_a_late_clock_put_on_a_branch_since_the_drop_blocks_purge(lake, handle):
    """Iceberg takes snapshots that are up to a minute older than the table's last update."""
    name = lake.table("a", [1])
    lake.clock.sleep(30_000)
    handle.catalog().drop_table(name)
    raw = lake.catalog.load_table(name)
    raw.manage_snapshots().create_branch(raw.current_snapshot().snapshot_id, "side").commit()
    lake.catalog.load_table(name).append(rows(9), branch="side")
    lake.clock.sleep(AGE_MS)
    with pytest.raises(Unsupported, match="side"):
        handle.purge(name)


def test_a_data_file_that_another_table_has_taken_over_stays(lake, handle):
    """It was removed from the dropped table, which no snapshot has it of any more."""
    name, other = lake.table("a", [1]), lake.table("b", [])
    (file,) = (task.file for task in lake.catalog.load_table(name).scan().plan_files())
    lake.catalog.load_table(other).add_files([file.file_path])
    handle.catalog().load_table(name).delete("id = 1")
    raw = lake.catalog.load_table(name)
    older = [one.snapshot_id for one in raw.snapshots() if one != raw.current_snapshot()]
    raw.maintenance.expire_snapshots().by_ids(older).commit()
    handle.catalog().drop_table(name)
    lake.clock.sleep(AGE_MS)
    handle.purge(name)
    assert [1] == ids(lake.catalog.load_table(other))


def _write_into(lake: Lake, name: str, *names: str) -> None:
    """Add files to a table past the protocol, and see them adopted."""
    lake.catalog.load_table(name).add_files([*names])
    lake.open().repair_adopt(name)


def test_files_that_lie_elsewhere_stay(lake, handle):
    """A manifest may name what it likes: a purger has the rights to delete more than its table."""
    name, victim = lake.table("a", [1]), lake.table("victim", [66], register=False)
    (theirs,) = (task.file for task in lake.catalog.load_table(victim).scan().plan_files())
    _write_into(lake, name, theirs.file_path)
    handle.catalog().drop_table(name)
    lake.clock.sleep(AGE_MS)
    assert 1 == handle.purge(name).kept_files
    assert [66] == ids(lake.catalog.load_table(victim))
    assert not _of(lake)


def test_files_of_another_table_in_the_same_place_stay(lake, handle):
    """After a rename another table may have been made in the place of this one."""
    name, other = lake.table("a", [1]), "shop.other"
    place = lake.catalog.load_table(name).location()
    lake.catalog.create_table(other, SCHEMA, location=place).append(rows(2))
    (theirs,) = (task.file for task in lake.catalog.load_table(other).scan().plan_files())
    _write_into(lake, name, theirs.file_path)
    (own,) = {path for path in _of(lake) if path.endswith(".parquet")} - {
        theirs.file_path.removeprefix("file://")
    }
    handle.catalog().drop_table(name)
    lake.clock.sleep(AGE_MS)
    assert 1 == handle.purge(name).kept_files
    assert not Path(own).exists()
    assert [2] == ids(lake.catalog.load_table(other))
    lake.catalog.load_table(other).append(rows(3))


def test_nothing_is_deleted_while_another_table_cannot_be_loaded(lake, handle, monkeypatch):
    """It may use the same files, and be back in a moment; one whose metadata is gone keeps none."""
    name, other = lake.table("a", [1]), "shop.other"
    place = lake.catalog.load_table(name).location()
    lake.catalog.create_table(other, SCHEMA, location=place).append(rows(2))
    (theirs,) = (task.file for task in lake.catalog.load_table(other).scan().plan_files())
    _write_into(lake, name, theirs.file_path)
    gone = lake.catalog.load_table(lake.table("gone", [1], register=False)).metadata_location
    Path(gone.removeprefix("file://")).unlink()
    handle.catalog().drop_table(name)
    lake.clock.sleep(AGE_MS)
    load = type(lake.catalog).load_table

    def slow_down(self, identifier):
        if self.identifier_to_tuple(identifier)[-1] == "other":
            raise OSError("AWS Error SLOW_DOWN during GetObject")
        return load(self, identifier)

    with monkeypatch.context() as patched:
        patched.setattr(type(lake.catalog), "load_table", slow_down)
        with pytest.raises(Unsupported, match=r"other=`shop\.other`"):
            handle.purge(name)
    assert [2] == ids(lake.catalog.load_table(other))
    lake.clock.sleep(purge_claim.CLAIM_MS)
    assert 1 == handle.purge(name).kept_files
    assert [2] == ids(lake.catalog.load_table(other))


def test_data_files_stay_where_garbage_collection_is_off(lake, handle):
    """As Iceberg's own purge does: other tables may refer to them."""
    name = lake.table("a", [1, 2])
    with handle.catalog().load_table(name).transaction() as changes:
        changes.set_properties({"gc.enabled": "false"})
    handle.catalog().drop_table(name)
    lake.clock.sleep(AGE_MS)
    assert handle.purge(name).kept_data
    assert {".parquet"} == {Path(path).suffix for path in _of(lake)}
    assert [] == lake.catalog.list_tables("shop")


def test_an_entry_that_cannot_leave_the_head_keeps_the_table(lake, handle):
    """What the log still has to show on another table names this one as well."""
    first, second = lake.table("a", [1]), lake.table("b", [1])
    with lake.open(apply="next").begin() as txn:
        txn.drop_table(first)
        txn.load_table(second).append(rows(2))
    raw = lake.catalog.load_table(second)
    raw.overwrite(rows(5))
    lake.clock.sleep(AGE_MS)
    with pytest.raises(Unsupported, match="cannot leave the head"):
        handle.purge(first)
    handle.repair_reject(second)
    handle.purge(first)
    assert [1, 2] == ids(handle.catalog().load_table(second))


# ---------------------------------------------------------------- claims


class _Stopped(Exception):
    """A purger that died."""


def _stop(monkeypatch, handle: txns.Handle, method: str) -> None:
    def stopped(*_args: object) -> None:
        raise _Stopped

    monkeypatch.setattr(handle.parts.catalog, method, stopped)


def _create(handle: txns.Handle, name: str) -> None:
    handle.catalog().create_table(name, SCHEMA)


def test_a_claim_is_gone_on_with_after_its_time(lake, handle, dropped, monkeypatch):
    """Whoever creates the name meanwhile gets a conflict that says what to do."""
    lake.clock.sleep(AGE_MS)
    dead = lake.open(lake.another_catalog())
    _stop(monkeypatch, dead, "rename_table")
    with pytest.raises(_Stopped):
        dead.purge(dropped)
    with pytest.raises(Conflict, match=r"txns purge shop\.a"):
        _create(handle, dropped)
    with pytest.raises(Conflict, match=r"txns purge shop\.a"), handle.begin() as txn:
        txn.create_table(dropped, SCHEMA)
    with pytest.raises(Conflict, match="being purged since"):
        handle.purge(dropped)
    lake.clock.sleep(LEASE_MS)
    handle.purge(dropped)
    assert not _of(lake)
    _create(handle, dropped)


def test_a_table_that_was_moved_aside_is_dropped_by_the_next_purge(
    lake, handle, dropped, monkeypatch
):
    """And it is in no list meanwhile."""
    lake.clock.sleep(AGE_MS)
    dead = lake.open(lake.another_catalog())
    _stop(monkeypatch, dead, "drop_table")
    with pytest.raises(_Stopped):
        dead.purge(dropped)
    (aside,) = lake.catalog.list_tables("shop")
    assert aside[-1].startswith("a__txns_purge_")
    assert [] == handle.catalog().list_tables("shop")
    assert [aside] == handle.dropped()
    handle.purge(dropped)
    assert [] == lake.catalog.list_tables("shop")
    assert not _of(lake)


def test_a_purger_that_slept_too_long_puts_back_what_it_finds(lake, handle, dropped, monkeypatch):
    """It moves the table that was made since, sees that it is another one, and moves it back."""
    lake.clock.sleep(AGE_MS)
    slow = lake.open(lake.another_catalog())
    rename = slow.parts.catalog.rename_table

    def after_a_sleep(*names: object) -> object:
        monkeypatch.undo()
        lake.clock.sleep(LEASE_MS)
        handle.purge(dropped)
        handle.catalog().create_table(dropped, SCHEMA).append(rows(7))
        return rename(*names)

    monkeypatch.setattr(slow.parts.catalog, "rename_table", after_a_sleep)
    with pytest.raises(Conflict, match="since it was claimed"):
        slow.purge(dropped)
    assert [7] == ids(handle.catalog().load_table(dropped))
    assert [("shop", "a")] == lake.catalog.list_tables("shop")


def test_a_creator_that_was_faster_wins(lake, handle, dropped, monkeypatch):
    """Schedule 15: created in place while the purger looks; its claim clashes in the log."""
    lake.clock.sleep(AGE_MS)
    slow = lake.open(lake.another_catalog())
    commit = slow.parts.committer.commit

    def after_a_creation(request: object) -> object:
        monkeypatch.undo()
        handle.catalog().create_table(dropped, SCHEMA).append(rows(7))
        return commit(request)

    monkeypatch.setattr(slow.parts.committer, "commit", after_a_creation)
    with pytest.raises(Conflict, match="written"):
        slow.purge(dropped)
    table = handle.catalog().load_table(dropped)
    assert [7] == ids(table)
    assert mark.PURGING not in table.metadata.properties


def test_a_creator_that_looked_before_the_claim_loses(lake, handle, dropped):
    """It has staged the table on the physical one that is gone when it commits."""
    lake.clock.sleep(AGE_MS)
    creator = handle.begin()
    creator.create_table(dropped, SCHEMA).append(rows(7))
    handle.purge(dropped)
    with pytest.raises(Conflict):
        creator.commit()
    assert not _of(lake)
    _create(handle, dropped)


def test_a_stranger_who_writes_a_claimed_table_keeps_it(lake, handle, dropped, monkeypatch):
    """What was written after the purger's last look is back under the name."""
    lake.clock.sleep(AGE_MS)
    slow = lake.open(lake.another_catalog())
    rename = slow.parts.catalog.rename_table

    def after_a_write(*names: object) -> object:
        monkeypatch.undo()
        lake.catalog.load_table(dropped).append(rows(9))
        return rename(*names)

    monkeypatch.setattr(slow.parts.catalog, "rename_table", after_a_write)
    with pytest.raises(Conflict, match="since it was claimed"):
        slow.purge(dropped)
    assert [9] == lake.plain_ids(dropped)
    with pytest.raises(Quarantined):
        handle.purge(dropped)


def test_a_table_that_was_made_and_dropped_again_meanwhile_stays(
    lake, handle, dropped, monkeypatch
):
    """Its drop is too young, and somebody holds it: the purger's first look was at another one."""
    lake.clock.sleep(AGE_MS)
    slow = lake.open(lake.another_catalog())
    apply_and_tidy = Purger._settle

    def after_another_life(purger: Purger, name: tuple[str, ...]) -> None:
        monkeypatch.undo()
        handle.catalog().create_table(dropped, SCHEMA).append(rows(7))
        handle.hold("audit", [dropped], ttl_ms=LEASE_MS)
        handle.catalog().drop_table(dropped)
        apply_and_tidy(purger, name)

    monkeypatch.setattr(Purger, "_settle", after_another_life)
    with pytest.raises(Unsupported, match="audit"):
        slow.purge(dropped)
    held = handle.held("audit").load_table(dropped)
    assert [7] == ids(held)


def test_a_purger_that_deletes_for_long_claims_no_other_table(lake, handle, dropped, monkeypatch):
    """Its claim ran out, another one purged, and the name has had another life since."""
    lake.clock.sleep(AGE_MS)
    slow = lake.open(lake.another_catalog())
    delete = PurgedFiles.delete_unreachable

    def slowly(files: PurgedFiles) -> int:
        monkeypatch.undo()
        deleted = delete(files)
        lake.clock.sleep(LEASE_MS)
        handle.purge(dropped)
        handle.catalog().create_table(dropped, SCHEMA).append(rows(7))
        handle.hold("audit", [dropped], ttl_ms=LEASE_MS)
        handle.catalog().drop_table(dropped)
        return deleted

    monkeypatch.setattr(PurgedFiles, "delete_unreachable", slowly)
    with pytest.raises(Conflict, match="since it was claimed"):
        slow.purge(dropped)
    assert [7] == ids(handle.held("audit").load_table(dropped))


# ---------------------------------------------------------------- the command line


@pytest.fixture
def cli(lake: Lake) -> Callable[..., Result]:
    """Run a command over the lake's catalog, in a connection of its own."""

    def run(*arguments: str) -> Result:
        options = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db"]
        return CliRunner().invoke(main, [*options, *arguments])

    return run


def test_the_command_says_what_stays_and_why(lake, dropped, cli):
    """A drop of now is too young; exit code 0 where no table was named, 2 where one was."""
    result = cli("purge")
    assert (0, True) == (result.exit_code, "shop.a stays: the drop is too young" in result.stdout)
    assert (2, True) == ((named := cli("purge", dropped)).exit_code, "too young" in named.stderr)
    assert _of(lake)


def test_the_command_purges(lake, dropped, cli):
    """A dry run changes nothing."""
    before, handle = _of(lake), lake.open()
    handle.change_settings(max_age_ms=1000)
    handle.advance(lake.clock.now_ms() + 1000)
    assert "possible" in cli("purge", dropped, "--dry-run").stdout
    assert before == _of(lake)
    result = cli("purge")
    assert (0, True) == (result.exit_code, "shop.a is gone, " in result.stdout)
    assert not _of(lake)
    assert "no dropped table" in cli("purge").stdout


def test_status_and_check_name_what_a_purge_has_left(lake, dropped, cli, monkeypatch):
    lake.clock.sleep(AGE_MS)
    dead = lake.open(lake.another_catalog())
    _stop(monkeypatch, dead, "drop_table")
    with pytest.raises(_Stopped):
        dead.purge(dropped)
    status = cli("status")
    assert "being purged" in status.stdout, status.output
    found = cli("check")
    assert (1, True) == (found.exit_code, "`txns purge shop.a`" in found.stdout)
    assert 0 == cli("purge", "shop.a").exit_code
    assert 0 == cli("check").exit_code


def test_check_finds_a_claim_on_a_table_that_is_not_dropped(lake, cli):
    name = lake.table("b", [1])
    with lake.catalog.load_table(name).transaction() as changes:
        changes.set_properties({mark.PURGING: "somebody"})
    found = cli("check")
    assert (1, True) == (found.exit_code, "the table is not dropped" in found.stdout)


def test_a_greatest_age_that_is_raised_before_the_claim_stands_counts(lake, dropped):
    """
    The claim is judged by the head that it is validated against.

    1. A purger looks: the drop is older than any transaction may be.
    2. Somebody raises the greatest age, before the purger's swap.
    """
    lake.clock.sleep(AGE_MS)
    slow, before = lake.open(Wrapped(lake.another_catalog())), _of(lake)
    append, raised = slow.parts.log.append, []

    def late(head, entries, *also, **options):
        if not raised:
            raised.append(lake.open().change_settings(max_age_ms=10 * AGE_MS))
        return append(head, entries, *also, **options)

    slow.parts.log.append = late
    with pytest.raises(Unsupported, match="the drop is too young"):
        slow.purge(dropped)
    assert raised
    assert before <= _of(lake)
    assert mark.PURGING not in lake.catalog.load_table(dropped).properties
    lake.clock.sleep(10 * AGE_MS)
    lake.open().purge(dropped)
    assert not _of(lake)

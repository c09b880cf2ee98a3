"""The races of docs and designs past: each broke a draft of the protocol, none may break it now."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.simulation.scheduler import DAY_MS
from tests.simulation.stage import NEW, A, B, C, Stage, staged
from tests.simulation.strangers import expire_but, remove_file, roll_back
from txns.errors import Conflict, InvalidUsage, Quarantined


@pytest.fixture(params=["swap", "server"])
def stage(request):
    with staged(server=request.param == "server") as made:
        yield made


def test_01_expiry_after_a_change_of_metadata_only_leaves_the_files(stage: Stage):
    """A snapshot that only carries an ALTER has a manifest list of its own."""
    # 1. T1 changes metadata only: an empty snapshot.  2. A stranger expires all before it.
    handle = stage.handle(apply="inline")
    before = stage.rows(handle, A)
    txn = stage.begin(handle)
    txn.alter(A)
    txn.commit()
    stage.foreign_expiry(A)
    assert before == stage.rows(handle, A)


def test_02_an_applied_change_is_not_applied_again_after_compaction_and_expiry(stage: Stage):
    """`txns.applied` decides, not whether a snapshot id is still there."""
    # 1. T2 begins.  2. T1 appends, applied.  3. Compaction, expiry of all but the compacted.
    # 4. Somebody applies.  5. T2 overwrites what it read.
    handle = stage.handle(apply="inline")
    late = stage.begin(stage.handle())
    late.overwrite(A)
    txn = stage.begin(handle)
    added = txn.append(A)
    txn.commit()
    stage.foreign_compaction(A)
    stage.foreign_expiry(A)
    handle.apply_le()
    assert added <= stage.rows(handle, A)
    handle.tidy()
    with pytest.raises(Conflict):
        late.commit()
    stage.audit()


def test_03_a_run_of_changes_goes_over_a_stranger_as_a_whole(stage: Stage):
    """What others stand on is not restaged, and a stranger's rows stay on a branch."""
    # 1. T1 appends, not applied.  2. T2 overwrites on top of it.  3. A stranger appends x.
    handle = stage.handle()
    first = stage.begin(handle)
    first.append(A)
    first.commit_at()
    second = stage.begin(handle)
    kept = second.overwrite(A)
    # T2's own commit would apply T1 first: the stranger comes between its look and its swap.
    actor = stage.actor("T2", second.commit_at).until("swap", "txns.commits")
    foreign = stage.foreign_append(A)
    actor.finish()
    handle.apply_le()
    assert kept == stage.rows(handle, A)
    assert foreign <= stage.reachable(A)
    stage.audit()


@pytest.mark.parametrize("branch", ["main", "side"])
def test_04_apply_renumbers_after_a_strangers_append(stage: Stage, branch: str):
    """A stranger's append on any branch takes the staged snapshot's sequence number."""
    handle = stage.handle(apply="inline")
    with stage.stranger():
        table = stage.raw(A)
        head = table.current_snapshot().snapshot_id
        table.manage_snapshots().create_branch(head, "side").commit()
    txn = stage.begin(handle)
    added = txn.append(A)
    committed = txn.commit_at()
    with stage.stranger():
        table = stage.raw(A)
        row = stage.lake.new_row()
        with (
            table.transaction() as changes,
            changes.update_snapshot(branch=branch).fast_append() as producer,
        ):
            producer.append_data_file(_file(table, row))
    committed.apply()
    assert added <= stage.raw_rows(A)
    assert {row} <= stage.reachable(A)


def test_05_a_tidied_entry_still_clashes(stage: Stage):
    """`tidied-upto` says that a head does not reach back to a `read_ts`."""
    # 1. E1 on A, not applied.  2. T3 reads B.  3. T2 overwrites B, applied.  4. Tidy archives T2.
    # 5. T3 writes C.
    handle = stage.handle()
    waiting = stage.begin(handle)
    waiting.append(A)
    waiting.commit_at()
    reader = stage.begin(handle)
    reader.read(B)
    writer = stage.begin(handle)
    writer.overwrite(B)
    writer.commit_at().apply()
    handle.tidy()
    reader.append(C)
    with pytest.raises(Conflict):
        reader.commit()
    stage.audit()


def test_06_a_late_applier_of_a_drop_leaves_the_new_table_alone(stage: Stage):
    """A drop is a marker, not a removal by name."""
    # 1. T1 drops A.  2. An applier is about to carry it out.  3. Another does.  4. T2 creates A
    # again and fills it.  5. The applier goes on.
    handle = stage.handle()
    drop = stage.begin(handle)
    drop.drop(A)
    drop.commit_at()
    slow = stage.actor("slow", stage.handle().apply_le).until("swap", "lake.t0")
    handle.apply_le()
    again = stage.begin(handle)
    again.create(A)
    added = again.append(A)
    again.commit_at()
    handle.apply_le()
    slow.finish()
    assert added == stage.rows(handle, A) == stage.raw_rows(A)
    stage.audit()


def test_07_a_late_applier_does_not_bring_a_dropped_table_back(stage: Stage):
    """CREATE, then DROP, both in the head: a slow applier creates, nothing comes back."""
    handle = stage.handle()
    create = stage.begin(handle)
    create.create(NEW)
    create.commit_at()
    step = "create" if type(stage.lake.connect()).__name__ == "SwapCatalog" else "swap"
    slow = stage.actor("slow", stage.handle().apply_le).until(step, "lake.n0")
    drop = stage.begin(handle)
    drop.drop(NEW)
    drop.commit_at()
    handle.apply_le()
    slow.finish()
    handle.apply_le()
    with pytest.raises(NoSuchTableError):
        stage.rows(handle, NEW)
    handle.tidy()
    stage.audit()


def test_08_a_read_before_an_incarnation_is_an_error(stage: Stage):
    """A pinned reader of a table that was dropped and made again sees no empty table."""
    handle = stage.handle(apply="inline")
    read_ts = handle.upper
    for verb in ("drop", "create"):
        txn = stage.begin(handle)
        getattr(txn, verb)(A)
        txn.commit()
    with pytest.raises(Conflict):
        stage.rows(handle, A, read_ts)
    assert frozenset() == stage.rows(handle, A)


def test_09_a_strangers_table_under_a_committed_name_is_quarantine(stage: Stage):
    """The committed rows stay in the head, whatever is tidied."""
    handle = stage.handle()
    create = stage.begin(handle)
    create.create(NEW)
    create.append(NEW)
    committed = create.commit_at()
    with stage.stranger():
        stage.lake.connect().create_table(NEW, stage.raw(A).schema())
    committed.apply()
    handle.tidy()
    head = stage.observer.registry.metadata(("txns", "commits"))
    payloads = [one.summary.additional_properties.get("txns.payload") for one in head.snapshots]
    assert any(payload and "n0" in payload for payload in payloads)


def test_10_a_strangers_alter_between_commit_and_apply_is_quarantine(stage: Stage):
    """A logged ALTER that does not fit any more stops its own table only."""
    handle = stage.handle()
    txn = stage.begin(handle)
    txn.alter(A)
    txn.append(B)
    txn.commit_at()
    with stage.stranger(), stage.raw(A).update_schema() as update:
        from pyiceberg.types import LongType  # noqa: PLC0415

        update.add_column("theirs", LongType())
    handle.apply_le()
    assert stage.raw_rows(B) == stage.rows(handle, B)
    writer = stage.begin(handle)
    with pytest.raises(Quarantined):
        _overwrite(writer)


def test_11_an_unapplied_overwrite_outlives_compaction_and_expiry(stage: Stage):
    """The retention on `main` keeps what it stands on."""
    handle = stage.handle()
    txn = stage.begin(handle)
    kept = txn.overwrite(A)
    committed = txn.commit_at()
    stage.foreign_compaction(A)
    with stage.stranger():
        _expire_as_told(stage)
    committed.apply()
    assert kept == stage.raw_rows(A) == stage.rows(handle, A)
    stage.audit()


def test_12_a_strangers_rollback_is_reported(stage: Stage):
    """Ancestry and `txns.applied` tell, not the presence of a snapshot."""
    handle = stage.handle(apply="inline")
    txn = stage.begin(handle)
    added = txn.append(A)
    txn.commit()
    with stage.stranger():
        roll_back(stage.lake, stage.raw(A))
    assert added <= stage.rows(handle, A)
    writer = stage.begin(handle)
    with pytest.raises(Quarantined):
        _overwrite(writer)
    stage.audit()


def test_12_what_an_adopted_rollback_brings_back_outlives_expiry(stage: Stage):
    """Iceberg deletes what an expired ancestor had removed, unless the tag makes it look."""
    handle = stage.handle(apply="inline")
    kept = stage.raw_rows(A)
    removing = stage.begin(handle)
    removing.overwrite(A)
    removing.commit()
    with stage.stranger():
        roll_back(stage.lake, stage.raw(A))
    handle.repair_adopt(A)
    with stage.stranger():
        table = stage.raw(A)
        expire_but(stage.lake, table, {ref.snapshot_id for ref in table.refs().values()})
    assert kept == stage.raw_rows(A) == stage.rows(handle, A)
    stage.audit()


def test_13_operations_of_one_transaction_are_validated_once(stage: Stage):
    """A second operation that reads the first one's rows hides no other writer."""
    handle = stage.handle(apply="inline")
    first = stage.begin(handle)
    first.overwrite(A)
    first.overwrite(A)
    second = stage.begin(handle)
    second.append(A)
    second.commit()
    with pytest.raises(Conflict):
        first.commit()


def test_14_a_creator_that_died_or_pauses_reserves_nothing(stage: Stage):
    """CREATE is staged in memory: the name is free, and a late rollback drops nobody's table."""
    handle = stage.handle(apply="inline")
    paused = stage.begin(stage.handle())
    paused.create(NEW)
    winner = stage.begin(handle)
    winner.create(NEW)
    added = winner.append(NEW)
    winner.commit()
    with pytest.raises(Conflict):
        paused.commit()
    paused.catalog.rollback()
    assert added == stage.rows(handle, NEW)


def test_15_a_table_is_created_again_while_its_drop_is_looked_at(stage: Stage):
    """Of two creators on a marker one wins, and nothing removes the table by name."""
    handle = stage.handle(apply="inline")
    _drop(stage, handle)
    slow = stage.begin(stage.handle())
    slow.create(A)
    again = stage.begin(handle)
    again.create(A)
    added = again.append(A)
    again.commit()
    with pytest.raises(Conflict):
        slow.commit()
    assert added == stage.rows(handle, A)
    stage.audit()


@pytest.mark.parametrize("label", ["txns.commits", "lake.t0"])
def test_15_a_table_is_created_again_before_it_is_claimed(stage: Stage, label: str):
    """The claim clashes in the log, also with a creation that no table shows yet."""
    # 1. The purger sees the marker, pauses at its claim.  2. Somebody creates in place, commits.
    # 3. The purger goes on.
    handle = stage.handle(apply="inline", tidy_after=1)
    _drop(stage, handle)
    handle.tidy()
    _pass(stage, handle, DAY_MS + 1000)
    purger = stage.actor("purger", lambda: stage.purge(stage.handle(), A))
    purger.until("swap" if label == "txns.commits" else "load", label)
    creator = stage.begin(stage.handle())
    creator.create(A)
    added = creator.append(A)
    creator.commit_at()
    with pytest.raises(Conflict if label == "txns.commits" else InvalidUsage):
        purger.finish()
    handle.apply_le()
    assert added == stage.rows(handle, A) == stage.raw_rows(A)
    stage.audit()


def test_15_a_creator_that_looked_before_the_claim(stage: Stage):
    """It clashes with the claim, in the head or in the archive."""
    # 1. A creator stages on the marker.  2. A purger claims, and removes the table.  3. It commits.
    handle = stage.handle(apply="inline")
    _drop(stage, handle)
    _pass(stage, handle, DAY_MS + 1000)
    creator = stage.begin(stage.handle())
    creator.create(A)
    stage.purge(handle, A)
    with pytest.raises(Conflict):
        creator.commit()
    again = stage.begin(handle)
    again.create(A)
    added = again.append(A)
    again.commit()
    assert added == stage.rows(handle, A)
    stage.audit()


@pytest.mark.parametrize("step", [("delete", "lake"), ("rename", "lake.t0"), ("drop", "lake.t0")])
def test_15_a_purger_dies_with_its_claim(stage: Stage, step: tuple[str, str]):
    """Creators are told, and ten minutes later anybody goes on."""
    handle = stage.handle(apply="inline")
    _drop(stage, handle)
    _pass(stage, handle, DAY_MS + 1000)
    stage.actor("dead", lambda: stage.purge(stage.handle(), A)).until(*step).die()
    if step[0] != "drop":
        with pytest.raises(Conflict):
            stage.begin(handle).create(A)
        with pytest.raises(Conflict):
            stage.purge(handle, A)
    _pass(stage, handle, 11 * 60 * 1000)
    stage.purge(handle, A)
    creator = stage.begin(handle)
    creator.create(A)
    added = creator.append(A)
    creator.commit()
    assert added == stage.rows(handle, A)
    stage.audit()


def test_15_a_purger_that_slept_longer_than_its_claim_lasts(stage: Stage):
    """What it moves is another table: it puts that back, and drops nothing."""
    # 1. P1 pauses before it moves the table.  2. Ten minutes later P2 purges.  3. Somebody creates.
    # 4. P1 goes on.
    handle = stage.handle(apply="inline")
    _drop(stage, handle)
    _pass(stage, handle, DAY_MS + 1000)
    sleeper = stage.actor("sleeper", lambda: stage.purge(stage.handle(), A))
    sleeper.until("rename", "lake.t0")
    _pass(stage, handle, 11 * 60 * 1000)
    stage.purge(handle, A)
    creator = stage.begin(handle)
    creator.create(A)
    added = creator.append(A)
    creator.commit()
    with pytest.raises(Conflict):
        sleeper.finish()
    assert added == stage.rows(handle, A) == stage.raw_rows(A)
    stage.audit()


def _pass(stage: Stage, handle: Any, ms: int) -> None:
    """Let time pass, for the log as well: this storage tells none."""
    stage.world.now_ms += ms
    handle.advance(stage.world.now_ms)


def _drop(stage: Stage, handle: Any) -> None:
    drop = stage.begin(handle)
    drop.drop(A)
    drop.commit()


def test_16_reads_below_an_adoption_stay_what_they_were(stage: Stage):
    """A stranger's row is visible from its adopt entry on."""
    handle = stage.handle()
    read_ts = handle.upper
    before = stage.rows(handle, A, read_ts)
    foreign = stage.foreign_append(A)
    assert before == stage.rows(handle, A, read_ts)
    stage.world.auditor.repairing = "adopt"
    handle.repair_adopt(A)
    handle.apply_le()
    assert before == stage.rows(handle, A, read_ts)
    assert before | foreign == stage.rows(handle, A)
    stage.audit()


def test_17_an_entry_with_a_quarantined_table_is_seen_whole(stage: Stage):
    """Readers see the logged state of all its tables."""
    handle = stage.handle()
    txn = stage.begin(handle)
    kept_a, kept_b = txn.overwrite(A), txn.overwrite(B)
    txn.commit_at()
    with stage.stranger():
        table = stage.raw(A)
        remove_file(table, next(iter(table.scan().plan_files())).file)
    handle.apply_le()
    assert (kept_a, kept_b) == (stage.rows(handle, A), stage.rows(handle, B))
    handle.tidy()
    assert (kept_a, kept_b) == (stage.rows(handle, A), stage.rows(handle, B))
    stage.audit()


def test_18_a_late_applier_does_nothing_to_a_table_forgotten_and_registered(stage: Stage):
    """Forget keeps `txns.applied`, register raises it."""
    handle = stage.handle()
    txn = stage.begin(handle)
    txn.append(A)
    txn.commit_at()
    slow = stage.actor("slow", stage.handle().apply_le).until("swap", "lake.t0")
    handle.apply_le()
    handle.forget(A)
    handle.apply_le()
    handle.register(A)
    before = stage.raw_rows(A)
    slow.finish()
    assert before == stage.raw_rows(A) == stage.rows(handle, A)
    stage.audit()


def test_19_a_pinned_reader_of_an_expired_table_gets_an_error(stage: Stage):
    """Expiry that sets the survivors' parent to null shows no empty table."""
    handle = stage.handle(apply="inline")
    read_ts = handle.upper
    for _ in range(2):
        txn = stage.begin(handle)
        txn.append(A)
        txn.commit()
    stage.foreign_expiry(A)
    with pytest.raises(Conflict):
        stage.rows(handle, A, read_ts)


def test_20_every_entry_is_one_moment_in_each_table_history(stage: Stage):
    """Entries of one millisecond differ, and each is one entry of the snapshot log."""
    handle = stage.handle()
    stamps = []
    for _ in range(3):
        txn = stage.begin(handle)
        txn.append(A)
        txn.append(A)
        txn.append(B)
        stamps.append(txn.commit_at().commit_ts)
    handle.apply_le()
    assert stamps == sorted(set(stamps))
    for name in (A, B):
        log = stage.observer.registry.metadata(name).snapshot_log
        assert stamps == [entry.timestamp_ms for entry in log[-3:]]
    stage.audit()


def _overwrite(writer) -> None:
    """The refusal comes when the table is changed, or at COMMIT at the latest."""
    writer.overwrite(A)
    writer.commit()


def _file(table, row):
    from tests.simulation.rows import data_file  # noqa: PLC0415

    return data_file(table.metadata, [row], 0)


def _expire_as_told(stage: Stage) -> None:
    from tests.simulation.strangers import _kept, expire_but  # noqa: PLC0415

    table = stage.raw(A)
    now_ms = stage.world.now_ms + 20 * 24 * 3600 * 1000
    expire_but(stage.lake, table, _kept(table.metadata, now_ms))

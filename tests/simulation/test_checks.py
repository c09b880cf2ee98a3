"""The checks of the simulation themselves: what they must let pass, and what they must not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from tests.simulation import formats, row_lineage
from tests.simulation.attempts import Operation as Meant
from tests.simulation.attempts import Version
from tests.simulation.contents import File, Manifest
from tests.simulation.history import History
from tests.simulation.scheduler import DAY_MS, Violation
from tests.simulation.stage import A, Stage, staged
from tests.simulation.table_checks import TableChecks
from txns._commit import outstanding

if TYPE_CHECKING:
    from tests.simulation.contents import Contents

DATA, POSITION, EQUALITY = DataFileContent


def file(name: str, content: DataFileContent, number: int, row_id: int | None = None) -> File:
    """Give a live file of a snapshot, with a record for each row of its name."""
    path, records = f"memory://t/data/{name}", name.count("+") + 1
    return File(path, content, number, row_id, records, is_live=True)


def listed(contents: Contents, *files: File, row_id: int | None = None) -> None:
    """Let a manifest list have one manifest with some files."""
    manifest = Manifest("m", ManifestContent.DATA, 1, 1, row_id, files)
    contents.manifests = lambda _list: (manifest,)


def _applied(*snapshots: Snapshot) -> Any:
    """Give a table whose `main` is the last of its snapshots, and which has applied 7."""
    return SimpleNamespace(
        snapshots=list(snapshots),
        current_snapshot=lambda: snapshots[-1],
        properties={"txns.applied": "7"},
    )


@pytest.fixture
def stage():
    with staged(server=False) as made:
        yield made


def test_a_timestamp_that_was_clamped_may_land_late(stage: Stage):
    """A swap that was sent while the log was ahead of the clock lands days later (seed 1997)."""
    handle = stage.handle()
    handle.advance(stage.world.now_ms + 60_000)
    txn = stage.begin(handle)
    txn.append(A)
    commit_ts = txn.commit_at().commit_ts
    late = stage.actor("late", stage.handle().apply_le).until("swap", "lake.t0")
    stage.world.now_ms += 9 * DAY_MS
    late.finish()
    main = stage.observer.registry.metadata(A).current_snapshot()
    assert main.timestamp_ms < commit_ts


def test_a_timestamp_that_nothing_clamped_is_the_commit_ts(stage: Stage, monkeypatch):
    """An applier that takes its own time for a snapshot is found (I7)."""
    handle = stage.handle()
    txn = stage.begin(handle)
    txn.append(A)
    txn.commit_at()
    monkeypatch.setattr("txns._iceberg.timestamps.acceptable_ts", lambda _base, ts, _now_ms: ts + 1)
    with pytest.raises(Violation, match="I7"):
        handle.apply_le()


@pytest.mark.parametrize("lacking", ["table", "archive"])
def test_an_entry_that_leaves_the_head_too_early_is_found(stage: Stage, monkeypatch, lacking: str):
    """The table has to show it, and the archive to have it (I6)."""
    handle = stage.handle()
    txn = stage.begin(handle)
    txn.append(A)
    txn.commit_at()
    if lacking == "table":
        monkeypatch.setattr(outstanding.AppliedTo, "everywhere", lambda *_a, **_k: True)
    else:
        handle.apply_le()
        monkeypatch.setattr(stage.observer, "_archived_ts", lambda _new: set())
    with pytest.raises(Violation, match="I6"):
        handle.tidy()


def test_a_table_that_goes_away_without_its_mark_and_comes_back_is_the_same():
    """Who began while it had its mark may commit to it (seed 50209)."""
    name, elsewhere, history = ("lake", "t0"), ("lake", "x0"), History()
    history.add(name, Version(10, exists=True, cared=False))
    history.rename(name, elsewhere)
    history.rename(elsewhere, name)
    newest = history.newest(name)
    assert newest is not None
    assert newest.exists


def test_care_that_was_interrupted_is_no_care():
    """A table that came under care during a statement may hold what it did (seed 1713)."""
    name, history = ("lake", "t0"), History()
    history.add(name, Version(10, exists=True))
    history.add(name, Version(20, exists=True, cared=False))
    history.add(name, Version(30, exists=True))
    assert [history.cared_since(name, ts) for ts in (5, 15, 25, 35)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("content", "folder", "number", "left"),
    [
        (POSITION, "position-deletes", 1, {7, 8}),
        (POSITION, "position-deletes", 2, {8}),
        (EQUALITY, "equality-deletes", 2, {7, 8}),
        (EQUALITY, "equality-deletes", 3, {8}),
    ],
)
def test_a_delete_file_takes_away_what_is_older(
    stage: Stage, content: DataFileContent, folder: str, number: int, left: set[int]
):
    """By position also what is as old: a wrong sequence number is seen by the rows."""
    contents = stage.observer.contents
    listed(contents, file("7+8-0.parquet", DATA, 2), file(f"{folder}/7-0.parquet", content, number))
    assert contents.rows_of_list("list") == left


def test_a_file_with_two_deletion_vectors_is_found(stage: Stage):
    """Of two vectors engines read one, so the rows of the other would come back."""
    vectors = (file(f"vectors/{name}-0.puffin", POSITION, 3) for name in ("7", "7+8"))
    listed(stage.observer.contents, file("7+8+9-0.parquet", DATA, 2), *vectors)
    with pytest.raises(Violation, match="vectors"):
        stage.observer.contents.rows_of_list("list")


@pytest.mark.parametrize(
    ("taken", "manifests", "files", "found"),
    [
        ((3, 2), 3, (0, 3), None),
        ((2, 2), 3, (0, 3), "from 2, the next is 3"),
        ((3, 2), None, (0, 3), "has none"),
        ((3, 2), 3, (0, 2), "ends at 3"),
        ((3, 1), 3, (0, 3), "ends at 5"),
    ],
)
def test_a_row_id_that_is_given_twice_is_found(
    stage: Stage,
    taken: tuple[int, int],
    manifests: int | None,
    files: tuple[int, int],
    found: str | None,
):
    """A snapshot takes the next ids, for each row one, and says so in its manifests."""
    old, new = metadata_with(stage, 3), metadata_with(stage, 5)
    first, added = taken
    snapshot = new.snapshots[-1].model_copy(
        update={"snapshot_id": 1, "first_row_id": first, "added_rows": added}
    )
    new = new.model_copy(update={"snapshots": [*new.snapshots, snapshot]})
    both = (file("7+8+9-0.parquet", DATA, 1, files[0]), file("10+11-0.parquet", DATA, 2, files[1]))
    contents = stage.observer.contents
    listed(contents, *both, row_id=manifests)
    if found is None:
        row_lineage.check(A, old, new, contents)
    else:
        with pytest.raises(Violation, match=found):
            row_lineage.check(A, old, new, contents)


def metadata_with(stage: Stage, next_row_id: int) -> TableMetadataV3:
    """Give what a table would be in format 3."""
    given = stage.observer.registry.metadata(A).model_dump(by_alias=True)
    return TableMetadataV3.model_validate(
        {**given, "format-version": formats.NEWEST, "next-row-id": next_row_id}
    )


def test_a_file_whose_rows_get_other_ids_is_found():
    """Where nobody else took ids, a row keeps its own from one version of `main` to the next."""
    before, after = {"a": 0, "b": 3, "c": None}, {"a": 0, "b": 4, "c": 5}
    contents = SimpleNamespace(row_ids=lambda snapshot: snapshot)
    row_lineage.nothing_is_renamed(A, {"a": 0, "c": None}, after, contents)
    with pytest.raises(Violation, match="b had 3, has 4"):
        row_lineage.nothing_is_renamed(A, before, after, contents)


@pytest.mark.parametrize("operation", list(Operation))
def test_a_table_is_as_logged_under_a_strangers_compaction(operation: Operation):
    """Whatever the newest entry did to its rows: it may have been a compaction, too."""
    ours = Snapshot(
        snapshot_id=1,
        manifest_list="memory://t/1",
        summary=Summary(operation, **{"txns.commit-ts": "7"}),
    )
    theirs = Snapshot(
        snapshot_id=2,
        parent_snapshot_id=1,
        manifest_list="memory://t/2",
        summary=Summary(Operation.REPLACE),
    )
    metadata = _applied(ours, theirs)
    assert TableChecks.is_as_logged(metadata)
    metadata.properties["txns.applied"] = "8"
    assert not TableChecks.is_as_logged(metadata)


def test_compactions_of_what_is_expired_have_its_rows():
    first = Snapshot(
        snapshot_id=2,
        parent_snapshot_id=1,
        manifest_list="memory://t/2",
        summary=Summary(Operation.REPLACE),
    )
    second = first.model_copy(update={"snapshot_id": 3, "parent_snapshot_id": 2})
    metadata = _applied(first, second)
    assert TableChecks.is_as_logged(metadata)
    metadata.snapshots[0] = first.model_copy(update={"summary": Summary(Operation.APPEND)})
    assert not TableChecks.is_as_logged(metadata)


def test_a_moment_inside_an_entry_is_not_what_was_logged():
    """A stranger has put `main` back to it: the table is upset, and its expiry not retention's."""
    words = {"txns.commit-ts": "7"}
    first = Snapshot(
        snapshot_id=1, manifest_list="memory://t/1", summary=Summary(Operation.APPEND, **words)
    )
    second = first.model_copy(update={"snapshot_id": 2, "parent_snapshot_id": 1})
    metadata = _applied(first, second)
    assert TableChecks.is_as_logged(metadata)
    metadata.current_snapshot = lambda: first
    assert not TableChecks.is_as_logged(metadata)


def test_to_remove_nothing_and_to_add_nothing_is_to_mean_nothing():
    """It is told the moment that it reads at, and has no entry."""
    assert Meant(A, "overwrite").is_idle
    assert not Meant(A, "overwrite", rows=frozenset({1})).is_idle
    assert not Meant(A, "overwrite", removed=frozenset({1})).is_idle
    assert not Meant(A, "drop").is_idle

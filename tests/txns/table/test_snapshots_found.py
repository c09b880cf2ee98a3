"""Not all of a table's snapshots are looked at: the answers are those of all of them."""

from __future__ import annotations

import random

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)

from txns._iceberg import snapshot_index, snapshots
from txns._iceberg.snapshot_index import _REST, index_of
from txns._iceberg.updates import laid_over
from txns._table import logged_state, mark, outstanding_branch

SEED = 20261127
IDS = range(1, 30)


def _table(rng: random.Random):
    """A table of any past: branches, rollbacks, cherry-picks, expired snapshots, ours and not."""
    numbers = sorted(rng.sample(range(1, 60), rng.randrange(1, 12)))
    made, known = [], []
    for number in numbers:
        keys = {}
        if rng.random() < 0.7:
            keys[mark.SNAPSHOT_COMMIT_TS] = str(rng.randrange(4))
            if rng.random() < 0.3:
                keys[mark.SNAPSHOT_PASSING] = "true"
        if rng.random() < 0.2:
            keys[outstanding_branch.OUTSTANDING] = "5"
        made.append(
            Snapshot(
                snapshot_id=rng.choice([each for each in IDS if each not in known]),
                parent_snapshot_id=rng.choice([None, *known[-3:], *known[-1:] * 5]),
                sequence_number=number,
                timestamp_ms=number,
                manifest_list="x",
                summary=None if rng.random() < 0.1 else Summary(rng.choice([*Operation]), **keys),
            )
        )
        known.append(made[-1].snapshot_id)
    last = numbers[-1] + rng.choice([0, 0, 1])
    main = rng.choice([known[-1], known[-1], *known, None])
    left = [each for each in made if each.snapshot_id == main or rng.random() < 0.8]
    if rng.random() < 0.1:
        rng.shuffle(left)  # of a library that keeps no order
    log = [
        SnapshotLogEntry(snapshot_id=each, timestamp_ms=1)
        for each in rng.sample(known, rng.randrange(len(known) + 1))
    ]
    empty = new_table_metadata(
        Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///t", {}
    )
    return empty.model_copy(
        update={
            "snapshots": left,
            "snapshot_log": log,
            "current_snapshot_id": main,
            "last_sequence_number": last,
        }
    )


def _newest_of_all(table, ts: int):
    ours = [
        each
        for each in table.snapshots
        if mark.is_ours(each) and not mark.is_passing(each) and mark.commit_ts_of(each) == ts
    ]
    newest = max(ours, key=lambda one: one.sequence_number, default=None)
    ids = {each.snapshot_id for each in table.snapshot_log}
    return newest, newest is not None and newest.snapshot_id in ids


@pytest.mark.parametrize("number", range(20))
def test_it_is_what_all_of_them_say(number):
    rng = random.Random(f"{SEED}/{number}")
    for _ in range(50):
        table = _table(rng)
        assert table.current_snapshot() is snapshots.main_of(table)
        history = snapshots.History(table)
        for asked in rng.choices(IDS, k=8):
            expected = table.snapshot_by_id(asked)
            assert expected is snapshots.find(table, asked)
            assert expected is history.get(asked)
            assert expected is snapshots.History(table).get(asked)
        for key in (mark.SNAPSHOT_COMMIT_TS, mark.SNAPSHOT_PASSING, outstanding_branch.OUTSTANDING):
            said = [each for each in table.snapshots if snapshots.summary_value(each, key)]
            assert said == index_of(table).with_key(key)
        for ts in range(4):
            assert _newest_of_all(table, ts) == logged_state._newest(table, ts), f"{SEED}/{number}"


def _next_version(rng: random.Random, table):
    """What a table of any past becomes: longer, shorter, another, or an older one again."""
    had = list(table.snapshots)
    match rng.randrange(6):
        case 0:  # expired
            had = had[rng.randrange(len(had) + 1) :]
        case 1:  # set back
            had = had[: rng.randrange(len(had) + 1)]
        case 2 if had:  # one of another content in the place of one
            at = rng.randrange(len(had))
            had[at] = had[at].model_copy(update={"parent_snapshot_id": rng.choice(IDS)})
        case _:
            free = [each for each in range(1, 400) if each not in {at.snapshot_id for at in had}]
            for each in rng.sample(free, rng.choice([1, 1, 2, _REST + 1])):
                key = {rng.choice(["a", "b"]): "1"}
                summary = None if rng.random() < 0.2 else Summary(Operation.APPEND, **key)
                had.append(_snapshot(each, rng.choice(IDS), summary))
    return table.model_copy(update={"snapshots": had})


def _snapshot(snapshot_id, parent, summary=None):
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent,
        sequence_number=99,
        timestamp_ms=99,
        manifest_list="x",
        summary=summary or Summary(Operation.APPEND),
    )


@pytest.mark.parametrize("number", range(20))
def test_it_is_what_all_of_them_say_in_each_version(number):
    rng = random.Random(f"{SEED}/versions/{number}")
    table = _table(rng)
    versions = [table]
    for _ in range(100):
        table = rng.choice([table, table, table, rng.choice(versions)])
        table = _next_version(rng, table)
        versions.append(table)
        index = index_of(table)
        for asked in rng.choices(range(1, 400), k=20):
            assert table.snapshot_by_id(asked) is index.get(asked)
            stood_on = any(each.parent_snapshot_id == asked for each in table.snapshots)
            assert stood_on == index.is_stood_on(asked)
        for key in ("a", "b", "c"):
            said = [each for each in table.snapshots if snapshots.summary_value(each, key)]
            assert said == index.with_key(key), f"{SEED}/versions/{number}"


def test_of_two_with_one_id_it_is_the_later_one_whatever_was_asked_before():
    table = _table(random.Random(SEED))
    first = _snapshot(500, None)
    had = table.model_copy(update={"snapshots": [first]})
    assert first is index_of(had).get(500)
    later = _snapshot(500, 7)
    both = had.model_copy(update={"snapshots": [first, later]})
    assert later is index_of(both).get(500)
    assert later is snapshots.find(both.model_copy(update={"snapshots": [*both.snapshots]}), 500)


def test_the_newest_of_a_table_that_is_too_large_to_be_kept_is_found_without_a_walk(monkeypatch):
    monkeypatch.setattr(snapshot_index, "_SNAPSHOTS", 10)
    made = [_snapshot(each, each - 1) for each in range(1, 21)]
    table = _table(random.Random(SEED)).model_copy(update={"snapshots": made})
    assert made[4] is index_of(table).get(5)
    monkeypatch.setattr(snapshot_index._Known, "by_id", {})
    for each in made[-_REST:]:
        assert each is index_of(table).get(each.snapshot_id)


def _update(rng: random.Random, ids: list[int]):
    match rng.randrange(4):
        case 0:
            return SetPropertiesUpdate(updates={rng.choice("ab"): "1"})
        case 1:
            return RemovePropertiesUpdate(removals=[rng.choice("ab")])
        case 2:
            return SetSnapshotRefUpdate(
                ref_name=rng.choice(["main", "b"]), type="branch", snapshot_id=rng.choice(ids)
            )
    ids.append(rng.choice([*range(40, 200), *ids]))
    return AddSnapshotUpdate(snapshot=_snapshot(ids[-1], None))


def _outcome(lay, table, updates):
    """What is made of a table, but for the clock's time; None where that is refused."""
    try:
        made = lay(table, updates)
    except (ValueError, KeyError):
        return None
    log = [each.snapshot_id for each in made.snapshot_log]
    return {**made.model_dump(), "last-updated-ms": 0, "snapshot-log": log}


@pytest.mark.parametrize("number", range(20))
def test_updates_that_look_for_few_make_what_pyiceberg_makes(number):
    rng = random.Random(f"{SEED}/updates/{number}")
    refused = 0
    for _ in range(50):
        table = _table(rng)
        ids = [*(each.snapshot_id for each in table.snapshots), 999]
        updates = tuple(_update(rng, ids) for _ in range(rng.randrange(1, 5)))
        expected = _outcome(update_table_metadata, table, updates)
        refused += expected is None
        assert expected == _outcome(laid_over, table, updates), f"{SEED}/updates/{number}"
    assert 0 < refused < 50

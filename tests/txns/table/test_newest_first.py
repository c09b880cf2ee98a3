"""A table's newest snapshots are looked at first: the answers are those of all of them."""

from __future__ import annotations

import random

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from txns._iceberg import snapshots
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
            assert said == snapshots.with_key(table, key)
        for ts in range(4):
            assert _newest_of_all(table, ts) == logged_state._newest(table, ts), f"{SEED}/{number}"

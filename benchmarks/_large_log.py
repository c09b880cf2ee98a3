"""
A lake whose log is large: a long archive, a long head, or both, in bytes that the protocol writes.

    python benchmarks/_large_log.py FOLDER --archived 1000000 --standing 10000
"""

from __future__ import annotations

import argparse
import json
import uuid
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import txns
from txns._commit import tidy
from txns._log import archive
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Isolation, Kind, Payload
from txns._log.swap import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._clock import Clock
    from txns._services import Parts

ROW = pa.table({"id": pa.array([1], pa.int64()), "name": ["one"]})
TABLES = ("shop.t0", "shop.t1")
STUCK = "shop.stuck"

FILE_ROWS = 5000
"""Of a file of the archive: a tidy merges what is below 256 KiB, so files end just above it."""

_STEP_MS = 1000
_PAST_TABLES = 50
_ENGINE = "txns 0.1.0 (Python 3.11.9, pyiceberg 0.12.0)"


def open_lake(folder: Path) -> tuple[SqlCatalog, txns.Handle]:
    """Open the SQLite catalog of a folder; it is made where it is not there."""
    folder.mkdir(exist_ok=True, parents=True)
    catalog = SqlCatalog("lake", **properties_of(folder))
    catalog.create_namespace_if_not_exists("shop")
    return catalog, txns.open(catalog, apply="inline")


def properties_of(folder: Path) -> dict[str, str]:
    """Give the properties of the catalog of a folder."""
    return {
        "uri": f"sqlite:///{folder}/catalog.db?timeout=60",  # whoever waits, waits in a queue
        "warehouse": f"file://{folder}/files",
    }


def make_lake(folder: Path, *, archived: int, standing: int) -> None:
    """
    Make a lake with two tables under care, and a past.

    Args:
        folder: Where; it must be new.
        archived: How many rows the archive has, an entry each, a second apart.
        standing: How many entries stand in the head, since a stranger has dropped their table.
    """
    catalog, handle = open_lake(folder)
    for name in (*TABLES, *([STUCK] if standing else [])):
        catalog.create_table(name, ROW.schema)
        handle.register(name)
    handle.tidy()
    add_archive(handle.parts, archived)
    if standing:
        add_standing(handle, STUCK, standing)
        catalog.drop_table(STUCK)
    handle.close()


def add_archive(parts: Parts, count: int, file_rows: int = FILE_ROWS) -> None:
    """Add rows to the archive, below all there is, in files as tidies leave them."""
    first_ts = parts.timeline.archive.rows()[0]["commit_ts"] - (count + 1) * _STEP_MS
    entries = _past(parts.clock, first_ts, count)
    while some := [*islice(entries, file_rows)]:
        rows = [row for entry in some for row in archive.rows_of(entry)]
        head = parts.log.load()
        state = head.state
        txn_id = parts.clock.new_txn_id()
        record = Entry(Kind.TIDY, txn_id, upper=state.upper, tidied_upto=state.tidied_upto)
        _, updates = tidy._rewritten(head.table, rows, [], record)
        assert parts.log.replace(head, updates).outcome is Outcome.WON


def _past(clock: Clock, first_ts: int, count: int) -> Iterator[Entry]:
    """Give entries of tables that are gone: the last of each dropped it."""
    uuids = [str(uuid.uuid4()) for _ in range(_PAST_TABLES)]
    stands: dict[str, int | None] = dict.fromkeys(uuids)
    for number in range(count):
        of, commit_ts = number % _PAST_TABLES, first_ts + number * _STEP_MS
        last = number >= count - _PAST_TABLES
        snapshot_id = clock.new_snapshot_id()
        change = Change(
            ("shop", f"past{of}"),
            uuids[of],
            Operation.DROP if last else Operation.APPEND,
            stands[uuids[of]],
            snapshot_id,
            added_records=number,
        )
        stands[uuids[of]] = snapshot_id
        yield Entry(
            Kind.COMMIT,
            str(_uuid_v7_at(commit_ts)),
            upper=commit_ts,
            tidied_upto=0,
            commit_ts=commit_ts,
            read_ts=commit_ts - 1,
            isolation=Isolation.STRICT_SERIALIZABLE,
            engine=_ENGINE,
            comment=f"nightly load {number}",
            changes=(change,),
        )


def _uuid_v7_at(ms: int) -> uuid.UUID:
    """Give an id as a transaction of that time has it."""
    value = (ms << 80) | (uuid.uuid4().int & ((1 << 80) - 1))
    value = value & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def add_standing(handle: txns.Handle, name: str, count: int) -> None:
    """
    Add entries of one table to the head: the first is a transaction's, the others like it.

    Each leaves the table with one row, and with a snapshot more.
    """
    parts = handle.parts
    txn = handle.begin()
    txn.load_table(name).append(ROW)
    txn.commit_at()
    head = parts.log.load()
    entries = list(_like(head.state.entries[-1], parts, count - 1))
    assert parts.log.append(head, entries).outcome is Outcome.WON


def _like(first: Entry, parts: Parts, count: int) -> Iterator[Entry]:
    last = first
    for _ in range(count):
        (change,) = last.changes
        commit_ts, txn_id = last.commit_ts + 1, parts.clock.new_txn_id()
        to_id = parts.clock.new_snapshot_id()
        body = json.loads(first.payload.inline)
        for update in body["table-changes"][0]["updates"]:
            if update["action"] == "add-snapshot":
                snapshot = update["snapshot"]
                snapshot["snapshot-id"], snapshot["timestamp-ms"] = to_id, commit_ts
                snapshot["parent-snapshot-id"] = change.to_snapshot_id
                snapshot["summary"] |= {
                    "txns.commit-ts": str(commit_ts),
                    "txns.txn-id": txn_id,
                }
            elif update["action"] == "set-snapshot-ref":
                update["snapshot-id"] = to_id
        for requirement in body["table-changes"][0]["requirements"]:
            if requirement["type"] == "assert-ref-snapshot-id":
                requirement["snapshot-id"] = change.to_snapshot_id
        moved = replace(change, from_snapshot_id=change.to_snapshot_id, to_snapshot_id=to_id)
        last = replace(
            last,
            txn_id=txn_id,
            upper=commit_ts,
            commit_ts=commit_ts,
            prev_ts=last.commit_ts,
            read_ts=last.commit_ts,
            changes=(moved,),
            payload=Payload(inline=json.dumps(body, separators=(",", ":"))),
        )
        yield last


def main() -> None:
    """Make a lake, for whoever wants to try something on one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--archived", type=int, default=1_000_000)
    parser.add_argument("--standing", type=int, default=0)
    told = parser.parse_args()
    make_lake(told.folder, archived=told.archived, standing=told.standing)


if __name__ == "__main__":
    main()

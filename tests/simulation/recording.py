"""
What the Python half made of moments of random runs, for the Java half to compare itself with.

One JSON file per moment: the log's records and the tables' metadata as stored, and what
follows from them: the state of the head, the view of each table at each timestamp, and
whether a transaction that has read it then would clash.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.settings import Switch
from txns._commit.conflict import ConflictChecker
from txns._iceberg.snapshots import summary_value
from txns._identifier import dotted_name
from txns._log import entry as _entry
from txns._log import payload
from txns._log.state import LogState
from txns._stage.read_set import EVERYTHING, ReadSet
from txns._table import mark as _mark
from txns._table import overlay
from txns.errors import Conflict, TxnsError

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.catalogs import Identifier
    from tests.simulation.worker import Lake

_SWITCHES = frozenset({Switch.KEYS, Switch.SHARED_IDS})
"""What runs have: nothing that lets strangers make tables that Java cannot load but for times."""
_EVERY = 6
"""One of so many swaps is a moment that is written down."""


def record(folder: Path, seeds: range) -> int:
    """Write moments of the runs of some seeds into a folder; give how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for seed in seeds:
        moments: list[dict[str, Any]] = []
        run(plan(seed, _SWITCHES), on_lake=lambda lake, found=moments: _watch(lake, found))
        for number, moment in enumerate(moments):
            path = folder / f"seed-{seed}-{number}.json"
            path.write_text(json.dumps(moment), encoding="utf-8")
        count += len(moments)
    return count


def _watch(lake: Lake, moments: list[dict[str, Any]]) -> None:
    judge = lake.observer.registry.on_commit
    swaps = 0

    def judged(name: Identifier, old: TableMetadata | None, new: TableMetadata) -> None:
        nonlocal swaps
        judge(name, old, new)
        swaps += 1
        if swaps % _EVERY == 0:
            moments.append(_moment(lake))

    lake.observer.registry.on_commit = judged


def _moment(lake: Lake) -> dict[str, Any]:
    registry, now_ms = lake.observer.registry, lake.world.clock_ms()
    commits = registry.metadata(COMMIT_TABLE)
    state = _state(commits)
    names = sorted(set(registry.pointers) - {COMMIT_TABLE})
    tables = {name: registry.metadata(name) for name in names}
    times = sorted({entry.commit_ts for entry in state.entries} | {state.upper, state.tidied_upto})
    return {
        "now-ms": now_ms,
        "commits": json.loads(commits.model_dump_json()),
        "state": {
            "upper": state.upper,
            "tidied-upto": state.tidied_upto,
            "entries": [entry.commit_ts for entry in state.entries],
            "off": state.off,
        },
        "tables": [
            {
                "name": list(name),
                "metadata": json.loads(metadata.model_dump_json()),
                "views": [_view(name, metadata, state, ts, now_ms) for ts in times],
                "verdicts": [_verdict(name, state, ts) for ts in times],
            }
            for name, metadata in tables.items()
            if _mark.mark_of(metadata) and _java_loads(metadata)
        ],
    }


def _java_loads(metadata: TableMetadata) -> bool:
    """
    Whether Iceberg's Java loads a table, by its times (docs/spec.md 8.3).

    A stranger who writes with bare pyiceberg stamps a table with the clock, also one that a user
    whose clock is more than a minute fast has written.
    """
    logs = [metadata.snapshot_log, metadata.metadata_log]
    times = [[*(at.timestamp_ms for at in log), metadata.last_updated_ms] for log in logs]
    return all(
        later >= earlier - 60_000 for log in times for earlier, later in itertools.pairwise(log)
    )


def _state(commits: TableMetadata) -> LogState:
    records = {
        one.snapshot_id: _entry.from_summary(one.summary.additional_properties)
        for one in commits.snapshots
        if one.summary and _entry.KIND in one.summary.additional_properties
    }
    return LogState.of(records, records[commits.current_snapshot_id])


def _request(logged: _entry.LoggedChange) -> Any:
    inline = logged.entry.payload.inline
    assert inline is not None
    requests = payload.parse(logged.entry, inline.encode())
    return requests[logged.entry.carried.index(logged.change)]


def _view(
    name: Identifier, metadata: TableMetadata, state: LogState, read_ts: int, now_ms: int
) -> dict[str, Any]:
    mark = _mark.mark_of(metadata)
    assert mark is not None
    run_ = state.changes(str(metadata.table_uuid), after=mark.applied, upto=read_ts)
    try:
        view = overlay.as_of(name, metadata, mark, run_, _request, read_ts=read_ts, now_ms=now_ms)
    except TxnsError as error:
        return {"read-ts": read_ts, "error": error.sqlstate}
    seen = view.metadata
    main = seen.current_snapshot()
    return {
        "read-ts": read_ts,
        "main": seen.current_snapshot_id,
        "sequence-number": main.sequence_number if main else None,
        "manifest-list": main.manifest_list if main else None,
        "timestamp-ms": main.timestamp_ms if main else None,
        "commit-ts": summary_value(main, _mark.SNAPSHOT_COMMIT_TS) if main else None,
        "columns": list(seen.schema().column_names),
        "refs": {ref: at.snapshot_id for ref, at in seen.refs.items()},
        "applied": _mark.applied_ts(seen),
        "marked": _mark.mark_of(seen) is not None,
        "dropped": view.dropped,
        "stranger": None if view.stranger is None else view.stranger.adoptable,
        "foreign": [] if view.stranger is None else list(view.stranger.snapshot_ids),
    }


def _verdict(name: Identifier, state: LogState, read_ts: int) -> dict[str, Any]:
    """Say what clashes with a transaction that has read a table, or found it absent."""
    said: dict[str, Any] = {"read-ts": read_ts}
    for kind, reads in (("read", ReadSet(tables={name: [EVERYTHING]})), ("absent", _absent(name))):
        checker = ConflictChecker("probe", _entry.Isolation.SERIALIZABLE, reads, {})
        try:
            checker.validate(state.after(read_ts))
        except Conflict as error:
            said[kind] = [error.other_txn_id, error.least_ts, dotted_name(name)]
        else:
            said[kind] = None
    return said


def _absent(name: Identifier) -> ReadSet:
    return ReadSet(absent={name})

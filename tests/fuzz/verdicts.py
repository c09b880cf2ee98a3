"""
What Python's core says of an input: a value, or which of the protocol's errors.

Each kind of input goes through the functions that a reader, an applier and a tidier use, in memory.
Java's runner (`io.txns.iceberg.fuzz.Verdicts`) does the same, and writes values alike.
"""

from __future__ import annotations

import base64
import hashlib
import json
from io import BytesIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.refs import MAIN_BRANCH

from tests.fuzz.inputs import LOG, LOG_UUID, NOW_MS
from tests.txns.lake import SteppingClock
from txns import errors
from txns._iceberg.updates import laid_over
from txns._log import archive, entry, payload
from txns._log.change import Change, Operation
from txns._log.commit_log import CommitLog
from txns._log.entry import Entry, Kind, LoggedChange, Payload
from txns._log.state import LogState
from txns._stage import kept_tags
from txns._table import logged_state, mark, outstanding_branch, overlay, reconcile, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.table.metadata import TableMetadata

    from tests.fuzz.inputs import Input
    from txns._log.reservation import Reservation

COMMITS = ("txns", "commits")
ERRORS: dict[type[Exception], str] = {
    errors.CorruptLog: "CORRUPT_LOG",
    errors.Unsupported: "UNSUPPORTED",
    errors.Quarantined: "QUARANTINED",
    errors.ForeignWrite: "QUARANTINED",
    errors.Conflict: "CONFLICT",
}
"""The answers that a reader, an applier or a tidier may give."""

NO_TABLE = "NO_TABLE"
"""Iceberg itself refuses the metadata: no catalog gives such a table."""


class _NoTableError(Exception):
    """Iceberg refuses the metadata of an input."""


def verdict(one: Input) -> str:
    """Give what Python's core says; an error that is none of the protocol's begins with CRASH."""
    try:
        return "VALUE " + _hash(_JUDGES[one["kind"]](one["in"]))
    except tuple(ERRORS) as error:
        return ERRORS[type(error)]
    except _NoTableError:
        return NO_TABLE
    except Exception as error:  # noqa: BLE001 -- this is what is looked for
        return f"CRASH {type(error).__name__}: {str(error)[:200]}"


def said(one: Input) -> str:
    """Give the value itself, for whoever looks at one input."""
    return _JUDGES[one["kind"]](one["in"])


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]


def _line(*parts: object) -> str:
    return "|".join("null" if part is None else str(part) for part in parts)


def _list(parts: Iterable[object]) -> str:
    return "[" + ",".join(map(str, parts)) + "]"


def _or_error(value: Callable[[], str]) -> str:
    """Give a value, or the error in its place, where several functions see one input."""
    try:
        return value()
    except tuple(ERRORS) as error:
        return ERRORS[type(error)]


def _flag(value: object) -> str:
    return "true" if value else "false"


# ------------------------------------------------------------------ the log


class _Catalog:
    """A catalog that has one commit table, whose files are in memory."""

    def __init__(self, metadata: TableMetadata, files: dict[str, bytes]) -> None:
        self.files = files
        self.table = Table(COMMITS, metadata, f"{LOG}/metadata/1.json", self, self)  # type: ignore[arg-type]

    def load_table(self, identifier: object) -> Table:
        """Give the commit table."""
        del identifier
        return self.table

    def new_input(self, path: str) -> Any:
        """Give a file."""
        if path not in self.files:
            raise FileNotFoundError(path)
        return SimpleNamespace(open=lambda: BytesIO(self.files[path]))


def _metadata(text: str) -> TableMetadata:
    try:
        return TableMetadataUtil.parse_raw(text)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        raise _NoTableError from error


def _log(metadata: TableMetadata, files: dict[str, bytes] | None = None) -> CommitLog:
    return CommitLog(_Catalog(metadata, files or {}), COMMITS, SteppingClock())  # type: ignore[arg-type]


def _record(given: Input) -> str:
    found = entry.from_summary(given["summary"])
    writable = _or_error(
        lambda: str(entry.check_writable(given["summary"].get(entry.WRITER_FEATURES)))
    )
    archived = _or_error(lambda: str(archive.to_arrow(archive.rows_of(found)).num_rows))
    head = _or_error(lambda: str(LogState.of({1: found}, found) and None))
    return _line(_entry(found), *map(_flag, ("None" == writable, "None" == head)), archived)


def _entry(found: Entry) -> str:
    stored = found.payload
    return _line(
        *(found.kind.value, found.txn_id, found.upper, found.tidied_upto, found.commit_ts),
        *(found.prev_ts, found.read_ts, found.isolation.value, found.engine, found.comment),
        *map(_change, found.changes),
        *(stored.inline, stored.location, stored.sha256),
        *map(_reservation, found.reserved),
    )


def _reservation(one: Reservation) -> str:
    return _line(one.txn_id, _list(one.uuids), one.ticket, one.number, one.lasts_ms)


def _change(change: Change) -> str:
    return _line(
        *(_list(change.table), change.uuid, change.operation.value, change.from_snapshot_id),
        *(change.to_snapshot_id, change.added_records, change.deleted_records),
    )


def _head(given: Input) -> str:
    log = _log(_metadata(given["metadata"]))
    head = log.load()
    writable = _or_error(lambda: str(head.check_writable()))
    state = head.state
    uuids = sorted({change.uuid for each in state.entries for change in each.changes})
    runs = [
        _list(each.commit_ts for each in state.changes(uuid, after=0, upto=head.upper))
        for uuid in uuids
    ]
    return _line(
        *(head.upper, state.tidied_upto, _flag(state.off), _flag(writable == "None")),
        *(_entry(each) for each in state.entries),
        *runs,
        *(state.forgotten_ts(uuid) for uuid in uuids),
    )


def _payload(given: Input) -> str:
    files = {}
    if "inline" in given:
        stored = Payload(inline=given["inline"])
    elif "pieces" in given:
        content = b"".join(text.encode() * count for text, count in given["pieces"])
        sha256 = hashlib.sha256(content).hexdigest()
        stored = Payload(location=f"{LOG}/metadata/txns-payload-0a-1b.json", sha256=sha256)
        files[f"{LOG}/metadata/txns-payload-0a-1b.json"] = content
    else:
        stored = Payload(location=given["location"], sha256=given["sha256"])
        files[given["location"]] = base64.b64decode(given["bytes"])
    changes = tuple(
        Change(("shop", "a"), f"u{n}", Operation.APPEND, None, n) for n in range(given["tables"])
    )
    ours = Entry(Kind.COMMIT, "t", 5, 0, 5, 0, 0, changes=changes, payload=stored)
    log = _log(_EMPTY, files)
    requests = [log.request(LoggedChange(ours, change)) for change in changes]
    return _line(
        *(
            _line(
                _list([*each.identifier.namespace.root, each.identifier.name]),
                _list(one.type for one in each.requirements),
                _list(one.action for one in each.updates),
            )
            for each in requests
        )
    )


def _location(given: Input) -> str:
    return _flag(payload.is_at_its_place(given["path"], given["log"]))


def _archive(given: Input) -> str:
    return _line(*map(_entry, archive.entries_of(given["rows"])))


# --------------------------------------------------------------- data tables


def _mark(given: Input) -> str:
    metadata = _metadata(given["metadata"])
    found = mark.mark_of(metadata)
    care = found or mark.TableMark("txns.commits", "", 0, mark.applied_ts(metadata))
    return _line(
        _flag(found),
        _or_error(lambda: _state(metadata, care)),
        _or_error(lambda: str(mark.created_ts(metadata) if found else 0)),
        _or_error(lambda: _flag(mark.was_under_care(metadata))),
        _or_error(lambda: _tidied(metadata)),
    )


def _state(metadata: TableMetadata, care: mark.TableMark) -> str:
    state = logged_state.logged_state(metadata, care)
    found = state.stranger
    return _line(
        state.snapshot and state.snapshot.snapshot_id,
        *((found.head_snapshot_id, _list(found.snapshot_ids)) if found else ()),
        *((_flag(found.adoptable), _list(found.below)) if found else ()),
    )


def _tidied(metadata: TableMetadata) -> str:
    """Give what an applier takes away of tags and copies, and the branches of strangers."""
    tags = sorted(each.ref_name for each in kept_tags.done(metadata, ()))
    left = laid_over(metadata, outstanding_branch.done(metadata, 2**62))
    branches = sorted(
        name
        for name, ref in metadata.refs.items()
        if name != MAIN_BRANCH and logged_state.stranger_above(metadata, ref.snapshot_id)
    )
    kept = sorted(left.refs.keys() - {MAIN_BRANCH})  # pyiceberg makes one where there is none
    return _line(_list(tags), _list(kept), _list(branches))


def _view(metadata: TableMetadata) -> str:
    refs = sorted(f"{name}={ref.snapshot_id}" for name, ref in metadata.refs.items())
    return _line(
        *(metadata.current_snapshot_id, metadata.current_schema_id, metadata.default_spec_id),
        metadata.default_sort_order_id,
        _list(sorted(each.snapshot_id for each in metadata.snapshots)),
        _list(refs),
        metadata.properties.get(mark.APPLIED),
    )


def _overlay(given: Input) -> str:
    metadata = _metadata(given["metadata"])
    log = _log(_EMPTY)
    found = mark.mark_of(metadata)
    care = found or mark.TableMark("txns.commits", LOG_UUID, 0, mark.applied_ts(metadata))
    run = [_logged(each) for each in given["entries"]]
    shown = [each for each in run if care.applied < each.commit_ts <= given["readTs"]]
    read = _or_error(
        lambda: _view(
            overlay.as_of(
                ("shop", "a"),
                metadata,
                care,
                shown,
                log.request,
                read_ts=given["readTs"],
                now_ms=NOW_MS,
            ).metadata
        )
    )
    return _line(read, _or_error(lambda: _applied(metadata, care, run, log)))


def _logged(given: Input) -> LoggedChange:
    change = Change(("shop", "a"), "u", Operation.APPEND, given["from"], given["to"])
    stored = Payload(inline=given["payload"])
    ts = given["ts"]
    ours = Entry(Kind(given["kind"]), f"t{ts}", ts, 0, ts, 0, 0, changes=(change,), payload=stored)
    return LoggedChange(ours, change)


def _applied(
    metadata: TableMetadata, care: mark.TableMark, run: list[LoggedChange], log: CommitLog
) -> str:
    """Give what an applier makes of a table, of one change after the other."""
    stranger = logged_state.logged_state(metadata, care, run).stranger
    for each in run:
        if mark.applied_ts(metadata) >= each.commit_ts:
            continue
        request = log.request(each)
        repaired = run[-1].entry.kind is Kind.REPAIR
        plan = reconcile.for_applier(
            metadata,
            each,
            request,
            stranger,
            repaired=repaired,
            now_ms=NOW_MS,
            renumber=replay.renumber_in_memory,
        )
        metadata = replay.refuse_unfit(metadata, each, plan.updates)
        stranger = None
    return _view(metadata)


def _create(given: Input) -> str:
    change = Change(("shop", "a"), "u", Operation.CREATE, None, 12)
    ours = Entry(
        Kind.COMMIT, "t", 5, 0, 5, 0, 0, changes=(change,), payload=Payload(given["payload"])
    )
    request = _log(_EMPTY).request(LoggedChange(ours, change))
    if not replay.creates(request):
        raise errors.Quarantined(("shop", "a"), *logged_state.MISSING)
    return _view(replay.create(LoggedChange(ours, change), request, NOW_MS))


EMPTY = json.dumps(
    {
        "format-version": 2,
        "table-uuid": LOG_UUID,
        "location": LOG,
        "last-sequence-number": 0,
        "last-updated-ms": NOW_MS,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "commit_ts", "required": True, "type": "long"}],
            }
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
    }
)
"""The metadata of a commit table before its first record."""

_EMPTY = TableMetadataUtil.parse_raw(EMPTY)

_JUDGES: dict[str, Callable[[Input], str]] = {
    "record": _record,
    "head": _head,
    "payload": _payload,
    "location": _location,
    "archive": _archive,
    "mark": _mark,
    "overlay": _overlay,
    "create": _create,
}

"""
What attempts to commit have written, and the entry may not need.

What is known not to be referenced goes; what an attempt may still land with stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from txns._log import payload as _payload
from txns._log.entry import NO_PAYLOAD
from txns._log.superseded import ends_minute, remove
from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txns._log.commit_log import CommitLog
    from txns._log.entry import Entry, Payload
    from txns._log.head import Head
    from txns._stage.staged_table import StagedTable

_LOG = logger(__name__)

STANDS_MS = 5 * 60 * 1000
"""How long after it was written an attempt may refer to a payload file, in ms (docs/spec.md 10)."""


class Leftovers:
    """
    Payloads of lost attempts, and manifests of restaged appends.

    One version of each at most is committed. Removed only when the outcome is known.
    """

    def __init__(self) -> None:
        self._payloads: dict[str, int] = {}
        """Files that attempts have written, and when in ms."""
        self._newest: dict[str, str] = {}
        """The one that was written last, by the name that its bytes are to have."""
        self._restaged: list[StagedTable] = []

    def store(self, log: CommitLog, head: Head, txn_id: str, text: str, now_ms: int) -> Payload:
        """
        Keep the payload of an attempt where the specification wants it, inline or in a file.

        A file that an earlier attempt has written may be that of an entry: it has the same name
        only if it has the same bytes, and is not written again. One that was written so long ago
        that somebody may take it for nobody's (docs/spec.md, 10) is not referred to any more: the
        same bytes get a file of another name.
        """
        payload = _payload.placed(head.metadata.location, txn_id, text)
        if payload.location is None:
            return payload
        location = self._newest.get(payload.location, payload.location)
        written_ms = self._payloads.get(location)
        if written_ms is not None and now_ms - written_ms >= STANDS_MS:
            written_ms = None
            location = _payload.again(payload.location, len(self._payloads))
        if written_ms is None:
            try:
                _payload.write(log.io, location, text, head.at_work)
            except Exception:
                remove(log.io, location)  # a part of it may be there
                raise
            self._payloads[location] = now_ms
            self._newest[payload.location] = location
        return replace(payload, location=location)

    def restaged(self, table: StagedTable) -> None:
        """Note another version of a staged table."""
        self._restaged.append(table)

    def made(self, entry: Entry, writes: Iterable[StagedTable]) -> bool:
        """Whether an entry is of these attempts: another one's may have had its id before."""
        own = {table.current.current_snapshot_id for table in (*writes, *self._restaged)}
        return any(change.to_snapshot_id in own for change in entry.changes)

    def remove(self, log: CommitLog, entry: Entry | None) -> None:
        """Remove what is not of `entry`; everything when nothing has committed."""
        needed = entry.payload.location if entry else None
        committed = {change.to_snapshot_id for change in entry.changes} if entry else set()
        for location in self._payloads.keys() - {needed}:
            if entry is None or entry.payload != NO_PAYLOAD:
                _remove_payload(log, location)
            elif not ends_minute(entry.commit_ts, log.newest.upper):
                log.supersede(location)  # archived, or born applied: heads of before may name it
        for table in self._restaged:
            if table.current.current_snapshot_id not in committed:
                table.io.delete_created()
                continue
            for path in table.replaced:
                remove(table.io.inner, path)
        self._payloads.clear()
        self._newest.clear()
        self._restaged.clear()


def _remove_payload(log: CommitLog, location: str) -> None:
    try:
        log.io.delete(location)
    except Exception:  # noqa: BLE001 -- a file that stays harms nobody
        _LOG.warning("a payload of a lost attempt stays: %s", location, exc_info=True)

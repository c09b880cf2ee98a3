"""
Whether the manifest lists are there that a logged change puts into its table (docs/spec.md 8.1).

Somebody may have removed them, and a record may name what never was, or another file of the
table's: with such a list on `main` no engine reads the table any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._iceberg import manifests
from txns._identifier import dotted_name
from txns._table import replay
from txns.errors import Quarantined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import CommitTableRequest

    from txns._clock import Clock
    from txns._identifier import Identifier
    from txns._log.entry import Entry, LoggedChange

_OWN_FOR_MS = 3_600_000
"""For how long what this process has written needs no look: orphans are days old."""

_OWN_MAX = 64
"""How many entries of its own a process knows by heart, each with its payload."""


class ManifestLists:
    """Looks for the lists of what others have written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._own: tuple[Entry, ...] = ()

    def wrote(self, entry: Entry) -> None:
        """Note an entry that this process has committed, with lists that it has written."""
        self._own = (*self._own, entry)[-_OWN_MAX:]  # another thread may be reading

    def refuse_missing(
        self,
        table: Identifier,
        io: FileIO,
        logged: LoggedChange,
        request: CommitTableRequest,
        *always: str,
    ) -> None:
        """
        Refuse a change of which a manifest list is not there.

        Args:
            table: The name that the table has now.
            io: The table's files.
            logged: The change.
            request: Its payload.
            *always: Those of its lists that are looked for even if this process has written them.

        Raises:
            Quarantined: A list is missing, or is none; with the command that takes the entry away.
            Exception: Of the storage, which does not say whether it is there.
        """
        lists = always if self._is_own(logged.entry) else _lists(request)
        if (path := _first_gone(io, lists)) is None:
            return
        name, where = dotted_name(table), "log"
        if not replay.creates(request):
            where = f"log, then `txns repair adopt {name}` takes the table as it stands"
        raise Quarantined(
            table,
            "a logged change adds a snapshot whose manifest list is not there, or is no list, and"
            " is not carried out: somebody has removed it, as orphan removals, expiries and purges"
            f" outside the protocol do, or nobody has written it; file=`{path}`",
            f"put the file back, or `txns recover --void {logged.commit_ts}` takes the entry out of"
            f" the {where}; where nobody has removed it, look who has written the commit table:"
            " whoever may is trusted",
        )

    def _is_own(self, entry: Entry) -> bool:
        """Whether it is the very entry: one that was forged in its place has other bytes."""
        return self._clock.now_ms() - entry.commit_ts < _OWN_FOR_MS and entry in self._own


def first_missing(io: FileIO, request: CommitTableRequest) -> str | None:
    """Give the first of a change's manifest lists that is not there, or is none; or None."""
    return _first_gone(io, _lists(request))


def _lists(request: CommitTableRequest) -> Sequence[str]:
    return [snapshot.manifest_list for snapshot in replay.added_by(request)]


def _first_gone(io: FileIO, lists: Sequence[str]) -> str | None:
    found = (
        path for path in lists if manifests.is_gone(io, path) or not manifests.is_list(io, path)
    )
    return next(found, None)

"""
Turn the protocol's writers away, and let them in again: the way out in an incident, and back.

Imports: _entry, _marks, _survey, errors. Used by: _handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns import _marks
from txns._entry import Kind
from txns._survey import survey
from txns.errors import CorruptLog, TxnsError

if TYPE_CHECKING:
    from txns._parts import Parts
    from txns.errors import Identifier


def on(parts: Parts) -> list[Identifier]:
    """See `Handle.on`."""
    _marks.append(parts, Kind.ON)
    return [
        each.identifier
        for each in survey(parts, parts.log.load())
        if each.foreign and not _adopts(parts, each.identifier)
    ]


def _adopts(parts: Parts, table: Identifier) -> bool:
    try:
        parts.registrar.adopt(table)
    except CorruptLog:
        raise
    except TxnsError:
        return False  # one that cannot be adopted keeps no other from it; `txns status` says why
    return True

"""
Turn the protocol's writers away, and let them in again: the way out in an incident, and back.

Imports: _entry, _marks, _survey, errors. Used by: _handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns import _marks
from txns._entry import Kind
from txns._logger import logger
from txns._survey import survey
from txns.errors import text

if TYPE_CHECKING:
    from txns._parts import Parts
    from txns.errors import Identifier

_LOG = logger(__name__)


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
    except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
        _LOG.warning("%s is not adopted: %s", text(table), error)
        return False
    return True

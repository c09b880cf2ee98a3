"""What becomes of a swap of the commit table: docs/spec.md 11.1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from pyiceberg.exceptions import BadRequestError, ForbiddenError, UnauthorizedError

from txns._iceberg.database_answer import codes_of
from txns.errors import TxnsError

_REFUSALS = (BadRequestError, ForbiddenError, UnauthorizedError)

_REFUSING = ("28000", "28P01", "25006", "42501")
"""SQLSTATEs of a database that does not let somebody write: login, read-only, privilege."""

_READ_ONLY = "SQLITE_READONLY"

_FULL = ("53100", "SQLITE_FULL")
"""What a database says that has no room on its disk, and has undone what it was asked for."""


_STORE_DENIES = re.compile(
    "AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH) "
    r"|google::cloud::Status\(PERMISSION_DENIED\b"
)
"""How pyarrow words the answer of an object store; its error has no class and no number."""


class Outcome(Enum):
    """How an attempt to replace the head ended."""

    WON = auto()
    LOST = auto()
    """The catalog says no; it may still be wrong, the next head tells."""
    MAYBE = auto()
    """The catalog's answer was lost; the next head tells."""
    REFUSED = auto()
    """The catalog refuses the request, or one that repeated it; the next head tells."""
    NOT_SENT = auto()
    """Nothing was asked of the catalog, or nothing done: a disk had no room, or was not there."""


@dataclass(frozen=True, slots=True)
class Swap:
    """The outcome of a swap, and why it was not won."""

    outcome: Outcome
    cause: Exception | None = None


def is_refusal(error: BaseException) -> bool:
    """
    Whether a catalog says of a request that it will not do it.

    A server's, by its class; a database's, by what it tells the driver. Clients that repeat a
    request by themselves may have landed it before.
    """
    return isinstance(error, _REFUSALS) or is_denied(error)


def is_denied(error: BaseException) -> bool:
    """Whether a database has answered that somebody may not write: then nothing has landed."""
    return any(told in _REFUSING or told.startswith(_READ_ONLY) for told in codes_of(error))


def may_not_write(error: BaseException) -> bool:
    """Whether a storage says of what could not be written that one may not write there."""
    denied = isinstance(error, OSError) and _STORE_DENIES.search(str(error))
    return isinstance(error, PermissionError) or bool(denied)


def is_full(error: BaseException) -> bool:
    """Whether a database has answered that it has no room: then nothing has landed."""
    return any(told in _FULL for told in codes_of(error))


def is_transient(error: Exception) -> bool:
    """Whether an error of a catalog says nothing about the request: neither ours nor a refusal."""
    return not (isinstance(error, TxnsError) or is_refusal(error))

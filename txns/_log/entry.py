"""
Entries of the log and their bytes: one snapshot summary of the commit table each.

Written by hand from docs/spec.md, sections 2 and 4; docs/golden holds what must
decode and what must be refused. Pure.
"""

from __future__ import annotations

import hashlib
import platform
import re
import uuid
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from txns._log import change as _change
from txns._log import limits, reservation
from txns._log import settings as _settings
from txns._log.stored import is_txn_id, number, word
from txns.errors import CorruptLog, InvalidUsage, Unsupported, Winner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from txns._log.change import Change
    from txns._log.reservation import Reservation
    from txns._log.settings import Settings

FORMAT_VERSION = 1
KNOWN_FEATURES: frozenset[str] = frozenset()

VERSION = "txns.format-version"
READER_FEATURES = "txns.reader-features"
WRITER_FEATURES = "txns.writer-features"
KIND = "txns.kind"
COMMIT_TS = "txns.commit-ts"
PREV_TS = "txns.prev-ts"
UPPER = "txns.upper"
TIDIED_UPTO = "txns.tidied-upto"
READ_TS = "txns.read-ts"
TXN_ID = "txns.txn-id"
ISOLATION = "txns.isolation"
ENGINE = "txns.engine"
COMMENT = "txns.comment"
PAYLOAD = "txns.payload"
PAYLOAD_LOCATION = "txns.payload-location"
PAYLOAD_SHA256 = "txns.payload-sha256"
SETTINGS = "txns.settings"


_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

THIS_ENGINE = (
    f"python {platform.python_version()}, pyiceberg {version('pyiceberg')},"
    f" txns {version('iceberg-txns')}"
)
"""Who writes the entries of this process, for people who read the log."""


class Kind(Enum):
    """What a record of the commit table is."""

    COMMIT = "commit"
    REGISTER = "register"
    FORGET = "forget"
    ADOPT = "adopt"
    QUARANTINE = "quarantine"
    REPAIR = "repair"
    ADVANCE = "advance"
    TIDY = "tidy"
    OFF = "off"
    ON = "on"
    ABORT = "abort"
    SETTINGS = "settings"


APPLIED_KINDS = frozenset({Kind.COMMIT, Kind.FORGET, Kind.ADOPT, Kind.REPAIR})
"""Those whose changes move `main` of their tables, in the swap of the entry or after it."""


class Isolation(Enum):
    """Isolation levels; docs/isolation.md says what each one allows."""

    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"
    STRICT_SERIALIZABLE = "strict-serializable"

    @property
    def validates_reads(self) -> bool:
        """Whether a commit validates what was read, and not only what was written over."""
        return self is not Isolation.SNAPSHOT

    @staticmethod
    def parse(level: str | Isolation) -> Isolation:
        """
        Parse a level as SQL spells it, in any case, words split by blanks, `_` or `-`.

        The weaker levels of the standard run as SNAPSHOT, as the standard allows.

        Raises:
            InvalidUsage: 42601 naming the levels there are.
        """
        if isinstance(level, Isolation):
            return level
        words = re.sub(r"[\s_-]+", "-", level.strip().lower())
        if words in {"read-uncommitted", "read-committed", "repeatable-read"}:
            return Isolation.SNAPSHOT
        try:
            return Isolation(words)
        except ValueError:
            raise InvalidUsage(
                "42601",
                "unknown isolation level, use SNAPSHOT, SERIALIZABLE, STRICT SERIALIZABLE, READ"
                f" UNCOMMITTED, READ COMMITTED or REPEATABLE READ; level=`{level}`",
            ) from None


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of a `CommitTransactionRequest`: inline, or in a file, or none."""

    inline: str | None = None
    location: str | None = None
    sha256: str | None = None


NO_PAYLOAD = Payload()


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One record of the log: one snapshot of the commit table.

    `commit_ts`, `prev_ts` and `read_ts` are 0 for a record of kind tidy, which has none.
    `settings` are those of kind `settings`, which the archive does not keep; nor `reserved`: who
    has reserved tables, as far as this record says.
    """

    kind: Kind
    txn_id: str
    upper: int
    tidied_upto: int
    commit_ts: int = 0
    prev_ts: int = 0
    read_ts: int = 0
    isolation: Isolation = Isolation.SNAPSHOT
    engine: str = ""
    comment: str = ""
    changes: tuple[Change, ...] = field(default=())
    payload: Payload = NO_PAYLOAD
    settings: Settings | None = None
    reserved: tuple[Reservation, ...] = ()

    @property
    def winner(self) -> Winner:
        """Who it is for those that clash with it."""
        return Winner(self.txn_id, self.engine, self.comment)

    @property
    def is_abort(self) -> bool:
        """Whether it says that a try under its id was refused, and commits nothing."""
        return self.kind is Kind.ABORT

    @property
    def applies(self) -> bool:
        """Whether it has a payload: changes that have to be carried over to their tables."""
        return self.payload.inline is not None or self.payload.location is not None

    @property
    def moved(self) -> tuple[Change, ...]:
        """Those of its changes that move `main` of their table."""
        return self.changes if self.kind in APPLIED_KINDS else ()

    @property
    def carried(self) -> tuple[Change, ...]:
        """Those of its changes that have to be carried over: one element of the payload each."""
        return tuple(change for change in self.moved if not change.born_applied)


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change together with the entry that it belongs to."""

    entry: Entry
    change: Change

    @property
    def commit_ts(self) -> int:
        """The entry's `commit_ts`, in ms."""
        return self.entry.commit_ts


@lru_cache(maxsize=4096)  # every look at a table asks for that of its registration
def derived_id(deed: str, table_uuid: str, *what: object) -> str:
    """One id for one deed, whoever does it (docs/spec.md 4.6): a version 3 UUID over MD5."""
    name = ":".join((deed, table_uuid, *map(str, what)))
    digest = bytearray(hashlib.md5(name.encode(), usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


def check_txn_id(txn_id: str) -> None:
    """
    Refuse an id that the log cannot hold.

    Raises:
        InvalidUsage: 42602 saying what an id looks like.
    """
    if not is_txn_id(txn_id):
        raise InvalidUsage(
            "42602",
            "a transaction id has 1 to 255 printable characters, not only blanks;"
            f" txn_id=`{txn_id!r}`",
        )


def to_summary(entry: Entry) -> dict[str, str]:
    """Give the keys of the snapshot summary that hold an entry, without `operation`."""
    summary = {VERSION: str(FORMAT_VERSION), KIND: entry.kind.value}
    if entry.kind is not Kind.TIDY:
        summary[COMMIT_TS] = _digits(entry.commit_ts)
        summary[PREV_TS] = _digits(entry.prev_ts)
        summary[READ_TS] = _digits(entry.read_ts)
        summary[ISOLATION] = entry.isolation.value
        summary[_change.TABLES] = _change.dumped(entry.changes)
    summary[UPPER] = _digits(entry.upper)
    summary[TIDIED_UPTO] = _digits(entry.tidied_upto)
    summary[TXN_ID] = entry.txn_id
    summary[ENGINE] = entry.engine
    if entry.comment:
        summary[COMMENT] = entry.comment
    if entry.settings is not None:
        summary[SETTINGS] = _settings.dumped(entry.settings)
    if entry.reserved:
        summary[reservation.KEY] = reservation.dumped(entry.reserved)
    if entry.payload.inline is not None:
        summary[PAYLOAD] = entry.payload.inline
    elif entry.payload.location is not None:
        summary[PAYLOAD_LOCATION] = entry.payload.location
        summary[PAYLOAD_SHA256] = entry.payload.sha256 or ""
    return summary


def _digits(number: int) -> str:
    """Give a number as records hold it: any other one would make the log unreadable for all."""
    assert type(number) is int, number
    assert number >= 0, number
    return str(number)


def from_summary(summary: Mapping[str, str]) -> Entry:
    """
    Decode the record that a snapshot's summary holds.

    Raises:
        CorruptLog: A field is missing, malformed, or contradicts another one.
        Unsupported: An unknown format version or reader feature.
    """
    _check_lengths(summary)
    check_readable(summary)
    kind = word(Kind, _required(summary, KIND), KIND)
    tidy = kind is Kind.TIDY
    if tidy and COMMIT_TS in summary:
        raise CorruptLog("a tidy record carries no commit-ts")
    txn_id = _required(summary, TXN_ID)
    if not is_txn_id(txn_id):
        raise CorruptLog("a transaction id has 1 to 255 printable characters")
    upper = _number(summary, UPPER)
    entry = Entry(
        kind=kind,
        txn_id=txn_id,
        upper=upper,
        tidied_upto=_number(summary, TIDIED_UPTO),
        commit_ts=0 if tidy else _number(summary, COMMIT_TS),
        prev_ts=0 if tidy else _number(summary, PREV_TS),
        read_ts=0 if tidy else _number(summary, READ_TS),
        isolation=Isolation.SNAPSHOT
        if tidy
        else word(Isolation, _required(summary, ISOLATION), ISOLATION),
        engine=limits.unicode(summary.get(ENGINE) or "").decode(),
        comment=limits.cut_comment(summary.get(COMMENT) or ""),
        changes=() if tidy else _change.parsed(_required(summary, _change.TABLES)),
        payload=_payload(summary),
        settings=_settings.parsed(summary[SETTINGS], SETTINGS) if SETTINGS in summary else None,
        reserved=reservation.parsed(summary.get(reservation.KEY), upper),
    )
    _check_relations(entry)
    return entry


def _check_lengths(summary: Mapping[str, str]) -> None:
    for key, stored in summary.items():
        if len(stored) > limits.TEXT_MAX_CHARACTERS:
            raise CorruptLog(
                "a text of a record is too long;"
                f" key=`{key}` characters=`{len(stored)}` most=`{limits.TEXT_MAX_CHARACTERS}`"
            )


def check_readable(summary: Mapping[str, str]) -> None:
    """
    Refuse to read a record of another format version, or with an unknown reader feature.

    Raises:
        Unsupported: Naming the version or the features; upgrade this program.
    """
    version = _number(summary, VERSION)
    if version != FORMAT_VERSION:
        raise Unsupported(
            "the commit table is of another format version, upgrade this program;"
            f" {VERSION}=`{version}` known=`{FORMAT_VERSION}`"
        )
    _refuse_unknown(READER_FEATURES, summary.get(READER_FEATURES))


def check_writable(stored: str | None) -> None:
    """
    Refuse to write a log that asks for an unknown writer feature.

    Args:
        stored: What a record has under `WRITER_FEATURES`.

    Raises:
        Unsupported: Naming the features; upgrade this program.
    """
    _refuse_unknown(WRITER_FEATURES, stored)


def features(stored: str | None) -> set[str]:
    """Read a list of features as a record stores it; a missing one is empty."""
    return {name.strip() for name in (stored or "").split(",")} - {""}


def _refuse_unknown(key: str, stored: str | None) -> None:
    unknown = sorted(features(stored) - KNOWN_FEATURES)
    if unknown:
        raise Unsupported(
            "the commit table asks for a feature that this program does not know, upgrade it;"
            f" {key}=`{','.join(unknown)}`"
        )


def _check_relations(entry: Entry) -> None:
    """Check what the fields of one record say about each other (docs/spec.md, Relations)."""
    _check(entry.tidied_upto <= entry.upper, "tidied-upto is above upper (I6)")
    said = (entry.kind is Kind.SETTINGS) == (entry.settings is not None)
    _check(said, f"a `{entry.kind.value}` has {SETTINGS}, or has none, against section 4.2")
    if entry.kind is Kind.TIDY:
        _check(not entry.applies, "a tidy record has a payload")
        return
    _check(entry.upper == entry.commit_ts, "upper is not the commit-ts (I1)")
    _check(entry.prev_ts < entry.commit_ts, "prev-ts is not below commit-ts (I1)")
    _check(entry.read_ts < entry.commit_ts, "read-ts is not below commit-ts (I1)")
    born = sum(change.born_applied for change in entry.changes)
    _check(not born or entry.kind is Kind.COMMIT, f"a `{entry.kind.value}` is born applied")
    _check(
        entry.applies == bool(entry.carried),
        f"a `{entry.kind.value}` with {len(entry.changes)} tables, {born} of them born applied,"
        " has a payload, or has none, against section 4.3",
    )


def _check(holds: bool, message: str) -> None:  # noqa: FBT001 -- an assertion's condition
    if not holds:
        raise CorruptLog(f"an entry contradicts itself: {message}")


def _payload(summary: Mapping[str, str]) -> Payload:
    payload = Payload(
        summary.get(PAYLOAD), summary.get(PAYLOAD_LOCATION), summary.get(PAYLOAD_SHA256)
    )
    if payload.inline is not None and _is_long(payload.inline):
        raise CorruptLog(f"an inline payload has at most {limits.INLINE_MAX_BYTES} bytes of UTF-8")
    if payload.inline is not None and payload.location is not None:
        raise CorruptLog("an entry has a payload inline or in a file, not both")
    digest = payload.sha256 is not None and _SHA256.fullmatch(payload.sha256) is not None
    if (payload.sha256 is not None) if payload.location is None else not digest:
        raise CorruptLog(
            f"a payload file, and only a file, needs {PAYLOAD_SHA256};"
            f" location=`{payload.location}`"
        )
    return payload


def _is_long(text: str) -> bool:
    most = limits.INLINE_MAX_BYTES
    return len(text) > most or len(text.encode(errors="replace")) > most


def _required(summary: Mapping[str, str], key: str) -> str:
    value = summary.get(key)
    if value is None:
        raise CorruptLog(f"an entry has no {key}")
    return value


def _number(summary: Mapping[str, str], key: str) -> int:
    return number(_required(summary, key), key)

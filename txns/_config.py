"""The options of a handle, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._log import limits
from txns._log.entry import Isolation
from txns._log.settings import INLINE, NEXT, Settings
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog

    from txns._identifier import Identifier

_DAY_MS = 24 * 3600 * 1000
_REGISTER = ("created", "all", "none")
FILE = "file"
_CONFLICTS = (FILE, "table")
AUTO = "auto"
ATOMIC = "atomic"
_APPLY = (AUTO, ATOMIC, INLINE, NEXT)
_PLACES = "txns.create-locations"


@dataclass(frozen=True, slots=True)
class Config:
    """
    What a handle was opened with; names and defaults are the catalog options' of Spark.

    Attributes:
        commit_table: The commit table's identifier.
        register: Which tables come under care by themselves: `created`, `all` that a
            transaction writes, or `none`.
        isolation: The level of explicit transactions.
        conflicts: Whether two transactions clash where they meet in a `file`, or in a `table`.
        apply: When a committed transaction is applied: by the swap that commits it (`atomic`,
            with catalogs in a SQL database), `inline` by the committer, or by the
            `next` writer, which the log has to allow; `auto` for `atomic` where the catalog can and
            the log does not leave it to others, else for what the log says.
        tidy_after: How many applied entries may stand in the head.
        max_age_ms: The greatest age of its own transactions, in ms; None for the log's.
        id_retention_ms: How far back it searches the archive for a caller's id, in ms; None for as
            far as the log says.
        create_locations: Folders below which tables may stand beside their catalog's own places;
            None for what the catalog's property `txns.create-locations` says.
        rehearse_conflicts: How many of its next commits lose for rehearsal.
    """

    commit_table: Identifier
    register: str
    isolation: Isolation
    conflicts: str
    apply: str
    tidy_after: int
    max_age_ms: int | None
    id_retention_ms: int | None
    create_locations: tuple[str, ...] | None
    rehearse_conflicts: int

    @staticmethod
    def of(
        *,
        commit_table: str | Identifier = "txns.commits",
        register: str = "created",
        isolation: str | Isolation = Isolation.STRICT_SERIALIZABLE,
        conflicts: str = FILE,
        apply: str = AUTO,
        tidy_after: int = 32,
        max_age_s: int | None = None,
        id_retention_days: int | None = None,
        create_locations: str | Iterable[str] | None = None,
        rehearse_conflicts: int = 0,
    ) -> Config:
        """
        Check options as a user writes them.

        Raises:
            InvalidUsage: 42000 naming the option and what it may be.
        """
        _choice("register", register, _REGISTER)
        _choice("apply", apply, _APPLY)
        check_conflicts(conflicts)
        tidy_after = _above_0("tidy_after", tidy_after)
        max_age_s = None if max_age_s is None else _above_0("max_age_s", max_age_s)
        if id_retention_days is not None:
            id_retention_days = _above_0("id_retention_days", id_retention_days)
        rehearse_conflicts = limits.whole(rehearse_conflicts, "rehearse_conflicts")
        if rehearse_conflicts < 0:
            raise InvalidUsage(
                "42000",
                f"an option must be 0 or above; rehearse_conflicts=`{rehearse_conflicts}`",
            )
        table = tuple(commit_table.split(".")) if isinstance(commit_table, str) else commit_table
        if any("." in part or not part for part in table):
            raise InvalidUsage(
                "42000",
                "no level of the commit table's name may be empty or hold a dot;"
                f" commit_table=`{commit_table}`",
            )
        return Config(
            commit_table=table,
            register=register,
            isolation=Isolation.parse(isolation),
            conflicts=conflicts,
            apply=apply,
            tidy_after=tidy_after,
            max_age_ms=None if max_age_s is None else 1000 * max_age_s,
            id_retention_ms=None if id_retention_days is None else _DAY_MS * id_retention_days,
            create_locations=None if create_locations is None else folders_of(create_locations),
            rehearse_conflicts=rehearse_conflicts,
        )

    def within(self, log: Settings) -> Settings:
        """Give what this process goes by under a log's settings: its own where it is stricter."""
        ages = [each for each in (self.max_age_ms, log.max_age_ms) if each is not None]
        retentions = [each for each in (self.id_retention_ms, log.id_retention_ms) if each]
        apply = log.apply if self.apply in {AUTO, NEXT} else INLINE
        return Settings(min(ages), max(retentions), apply)

    def laxer_than(self, log: Settings) -> list[str]:
        """Say what of these options does not count, since the log is stricter."""
        found = []
        if self.max_age_ms is not None and self.max_age_ms > log.max_age_ms:
            found.append(f"max_age_s is {self.max_age_ms // 1000}, the log's {log.max_age_ms} ms")
        if self.id_retention_ms is not None and self.id_retention_ms < log.id_retention_ms:
            days = self.id_retention_ms // _DAY_MS
            found.append(f"id_retention_days is {days}, the log's {log.id_retention_ms} ms")
        if self.apply == NEXT and log.apply == INLINE:
            found.append(f"apply is {NEXT}, the log's {INLINE}")
        return found


def check_conflicts(value: str) -> str:
    """
    Give what decides whether two transactions clash, as a user writes it.

    Raises:
        InvalidUsage: 42000, it is neither `file` nor `table`.
    """
    _choice("conflicts", value, _CONFLICTS)
    return value


def _above_0(name: str, value: int) -> int:
    number = limits.whole(value, name)
    if number is None or number <= 0:
        raise InvalidUsage("42000", f"an option must be above 0; {name}=`{number}`")
    return number


def _choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidUsage(
            "42000", f"unknown value of an option; {name}=`{value}` known=`{', '.join(known)}`"
        )


def folders_of(named: str | Iterable[str]) -> tuple[str, ...]:
    """Give folders as a user names them: one by one, or in a text with commas between."""
    each = named.split(",") if isinstance(named, str) else named
    return tuple(filter(None, (folder.strip() for folder in each)))


def named_folders(catalog: Catalog, named: tuple[str, ...] | None) -> tuple[str, ...]:
    """Give the folders below which tables may stand: a process's own, or the catalog's option."""
    return folders_of(str(catalog.properties.get(_PLACES, ""))) if named is None else named

"""The options of a handle, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._log.entry import Isolation
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._identifier import Identifier

_DAY_MS = 24 * 3600 * 1000
_REGISTER = ("created", "all", "none")
_APPLY = ("inline", "next")


@dataclass(frozen=True, slots=True)
class Config:
    """
    What a handle was opened with; names and defaults are the catalog options' of Spark.

    Attributes:
        commit_table: The commit table's identifier.
        register: Which tables come under care by themselves: `created`, `all` that a
            transaction writes, or `none`.
        isolation: The level of explicit transactions.
        apply: When a committed transaction is applied: `inline` by the committer, or by the
            `next` writer.
        tidy_after: How many applied entries may stand in the head.
        max_age_ms: The greatest age of a transaction, in ms.
        id_retention_ms: How far back the archive is searched for a caller's id, in ms.
    """

    commit_table: Identifier
    register: str
    isolation: Isolation
    apply: str
    tidy_after: int
    max_age_ms: int
    id_retention_ms: int

    @staticmethod
    def of(
        *,
        commit_table: str | Identifier = "txns.commits",
        register: str = "created",
        isolation: str | Isolation = Isolation.STRICT_SERIALIZABLE,
        apply: str = "inline",
        tidy_after: int = 16,
        max_age_s: int = _DAY_MS // 1000,
        id_retention_days: int = 7,
    ) -> Config:
        """
        Check options as a user writes them.

        Raises:
            InvalidUsage: 42000 naming the option and what it may be.
        """
        _choice("register", register, _REGISTER)
        _choice("apply", apply, _APPLY)
        numbers = {
            "tidy_after": tidy_after,
            "max_age_s": max_age_s,
            "id_retention_days": id_retention_days,
        }
        for name, value in numbers.items():
            if value <= 0:
                raise InvalidUsage("42000", f"an option must be above 0; {name}=`{value}`")
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
            apply=apply,
            tidy_after=tidy_after,
            max_age_ms=1000 * max_age_s,
            id_retention_ms=_DAY_MS * id_retention_days,
        )


def _choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidUsage(
            "42000", f"unknown value of an option; {name}=`{value}` known=`{', '.join(known)}`"
        )

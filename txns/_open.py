"""Open the protocol over a catalog, by the options that its users write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._clock import Clock, SystemClock
from txns._config import Config
from txns._handle import Handle
from txns._log.entry import Isolation
from txns._logger import logger
from txns._services import Parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog

    from txns._identifier import Identifier

_LOG = logger(__name__)


def open(  # noqa: A001 -- txns.open() is how a user says it
    catalog: Catalog,
    *,
    commit_table: str | Identifier = "txns.commits",
    register: str = "created",
    isolation: str | Isolation = Isolation.STRICT_SERIALIZABLE,
    conflicts: str = "file",
    apply: str = "auto",
    tidy_after: int = 32,
    max_age_s: int | None = None,
    id_retention_days: int | None = None,
    create_locations: str | Iterable[str] | None = None,
    rehearse_conflicts: int = 0,
    clock: Clock | None = None,
) -> Handle:
    """
    Open the protocol over a pyiceberg catalog; creates the commit table when it is not there.

    Args:
        catalog: The catalog that the tables live in.
        commit_table: The table that is the log; one for all tables of a transaction.
        register: Which tables come under care by themselves: `created` through the handle,
            `all` that a transaction touches, or `none`.
        isolation: The level of transactions that do not name one.
        conflicts: `file`: two transactions clash where they meet in a file, or in what one has
            read and the other has written; `table`: where they meet in a table.
        apply: `atomic`: one transaction of the catalog's database moves the log and its tables;
            `inline`: whoever commits carries the changes over; `next`: the next writer, where the
            log is set to that. `auto` is `atomic` where tables are rows of one PostgreSQL database,
            or of one file of SQLite, unless the log is set to `next`; elsewhere what the log says.
        tidy_after: How many applied entries may stand in the head.
        max_age_s: The greatest age of this handle's transactions, in seconds, where it is less than
            the log's.
        id_retention_days: How far back a caller's transaction id is looked for, where it is more
            than the log's.
        create_locations: Folders below which tables may stand beside their catalog's own places;
            the catalog's property `txns.create-locations` where it is not given.
        rehearse_conflicts: How many of the next commits of transactions that have written are
            refused with 40001, as if somebody had been faster: retries can be tried.
        clock: The source of time and ids; the system's where it is not given.

    Raises:
        InvalidUsage: An option is wrong; the message names it.
        Unsupported: The commit table has a version or feature that this program does not know.
        CorruptLog: The commit table contradicts the specification.
    """
    config = Config.of(
        commit_table=commit_table,
        register=register,
        isolation=isolation,
        conflicts=conflicts,
        apply=apply,
        tidy_after=tidy_after,
        max_age_s=max_age_s,
        id_retention_days=id_retention_days,
        create_locations=create_locations,
        rehearse_conflicts=rehearse_conflicts,
    )
    parts = Parts.of(catalog, config, clock or SystemClock())
    head = parts.log.load_or_create()
    if laxer := config.laxer_than(head.state.settings):
        _LOG.warning(
            "options do not count, since the log is stricter (`txns settings`): %s",
            "; ".join(laxer),
        )
    return Handle(parts)

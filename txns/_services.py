"""The parts of the protocol over one catalog, wired together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.update import RemoveSnapshotsUpdate

from txns._commit.adoption import Adoption
from txns._commit.apply import Applier
from txns._commit.born_applied import Births
from txns._commit.committer import Committer
from txns._commit.group_commit import CommitLoop
from txns._commit.head_bounds import HeadBounds
from txns._commit.register import Registrar
from txns._commit.rehearsal import Rehearsal
from txns._commit.reserving import Reserver
from txns._commit.tidy import Tidier
from txns._commit.turns import Turns
from txns._commit.validation import Validation
from txns._config import ATOMIC, AUTO, named_folders
from txns._iceberg import ended_transactions, time_outs
from txns._iceberg.sql_rows import rows_of
from txns._log import storage_time
from txns._log.archive import Archive
from txns._log.commit_log import CommitLog
from txns._log.timeline import Timeline
from txns._logger import logger
from txns._metrics import Metrics
from txns._stage.create_table import NewTables
from txns._table import retention
from txns._table.allowed_places import AllowedPlaces
from txns._table.data_tables import DataTables
from txns.errors import Unsupported

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from txns._clock import Clock
    from txns._config import Config
    from txns._iceberg.locked_rows import Rows
    from txns._log.head import Head
    from txns._log.settings import Settings

_LOG = logger(__name__)


@dataclass(frozen=True)
class Parts:
    """One of each part."""

    catalog: Catalog
    config: Config
    clock: Clock
    log: CommitLog
    rows: Rows | None
    tables: DataTables
    places: AllowedPlaces
    new_tables: NewTables
    timeline: Timeline
    loop: CommitLoop
    applier: Applier
    births: Births
    tidier: Tidier
    adoption: Adoption
    committer: Committer
    registrar: Registrar
    rehearsal: Rehearsal
    reserver: Reserver

    @staticmethod
    def of(catalog: Catalog, config: Config, clock: Clock) -> Parts:
        """Wire the parts over a catalog: its client waits not for ever, and ends what it begins."""
        time_outs.put_in(catalog)
        ended_transactions.put_in(catalog)
        log = CommitLog(
            catalog, config.commit_table, clock, named_folders(catalog, config.create_locations)
        )
        timeline = Timeline(Archive(log))
        tables = DataTables(catalog, log, timeline, clock)
        places = AllowedPlaces(catalog, config)
        applier = Applier(catalog, log, tables, places, clock)
        rows = rows_of(catalog)
        metrics = Metrics(clock)
        tidier = Tidier(config, log, tables, clock, metrics, rows)
        bounds = HeadBounds(log, applier, tidier, clock)
        turns = Turns(clock)
        loop = CommitLoop(log, timeline, bounds, tidier, clock, turns=turns, rows=rows)
        births = Births(_moved_together(rows, config), config, log, tables, places, applier, clock)
        validation = Validation(config, log, timeline, tables, places, births, clock)
        adoption = Adoption(log, timeline, tables, places, applier, clock)
        committer = Committer(
            catalog, log, loop, validation, applier, births, adoption, tidier, clock, metrics
        )
        registrar = Registrar(catalog, log, loop, tables, applier, committer, clock)
        return Parts(
            catalog,
            config,
            clock,
            log,
            rows,
            tables,
            places,
            NewTables(catalog, config, log, places, clock),
            timeline,
            loop,
            applier,
            births,
            tidier,
            adoption,
            committer,
            registrar,
            Rehearsal(config.rehearse_conflicts),
            Reserver(log, loop, turns, clock),
        )

    def kept_by_expiry(
        self,
        metadata: TableMetadata,
        real: TableMetadata | None,
        updates: tuple[TableUpdate, ...],
    ) -> tuple[TableUpdate, ...]:
        """
        Give updates without the removal of snapshots that somebody can still need.

        Anybody's transaction may get as old as the log says, however strict this process is.

        Raises:
            InvalidUsage: 58000, this process's clock is wrong.
        """
        if not any(isinstance(update, RemoveSnapshotsUpdate) for update in updates):
            return updates
        head = self.log.load()
        now_ms = storage_time.checked_now_ms(head, self.clock)
        since_ts = now_ms - head.state.settings.max_age_ms
        return retention.kept_by_expiry(metadata, real, updates, since_ts)

    def in_force(self, head: Head) -> Settings:
        """Give the settings that this process goes by at a head: its own where it is stricter."""
        return self.config.within(head.state.settings)


def _moved_together(rows: Rows | None, config: Config) -> Rows | None:
    """
    Give the rows that one swap is to move together; None where each table has a swap of its own.

    The row of the log alone is locked even so, where there are any: who went by the swap alone
    would never come beside those who wait in a queue.

    Raises:
        Unsupported: It is asked for, and the catalog cannot.
    """
    if config.apply not in {AUTO, ATOMIC}:
        return None
    if rows is None and config.apply == ATOMIC:
        raise Unsupported(
            "apply=`atomic` needs a catalog whose tables are rows of one PostgreSQL database, or of"
            " one file of SQLite: leave it out, or use `inline`"
        )
    return rows

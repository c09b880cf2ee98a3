"""
The parts of the protocol over one catalog, wired together.

Imports: every part below the catalogs. Used by: _catalog, _transaction, _autocommit, _handle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.update import RemoveSnapshotsUpdate

from txns._admin.repair import Repairer
from txns._commit.apply import Applier
from txns._commit.committer import Committer
from txns._commit.drafts import transactions_off
from txns._commit.group_commit import CommitLoop
from txns._commit.register import Registrar
from txns._commit.tidy import Tidier
from txns._identifier import dotted_name
from txns._log.archive import Archive
from txns._log.commit_log import CommitLog
from txns._logger import logger
from txns._table.data_tables import DataTables, Loaded
from txns._table.logged_state import needed_since
from txns._table.mark import refuse_commit_table
from txns.errors import ForeignWrite, Quarantined, Unsupported

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from txns._clock import Clock
    from txns._config import Config

_LOG = logger(__name__)


@dataclass(frozen=True)
class Parts:
    """One of each part."""

    catalog: Catalog
    config: Config
    clock: Clock
    log: CommitLog
    tables: DataTables
    archive: Archive
    loop: CommitLoop
    applier: Applier
    tidier: Tidier
    committer: Committer
    registrar: Registrar
    repairer: Repairer

    @staticmethod
    def of(catalog: Catalog, config: Config, clock: Clock) -> Parts:
        """Wire the parts over a catalog."""
        log = CommitLog(catalog, config.commit_table, clock)
        archive = Archive(log)
        tables = DataTables(catalog, log, archive, clock)
        loop = CommitLoop(log, archive, clock)
        applier = Applier(catalog, log, tables, clock)
        tidier = Tidier(config, log, tables, clock)
        committer = Committer(catalog, config, log, loop, archive, tables, applier, tidier, clock)
        registrar = Registrar(catalog, log, loop, tables, applier, committer, clock)
        repairer = Repairer(catalog, log, tables, applier, committer, clock)
        return Parts(
            catalog,
            config,
            clock,
            log,
            tables,
            archive,
            loop,
            applier,
            tidier,
            committer,
            registrar,
            repairer,
        )

    def kept_by_expiry(
        self, metadata: TableMetadata, updates: tuple[TableUpdate, ...]
    ) -> tuple[TableUpdate, ...]:
        """Give updates without the removal of snapshots that a running transaction can need."""
        if not any(isinstance(update, RemoveSnapshotsUpdate) for update in updates):
            return updates
        needed = needed_since(metadata, self.clock.now_ms() - self.config.max_age_ms)
        kept: list[TableUpdate] = []
        for update in updates:
            if not isinstance(update, RemoveSnapshotsUpdate):
                kept.append(update)
                continue
            ids = [each for each in update.snapshot_ids if each not in needed]
            if len(ids) < len(update.snapshot_ids):
                _LOG.info("snapshots that a transaction may still need are kept: %s", needed)
            if ids:
                kept.append(RemoveSnapshotsUpdate(snapshot_ids=ids))
        return tuple(kept)


def check_writable(loaded: Loaded) -> None:
    """
    Refuse to write through the log a table that nobody registered, or that strangers have written.

    Raises:
        Unsupported: With the call that registers it; it is a commit table; or transactions are off.
        Quarantined: With the command that repairs it.
    """
    name = dotted_name(loaded.identifier)
    if loaded.plain:
        raise transactions_off()
    if not loaded.registered:
        refuse_commit_table(loaded.identifier, loaded.metadata)
        raise Unsupported(
            f"a transaction writes registered tables only: handle.register('{name}') or `txns"
            f" register {name}` first; table=`{name}`"
        )
    stranger = loaded.view.stranger if loaded.view else None
    if stranger:
        kind = ForeignWrite if stranger.adoptable else Quarantined
        raise kind(loaded.identifier, stranger.reason, stranger.cure)

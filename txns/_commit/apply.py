"""
Carries logged changes over to their data tables; idempotent, by anyone.

In `commit_ts` order, one table commit per entry (docs/spec.md 8.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
)
from pyiceberg.table import StagedTable as PlannedTable
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    UpgradeFormatVersionUpdate,
)

from txns._commit import manifest_lists
from txns._commit.due_tables import DueTables
from txns._iceberg import manifests, places, timestamps
from txns._iceberg.snapshot_numbers import far_ahead
from txns._identifier import dotted_name
from txns._log.entry import Kind, LoggedChange
from txns._logger import about, fields, logger
from txns._metrics import Phase
from txns._stage import change_builder, kept_tags
from txns._stage.staged_table import StagedTable
from txns._table import mark as _mark
from txns._table import outstanding_branch, reconcile, replay
from txns._table.logged_state import (
    MARK_TAKEN,
    MISSING,
    NAME_TAKEN,
    NEVER_UNDER_CARE,
    logged_state,
    untouched,
)
from txns._table.swap import swap
from txns.errors import Quarantined, TxnsError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._clock import Clock
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.data_tables import DataTables
    from txns._table.logged_state import Stranger

_LOG = logger(__name__)

_REFUSED_FOR_MS = 3_600_000
"""After how long what a catalog refuses is no matter of clocks: orphans are days old."""


@dataclass(slots=True)
class _Carried:
    """Whose change is carried over, which may be another's than the caller's; None for none yet."""

    txn_id: str | None = None


class Applier:
    """
    Applies what stands in a head.

    Attributes:
        lists: Is told what this process has written.
    """

    def __init__(
        self,
        catalog: Catalog,
        log: CommitLog,
        tables: DataTables,
        places: AllowedPlaces,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._tables = tables
        self._due = DueTables(catalog, log, tables)
        self._places = places
        self._clock = clock
        self.lists = manifest_lists.ManifestLists(clock)
        self._kept: set[Identifier] = set()

    def take_kept(self, tables: Iterable[Identifier]) -> list[Identifier]:
        """Give those of some tables on which strangers' rows were put aside here, each once."""
        kept = [table for table in tables if table in self._kept]
        self._kept.difference_update(kept)
        return kept

    def apply_all(
        self, head: Head, tables: Iterable[Identifier], upto: int | None = None
    ) -> list[Identifier]:
        """
        Apply what a head holds for some tables, up to a `commit_ts` in ms (inclusive).

        Returns:
            The tables that have entries left.
        """
        return [table for table in tables if not self.apply(head, table, upto)]

    def apply(self, head: Head, table: Identifier, upto: int | None = None) -> bool:
        """Apply what a head holds for a table; give whether nothing is left."""
        carried = _Carried()
        with about(table=table, phase=Phase.APPLY):
            try:
                return self._apply_due(head, table, upto, carried)
            except TxnsError as error:
                _LOG.warning("entries stay unapplied: %s", error, extra=fields(txn=carried.txn_id))
            except Exception:  # noqa: BLE001 -- whatever it was, the next writer looks
                _LOG.warning(
                    "entries stay unapplied, the next writer tries again",
                    exc_info=True,
                    extra=fields(txn=carried.txn_id),
                )
            return False

    def apply_run(self, head: Head, table: Identifier, upto: int | None = None) -> bool:
        """
        Apply, for a writer that has to have it done before it goes on; see `apply`.

        Raises:
            Quarantined: A change cannot be applied.
        """
        with about(table=table, phase=Phase.APPLY):
            return self._apply_due(head, table, upto, _Carried())

    def _apply_due(
        self, head: Head, table: Identifier, upto: int | None, carried: _Carried
    ) -> bool:
        if not any(entry.applies for entry in head.state.entries):
            return True
        real = self._due.load_for(head, table)
        run = self._due.changes(head, table, real)
        due = [change for change in run if upto is None or change.commit_ts <= upto]
        repaired_at = max((c.commit_ts for c in due if c.entry.kind is Kind.REPAIR), default=0)
        for change in due:
            self._due.check_mark(table, head, real)
            repaired = change.commit_ts <= repaired_at
            carried.txn_id = change.entry.txn_id
            try:
                with about(txn=carried.txn_id):  # which may be another's than the caller's
                    real = self._apply_one(table, change, real, head, repaired=repaired)
            except (Quarantined, Unsupported):
                self._keep_reachable(table, run)
                raise
            except BadRequestError:  # most often it takes the change a while later
                if self._clock.now_ms() - change.commit_ts > _REFUSED_FOR_MS:
                    self._keep_reachable(table, run)
                raise
            if real is None:
                return False
        return True

    def _keep_reachable(self, table: Identifier, run: list[LoggedChange]) -> None:
        """Put what stays unapplied on a branch (spec 8.5); after an error the next one tries."""
        try:
            real = self._due.load(table)
            mark = _mark.mark_of(real.metadata) if real else None
            if real is None or mark is None or mark.commit_table != ".".join(self._log.identifier):
                return
            base = real.metadata
            uuid, applied = str(base.table_uuid), _mark.applied_ts(base)
            mine = (one for one in run if one.change.uuid == uuid and one.commit_ts > applied)
            # A branch of the table leads to what is its own, too.
            left = [*takewhile(lambda one: self._is_its_own(table, base, one), mine)]
            if left and not outstanding_branch.is_kept(base, left):
                left = [one for one in left if self._is_there(real, one)]
            if not left or outstanding_branch.is_kept(base, left):
                return
            manifests.check_writable(base, dotted_name(table))
            staged = [
                (one.commit_ts, snapshot)
                for one in left
                for snapshot in replay.added_by(self._log.request(one))
            ]
            if staged:
                outstanding = outstanding_branch.Left(left[0].change.from_snapshot_id, staged)
                updates = outstanding_branch.put(base, outstanding, self._clock.now_ms())
                swap(self._catalog, real, outstanding_branch.here(base), updates, self._clock)
        except Exception:  # noqa: BLE001 -- whatever it was, the table is as it was
            _LOG.warning("an orphan removal may take files that are not applied", exc_info=True)

    def _is_its_own(self, table: Identifier, base: TableMetadata, change: LoggedChange) -> bool:
        updates = self._log.request(change).updates
        elsewhere = self._places.forbidden(table, base, updates)
        foreign = places.misplaced_files(base, updates) or far_ahead(base, updates)
        return elsewhere is None and not foreign

    def _is_there(self, real: Table, change: LoggedChange) -> bool:
        return manifest_lists.first_missing(real.io, self._log.request(change)) is None

    def _apply_one(
        self,
        table: Identifier,
        change: LoggedChange,
        real: Table | None,
        head: Head,
        *,
        repaired: bool,
    ) -> Table | None:
        """
        Apply one change, if it has not been; give the table with it, None where it is left.

        A lost swap means that somebody else came first, most often with the same change; what
        they left is looked at once, and what is still to do then is left to the next writer.
        """
        try:
            return self._try(table, change, real, head, repaired=repaired)
        except (CommitFailedException, TableAlreadyExistsError):
            _LOG.debug("somebody else changed the table first", exc_info=True)
        real = self._due.load(table)
        self._due.check_mark(table, head, real)  # it may be a recovery that came first
        try:
            return self._try(table, change, real, head, repaired=repaired)
        except (CommitFailedException, TableAlreadyExistsError):
            newest = self._due.load(table)
            if newest and self._moot(table, change, newest.metadata):
                return newest
            if _main_id(newest) == _main_id(real):
                _LOG.warning(
                    "entries stay unapplied: the catalog refuses the swap, though nobody has"
                    " moved main",
                    exc_info=True,
                )
            return None

    def _try(
        self,
        table: Identifier,
        change: LoggedChange,
        real: Table | None,
        head: Head,
        *,
        repaired: bool,
    ) -> Table:
        if real is None:
            return self._create(table, change)
        forgets = change.entry.kind is Kind.FORGET
        if forgets and not self._moot(table, change, real.metadata):
            real = self._due.whole(table, change, head)
        base = real.metadata
        if self._moot(table, change, base):
            return real
        _mark.refuse_commit_table(table, base)
        manifests.check_writable(base, dotted_name(table))
        mark = _mark_to_apply(table, base, change.commit_ts, repaired=repaired or forgets)
        stranger = logged_state(base, mark, [change]).stranger
        if stranger and not (stranger.adoptable or repaired or forgets):
            raise Quarantined(table, stranger.reason)
        request = self._request(table, base, change)
        plan = self._plan(table, change, real, request, stranger, repaired=repaired)
        updates = (
            *plan.updates,
            *kept_tags.done(base, plan.updates),
            *outstanding_branch.done(base, change.commit_ts),
        )
        try:
            swapped = swap(self._catalog, real, plan.requirements, updates, self._clock)
        except CommitFailedException:
            replay.refuse_unfit(base, change, updates)  # what no other try would change
            raise
        if stranger and not repaired and reconcile.keeps_foreign(plan.updates):
            self._kept.add(table)
        return swapped

    def _plan(
        self,
        table: Identifier,
        change: LoggedChange,
        real: Table,
        request: CommitTableRequest,
        stranger: Stranger | None,
        *,
        repaired: bool,
    ) -> reconcile.Plan:
        """Give what is committed to carry a change out, beside what strangers did."""
        now_ms = self._clock.now_ms()
        renumber = self.renumber_on_storage(real)
        base, source = real.metadata, change.change.from_snapshot_id
        stands = source is not None and base.snapshot_by_id(source) is not None
        if change.entry.kind is Kind.FORGET and (stranger or not stands):
            required = replay.by_ids_of(base, change, request).requirements
            return reconcile.beside(base, required, self._left(change, real))
        self.lists.refuse_missing(table, real.io, change, request)
        return reconcile.for_applier(
            base,
            change,
            request,
            stranger,
            repaired=repaired,
            now_ms=now_ms,
            renumber=renumber,
            server=isinstance(self._catalog, RestCatalog),
        )

    def _request(
        self, table: Identifier, base: TableMetadata, change: LoggedChange
    ) -> CommitTableRequest:
        """Give what carries a change out, where that may be done here."""
        request = self._log.request(change)
        self._places.refuse_to_apply(table, base, request.updates, change.commit_ts)
        for update in request.updates:
            if isinstance(update, UpgradeFormatVersionUpdate):
                manifests.check_writable_format(update.format_version, dotted_name(table))
        return request

    def _left(self, change: LoggedChange, real: Table) -> tuple[TableUpdate, ...]:
        """
        Give the updates of a forget that leaves `main` to others, under an empty snapshot.

        Whoever wrote a table after it was forgotten is no stranger: `main` is theirs. The snapshot
        is what a late applier is refused by: a swap of properties alone would take a mark away
        that somebody has set since.
        """
        staged = StagedTable(change.change.table, real.io, real.metadata)
        change_builder.complete(staged, self._clock)
        stamp = {
            _mark.SNAPSHOT_COMMIT_TS: str(change.commit_ts),
            _mark.SNAPSHOT_TXN_ID: change.entry.txn_id,
        }
        now_ms = self._clock.now_ms()
        time_ms = timestamps.acceptable_ts(real.metadata, change.commit_ts, now_ms)
        empty = change_builder.stamped(staged.snapshots()[-1], stamp, time_ms)
        return (
            *_mark.leaving(real.metadata, change.commit_ts),
            AddSnapshotUpdate(snapshot=empty),
            change_builder.main_at(real.metadata, empty.snapshot_id),
        )

    def _create(self, table: Identifier, change: LoggedChange) -> Table:
        now_ms = self._clock.now_ms()
        try:
            planned = self._planned(table, change, now_ms)
            updates = replay.creation_updates(change, self._log.request(change), now_ms)
            return swap(self._catalog, planned, (AssertCreate(),), updates, self._clock)
        except NoSuchNamespaceError as error:
            raise _without_namespace(table, change.commit_ts) from error

    def _planned(self, table: Identifier, change: LoggedChange, now_ms: int) -> PlannedTable:
        """Give the table that a change is to create, where that may be done."""
        request = self._log.request(change)
        if not replay.creates(request) or self._was_there(change):
            raise Quarantined(table, *MISSING)
        self._places.refuse_to_apply(table, None, request.updates, change.commit_ts)
        metadata = replay.create(change, request, now_ms)
        manifests.check_writable(metadata, dotted_name(table))
        io = self._tables.io_of(metadata)
        main = metadata.current_snapshot()
        # A purge may have come before who is late, and has written it himself.
        lists = (main.manifest_list,) if main else ()
        self.lists.refuse_missing(table, io, change, request, *lists)
        return PlannedTable(table, metadata, metadata.location, io, self._catalog)

    def why_not_created(self, table: Identifier, change: LoggedChange) -> TxnsError | None:
        """Say why a table that a change is to create cannot be created; None where it may be."""
        try:
            self._planned(table, change, self._clock.now_ms())
        except NoSuchNamespaceError:  # some catalogs make a table in none, at their own place
            return _without_namespace(table, change.commit_ts)
        except Unsupported:
            return None  # here alone: another library writes its format
        except TxnsError as error:
            return error
        except Exception:  # noqa: BLE001 -- a server or a storage that fails tells nothing
            _LOG.debug("nobody can tell whether a table can be created", exc_info=True)
        return None

    def _was_there(self, change: LoggedChange) -> bool:
        """
        Whether a logged table has been created already, as far as the newest head tells.

        It has been renamed or forgotten since, or the creation is applied and archived, or what
        was applied after it is, or was born applied: it would be made a second time.
        """
        newest = self._log.load()
        creation = newest.state.creation(change.change.table, change.commit_ts)
        if creation is None or creation.change.uuid != change.change.uuid:
            return True
        return self._tables.was_created(change.change.uuid, newest)

    def _moot(self, table: Identifier, change: LoggedChange, metadata: TableMetadata) -> bool:
        """
        Whether there is nothing left to do (I4).

        For a table with or without a mark: forget keeps `txns.applied`.
        """
        if str(metadata.table_uuid) != change.change.uuid:
            raise Quarantined(table, *NAME_TAKEN)
        if _mark.applied_ts(metadata) >= change.commit_ts:
            return True
        mark = _mark.mark_of(metadata)
        return mark is not None and mark.commit_table != ".".join(self._log.identifier)

    def renumber_on_storage(self, real: Table) -> replay.Renumber:
        """Give what writes a manifest list of its own for each snapshot that is renumbered."""
        metadata = real.metadata
        provider = load_location_provider(metadata.location, metadata.properties)

        def renumber(staged: Snapshot, numbers: replay.Numbers) -> Snapshot:
            number = numbers.sequence_number
            path = provider.new_metadata_location(
                f"snap-{staged.snapshot_id}-{number}-{self._clock.new_uuid()}.avro"
            )
            return manifests.renumbered(real.io, metadata, staged, path, number)

        return renumber


def _without_namespace(table: Identifier, commit_ts: int) -> Quarantined:
    """Describe a creation without a namespace, which somebody may have dropped since, or forged."""
    return Quarantined(
        table,
        "a logged change creates it in a namespace that the catalog does not have: somebody has"
        " dropped the namespace since, or has forged the entry",
        f"create the namespace again and apply; else `txns recover --void {commit_ts} --sound`"
        " takes the entry out of the log, and what it has logged is lost; where nobody has dropped"
        " it, look who has written the commit table: whoever may is trusted",
    )


def _mark_to_apply(
    table: Identifier, base: TableMetadata, commit_ts: int, *, repaired: bool
) -> _mark.TableMark:
    """Give a table's mark, or what stands for it where a repair, or a forget, needs none."""
    mark = _mark.mark_of(base)
    if mark is None and not _mark.was_under_care(base):
        raise Quarantined(table, NEVER_UNDER_CARE, untouched(commit_ts))
    if mark is None and not repaired:
        raise Quarantined(table, MARK_TAKEN)
    return mark or _mark.TableMark("", "", 0, _mark.applied_ts(base))


def _main_id(table: Table | None) -> int | None:
    return table.metadata.current_snapshot_id if table else None

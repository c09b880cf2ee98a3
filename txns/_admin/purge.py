"""
Takes a dropped table out of the catalog for good, and deletes its files.

A catalog drops by name, whatever stands under it. So a purger first claims the marker with a
change like any other, which clashes in the log with whoever creates the name again; and what it
drops in the end is a name that only it has ever used, after a look at what stands there.
Docs/spec.md 6.8.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table.update import SetPropertiesUpdate

from txns._admin.hold import tagged
from txns._admin.purged_files import PurgedFiles
from txns._admin.shared_files import used_by_others
from txns._commit.commit_request import CommitRequest
from txns._commit.group import Key
from txns._identifier import dotted_name
from txns._log import storage_time
from txns._log.entry import Kind
from txns._logger import fields, logger
from txns._stage import change_builder
from txns._stage.staged_table import StagedTable
from txns._table import mark, purge_claim, purge_name
from txns.errors import Conflict, InvalidUsage, Unsupported

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._log.state import LogState
    from txns._services import Parts
    from txns._table.loaded import Loaded

_LOG = logger(__name__)

_SETTLE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Purgeable:
    """
    A dropped table, and from when on it may be removed.

    Attributes:
        identifier: Its name.
        dropped_ts: The `commit_ts` of its drop, in ms.
        possible_ts: The least upper in ms at which no transaction and no claim stands against it.
    """

    identifier: Identifier
    dropped_ts: int
    possible_ts: int


@dataclass(frozen=True, slots=True)
class Purged:
    """
    What a purge has removed.

    Attributes:
        identifier: The table's name, which is free again.
        deleted_files: How many files are gone, those of metadata included.
        kept_data: Whether the data files stay, because of `gc.enabled` = `false`.
        kept_files: How many files stay that its metadata names, since they do not lie below its
            location, or another table uses them.
    """

    identifier: Identifier
    deleted_files: int
    kept_data: bool
    kept_files: int = 0


class Purger:
    """Purges dropped tables of one catalog."""

    def __init__(self, parts: Parts, max_age_ms: int | None = None) -> None:
        """
        Purge for a lake in which no transaction gets older than `max_age_ms`.

        What the log says where it is not given: a simulation counts in ms what a lake counts in
        hours.
        """
        self._parts = parts
        self._max_age_ms = max_age_ms

    def check(self, name: Identifier) -> Purgeable:
        """
        Say whether a dropped table may be removed now; changes nothing.

        Raises:
            InvalidUsage: 58000, this process's clock is wrong.
            Unsupported: Not yet, or not with what stands in its way; the message says when.
            Conflict: Somebody else is purging it.
        """
        head = self._parts.log.load()
        now_ms = storage_time.checked_now_ms(head, self._parts.clock)
        return self._checked(self._dropped(name, head), head.state, now_ms)

    def purge(self, name: Identifier) -> Purged:
        """Remove a dropped table and its files; see `check` for what it raises."""
        if purge_name.is_apart(name):
            return self._finish(name)
        left = [self._finish(apart) for apart in self._left_behind(name)]
        try:
            self.check(name)
        except NoSuchTableError:
            if left:
                return left[-1]
            raise
        return self._remove(name)

    def _left_behind(self, name: Identifier) -> list[Identifier]:
        """Give what purges of a table that died have moved aside."""
        tables = self._parts.catalog.list_tables(name[:-1])
        aside = [table for table in tables if purge_name.is_apart(table)]
        return [table for table in aside if purge_name.name_before(table) == name]

    def _remove(self, name: Identifier) -> Purged:
        clock = self._parts.clock
        self._settle(name)
        claim_id, claimed_ms = self._claim(name), clock.now_ms()
        table = self._claimed(name, claim_id)
        files = self._files(name, table)
        deleted = files.delete_unreachable()
        if clock.now_ms() - claimed_ms > purge_claim.CLAIM_MS // 2:
            claim_id = self._claim(name, claim_id)  # deleting has taken long
        self._claimed(name, claim_id)
        finished = self._finish(self._moved_aside(name), claim_id)
        _report(name, files)
        return replace(
            finished,
            deleted_files=deleted + finished.deleted_files,
            kept_files=len(files.kept) + finished.kept_files,
        )

    # ---------------------------------------------------------------- may it be?

    def _dropped(self, name: Identifier, head: Head) -> Loaded:
        """Load a table whose view ends at a marker."""
        loaded = self._parts.tables.load_with_dropped(name, head, head.upper)
        if not loaded.registered:
            raise InvalidUsage(
                "42809",
                "the table is not under care: drop it with the catalog's own purge_table;"
                f" table=`{dotted_name(name)}`",
            )
        if not loaded.dropped:
            raise InvalidUsage(
                "42809",
                f"only a dropped table is purged: drop it first; table=`{dotted_name(name)}`",
            )
        return loaded

    def _checked(self, loaded: Loaded, state: LogState, now_ms: int) -> Purgeable:
        name = dotted_name(loaded.identifier)
        metadata = loaded.writable().metadata
        self._refuse_foreign_branches(metadata, loaded.identifier)
        held = [one for one, _at, ends in tagged(metadata) if ends is None or ends > now_ms]
        if held:
            raise Unsupported(
                f"a hold needs what the table was: `txns release {held[0]}` first;"
                f" table=`{name}` holds=`{', '.join(held)}`"
            )
        possible = self._refuse_young(loaded, now_ms, state)
        claimed_ts = purge_claim.claimed_ts(metadata)
        if claimed_ts is not None and now_ms < claimed_ts + purge_claim.CLAIM_MS:
            raise purge_claim.being_purged(loaded.identifier, claimed_ts)
        return possible

    def _refuse_young(self, loaded: Loaded, now_ms: int, state: LogState) -> Purgeable:
        """Refuse a drop that a transaction may be older than, by what the log says of their age."""
        dropped_ts = purge_claim.dropped_ts(loaded.metadata)
        age_ms = state.settings.max_age_ms if self._max_age_ms is None else self._max_age_ms
        if now_ms < dropped_ts + age_ms:
            raise Unsupported(
                "the drop is too young, transactions that began before it may read the table:"
                f" possible from {purge_claim.time_of(dropped_ts + age_ms)} on;"
                f" table=`{dotted_name(loaded.identifier)}` dropped_ts=`{dropped_ts}`"
            )
        return Purgeable(loaded.identifier, dropped_ts, dropped_ts + age_ms)

    @staticmethod
    def _refuse_foreign_branches(metadata: TableMetadata, identifier: Identifier) -> None:
        """Keep what strangers wrote beside `main` since the drop, or apply put there for them."""
        branch = purge_claim.foreign_branch(metadata)
        if branch:
            raise Unsupported(
                f"the branch {branch} holds rows that somebody wrote outside the protocol: copy"
                " what is needed, then drop the branch with the catalog itself;"
                f" table=`{dotted_name(identifier)}`"
            )

    # ---------------------------------------------------------------- the claim

    def _claim(self, name: Identifier, earlier_id: str | None = None) -> str:
        """
        Log another marker that claims the table, and see it applied; give the claim's id.

        What is claimed is looked at as of the head that the claim is validated against: the name
        may have had another life since any look before.

        Args:
            name: The table.
            earlier_id: The claim of this purger that is to last longer; None for its first one.
        """
        clock = self._parts.clock
        head = self._parts.log.load()
        loaded = self._dropped(name, head)
        judge = None
        if earlier_id is None:
            now_ms = storage_time.checked_now_ms(head, clock)
            self._checked(loaded, head.state, now_ms)
            # The log may be set to another age before the claim stands.
            judge = partial(self._refuse_young, loaded, now_ms)
        elif not _is_of(loaded.metadata, earlier_id):
            raise _written_since(name)
        self._parts.places.refuse_to_write(loaded)
        txn_id = clock.new_txn_id()
        staged = StagedTable.of(loaded)
        staged.stage((SetPropertiesUpdate(updates={mark.PURGING: txn_id}),))
        change_builder.stage_drop(staged, clock)
        request = CommitRequest(
            kind=Kind.COMMIT,
            key=Key.fresh(txn_id),
            read_ts=loaded.read_ts,
            born_ms=clock.now_ms(),
            writes={name: staged},
            comment="purge",
            judge=judge,
        )
        self._parts.committer.commit_once(request)
        self._settle(name)
        return txn_id

    def _settle(self, name: Identifier) -> None:
        """
        Apply and tidy all that the log says of a table: what is gone cannot show an entry.

        Raises:
            Unsupported: Something else stands in the way of that.
        """
        parts = self._parts
        for _attempt in range(_SETTLE_ATTEMPTS):
            head = parts.log.load()
            loaded = parts.tables.load_with_dropped(name, head, head.upper)
            uuid = str(loaded.metadata.table_uuid)
            standing = [
                entry
                for entry in head.state.entries
                if any(change.uuid == uuid for change in entry.changes)
            ]
            if not standing:
                return
            parts.applier.apply_run(head, name)
            parts.tidier.tidy()
        raise Unsupported(
            "its entries cannot leave the head, another table of theirs is not applied: possible"
            f" after `txns apply` and `txns tidy`; table=`{dotted_name(name)}`"
            f" txns=`{', '.join(entry.txn_id for entry in standing)}`"
        )

    def _claimed(self, name: Identifier, claim_id: str) -> Table:
        """Load a table that stands as its claim has left it."""
        table = self._parts.catalog.load_table(name)
        if not _is_of(table.metadata, claim_id):
            raise _written_since(name)
        return table

    # ---------------------------------------------------------------- the end

    def _moved_aside(self, name: Identifier) -> Identifier:
        """
        Move the table to a name that nobody else uses; give it.

        What a purger that was asleep for long moves is looked at before it is dropped.
        """
        apart = purge_name.name_apart(name, self._parts.clock.new_uuid())
        try:
            self._parts.catalog.rename_table(name, apart)
        except NotImplementedError as error:
            raise Unsupported(
                "the catalog cannot rename tables, and to drop one by its name alone could hit what"
                " somebody has made there since: its files are gone, its name stays;"
                f" table=`{dotted_name(name)}`"
            ) from error
        return apart

    def _finish(self, apart: Identifier, claim_id: str | None = None) -> Purged:
        """
        Drop what a purger has moved aside, or put it back where it came from.

        Args:
            apart: Where it stands now.
            claim_id: Whose it must be; None for what a purge that died has left.
        """
        name, catalog = purge_name.name_before(apart), self._parts.catalog
        try:
            table = catalog.load_table(apart)
        except NoSuchTableError:
            return Purged(name, 0, kept_data=False)  # somebody else went on with it
        if not _is_of(table.metadata, claim_id):
            self._put_back(apart, name)
            raise _written_since(name)
        files = self._files(apart, table)
        deleted = files.delete_unreachable() if claim_id is None else 0
        with suppress(NoSuchTableError):
            catalog.drop_table(apart)
        deleted += files.delete_rest(table.metadata_location)
        _report(name, files)
        return Purged(name, deleted, files.keeps_data, len(files.kept))

    def _files(self, name: Identifier, table: Table) -> PurgedFiles:
        used = used_by_others(self._parts.catalog, name, table.location())
        return PurgedFiles(table.io, table.metadata, used)

    def _put_back(self, apart: Identifier, name: Identifier) -> None:
        catalog = self._parts.catalog
        try:
            catalog.rename_table(apart, name)
        except NoSuchTableError:
            return  # somebody else has put it back
        except TableAlreadyExistsError as error:
            if not catalog.table_exists(apart):
                return
            raise Unsupported(
                "another table stands under the name that it belongs to: rename one of them with"
                f" the catalog itself; table=`{dotted_name(apart)}`"
                f" belongs_to=`{dotted_name(name)}`"
            ) from error
        _LOG.warning(
            "the table was not what was to be purged: it is back", extra=fields(table=name)
        )


def _report(name: Identifier, files: PurgedFiles) -> None:
    if files.kept:
        _LOG.warning(
            "%d files that the table names are not its own, and stay, as %s",
            len(files.kept),
            min(files.kept),
            extra=fields(table=name),
        )


def _is_of(metadata: TableMetadata, claim_id: str | None) -> bool:
    claimed_by = metadata.properties.get(mark.PURGING)
    return purge_claim.is_claimed(metadata) and claim_id in {None, claimed_by}


def _written_since(name: Identifier) -> Conflict:
    return Conflict(
        "somebody has written or purged the table since it was claimed: nothing of it was dropped",
        what="purge lost a race, look at `txns status` and run it again",
        table=name,
    )

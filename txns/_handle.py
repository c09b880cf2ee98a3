"""The protocol over one catalog: begin transactions, put tables under care, apply, tidy."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from txns._admin import hold as _hold
from txns._admin import switch
from txns._admin.exposition import handle_text
from txns._admin.history import transactions
from txns._admin.inventory import survey
from txns._admin.purge import Purger
from txns._admin.repair import Repairer
from txns._catalog import wait as _wait
from txns._catalog.autocommit import AutocommitCatalog
from txns._catalog.base import SnapshotCatalog
from txns._catalog.beginning import Beginnings
from txns._catalog.changefeed import Delivery, subscribe
from txns._catalog.outcome import Committed
from txns._catalog.transaction import Transaction
from txns._config import check_conflicts
from txns._identifier import parts_of
from txns._log import limits
from txns._log.entry import Isolation, check_txn_id
from txns._log.reservation import Turn
from txns._metrics import Count
from txns._stage.write_set import BeginOptions
from txns.errors import InvalidUsage, transactions_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from pyiceberg.catalog import Catalog

    from txns._admin.hold import Hold
    from txns._admin.purge import Purgeable, Purged
    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._log.settings import Settings
    from txns._services import Parts


class Handle:
    """The protocol over one catalog. Threads may share it; they share swaps then."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._beginnings = Beginnings(parts.log, parts.rows)

    @property
    def parts(self) -> Parts:
        """The parts underneath, for this package's own modules."""
        return self._parts

    @property
    def upper(self) -> int:
        """The greatest `commit_ts` in ms: every table is readable at or below it."""
        return self._parts.log.load().upper

    def begin(
        self,
        *,
        txn_id: str | None = None,
        isolation: str | Isolation | None = None,
        conflicts: str | None = None,
        read_only: bool = False,
        as_of: int | None = None,
        basis: int | None = None,
        basis_timeout_ms: int = 10_000,
        comment: str = "",
        after: Transaction | None = None,
    ) -> Transaction:
        """
        Begin a transaction.

        Args:
            txn_id: The caller's idempotence key. One that has committed already is answered
                with `Transaction.committed`, and what is staged in it is thrown away. A conflict
                of its commit is one of every try under it that began before.
            isolation: `SNAPSHOT`, `SERIALIZABLE` or `STRICT SERIALIZABLE`.
            conflicts: `file` or `table`: in what two transactions have to meet to clash; the
                handle's where it is not given.
            read_only: Refuse writes.
            as_of: What to read at, in ms; the upper where it is not given.
            basis: What must have been seen at least, in ms.
            basis_timeout_ms: How long to wait for it.
            comment: Words for the log.
            after: The try before, which has lost: this one is as old as that, and the younger wait
                for it. Who does not try again says so by `give_up`.

        Raises:
            InvalidUsage: 25000, the basis is not reached in time, or `as_of` is above the upper or
                below 0; 54000, the comment is longer than 4 KiB; 42000, a number is not whole.
            Unsupported: Transactions are off.
        """
        clock = self._parts.clock
        limits.check_comment(comment)
        as_of, basis = limits.whole(as_of, "as_of"), limits.whole(basis, "basis")
        basis_timeout_ms = limits.whole(basis_timeout_ms, "basis_timeout_ms")
        if txn_id is not None:
            check_txn_id(txn_id)
        own_id = txn_id or clock.new_txn_id()
        level = self._isolation(isolation, as_of)
        by = check_conflicts(self._parts.config.conflicts if conflicts is None else conflicts)
        with self._turn(after, own_id) as turn:
            head = self._beginnings.head()
            if basis is not None and head.upper < basis:
                head = _wait.for_upper(self._parts, basis, basis_timeout_ms)
            read_ts = head.upper if as_of is None else as_of
            if read_ts < 0:
                raise InvalidUsage(
                    "25000", f"the log has no time before 1970, read at 0 or above; as_of=`{as_of}`"
                )
            if read_ts > head.upper:
                raise InvalidUsage(
                    "25000",
                    "nothing has committed at that time yet, read at the upper or below;"
                    f" as_of=`{read_ts}` upper=`{head.upper}`",
                )
            options = BeginOptions(
                txn_id=own_id,
                fresh_id=txn_id is None,
                isolation=level,
                conflicts=by,
                read_only=read_only,
                read_ts=read_ts,
                born_ms=clock.now_ms(),
                turn=turn or Turn(head.upper, clock.elapsed_ms()),
            )
            transaction = Transaction(self._parts, head, options, comment)
            self._beginnings.follow(transaction.reads)
            if txn_id is not None:
                transaction.committed = self.find(txn_id, head)
            if head.state.off and transaction.committed is None:
                raise transactions_off()
        self._parts.committer.metrics.count(Count.STARTED)
        return transaction

    @contextmanager
    def _turn(self, after: Transaction | None, txn_id: str) -> Iterator[Turn | None]:
        """Reserve for the try that comes after another; give it back where it does not begin."""
        if after is None:
            yield None
            return
        before, reserver = after.options.turn, self._parts.reserver
        try:
            yield reserver.again(*_lost(after, self._parts.clock.elapsed_ms()), txn_id)
        except BaseException:
            reserver.give_up(replace(before, held=before.held | {txn_id}))
            raise

    def give_up(self, lost: Transaction) -> None:
        """Take back what was reserved for a transaction that has lost, and is not tried again."""
        self._parts.reserver.give_up(lost.options.turn)

    def _isolation(self, wanted: str | Isolation | None, as_of: int | None) -> Isolation:
        """Strict serializability reads at the upper: an explicit timestamp is a level below."""
        strict = Isolation.STRICT_SERIALIZABLE
        if wanted is None:
            default = self._parts.config.isolation
            return Isolation.SERIALIZABLE if as_of is not None and default is strict else default
        level = Isolation.parse(wanted)
        if as_of is not None and level is strict:
            raise InvalidUsage(
                "25000",
                "STRICT SERIALIZABLE reads at the newest timestamp: leave out as_of, or use"
                " isolation='SERIALIZABLE'",
            )
        return level

    def find(self, txn_id: str, head: Head | None = None) -> Committed | None:
        """
        Look a transaction up by its id: what became of an unknown outcome.

        Returns:
            None where it has not committed within the retention of ids (`settings`).
        """
        parts = self._parts
        at = head or parts.log.load()
        # What is fast, this clock or the log, makes no id older: it is looked for further back.
        since_ts = min(at.upper, parts.clock.now_ms()) - parts.in_force(at).id_retention_ms
        entry = parts.loop.find(at, txn_id, since_ts)
        return Committed.of(entry, parts) if entry else None

    def catalog(self) -> Catalog:
        """Give the tables as a catalog whose operations commit one by one."""
        return AutocommitCatalog(self._parts)

    def snapshot(self, read_ts: int | None = None) -> SnapshotCatalog:
        """
        Give all tables as of one timestamp, to be read.

        Args:
            read_ts: In ms; the upper where it is not given.
        """
        return SnapshotCatalog.at(self._parts, read_ts)

    # ---------------------------------------------------------------- care

    def register(self, table: str | Identifier) -> int:
        """Put a table under care; idempotent. Gives the `commit_ts` from which it is, in ms."""
        return self._parts.registrar.register(parts_of(table))

    def forget(self, table: str | Identifier) -> int:
        """Take a table from care; idempotent. Gives the `commit_ts` from which it is not."""
        return self._parts.registrar.forget(parts_of(table))

    def forget_all(self) -> list[Identifier]:
        """Take every table from care that the log or its archive names; give their names."""
        forgotten = []
        for table in self.registered():
            self.forget(table)
            forgotten.append(table)
        return forgotten

    def registered(self) -> list[Identifier]:
        """Give the tables under care in every namespace of the catalog, by name."""
        found = survey(self._parts, self._parts.log.load())
        return [each.identifier for each in found if not each.dropped]

    def repair_adopt(self, table: str | Identifier) -> int:
        """Take in what strangers wrote to a table, as an entry; gives its `commit_ts` in ms."""
        return Repairer(self._parts).adopt(parts_of(table))

    def repair_reject(self, table: str | Identifier) -> int:
        """Set aside what strangers wrote, on a branch; gives the entry's `commit_ts` in ms."""
        return Repairer(self._parts).reject(parts_of(table))

    def dropped(self) -> list[Identifier]:
        """Give the dropped tables that the catalog still has, by name; see `purge`."""
        found = survey(self._parts, self._parts.log.load())
        return [each.identifier for each in found if each.dropped]

    def purgeable(self, table: str | Identifier) -> Purgeable:
        """Say from when on a dropped table may be purged; raises what `purge` does if not yet."""
        return Purger(self._parts).check(parts_of(table))

    def purge(self, table: str | Identifier) -> Purged:
        """
        Take a dropped table out of the catalog for good, and delete its files.

        Possible when the drop is older than any transaction may be (`settings`), no
        hold needs the table and nobody has written it outside the protocol since. A purge that
        died is gone on with after 10 minutes, by anyone. Data files of a table with
        `gc.enabled` = `false` stay.

        Raises:
            NoSuchTableError: There is no such table, or it has been purged.
            InvalidUsage: 42809, the table is not dropped, or not under care.
            Unsupported: Not yet, or not with what stands in its way: the message says when.
            Conflict: Somebody else is purging it, or was faster.
        """
        return Purger(self._parts).purge(parts_of(table))

    # ---------------------------------------------------------------- the log

    def apply_le(self, ts: int | None = None) -> list[Identifier]:
        """
        Apply every transaction with `commit_ts` at or below a timestamp; idempotent.

        Args:
            ts: Inclusive bound in ms; None for everything.

        Returns:
            The tables with entries left at or below it.
        """
        head = self._parts.log.load()
        tables = {
            head.state.name_of(change): None
            for entry in head.state.entries
            if ts is None or entry.commit_ts <= ts
            for change in entry.carried
        }
        return self._parts.applier.apply_all(head, tables, ts)

    def tidy(self) -> int:
        """Archive what is applied everywhere; gives how many entries left the head."""
        return self._parts.tidier.tidy()

    def settings(self) -> Settings:
        """Give what the log is set to: for all processes, each of which may be stricter."""
        return self._parts.log.load().state.settings

    def change_settings(
        self,
        *,
        max_age_ms: int | None = None,
        id_retention_ms: int | None = None,
        apply: str | None = None,
    ) -> Settings:
        """
        Set the log; what is not given stays. Transactions that are running go by it, too.

        Args:
            max_age_ms: The greatest age of a transaction, in ms; 1 s to 30 days.
            id_retention_ms: How far back a caller's id is looked for, in ms; no less than the
                greatest age.
            apply: `inline`: whoever commits carries the changes over; `next`: the next writer.

        Returns:
            What it is set to now.

        Raises:
            InvalidUsage: 22023 saying what they may be.
        """
        return switch.change_settings(
            self._parts, max_age_ms=max_age_ms, id_retention_ms=id_retention_ms, apply=apply
        )

    def advance(self, ts: int) -> int:
        """
        Move the upper, so that every table is readable at `ts`.

        Args:
            ts: In ms; not more than 60 s in the future.

        Returns:
            The upper, which may be greater.

        Raises:
            InvalidUsage: 42000, it is not a whole number, or too far in the future.
        """
        return switch.advance(self._parts, ts)

    def off(self) -> list[Identifier]:
        """
        Turn the protocol's writers away, and apply everything: the way out in an incident.

        Returns:
            The tables with entries left.
        """
        switch.off(self._parts)
        return self.apply_le()

    def on(self) -> list[Identifier]:
        """
        Let the protocol's writers in again, and adopt what others wrote to the tables.

        Returns:
            The tables for which that did not work: `repair_adopt` says why, `repair_reject`
            puts their logged state back.
        """
        return switch.on(self._parts)

    def wait(
        self, table: str | Identifier, after_ts: int, *, timeout_ms: int = 60_000
    ) -> int | None:
        """
        Wait until a transaction above a timestamp has written a table.

        Returns:
            The newest such `commit_ts` in ms; None when there is none in time.
        """
        return _wait.for_write(self._parts, parts_of(table), after_ts, timeout_ms)

    def subscribe(
        self, tables: Iterable[str | Identifier], *, as_of: int, until: int | None = None
    ) -> Iterator[Delivery]:
        """
        Give each transaction's rows on some tables, in `commit_ts` order and without gaps.

        Whoever has stored the `commit_ts` of the last delivery goes on from there.

        Args:
            tables: Which.
            as_of: Everything above it is delivered, in ms.
            until: Ends at it, in ms, inclusive; None waits for more for ever.

        Raises:
            Conflict: A snapshot that is needed has been expired, or a table was set back and
                adopted so: begin again at the timestamp that it names, with the table as of it.
        """
        return subscribe(self._parts, [parts_of(table) for table in tables], as_of, until)

    def transactions(self, *, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """
        Give what has committed, archive and head together, ascending by `commit_ts`.

        Args:
            after: Only entries above it, in ms.
            limit: So many of the newest at most; None for all, which may not fit into memory.

        Returns:
            A row per entry and table: the archive's columns and `applied`.
        """
        return transactions(self._parts, after, limit)

    def metrics(self) -> str:
        """
        Give what this handle has counted: transactions by outcome, and how long phases took.

        Returns:
            Prometheus' text format, version 0.0.4; the gauges of the lake are `txns metrics`.
        """
        return handle_text(self._parts.committer.metrics)

    # ---------------------------------------------------------------- holds

    def hold(
        self,
        name: str,
        tables: Iterable[str | Identifier] | None = None,
        *,
        read_ts: int | None = None,
        ttl_ms: int = 7 * 24 * 3600 * 1000,
    ) -> Hold:
        """
        Keep what tables hold at one timestamp from being expired, by any engine.

        One transaction tags, on every table, the snapshot that `read_ts` resolves to, as
        `txns-hold-` and the name.

        Args:
            name: Letters, digits, dots, dashes and underscores.
            tables: What to hold; every table under care where it is not given.
            read_ts: In ms; the upper where it is not given.
            ttl_ms: For how long from now.

        Raises:
            InvalidUsage: 42710, there is such a hold; 42602, the name does not work; 42000,
                `ttl_ms` is none of 1 ms to 36,500 days, or a number is not whole.
            Conflict: Others were writing the tables all the time, or `read_ts` is too old.
        """
        names = self.registered() if tables is None else [parts_of(table) for table in tables]
        return _hold.hold(self, self._parts, name, names, read_ts=read_ts, ttl_ms=ttl_ms)

    def release(self, name: str) -> tuple[Identifier, ...]:
        """
        End a hold: remove its tags in one transaction; give the tables that had one.

        Raises:
            InvalidUsage: 42704, there is no such hold.
        """
        return _hold.release(self, self._parts, name)

    def holds(self) -> list[Hold]:
        """Give the holds there are, by name."""
        return _hold.holds(self._parts)

    def held(self, name: str) -> SnapshotCatalog:
        """
        Give the tables of a hold as they are held, to be read.

        It works by the tags, so also after the snapshots around them have been expired.

        Raises:
            InvalidUsage: 42704, there is no such hold.
        """
        return _hold.held(self._parts, name)

    # ---------------------------------------------------------------- inside

    def back_off(self, max_ms: int) -> None:
        """Pause 1 to `max_ms` ms, jittered, on the handle's clock."""
        self._parts.clock.back_off(max_ms)

    def close(self) -> None:
        """Close the catalog underneath."""
        self._parts.catalog.close()

    def __enter__(self) -> Self:
        """Use the handle in a block that closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Close the catalog underneath."""
        self.close()


def _lost(txn: Transaction, now_ms: int) -> tuple[Turn, int, list[str]]:
    """Give the turn of a try that has lost, what it took in ms, and where it can again."""
    all_reads = txn.isolation.validates_reads
    turn, attempts = txn.options.turn, txn.attempts
    took_ms = (attempts.ended_ms or now_ms) - turn.began_ms - attempts.waited_ms
    return turn, took_ms, txn.reads.touched(all_reads=all_reads)

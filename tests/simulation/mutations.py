"""Protections taken away on purpose, one at a time: the simulation has to notice each."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from tests.simulation import mutations_of_births as of_births
from tests.simulation import mutations_of_conflicts as of_conflicts
from tests.simulation import mutations_of_files as of_files
from tests.simulation import mutations_of_forgeries as of_forgeries
from tests.simulation import mutations_of_loads as of_loads
from tests.simulation import mutations_of_meetings as of_meetings
from tests.simulation import mutations_of_recovery as of_recovery
from tests.simulation.settings import Core, Switch
from txns._admin import purge
from txns._commit import (
    apply,
    committer,
    due_tables,
    group_commit,
    outstanding,
    register,
    validation,
)
from txns._commit import drafts as _drafts
from txns._iceberg import manifests as _manifests
from txns._log import commit_log, timeline
from txns._log import state as _state
from txns._table import data_tables, overlay, reconcile, replay
from txns._table import mark as _mark
from txns.errors import CommitStateUnknown, Conflict

Patch = tuple[Any, str, Any]
Mutation = Callable[[], list[Patch]]


def swap_on_another_head() -> list[Patch]:
    """Replace the newest head, whichever one the entry was validated against."""
    append = commit_log.CommitLog.append

    def anyhow(self: Any, head: Any, entries: Any, *also: Any, **options: Any) -> Any:
        del head
        return append(self, self.load(), entries, *also, **options)

    return [(commit_log.CommitLog, "append", anyhow)]


def applied_by_snapshot_id() -> list[Patch]:
    """Judge "applied" by the presence of the snapshot, not by `txns.applied` (I4)."""

    def moot(self: Any, table: Any, change: Any, metadata: Any) -> bool:
        del self, table
        return metadata.snapshot_by_id(change.change.to_snapshot_id) is not None

    nothing_applied = Instead(_mark, applied_ts=lambda _metadata: 0)
    return [
        (apply.Applier, "_moot", moot),
        *((module, "_mark", nothing_applied) for module in (apply, due_tables)),
    ]


def apply_out_of_order() -> list[Patch]:
    """Apply the newest entry first (I5)."""
    run = due_tables.DueTables.changes

    def backwards(head: Any, table: Any, real: Any) -> list[Any]:
        return list(reversed(run(head, table, real)))

    return [(due_tables.DueTables, "changes", staticmethod(backwards))]


def apply_skips_one() -> list[Patch]:
    """Apply only the newest entry (I5)."""
    run = due_tables.DueTables.changes

    def newest(head: Any, table: Any, real: Any) -> list[Any]:
        return run(head, table, real)[-1:]

    return [(due_tables.DueTables, "changes", staticmethod(newest))]


def apply_over_strangers() -> list[Patch]:
    """Put a run over a stranger's append without keeping it on a branch."""
    return [(reconcile, "keep_foreign", lambda _base, _stranger, _adopted: ())]


def apply_past_quarantine() -> list[Patch]:
    """Apply whatever a stranger did."""
    original = apply.Applier._try

    def reckless(
        self: Any, table: Any, change: Any, real: Any, head: Any, *, repaired: bool
    ) -> Any:
        del repaired
        return original(self, table, change, real, head, repaired=True)

    return [(apply.Applier, "_try", reckless)]


def tidy_before_apply() -> list[Patch]:
    """Archive entries that no table shows yet (I6)."""
    return [(outstanding.AppliedTo, "everywhere", lambda *_a, **_k: True)]


def look_up_forgotten() -> list[Patch]:
    """Try again after a lost answer, without a look whether it has landed (I8)."""
    return [(timeline.Timeline, "under", lambda *_a, **_k: [])]


def maybe_called_refused() -> list[Patch]:
    """Tell a transaction with an unknown outcome that it has not committed."""

    def refused(txn_id: str) -> Conflict:
        return Conflict("no answer", txn_id=txn_id)

    return [(group_commit, "CommitStateUnknown", refused)]


def tidied_upto_ignored() -> list[Patch]:
    """Validate, and deliver to subscribers, what stands in the head only (I6)."""
    return [(timeline.Timeline, "above", lambda _self, state, ts: list(state.after(ts)))]


def restage_under_the_same_id() -> list[Patch]:
    """Let the applier put an entry on top of a stranger's rows, under its id (schedule 3)."""

    def on_storage(self: Any, real: Any) -> Any:
        main = real.metadata.current_snapshot()

        def restaged(staged: Any, numbers: Any) -> Any:
            own = staged.snapshot_id
            listed = _manifests.manifests_of(real.io, staged.manifest_list)
            manifests = [
                _manifests.owned_by(each, own, was=own)
                for each in listed
                if each.added_snapshot_id == own
            ]
            path = f"{real.metadata.location}/metadata/snap-{own}-{self._clock.new_uuid()}.avro"
            _manifests.write_list(
                real.io,
                real.metadata,
                path,
                snapshot_id=own,
                parent_id=main.snapshot_id,
                sequence_number=numbers.sequence_number,
                listing=_manifests.Listing(manifests, main.manifest_list),
            )
            again = replay.renumber_in_memory(staged, numbers)
            return again.model_copy(
                update={"manifest_list": path, "parent_snapshot_id": main.snapshot_id}
            )

        return restaged

    return [(apply.Applier, "renumber_on_storage", on_storage)]


def restage_forgotten() -> list[Patch]:
    """Commit an append on the base that it was staged on, whoever moved it."""

    def stale(self: Any, request: Any, head: Any, staged: Any, *rest: Any) -> Any:
        del self, request, head, rest
        return staged

    # The log's own check of its chains would refuse it: it has to go as well.
    return [
        (validation.Validation, "_restaged", stale),
        (_drafts, "_check_invariants", lambda *_a: None),
        (_state.LogState, "validate", lambda _self: None),
    ]


def overlay_forgotten() -> list[Patch]:
    """Read tables as the catalog has them, without what is not applied."""
    as_of = overlay.as_of

    def applied_only(table: Any, loaded: Any, mark: Any, run: Any, *rest: Any, **more: Any) -> Any:
        del run
        return as_of(table, loaded, mark, [], *rest, **more)

    return [(overlay, "as_of", applied_only)]


def newest_read() -> list[Patch]:
    """Read tables as the newest head has them, whatever `read_ts` says."""

    def newest(self: Any, identifier: Any, head: Any, read_ts: int) -> Any:
        del head, read_ts
        now = self._log.load()
        return self.load(identifier, now, now.upper)

    return [(data_tables.DataTables, "load_in_transaction", newest)]


def strangers_seen_at_once() -> list[Patch]:
    """Show a stranger's append before it is adopted."""
    state = overlay.logged_state

    def with_strangers(metadata: Any, mark: Any, run: Any = ()) -> Any:
        return replace(state(metadata, mark, run), snapshot=metadata.current_snapshot())

    return [(overlay, "logged_state", with_strangers)]


def applied_not_set() -> list[Patch]:
    """Apply without setting `txns.applied` (I4)."""
    return [(replay, "SetPropertiesUpdate", _NotApplied)]


def renumbering_forgotten() -> list[Patch]:
    """Commit a renumbered snapshot with its old manifest list."""

    def in_memory(self: Any, real: Any) -> Any:
        del self, real
        return replay.renumber_in_memory

    return [(apply.Applier, "renumber_on_storage", in_memory)]


def commit_ts_of_the_clock() -> list[Patch]:
    """Take the clock's time as `commit_ts`, above the upper or not (I1)."""

    def make(self: Any, member: Any) -> Any:
        return member.attempt(self.state, self.head, self.clock.now_ms())

    return [(_drafts.Drafts, "_make", make), (_drafts, "_check_invariants", lambda *_a: None)]


def files_removed_after_a_maybe() -> list[Patch]:
    """Remove what an attempt wrote although it may have committed (I8)."""

    def eager(self: Any, request: Any) -> Any:
        try:
            return commit(self, request)
        except CommitStateUnknown:
            self._clock.sleep(2000)
            for staged in request.writes.values():
                staged.io.delete_created()
            raise

    commit = committer.Committer.commit
    return [(committer.Committer, "commit", eager)]


def purge_without_claim() -> list[Patch]:
    """Claim a dropped table on the table alone: who creates it in the log does not see it."""

    def unlogged(self: Any, name: Any, _earlier_id: Any = None) -> str:
        table = self._parts.catalog.load_table(name)
        claim_id = self._parts.clock.new_txn_id()
        claim = SetPropertiesUpdate(updates={_mark.PURGING: claim_id})
        here = AssertRefSnapshotId(ref="main", snapshot_id=table.metadata.current_snapshot_id)
        self._parts.catalog.commit_table(table, (here,), (claim,))
        return claim_id

    return [(purge.Purger, "_claim", unlogged)]


def register_without_applied() -> list[Patch]:
    """Register a table as if nothing had been applied to it (schedule 18)."""

    def marked(*mark: Any) -> dict[str, str]:
        return {key: value for key, value in properties(*mark).items() if key != _mark.APPLIED}

    properties = _mark.registration_properties
    return [(register, "_mark", Instead(_mark, registration_properties=marked))]


def group_members_unaware() -> list[Patch]:
    """Validate the members of a group against the head only, not against each other."""
    make = _drafts.Drafts._make

    def alone(self: Any, member: Any) -> Any:
        drafted = self.state
        self.state = replace(drafted, entries=self.head.state.entries)
        try:
            return make(self, member)
        finally:
            self.state = drafted

    # The log's own check of its chains would refuse it: it has to go as well.
    return [
        (_drafts.Drafts, "_make", alone),
        (_drafts, "_check_invariants", lambda *_a: None),
        (_state.LogState, "validate", lambda _self: None),
    ]


def id_twice_in_a_group() -> list[Patch]:
    """Make an entry of each member of a group, whatever its id (I8)."""
    drafts = _drafts.Drafts

    def by_member(self: Any, *values: Any) -> None:
        init(self, *values, by_id=_EachItsOwn())

    init = drafts.__init__
    # The log's own checks would refuse it: they have to go as well.
    return [
        (drafts, "__init__", by_member),
        (_drafts, "_check_invariants", lambda *_a: None),
        (_state.LogState, "validate", lambda _self: None),
    ]


def conflict_without_abort() -> list[Patch]:
    """Tell a conflict under a user's own id, whatever earlier tries are still to do (I8)."""

    def told(self: Any, member: Any, error: Exception) -> None:
        self.refused[member] = error

    return [(_drafts.Drafts, "_refuse", told)]


def registered_once() -> list[Patch]:
    """Take the oldest mark of a table for its mark."""

    def oldest_first(snapshots: list[Any]) -> list[Any]:
        return snapshots

    return [(register, "reversed", oldest_first)]


_OF_FORGERIES = (
    of_forgeries.forbidden_updates_carried_out,
    of_forgeries.never_under_care_forgotten,
    of_forgeries.places_unchecked,
    of_forgeries.void_tables_taken_for_cared,
    of_forgeries.misplaced_lists_read,
    of_forgeries.missing_lists_applied,
    of_forgeries.log_steers_libraries,
)
OF_BIRTHS = (
    of_births.born_over_what_is_outstanding,
    of_births.born_over_strangers,
    of_births.born_in_word_only,
    of_births.ahead_taken_for_another_time,
    of_births.written_removed_after_a_maybe,
)
_OF_MEETINGS = (
    of_meetings.removed_files_passed_over,
    of_meetings.delete_marks_passed_over,
    of_meetings.added_files_unread,
    of_meetings.removed_files_unread,
    of_meetings.delete_marks_unread,
    of_meetings.tables_go_by_files,
)
MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        swap_on_another_head,
        of_loads.head_from_a_cache,
        *_OF_FORGERIES,
        applied_by_snapshot_id,
        apply_out_of_order,
        apply_skips_one,
        apply_over_strangers,
        apply_past_quarantine,
        tidy_before_apply,
        look_up_forgotten,
        maybe_called_refused,
        of_conflicts.read_check_dropped,
        of_conflicts.write_check_dropped,
        of_conflicts.conditional_write_counts_as_append,
        of_conflicts.absence_check_dropped,
        of_conflicts.everything_clashes,
        tidied_upto_ignored,
        restage_under_the_same_id,
        restage_forgotten,
        overlay_forgotten,
        newest_read,
        strangers_seen_at_once,
        applied_not_set,
        renumbering_forgotten,
        commit_ts_of_the_clock,
        files_removed_after_a_maybe,
        purge_without_claim,
        register_without_applied,
        group_members_unaware,
        of_loads.settled_by_a_stale_head,
        of_loads.refusal_believed,
        id_twice_in_a_group,
        conflict_without_abort,
        of_loads.log_created_in_the_loop,
        of_loads.applied_not_held_against_archive,
        of_loads.set_back_read_as_it_is,
        of_loads.reads_by_name_only,
        of_loads.timestamp_of_the_clock,
        of_loads.kept_tag_forgotten,
        of_loads.ids_as_staged,
        registered_once,
        of_files.missing_list_passed_over,
        of_files.head_not_moved,
        of_files.earlier_heads_forgotten,
        of_files.superseded_at_once,
        of_files.kept_versions_removed,
        of_files.minutes_forgotten,
        of_recovery.told_by_nobody,
        of_recovery.passed_over_written_over,
        of_recovery.applied_over_a_recovery,
        of_recovery.void_reads_committed,
        *OF_BIRTHS,
        *_OF_MEETINGS,
        of_meetings.waits_without_end,
    )
}

NEEDS = {
    **{each.__name__: frozenset({Switch.MALICIOUS}) for each in _OF_FORGERIES},
    **{each.__name__: frozenset({Switch.ATOMIC}) for each in OF_BIRTHS},
    **{each.__name__: frozenset({Switch.BY_FILE}) for each in _OF_MEETINGS},
    "waits_without_end": frozenset({Switch.RESERVATIONS}),
    "conditional_write_counts_as_append": frozenset({Switch.KEYS}),
    "settled_by_a_stale_head": frozenset({Switch.STALE_HEADS}),
    "refusal_believed": frozenset({Switch.FALSE_REFUSALS}),
    "id_twice_in_a_group": frozenset({Switch.SHARED_IDS}),
    "conflict_without_abort": frozenset({Switch.SHARED_IDS}),
    "log_created_in_the_loop": frozenset({Switch.HIDDEN_LOG}),
    "applied_not_held_against_archive": frozenset({Switch.STALE_TABLES}),
    "set_back_read_as_it_is": frozenset({Switch.UPSETS}),
    "reads_by_name_only": frozenset({Switch.FOLDED_NAMES}),
    "timestamp_of_the_clock": frozenset({Switch.CLOCKS}),
    "ids_as_staged": frozenset({Switch.DESCRIBED_ANEW}),
    "missing_list_passed_over": frozenset({Switch.SUSPENDED}),
    "head_not_moved": frozenset({Switch.SUSPENDED}),
    "earlier_heads_forgotten": frozenset({Switch.SUSPENDED}),
    "kept_versions_removed": frozenset({Switch.SUSPENDED}),
    "minutes_forgotten": frozenset({Switch.SUSPENDED}),
    "told_by_nobody": frozenset({Switch.DAMAGED}),
    "passed_over_written_over": frozenset({Switch.DAMAGED}),
    "applied_over_a_recovery": frozenset({Switch.DAMAGED}),
    "void_reads_committed": frozenset({Switch.DAMAGED}),
}
"""What has to be on for a missing protection to be noticed; it is on in each seed then."""

CORES = dict.fromkeys(("delete_marks_passed_over", "delete_marks_unread"), Core.BOTH)
"""Whose core the users have that a protection of Python's is needed from, where not all have it."""


@contextmanager
def without_protection(name: str) -> Iterator[None]:
    """Run a block with one protection taken away."""
    with ExitStack() as stack:
        for owner, attribute, value in MUTATIONS[name]():
            assert hasattr(owner, attribute) or hasattr(builtins, attribute), (name, attribute)
            _check_arguments(getattr(owner, attribute, None), value)
            # A built-in name is replaced in its module: it need not be there.
            stack.enter_context(mock.patch.object(owner, attribute, value, create=True))
        yield


def _check_arguments(original: Any, value: Any) -> None:
    """Refuse what does not take its original's arguments: each call would be found as a crash."""
    value = value.__func__ if isinstance(value, staticmethod) else value
    if not (inspect.isfunction(original) and inspect.isfunction(value)):
        return
    given = inspect.signature(original).parameters.values()
    by_place = [each for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = {each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
    inspect.signature(value).bind(*by_place, **by_name)


class Instead:
    """
    A module as another one sees it, with some names replaced.

    Attributes:
        names: What stands in the place of which.
    """

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self.names = names

    def __getattr__(self, name: str) -> Any:
        return self.names[name] if name in self.names else getattr(self._module, name)


class _EachItsOwn(dict[Any, Any]):
    """Entries by id, where an id never stands in the way of another entry."""

    def __contains__(self, _key: object) -> bool:
        return False

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((key, len(self)), value)
        self._last = value

    def __getitem__(self, _key: Any) -> Any:
        return self._last


class _NotApplied(SetPropertiesUpdate):
    """Sets all properties but `txns.applied`."""

    def __init__(self, updates: dict[str, str]) -> None:
        super().__init__(updates={k: v for k, v in updates.items() if k != _mark.APPLIED})

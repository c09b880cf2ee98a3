"""What an id of a schema, spec or sort order in a change is, in its table (docs/spec.md 7, 8.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, StringType

from tests.txns.lake import SCHEMA, ids, rows
from txns._iceberg.updates import laid_over
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Kind, LoggedChange
from txns._table import reconcile, replay
from txns.errors import Quarantined, Unsupported

if TYPE_CHECKING:
    import txns
    from tests.txns.lake import Lake

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[3] / "docs" / "golden" / "ids_of_changes.json").read_text()
)
OURS = SCHEMA.append(pa.field("ours", pa.string()))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["why"])
def test_the_ids_are_those_of_the_specification(golden: dict[str, Any]) -> None:
    base = TableMetadataUtil.parse_obj(golden["base"])
    change = Change(
        ("shop", "a"), str(base.table_uuid), Operation.ALTER, golden["fromSnapshotId"], 12
    )
    commit_ts = 1767265380008
    entry = Entry(Kind.COMMIT, "id", commit_ts=commit_ts, upper=commit_ts, tidied_upto=0)
    logged = LoggedChange(entry, change)
    request = CommitTableRequest.model_validate(
        {
            "identifier": {"namespace": ["shop"], "name": "a"},
            "requirements": golden["requirements"],
            "updates": golden["updates"],
        }
    )

    def plan() -> reconcile.Plan:
        return reconcile.for_applier(
            base,
            logged,
            request,
            None,
            repaired=golden["repaired"],
            now_ms=commit_ts,
            renumber=replay.renumber_in_memory,
        )

    if golden["left"] is None:
        with pytest.raises(Quarantined):
            plan()
        return
    planned = plan()
    for requirement in planned.requirements:
        requirement.validate(base)
    left = laid_over(base, planned.updates)
    main = left.current_snapshot()
    names = {each.field_id: each.name for schema in left.schemas for each in schema.fields}
    names |= {2: "name"}
    assert golden["left"] == {
        "schemas": {str(each.schema_id): each.column_names for each in left.schemas},
        "currentSchemaId": left.current_schema_id,
        "schemaIdOfMain": main and main.schema_id,
        "specIds": sorted(each.spec_id for each in left.partition_specs),
        "defaultSpecId": left.default_spec_id,
        "sortOrders": {
            str(each.order_id): [names[field.source_id] for field in each.fields]
            for each in left.sort_orders
        },
        "defaultSortOrderId": left.default_sort_order_id,
    }


def _rename(table: Any, old: str, new: str) -> None:
    with table.update_schema() as update:
        update.rename_column(old, new)


def _ours(row: int) -> pa.Table:
    return pa.table({"id": [row], "name": ["n"], "ours": ["o"]}, schema=OURS)


def _logged_column(later: txns.Handle, a: str) -> int:
    """Log a column, and a row of it in a change of its own; give the `read_ts` of both."""
    with later.catalog().load_table(a).update_schema() as update:
        update.add_column("ours", StringType())
    later.catalog().load_table(a).append(_ours(2))
    return later.upper


def _columns(later: txns.Handle, a: str, read_ts: int | None = None) -> list[str]:
    snapshot = later.snapshot() if read_ts is None else later.snapshot(read_ts)
    return list(snapshot.load_table(a).schema().column_names)


def test_the_past_of_a_schema_that_got_another_id(lake: Lake, later: txns.Handle) -> None:
    """The change after it names it by the id that it was logged with."""
    a = lake.table("a", [1])
    at = _logged_column(later, a)
    with lake.catalog.load_table(a).update_schema() as update:
        update.add_column("theirs", LongType())
    assert ["id", "name", "ours"] == _columns(later, a, at)
    later.repair_reject(a)
    assert [] == later.apply_le()
    later.catalog().load_table(a).append(_ours(3))
    assert [] == later.apply_le()
    assert ["id", "name", "ours"] == _columns(later, a, at)
    assert [1, 2] == ids(later.snapshot(at).load_table(a))
    plain = lake.catalog.load_table(a).metadata
    assert [0, 0, 2, 2, 2, 2] == [each.schema_id for each in plain.snapshots]


def test_the_past_of_a_schema_beside_ones_that_maintenance_removes(
    lake: Lake, later: txns.Handle
) -> None:
    """It gets the id of one that was removed, and later schemas get its logged one."""
    a = lake.table("a", [1], register=False)
    for column in ("p", "q"):
        with lake.catalog.load_table(a).update_schema() as update:
            update.add_column(column, LongType())
    with lake.catalog.load_table(a).update_schema() as update:
        update.delete_column("p")
        update.delete_column("q")
    lake.open().register(a)
    at = _logged_column(later, a)
    plain = lake.catalog.load_table(a)
    lake.catalog.commit_table(plain, (), (RemoveSchemasUpdate(schema_ids=[1, 2]),))
    assert [] == later.apply_le()
    with later.catalog().load_table(a).update_schema() as update:
        update.add_column("more", LongType())
    with later.catalog().load_table(a).update_schema() as update:
        update.delete_column("ours")
        update.delete_column("name")
    assert [] == later.apply_le()
    past = later.snapshot(at).load_table(a).scan().to_arrow().to_pylist()
    assert {"id": 2, "name": "n", "ours": "o"} in past


@pytest.mark.parametrize("back", [False, True])
def test_a_column_renamed_and_renamed_back_by_three_changes(
    lake: Lake, later: txns.Handle, *, back: bool
) -> None:
    """The second and third change set schemas that are there; strangers have taken the id."""
    a = lake.table("a", [1])
    for old, new in (("name", "nn"), ("nn", "name"), ("name", "nn")):
        _rename(later.catalog().load_table(a), old, new)
    _rename(lake.catalog.load_table(a), "name", "theirs")
    if back:
        _rename(lake.catalog.load_table(a), "theirs", "name")
    else:
        assert ["id", "nn"] == _columns(later, a)
        later.repair_reject(a)
    assert ["id", "nn"] == _columns(later, a)
    assert [] == later.apply_le()
    assert ["id", "nn"] == lake.catalog.load_table(a).schema().column_names


def test_an_order_that_got_another_id_is_the_one_that_a_change_asks_for(
    lake: Lake, later: txns.Handle
) -> None:
    """A transaction has seen it before that; strangers have put the default back."""
    a = lake.table("a", [1])
    with later.catalog().load_table(a).update_sort_order() as order:
        order.asc("name", IdentityTransform())
    txn = later.begin()
    with txn.load_table(a).update_sort_order() as order:
        order.asc("id", IdentityTransform())
    with lake.catalog.load_table(a).update_sort_order() as order:
        order.desc("id", IdentityTransform())
    with lake.catalog.load_table(a).update_sort_order():
        pass
    txn.commit()
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert (3, [1]) == (
        plain.sort_order().order_id,
        [x.source_id for x in plain.sort_order().fields],
    )


def test_a_schema_that_got_another_id_is_the_one_that_a_change_asks_for(
    lake: Lake, later: txns.Handle
) -> None:
    """The same with columns: the change after it sets a schema that was there already."""
    a = lake.table("a", [1])
    _rename(later.catalog().load_table(a), "name", "nn")
    txn = later.begin()
    for old, new in (("nn", "name"), ("name", "nn"), ("nn", "name"), ("name", "nn")):
        _rename(txn.load_table(a), old, new)
    for old, new in (("name", "theirs"), ("theirs", "name")):
        _rename(lake.catalog.load_table(a), old, new)
    txn.commit()
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert (2, ["id", "nn"]) == (plain.metadata.current_schema_id, plain.schema().column_names)
    assert 2 == plain.current_snapshot().schema_id


def test_a_schema_that_strangers_made_current_and_the_log_removes(
    lake: Lake, later: txns.Handle
) -> None:
    a = lake.table("a", [1], register=False)
    _rename(lake.catalog.load_table(a), "name", "nn")
    _rename(lake.catalog.load_table(a), "nn", "name")
    lake.open().register(a)
    with later.begin() as txn:
        txn.commit_table(txn.load_table(a), (), (RemoveSchemasUpdate(schema_ids=[1]),))
    later.catalog().load_table(a).append(rows(2))
    _rename(lake.catalog.load_table(a), "name", "nn")
    assert [1, 2] == ids(later.snapshot().load_table(a))
    assert [("shop", "a")] == later.apply_le()
    later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert (["id", "name"], [0]) == (plain.schema().column_names, sorted(plain.schemas()))


@pytest.mark.parametrize("dropped", [False, True])
def test_a_spec_that_strangers_made_the_default_and_the_log_removes(
    lake: Lake, later: txns.Handle, *, dropped: bool
) -> None:
    """Or the only one but that of a column that the log drops: it is chosen for nothing."""
    a = lake.table("a", [1], register=False)
    with lake.catalog.load_table(a).update_schema() as update:
        update.add_column("c", StringType())
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(4), "b")
    with lake.catalog.load_table(a).update_spec() as update:
        update.remove_field("b")
    lake.open().register(a)
    with later.begin() as txn:
        if dropped:
            with txn.load_table(a).update_schema() as update:
                update.delete_column("c")
        txn.commit_table(txn.load_table(a), (), (RemovePartitionSpecsUpdate(spec_ids=[1]),))
        txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field(
            *(("c", IdentityTransform(), "c") if dropped else ("id", BucketTransform(4), "b"))
        )
    assert [1, 2] == ids(later.snapshot().load_table(a))
    assert [("shop", "a")] == later.apply_le()
    later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert ([], False) == ([*plain.spec().fields], 1 in plain.specs())
    lake.open().catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("again", ["equal", "other"])
def test_a_schema_removed_and_its_id_given_again_by_one_change(
    lake: Lake, later: txns.Handle, again: str
) -> None:
    """Of strangers there are none."""
    a = lake.table("a", [1], register=False)
    for old, new in (("name", "nn"), ("nn", "name")):
        _rename(lake.catalog.load_table(a), old, new)
    lake.open().register(a)
    with later.begin() as txn:
        txn.commit_table(txn.load_table(a), (), (RemoveSchemasUpdate(schema_ids=[1]),))
        if again == "equal":
            _rename(txn.load_table(a), "name", "nn")
        else:
            with txn.load_table(a).update_schema() as update:
                update.add_column("more", LongType())
    assert [] == later.apply_le()
    left = ["id", "nn"] if again == "equal" else ["id", "name", "more"]
    assert left == _columns(later, a) == lake.catalog.load_table(a).schema().column_names


def test_the_current_schema_removed_and_its_id_given_again(lake: Lake, later: txns.Handle) -> None:
    a = lake.table("a", [1], register=False)
    _rename(lake.catalog.load_table(a), "name", "nn")
    lake.open().register(a)
    with later.begin() as txn:
        _rename(txn.load_table(a), "nn", "name")
        txn.commit_table(txn.load_table(a), (), (RemoveSchemasUpdate(schema_ids=[1]),))
        with txn.load_table(a).update_schema() as update:
            update.add_column("more", LongType())
    assert [] == later.apply_le()
    assert ["id", "name", "more"] == lake.catalog.load_table(a).schema().column_names


@pytest.mark.parametrize("by", ["order", "spec"])
def test_a_column_that_strangers_drop_and_the_log_goes_by(
    lake: Lake, later: txns.Handle, by: str
) -> None:
    """No requirement tells of it: readers stay on the logged state, and a reject ends it (I10)."""
    a = lake.table("a", [1])
    with later.begin() as txn:
        if by == "order":
            with txn.load_table(a).update_sort_order() as order:
                order.asc("name", IdentityTransform())
        else:
            with txn.load_table(a).update_spec() as update:
                update.add_field("name", BucketTransform(4), "b")
        txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).update_schema() as columns:
        columns.delete_column("name")
    assert ["id", "name"] == _columns(later, a)
    assert [1, 2] == ids(later.snapshot().load_table(a))
    assert [("shop", "a")] == later.apply_le()
    with pytest.raises(Quarantined, match="taken a column away that the change sorts or part"):
        lake.open().catalog().load_table(a).append(rows(3))
    later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert ["id", "name"] == plain.schema().column_names
    assert 1 == len(plain.sort_order().fields if by == "order" else plain.spec().fields)


@pytest.mark.parametrize("sets", [False, True])
def test_a_spec_that_strangers_remove_and_the_log_names(
    lake: Lake, later: txns.Handle, *, sets: bool
) -> None:
    """The default, or that of an append's files alone, which nobody could read without it."""
    a = lake.table("a")
    if sets:
        with lake.open().catalog().load_table(a).update_spec() as update:
            update.add_field("name", BucketTransform(4), "b")
    with later.begin() as txn:
        if sets:
            with txn.load_table(a).update_spec() as update:
                update.remove_field("b")
        txn.load_table(a).append(rows(2))
    if not sets:
        with lake.catalog.load_table(a).update_spec() as update:
            update.add_field("name", BucketTransform(4), "b")
    plain = lake.catalog.load_table(a)
    lake.catalog.commit_table(plain, (), (RemovePartitionSpecsUpdate(spec_ids=[0]),))
    assert [2] == ids(later.snapshot().load_table(a))
    assert [] == later.apply_le()
    assert [2] == lake.plain_ids(a)


def test_a_spec_that_strangers_remove_and_put_another_in_its_place(
    lake: Lake, later: txns.Handle
) -> None:
    """Its files would be taken for those of the other one."""
    a = lake.table("a")
    with lake.open().catalog().load_table(a).update_spec() as update:
        update.add_field("name", BucketTransform(4), "b")
    later.catalog().load_table(a).append(rows(2))
    plain = lake.catalog.load_table(a)
    back = (SetDefaultSpecUpdate(spec_id=0), RemovePartitionSpecsUpdate(spec_ids=[1]))
    lake.catalog.commit_table(plain, (), back)
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(8), "other")
    with pytest.raises(Quarantined, match="spec with id 1 already exists"):
        lake.open().catalog().load_table(a).delete("id = 2")
    assert [] == lake.plain_ids(a)


def test_a_spec_removed_and_its_id_given_again_by_one_change(
    lake: Lake, later: txns.Handle
) -> None:
    """No server gives it again; the transaction is told before it commits."""
    a = lake.table("a", [1])
    with lake.open().catalog().load_table(a).update_spec() as update:
        update.add_field("name", BucketTransform(4), "b")
    with lake.open().catalog().load_table(a).update_spec() as update:
        update.remove_field("b")
    txn = later.begin()
    txn.commit_table(txn.load_table(a), (), (RemovePartitionSpecsUpdate(spec_ids=[1]),))
    with txn.load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(8), "c")
    with pytest.raises(Unsupported, match="commit the removal first"):
        txn.commit()


def test_a_spec_and_a_column_that_one_change_adds_and_takes_away(
    lake: Lake, later: txns.Handle
) -> None:
    """Of several that it sets the last one counts; of strangers there are none."""
    a = lake.table("a", [1])
    with later.begin() as txn:
        with txn.load_table(a).update_spec() as update:
            update.add_field("name", BucketTransform(4), "b")
        with txn.load_table(a).update_spec() as update:
            update.remove_field("b")
        with txn.load_table(a).update_schema() as columns:
            columns.delete_column("name")
    assert [] == later.apply_le()
    assert ["id"] == lake.catalog.load_table(a).schema().column_names


def test_a_stranger_who_partitions_anew_and_removes_the_default_spec(
    lake: Lake, later: txns.Handle
) -> None:
    """Of an empty table, of which the log does as much; a reject ends it."""
    a = lake.table("a")
    with later.begin() as txn:
        with txn.load_table(a).update_spec() as update:
            update.add_field("name", BucketTransform(4), "ours")
        txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(8), "theirs")
    plain = lake.catalog.load_table(a)
    lake.catalog.commit_table(plain, (), (RemovePartitionSpecsUpdate(spec_ids=[0]),))
    assert [2] == ids(later.snapshot().load_table(a))


@pytest.mark.parametrize("by", ["order", "spec"])
def test_a_stranger_who_goes_by_something_else_and_drops_the_column(
    lake: Lake, later: txns.Handle, by: str
) -> None:
    """The table went by it when the change was staged, which has it go by another one."""
    a = lake.table("a", [1])
    for handle, column in ((lake.open(), "name"), (later, "id")):
        table = handle.catalog().load_table(a)
        if by == "order":
            with table.update_sort_order() as order:
                order.asc(column, IdentityTransform())
        else:
            with table.update_spec() as update:
                for each in table.spec().fields:
                    update.remove_field(each.name)
                update.add_field(column, BucketTransform(4), f"of_{column}")
    plain = lake.catalog.load_table(a)
    if by == "order":
        with plain.update_sort_order():
            pass
    else:
        with plain.update_spec() as update:
            update.remove_field("of_name")
    with lake.catalog.load_table(a).update_schema() as columns:
        columns.delete_column("name")
    assert [1] == ids(later.snapshot().load_table(a))
    later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    fields = plain.sort_order().fields if by == "order" else plain.spec().fields
    assert [1] == [each.source_id for each in fields]


@pytest.mark.parametrize("column", ["x", "name"])
def test_a_column_of_strangers_that_a_change_was_staged_with(
    lake: Lake, later: txns.Handle, column: str
) -> None:
    """It has no snapshot, and the schema of the one that the change stands on has it not."""
    a = lake.table("a", [1])
    with lake.catalog.load_table(a).update_schema() as columns:
        columns.add_column("x", StringType())
    with later.begin() as txn:
        with txn.load_table(a).update_sort_order() as order:
            order.asc(column, IdentityTransform())
        schema = SCHEMA.append(pa.field("x", pa.string()))
        txn.load_table(a).append(pa.table({"id": [2], "name": ["n"], "x": ["x"]}, schema=schema))
    with lake.catalog.load_table(a).update_schema() as columns:
        columns.delete_column(column)
    assert ["id", "name", "x"] == _columns(later, a)
    later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert ["id", "name", "x"] == plain.schema().column_names
    assert ["x", None] == sorted(plain.scan().to_arrow()["x"].to_pylist(), key=str, reverse=True)

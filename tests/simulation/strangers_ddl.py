"""Strangers who describe a table anew: its columns, partitions, order, and what is unused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyiceberg.table.update import AssertDefaultSpecId, AssertTableUUID, SetDefaultSpecUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from tests.simulation import schemas

if TYPE_CHECKING:
    import random

    from tests.simulation.worker import Worker

_OWN = re.compile(r"x\d+")
"""What strangers call the columns that they add."""

_PATIENCE = 20


def alter(worker: Worker) -> None:
    """Describe a table anew in some way."""
    table = _waited_for(worker)
    own = [each.name for each in table.schema().fields if _OWN.fullmatch(each.name)]
    name = f"x{worker.lake.new_row()}"
    kind = worker.rng.choice(("add", "add", "rename", "drop", "sort", "respec", "clean"))
    worker.lake.world.note(f"{kind} {table.name()}")
    if kind == "sort":
        _sort(table, worker.rng)
    elif kind == "respec":
        _go_by_another_spec(worker, table)
    elif kind == "clean":
        if gone := schemas.unused(table):
            uuid = AssertTableUUID(uuid=table.metadata.table_uuid)
            worker.lake.connect().commit_table(table, (uuid,), gone)
    elif kind == "rename" and own:
        _rename(table, worker.rng.choice(own), name, back=worker.rng.random() < 0.5)
    elif kind == "drop" and (free := [each for each in own if not _goes_by(table, each)]):
        with table.update_schema() as update:
            update.delete_column(worker.rng.choice(free))
    else:
        with table.update_schema() as update:
            update.add_column(name, StringType())


def _waited_for(worker: Worker) -> Any:
    """Load a table, mostly one with entries that are not applied, if there is one soon."""
    lake = worker.lake
    for _ in range(_PATIENCE if worker.rng.random() < 0.8 else 0):
        late = [name for name in lake.tables if lake.observer.checks.outstanding(name)]
        if late:
            return lake.connect().load_table(worker.rng.choice(late))
        lake.world.sleep(worker.rng.randint(5, 20))
    return lake.connect().load_table(worker.rng.choice(lake.tables))


def _rename(table: Any, name: str, to: str, *, back: bool) -> None:
    """Rename a column, perhaps back again: no requirement tells of the schema in between."""
    with table.update_schema() as update:
        update.rename_column(name, to)
    if back and to in table.refresh().schema().column_names:  # a replica may lag
        with table.update_schema() as update:
            update.rename_column(to, name)


def _sort(table: Any, rng: random.Random) -> None:
    """Sort by a column, whosever it is, or by nothing."""
    columns = [each.name for each in table.schema().fields]
    with table.update_sort_order() as order:
        if rng.random() < 0.7:
            order.asc(rng.choice(columns), IdentityTransform())


def _go_by_another_spec(worker: Worker, table: Any) -> None:
    """Make another spec the default, one that the table has: a new one would take an id."""
    known = {each.field_id for each in table.schema().fields}
    others = [
        spec.spec_id
        for spec in table.specs().values()
        if spec.spec_id != table.spec().spec_id
        and known.issuperset(each.source_id for each in spec.fields)
    ]
    if others:
        worker.lake.observer.history.specs_passed = True
        was = AssertDefaultSpecId(default_spec_id=table.spec().spec_id)
        spec = SetDefaultSpecUpdate(spec_id=worker.rng.choice(others))
        uuid = AssertTableUUID(uuid=table.metadata.table_uuid)
        worker.lake.connect().commit_table(table, (uuid, was), (spec,))


def _goes_by(table: Any, name: str) -> bool:
    column = table.schema().find_field(name).field_id
    described = (*table.specs().values(), *table.sort_orders().values())
    return any(column == each.source_id for one in described for each in one.fields)

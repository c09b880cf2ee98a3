"""
Ids for new objects of the ORM, before a flush sorts its rows.

An object without an id would be inserted by a statement of its own, because the ORM wants to
read the id back. With one, a flush sends all rows of a table at once.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Mapper
from sqlalchemy.orm.attributes import instance_state

from sqlalchemy_txns._ids import new_id


@event.listens_for(Mapper, "before_insert")
def _give_id(mapper: Any, connection: Any, target: Any) -> None:
    if connection.dialect.name != "txns":
        return
    state = instance_state(target)
    for table in mapper.tables:
        for column in table.columns:
            if not _gets_an_id(table, column) or column not in mapper._columntoproperty:
                continue
            attribute = mapper.get_property_by_column(column).key
            if state.dict.get(attribute) is None:
                ids = connection.dialect.ids
                if column is table._autoincrement_column:
                    ids.prepare(connection, table, column)
                is_mapped = connection.schema_for_object(table) != table.schema
                given = new_id() if is_mapped else ids.new_id(table.schema, table.name)
                setattr(target, attribute, given)


def _gets_an_id(table: Any, column: Any) -> bool:
    """Tell whether a database would count in a column: in its key, by Identity() or Sequence()."""
    if column.identity is not None or getattr(column.default, "is_sequence", False):
        return True
    is_key = column is table._autoincrement_column and not column.foreign_keys
    return is_key and column.default is None

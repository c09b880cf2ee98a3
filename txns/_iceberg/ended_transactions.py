"""
Has SQLite's transactions end where SQLAlchemy takes them for ended.

While others read the file a COMMIT fails, and its transaction stays open. SQLAlchemy does not undo
it: the connection goes back into its pool, and whoever is given it next reads what nobody else does
and what the end of that reading undoes. An outcome that was read there would be none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def put_in(catalog: Catalog) -> None:
    """Have connections to a catalog's file undo what is open in them, before others have them."""
    if not isinstance(catalog, SqlCatalog) or catalog.engine.dialect.name != "sqlite":
        return
    if not event.contains(catalog.engine, "checkin", _undo):
        event.listen(catalog.engine, "checkin", _undo)


def _undo(connection: Any, _record: Any) -> None:
    if connection is not None and connection.in_transaction:
        connection.rollback()

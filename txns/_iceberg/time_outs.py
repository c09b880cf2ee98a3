"""
Time-outs for the client of a catalog that has none of its own; what a user has set stands.

A call that waits for ever would keep a commit, and all that share its swap, from an end. One that
is given up in a swap is an unknown outcome like any other (docs/spec.md 11.1). pyiceberg's REST
client has no option for one; those of object stores have time-outs of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_LIBPQ = {"psycopg2", "psycopg"}
"""SQLAlchemy's drivers that take the parameters of PostgreSQL's own client."""

_PARAMETERS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 60_000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""In s, but for `tcp_user_timeout` in ms: when a connection is given up that nobody answers."""


def put_in(catalog: Catalog) -> None:
    """Have new connections of a catalog's database given up when it does not answer."""
    if not isinstance(catalog, SqlCatalog) or catalog.engine.driver not in _LIBPQ:
        return
    if not event.contains(catalog.engine, "do_connect", _connecting):
        event.listen(catalog.engine, "do_connect", _connecting)
        catalog.engine.dispose()  # those that wait in its pool have been made without


def _connecting(_dialect: Any, _record: Any, _args: Any, parameters: dict[str, Any]) -> None:
    for name, value in _PARAMETERS.items():
        parameters.setdefault(name, value)

"""How long a client waits for a database that does not answer."""

from __future__ import annotations

import socket
import time

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from txns._iceberg import time_outs


class Unopened(SqlCatalog):
    """A catalog in a database that nobody has asked yet."""

    def _init_catalog(self) -> None:
        pass


class Stopped(Exception):
    """In place of a connection."""


def parameters_of(uri: str) -> dict:
    """With what a connection would be made."""
    catalog = Unopened("lake", uri=uri)
    time_outs.put_in(catalog)
    time_outs.put_in(catalog)
    found = {}

    def stop(_dialect, _record, _args, parameters):
        found.update(parameters)
        raise Stopped

    event.listen(catalog.engine, "do_connect", stop)
    with pytest.raises(Stopped):
        catalog.engine.connect()
    return found


def test_a_database_client_waits_a_minute():
    found = parameters_of("postgresql+psycopg2://me@db/iceberg")
    assert (10, 60_000) == (found["connect_timeout"], found["tcp_user_timeout"])


def test_what_a_user_has_set_stands():
    found = parameters_of("postgresql+psycopg2://me@db/iceberg?connect_timeout=3")
    assert "3" == found["connect_timeout"]
    assert 60_000 == found["tcp_user_timeout"]


def test_sqlite_has_its_own():
    assert "connect_timeout" not in parameters_of("sqlite:///lake.db?timeout=30")


def test_a_silent_database_is_given_up(monkeypatch):
    """A server that takes a connection and says nothing keeps nobody for ever."""
    monkeypatch.setitem(time_outs._PARAMETERS, "connect_timeout", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        catalog = Unopened(
            "lake", uri=f"postgresql+psycopg2://me@127.0.0.1:{silent.getsockname()[1]}/lake"
        )
        time_outs.put_in(catalog)
        began = time.monotonic()
        with pytest.raises(OperationalError, match="timeout"):
            catalog.engine.connect()
        assert time.monotonic() - began < 20

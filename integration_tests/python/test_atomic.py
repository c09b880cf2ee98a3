"""Writers that move the log and its tables in one transaction of a PostgreSQL, and hold locks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from sqlalchemy import create_engine, text

import txns
from txns._commit.born_applied import Births
from txns._iceberg import sql_rows
from txns._iceberg.locked_rows import LockedRows
from txns._iceberg.sql_rows import SqlRows, _LockedSqlRows, queue_of

SCHEMA = pa.schema([("number", pa.int64())])
TABLES = ("shop.a", "shop.b")
IDLE_S = 8
"""How long the database leaves a transaction alone that says nothing."""
_TOUCH = (
    "UPDATE iceberg_tables SET metadata_location = metadata_location WHERE table_name = 'commits'"
)


@pytest.fixture
def properties(postgresql_database, tmp_path: Path) -> dict[str, str]:
    where = {"uri": postgresql_database, "warehouse": f"file://{tmp_path}/files"}
    catalog = load_catalog("lake", type="sql", **where)
    catalog.create_namespace("shop")
    handle = txns.open(catalog)
    for table in TABLES:
        catalog.create_table(table, SCHEMA)
        handle.register(table)
    return {"type": "sql", **where}


def _append(properties: dict[str, str], number: int) -> None:
    handle = txns.open(load_catalog("lake", **properties), apply="atomic")
    with handle.begin(isolation="snapshot") as txn:
        for table in TABLES:
            txn.load_table(table).append(pa.table({"number": [number]}, schema=SCHEMA))


def _append_and_stop(properties: dict[str, str], how: int) -> None:
    """Stop, or die, after the rows are locked and before they are moved; only once."""
    prepare = LockedRows.prepare

    def prepared(rows: LockedRows) -> None:
        LockedRows.prepare = prepare
        os.kill(os.getpid(), how)
        prepare(rows)

    LockedRows.prepare = prepared
    _append(properties, 1)


def test_who_is_at_work_is_not_ended_for_being_slow(properties, monkeypatch):
    """Storage takes its time under the lock, in all for longer than the database waits."""
    write, written = _LockedSqlRows._write, []

    def slowly(rows, made):
        time.sleep(0.4 * IDLE_S)
        written.append(made.name())
        write(rows, made)

    monkeypatch.setattr(Births, "ahead", lambda *_given: None)
    monkeypatch.setattr(_LockedSqlRows, "_write", slowly)
    _append(properties, 7)
    assert ["shop.a", "shop.b", "txns.commits"] == sorted(".".join(name) for name in written)
    assert [[7], [7]] == _numbers(properties)


def _numbers(properties: dict[str, str]) -> list[list[int]]:
    catalog = load_catalog("lake", **properties)
    tables = (catalog.load_table(table).scan().to_arrow() for table in TABLES)
    return [sorted(table["number"].to_pylist()) for table in tables]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_who_stands_still_with_the_lock_keeps_nobody_for_long(properties, how):
    """What dies lets go at once; what stands still is ended, and finds that out when it goes on."""
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=_append_and_stop, args=(properties, how))
    other.start()
    deadline = time.monotonic() + 60
    while _is_running(other.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    began = time.monotonic()
    _append(properties, 2)
    assert time.monotonic() - began < IDLE_S + 15
    assert [[2], [2]] == _numbers(properties)
    if how == signal.SIGKILL:
        other.join()
        return
    os.kill(other.pid, signal.SIGCONT)
    other.join(60)
    assert 0 == other.exitcode
    assert [[1, 2], [1, 2]] == _numbers(properties)


def test_a_name_that_is_taken_while_the_rows_stand_still(properties):
    """The index keeps the new row out, and nothing has landed: a conflict, no unknown outcome."""
    catalog = load_catalog("lake", **properties)
    txn = txns.open(catalog, apply="atomic").begin()
    txn.create_table("shop.new", SCHEMA).append(pa.table({"number": [1]}, schema=SCHEMA))
    txn.load_table("shop.a").append(pa.table({"number": [1]}, schema=SCHEMA))
    with create_engine(properties["uri"]).connect() as other:
        other.execute(
            text(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
                " metadata_location) SELECT catalog_name, table_namespace, 'new',"
                " metadata_location FROM iceberg_tables WHERE table_name = 'b'"
            )
        )
        threading.Timer(1, other.commit).start()
        with pytest.raises(txns.Conflict, match="another table of that name"):
            txn.commit()
    assert [[], []] == _numbers(properties)


def _is_running(pid: int) -> bool:
    """Whether a process has been neither stopped nor ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "TtZX"


def test_a_row_that_somebody_else_holds_is_waited_for(properties):
    """As a backup, or a person's session, does: for 10 s each time, and 30 s in all."""
    engine = create_engine(properties["uri"])
    with engine.begin() as connection:
        connection.execute(text("SELECT * FROM iceberg_tables WHERE table_name = 'a' FOR UPDATE"))
        writer = threading.Thread(target=_append, args=(properties, 3))
        writer.start()
        time.sleep(2)
        assert writer.is_alive()
        assert [[], []] == _numbers(properties)
    writer.join(30)
    assert [[3], [3]] == _numbers(properties)


def test_who_is_interrupted_as_it_gets_its_rows_holds_none(properties, monkeypatch):
    """Its connection goes back to others, who would begin in its transaction."""
    real, at = SqlRows._locations, []

    def interrupted(self, *args):
        found = real(self, *args)
        if len(args) == 3 and not at:
            at.append(time.monotonic())
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(SqlRows, "_locations", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _append(properties, 1)
    _append(properties, 2)
    assert time.monotonic() - at[0] < IDLE_S / 2
    assert [[2], [2]] == _numbers(properties)


def test_who_has_waited_longest_is_next(properties):
    """Though the row changes each time: who waited for that alone was overtaken again and again."""
    writers, turns, order = 5, 8, []
    row, connected = ("txns", "commits"), threading.Barrier(writers)

    def take_turns(number: int) -> None:
        rows = SqlRows(load_catalog("lake", **properties))
        rows.looked_at([row])
        connected.wait(60)
        for _ in range(turns):
            with rows.locked(row, ()) as locked:
                order.append(number)
                time.sleep(0.03)  # the others have asked by then
                locked.connection.execute(text(_TOUCH))
                locked.connection.exec_driver_sql("COMMIT")
                locked.is_over = True

    threads = [threading.Thread(target=take_turns, args=(each,)) for each in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writers * turns == len(order)
    rounds = [set(order[at : at + writers]) for at in range(0, len(order), writers)]
    assert [set(range(writers))] * turns == rounds


def test_a_wait_that_a_time_out_of_statements_ends_is_no_failure(properties):
    """Of a role or a database that has one: it has cancelled what waited, and nothing was sent."""
    engine = create_engine(properties["uri"])
    with engine.connect() as holder:
        holder.execute(
            text(f"SELECT pg_advisory_xact_lock({queue_of('lake', ('txns', 'commits'))})")
        )
        release = threading.Timer(1.5, holder.close)
        release.start()
        _append({**properties, "uri": f"{properties['uri']}&options=-cstatement_timeout%3D300"}, 3)
        release.join()
    engine.dispose()
    assert [[3], [3]] == _numbers(properties)


_CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND datname = current_database() AND wait_event_type = 'Lock'"
)


def _is_cut(engine) -> bool:
    """Wait until somebody waits for a lock, and end his session."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with engine.connect() as connection:  # within one transaction all looks see the same
            if connection.execute(text(_CUT)).all():
                return True
        time.sleep(0.05)
    return False


def _started(properties: dict[str, str]) -> tuple[threading.Thread, list[BaseException]]:
    """Append in a thread; what it fails with is told."""
    failures: list[BaseException] = []

    def write() -> None:
        try:
            _append(properties, 3)
        except Exception as error:  # noqa: BLE001 -- the test looks
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    return thread, failures


@pytest.mark.parametrize("what", ["the queue", "a row"])
def test_a_connection_that_is_lost_as_it_waits_loses_an_attempt(properties, what):
    """As a fail-over, or an administrator, ends it: nothing was sent on it."""
    queue = f"SELECT pg_advisory_xact_lock({queue_of('lake', ('txns', 'commits'))})"
    row = "SELECT * FROM iceberg_tables WHERE table_name = 'a' FOR UPDATE"
    engine = create_engine(properties["uri"])
    with engine.connect() as holder:
        holder.execute(text(queue if what == "the queue" else row))
        writer, failures = _started(properties)
        assert _is_cut(engine)
    writer.join(30)
    engine.dispose()
    assert [] == failures
    assert [[3], [3]] == _numbers(properties)


def test_a_connection_that_was_cut_since_the_begin_loses_an_attempt(properties):
    """As a pooler, or a firewall, cuts one that says nothing for a while."""
    txn = txns.open(load_catalog("lake", **properties), apply="atomic").begin()
    for table in TABLES:
        txn.load_table(table).append(pa.table({"number": [3]}, schema=SCHEMA))
    engine = create_engine(properties["uri"])
    with engine.connect() as connection:
        cut = connection.execute(text(_CUT.partition(" AND wait_event_type")[0])).all()
    engine.dispose()
    assert cut
    txn.commit()
    assert [[3], [3]] == _numbers(properties)


def test_who_may_not_wait_in_the_queue_goes_without(properties, postgresql):
    """Nothing rests on it."""
    database = create_engine(properties["uri"]).url.database
    postgresql.run(
        "REVOKE EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) FROM PUBLIC",
        "CREATE ROLE poor LOGIN",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO poor",
        database=database,
    )
    try:
        _append({**properties, "uri": postgresql.uri(database, user="poor")}, 3)
    finally:
        postgresql.run("DROP OWNED BY poor", "DROP ROLE poor", database=database)
    assert [[3], [3]] == _numbers(properties)


def test_who_holds_the_queue_for_ever_keeps_nobody_out(properties, monkeypatch):
    """Anybody who may connect can take that lock, whatever rights he has on the tables."""
    soon = sql_rows._BEGIN["postgresql"].replace("'10s'", "'1s'")
    monkeypatch.setitem(sql_rows._BEGIN, "postgresql", soon)
    engine = create_engine(properties["uri"])
    with engine.connect() as holder:
        key = queue_of("lake", ("txns", "commits"))
        holder.execute(text(f"SELECT pg_advisory_lock({key})"))
        _append(properties, 3)
    engine.dispose()
    assert [[3], [3]] == _numbers(properties)

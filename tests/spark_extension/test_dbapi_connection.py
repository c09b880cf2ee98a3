"""What a connection says of its transaction, whatever its server answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from txns_spark import dbapi
from txns_spark.dbapi import _connect, _connection
from txns_spark.dbapi._connection import Status
from txns_spark.dbapi._session import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator


class Dying:
    """A server that is gone after some statements; Spark's own errors, as the driver gives them."""

    driver = "connect"

    def __init__(self, answers: int) -> None:
        self.sent: list[str] = []
        self._answers = answers

    def run(self, sql: str, _parameters: object) -> Answer:
        self.sent.append(sql)
        if len(self.sent) > self._answers:
            raise dbapi.ConnectionLost("[INVALID_HANDLE.SESSION_CLOSED] the session is gone")
        row = dict.fromkeys(Status._fields) | {"txn_id": "t", "in_transaction": True}
        columns = pa.Table.from_pylist([row]) if sql.startswith("BEGIN ") else pa.table({})
        return Answer(columns, is_command=True)


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_session_that_was_lost_is_not_committed_in_silence(answers: int) -> None:
    """
    Half of a transaction is never taken for the whole.

    1. The session is lost in BEGIN, in the first statement or in the second, and nobody minds.
    2. COMMIT says so, and a further statement does not begin another transaction.
    """
    server = Dying(answers)
    connection = _connection.Connection(server)
    for value in range(answers, 3):
        with pytest.raises(dbapi.ConnectionLost):
            connection.cursor().execute(f"INSERT INTO t VALUES (CASE {value} END)")
            connection.cursor().execute("INSERT INTO t VALUES (2)")
    sent = len(server.sent)
    for _ in range(2):
        with pytest.raises(dbapi.ConnectionLost, match="nothing of it is committed"):
            connection.commit()
    assert sent == len(server.sent) == answers + 1
    connection.rollback()
    connection.commit()


@pytest.mark.parametrize("sql", ["COMMIT", "/* x */ end", "BEGIN EXECUTE IMMEDIATE x; END"])
def test_a_session_that_was_lost_in_a_commit(sql: str) -> None:
    """Whether that has committed nobody knows, who asks twice neither."""
    connection = _connection.Connection(Dying(2))
    connection.cursor().execute("INSERT INTO t VALUES (1)")
    with pytest.raises(dbapi.CommitStateUnknown) as raised:
        connection.cursor().execute(sql)
    assert isinstance(raised.value.__cause__, dbapi.ConnectionLost)
    assert raised.value is connection.unknown
    for _ in range(2):
        with pytest.raises(dbapi.CommitStateUnknown) as caught:
            connection.commit()
        assert "t" == caught.value.txn_id


def test_a_session_that_is_lost_in_the_commit_of_a_connection() -> None:
    """The error of the driver is no outcome: a caller would run the transaction again."""
    connection = _connection.Connection(Dying(2))
    connection.cursor().execute("INSERT INTO t VALUES (1)")
    for _ in range(2):
        with pytest.raises(dbapi.CommitStateUnknown) as caught:
            connection.commit()
        assert ("08007", "t") == (caught.value.sqlstate, caught.value.txn_id)


@pytest.mark.parametrize(
    ("sql", "may_write"),
    [
        ("INSERT INTO t VALUES (1)", True),
        ("/* x */ CREATE TABLE t AS SELECT 1", True),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", True),
        ("CALL lake.system.register('t')", True),
        ("BEGIN ATOMIC INSERT INTO t VALUES (1); END", True),
        ("EXECUTE IMMEDIATE x", True),
        ("SELECT 1", False),
        ("(SELECT 1) UNION (SELECT 2)", False),
        ("-- x\nSHOW TABLES", False),
        ("SET x = 1", False),
        ("BEGIN", False),
        ("ROLLBACK", False),
    ],
)
def test_a_session_that_is_lost_between_transactions(sql: str, *, may_write: bool) -> None:
    """With autocommit each statement tells its own outcome, of a write that nobody knows it."""
    connection = _connection.Connection(Dying(0), autocommit=True)
    with pytest.raises(dbapi.CommitStateUnknown if may_write else dbapi.ConnectionLost) as raised:
        connection.cursor().execute(sql)
    if may_write:
        assert isinstance(raised.value, dbapi.CommitStateUnknown)
        assert ("08007", None) == (raised.value.sqlstate, raised.value.txn_id)
    connection = _connection.Connection(Dying(0), autocommit=True)
    with pytest.raises(dbapi.Error):
        connection.cursor().execute("INSERT INTO t VALUES (1)")
    connection.commit()


def test_a_write_in_a_transaction_that_was_begun_by_itself() -> None:
    """Its session is lost, and it with it, also where statements commit by themselves otherwise."""
    session = Dying(1)
    connection = _connection.Connection(session, autocommit=True)
    connection.begin()
    assert not connection.is_lost
    with pytest.raises(dbapi.ConnectionLost):
        connection.cursor().execute("INSERT INTO t VALUES (1)")
    assert connection.is_lost
    with pytest.raises(dbapi.ConnectionLost, match="nothing of it is committed"):
        connection.commit()
    connection.rollback()
    assert connection.is_lost
    assert 2 == len(session.sent)


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("then", ["commit", "write", "read", "rollback"])
def test_a_session_that_is_lost_after_a_hidden_commit(then: str, *, autocommit: bool) -> None:
    """
    What became of the transaction only the server knew.

    1. A statement commits where nobody sees it. 2. The session is lost before that is asked for.
    """
    connection = _connection.Connection(Dying(2), autocommit=autocommit)
    connection.begin()
    connection.cursor().execute("EXECUTE IMMEDIATE x")
    with pytest.raises(dbapi.CommitStateUnknown) as raised:
        if then in {"commit", "rollback"}:
            getattr(connection, then)()
        else:
            connection.cursor().execute("DELETE FROM t" if then == "write" else "SELECT 1")
    # With autocommit the write may be what has committed, of which the id says nothing.
    assert raised.value.txn_id == (None if autocommit and then == "write" else "t")
    assert isinstance(raised.value.__cause__, dbapi.ConnectionLost)
    with pytest.raises(dbapi.CommitStateUnknown):
        connection.commit()


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("sql", ["BEGIN ATOMIC INSERT INTO t VALUES (1); END", "DELETE FROM t"])
def test_what_nobody_knows_stays_unknown(sql: str, *, autocommit: bool) -> None:
    """
    Who is told once that it may have committed is not told later that it has not.

    1. A statement may have committed, and loses the session. 2. The session is asked, in vain.
    """
    server = Dying(2)
    connection = _connection.Connection(server, autocommit=autocommit)
    connection.begin()
    connection.cursor().execute("EXECUTE IMMEDIATE x")
    with pytest.raises(dbapi.CommitStateUnknown) as first:
        connection.cursor().execute(sql)
    sent = len(server.sent)
    for ask in (lambda: connection.in_transaction, connection.commit, connection.begin):
        with pytest.raises(dbapi.CommitStateUnknown) as raised:
            ask()
        assert first.value is raised.value
    assert sent == len(server.sent)
    with pytest.raises(dbapi.CommitStateUnknown) as raised:
        connection.cursor().execute("SHOW TRANSACTION")
    assert first.value is raised.value
    assert connection.unknown is raised.value


def test_an_atomic_block_that_loses_the_session_stays_unknown() -> None:
    """It is the first statement, so that no transaction is open before it."""
    server = Dying(0)
    connection = _connection.Connection(server)
    with pytest.raises(dbapi.CommitStateUnknown):
        connection.cursor().execute("BEGIN ATOMIC INSERT INTO t VALUES (1); END")
    with pytest.raises(dbapi.CommitStateUnknown):
        _ = connection.in_transaction
    with pytest.raises(dbapi.CommitStateUnknown):
        connection.commit()
    assert 1 == len(server.sent)


class Cut:
    """A server that does not answer for a while, and keeps its session, with what is open in it."""

    driver = "connect"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_cut = False
        self.is_open = False
        self.is_closed = False

    def run(self, sql: str, _parameters: object) -> Answer:
        if self.is_cut:
            raise dbapi.ConnectionLost("no answer")
        self.sent.append(sql)
        if sql.startswith("BEGIN"):
            self.is_open = True
        if sql == "ROLLBACK":
            self.is_open = False
        row = dict.fromkeys(Status._fields) | {"txn_id": "t", "in_transaction": self.is_open}
        ours = sql.split(maxsplit=1)[0] in {"BEGIN", "ROLLBACK", "SHOW"}
        return Answer(pa.Table.from_pylist([row]) if ours else pa.table({}), is_command=True)

    def close(self) -> None:
        self.is_closed = True


def test_a_stream_whose_session_is_lost_after_its_transaction() -> None:
    """That has committed, and COMMIT says nothing else."""

    class Streaming(Cut):
        def stream(self, _sql: str, _parameters: object, _rows: int) -> Answer:
            def rest() -> Iterator[pa.Table]:
                yield pa.table({"id": [1]})
                raise dbapi.ConnectionLost("no answer")

            return Answer(pa.table({"id": pa.array([], pa.int64())}), is_command=False, rest=rest())

    server = Streaming()
    connection = _connection.Connection(server, autocommit=True)
    connection.begin()
    cursor = connection.cursor(streaming=True).execute("SELECT id FROM t")
    assert (1,) == cursor.fetchone()
    connection.rollback()
    with pytest.raises(dbapi.ConnectionLost):
        cursor.fetchone()
    connection.commit()


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_session_that_comes_back_with_its_transaction(*, autocommit: bool) -> None:
    """
    What was open when it was lost is not gone on with.

    1. A transaction writes; its session does not answer the next statement, and comes back.
    2. Whatever asks, COMMIT refuses. 3. After a rollback the next statement undoes it first.
    """
    server = Cut()
    connection = _connection.Connection(server, autocommit=autocommit)
    connection.begin()
    server.is_cut = True
    with pytest.raises(dbapi.ConnectionLost):
        connection.cursor().execute("INSERT INTO t VALUES (1)")
    server.is_cut = False
    del server.sent[:]
    asked = (
        lambda: connection.in_transaction,
        connection.commit,
        *(partial(connection.cursor().execute, sql) for sql in ("COMMIT", "DELETE FROM t")),
    )
    for ask in asked:
        with pytest.raises(dbapi.ConnectionLost, match="nothing of it is committed"):
            ask()
    assert not server.sent
    connection.rollback()
    connection.commit()
    del server.sent[:]
    connection.cursor().execute("INSERT INTO t VALUES (2)")
    begun = [] if autocommit else ["BEGIN "]
    assert ["ROLLBACK", *begun, "INSERT INTO t VALUES (2)"] == server.sent


class Refusing:
    """A server that refuses COMMIT, and knows in ROLLBACK, or when it is asked, what came of it."""

    driver = "session"

    def __init__(self, at_rollback: dbapi.Error | None, asked: str | None = None) -> None:
        self.sent: list[str] = []
        self._at_rollback = at_rollback
        self._asked = asked
        self._open = False

    def run(self, sql: str, _parameters: object) -> Answer:
        self.sent.append(sql)
        if sql == "COMMIT":
            raise dbapi.OperationalError("the catalog refuses to write", sqlstate="58000")
        row = dict.fromkeys(Status._fields) | {"state": "active", "txn_id": "t"}
        if sql.startswith("BEGIN"):
            self._open = True
        if sql.startswith("BEGIN ID"):
            row |= {"state": self._asked, "commit_ts": 7}
        if sql == "ROLLBACK":
            self._open = False
            error, self._at_rollback = self._at_rollback, None
            if error is not None:
                raise error
        row["in_transaction"] = self._open
        ours = sql.split(maxsplit=1)[0] in {"BEGIN", "ROLLBACK", "SHOW"}
        return Answer(pa.Table.from_pylist([row]) if ours else pa.table({}), is_command=True)

    def close(self) -> None:
        self.sent.append("the end of the session")


def landed() -> dbapi.Error:
    """Give what ROLLBACK says of what has committed although it was refused."""
    return dbapi.ProgrammingError("the transaction has committed", sqlstate="25000")


def after_an_insert(server: Refusing) -> _connection.Connection:
    """Give a connection in a transaction."""
    connection = _connection.Connection(server)
    connection.cursor().execute("INSERT INTO t VALUES (1)")
    return connection


def test_a_refused_commit_that_has_landed_has_committed() -> None:
    """Who is told an error runs the transaction a second time."""
    connection = after_an_insert(Refusing(landed(), "committed"))
    connection.commit()
    assert connection.last_status is not None
    assert ("committed", 7) == (connection.last_status.state, connection.last_status.commit_ts)
    assert not connection.in_transaction


@pytest.mark.parametrize(
    "at_rollback",
    [
        dbapi.CommitStateUnknown("it may have committed", sqlstate="08007", txn_id="t"),
        dbapi.ConnectionLost("the session is gone"),
        landed(),
    ],
)
def test_a_refused_commit_that_may_have_landed_is_unknown(at_rollback: dbapi.Error) -> None:
    """That it has not committed is said only when the rollback has said so."""
    connection = after_an_insert(Refusing(at_rollback, "active"))
    with pytest.raises(dbapi.CommitStateUnknown) as caught:
        connection.commit()
    assert "t" == caught.value.txn_id
    if isinstance(at_rollback, dbapi.ConnectionLost):
        with pytest.raises(dbapi.CommitStateUnknown) as again:
            connection.commit()
        assert caught.value is again.value


@pytest.mark.parametrize(
    "at_rollback",
    [
        dbapi.CommitStateUnknown("it may have committed", sqlstate="08007", txn_id="t"),
        dbapi.ConnectionLost("the session is gone"),
        landed(),
        None,
    ],
)
def test_closing_gives_the_session_back_whatever_rollback_says(
    at_rollback: dbapi.Error | None,
) -> None:
    """Its server would keep it, and what it holds."""
    server = Refusing(at_rollback)
    connection = after_an_insert(server)
    if at_rollback is None or isinstance(at_rollback, dbapi.ConnectionLost):
        connection.close()
    else:
        with pytest.raises(type(at_rollback)):
            connection.close()
    assert ["ROLLBACK", "the end of the session"] == server.sent[-2:]
    connection.close()
    assert 1 == server.sent.count("the end of the session")


def test_closing_after_an_unknown_outcome() -> None:
    """The session ends, and what nobody knows is told once more."""
    unknown = dbapi.CommitStateUnknown("it may have committed", sqlstate="08007", txn_id="t")
    server = Refusing(unknown)
    connection = after_an_insert(server)
    with pytest.raises(dbapi.CommitStateUnknown):
        connection.commit()
    server._at_rollback = unknown
    with pytest.raises(dbapi.CommitStateUnknown):
        connection.close()
    assert "the end of the session" == server.sent[-1]


def test_a_refused_commit_is_rolled_back() -> None:
    """The next statement is in a transaction of its own, and the error says so."""
    server = Refusing(None)
    connection = after_an_insert(server)
    with pytest.raises(dbapi.OperationalError, match="refuses to write") as caught:
        connection.commit()
    assert ["the connection has rolled it back: run the transaction again"] == (
        caught.value.__notes__
    )
    assert ["COMMIT", "ROLLBACK"] == server.sent[-2:]
    assert not connection.in_transaction


class Answering:
    """A server that answers with rows of states."""

    driver = "connect"

    def __init__(self, *states: str) -> None:
        self._states = iter(states)

    def run(self, _sql: str, _parameters: object) -> Answer:
        state = next(self._states)
        row = dict.fromkeys(Status._fields) | {"state": state, "txn_id": "t"}
        row |= {"in_transaction": state == "active"}
        return Answer(pa.Table.from_pylist([row]), is_command=True)


def test_what_has_committed_is_counted() -> None:
    """By `commit`, or by a statement; not what is only found to have committed."""
    states = ("active", "committed", "active", "committed", "committed", "committed")
    connection = _connection.Connection(Answering(*states))
    connection.begin()
    connection.commit()
    assert 1 == connection.commits
    connection.begin()
    connection.cursor().execute("/* x */ end")
    assert 2 == connection.commits
    assert connection.outcome("t") is not None
    assert 2 == connection.commits


def test_what_has_committed_where_nobody_saw_it_is_counted() -> None:
    """The next answer is about another transaction, or about none."""
    connection = _connection.Connection(Hiding(), autocommit=True)
    connection.begin()
    connection.cursor().execute("EXECUTE IMMEDIATE x")
    assert connection.in_transaction
    assert 0 == connection.commits
    connection.cursor().execute("EXECUTE IMMEDIATE 'COMMIT'")
    assert not connection.in_transaction
    assert 1 == connection.commits


class Hiding:
    """A server to which one of two scripts is a COMMIT."""

    driver = "connect"

    def __init__(self) -> None:
        self._open = False

    def run(self, sql: str, _parameters: object) -> Answer:
        if sql.startswith("EXECUTE"):
            self._open = "COMMIT" not in sql
            return Answer(pa.table({}), is_command=True)
        self._open |= sql.startswith("BEGIN")
        row = dict.fromkeys(Status._fields) | {"state": "active" if self._open else "none"}
        row |= {"txn_id": "t" if self._open else None, "in_transaction": self._open}
        return Answer(pa.Table.from_pylist([row]), is_command=True)


def test_what_nobody_knows_is_kept_until_the_next_transaction() -> None:
    connection = _connection.Connection(Dying(2))
    connection.begin()
    connection.cursor().execute("INSERT INTO t VALUES (1)")
    with pytest.raises(dbapi.CommitStateUnknown) as caught:
        connection.commit()
    assert caught.value is connection.unknown


class Plain:
    """A Spark that has neither the extension nor the catalog."""

    driver = "session"

    def __init__(self) -> None:
        self.is_closed = False

    def use(self, _catalog: str, _schema: str) -> bool:
        return False

    def run(self, sql: str, _parameters: object) -> Answer:
        if sql == "SET":
            return Answer(pa.table({"key": pa.array([], pa.string())}), is_command=False)
        raise dbapi.ProgrammingError(f"not valid: {sql}", sqlstate="42601")

    def close(self) -> None:
        self.is_closed = True


def test_a_catalog_that_is_not_there_is_told_whatever_its_rollback_says() -> None:
    """A Spark without the extension knows no ROLLBACK, and that would hide the cure."""
    server = Plain()
    with pytest.raises(dbapi.ProgrammingError, match=r"give uri=\.\.\. or warehouse") as caught:
        _connect._opened(lambda: server, ("lake", None), None, None, autocommit=True)
    assert "3D000" == caught.value.sqlstate
    assert server.is_closed

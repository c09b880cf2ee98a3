"""The SQLAlchemy dialect: the ORM, racing sessions, types, reflection; by each driver."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc, orm
from sqlalchemy.orm.exc import StaleDataError

from integration_tests import orm_quick_start
from integration_tests.ways import DRIVERS, through
from sqlalchemy_txns import MAP, STRUCT, run_transaction, transactional
from txns_spark import dbapi, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Engines = Callable[..., sa.Engine]

_SCHEMAS = itertools.count(1)


@pytest.fixture(params=["session", "connect", "thrift"])
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """Make engines over one schema that no other test sees."""
    root = request.getfixturevalue("root_session")
    schema = f"sa{next(_SCHEMAS)}"
    root.sql(f"CREATE NAMESPACE lake.{schema}")
    made: list[sa.Engine] = []

    def make(**options: Any) -> sa.Engine:
        address = ""
        if request.param != "session":
            server = request.getfixturevalue(f"{request.param}_server")
            address = f"{server.address.host}:{server.address.port}"
        url = f"txns+{request.param}://{address}/lake/{schema}"
        made.append(sa.create_engine(url, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


only_session = pytest.mark.parametrize("engines", ["session"], indirect=True)


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_the_orm_quick_start_runs_as_it_is(engines: Engines) -> None:
    """SQLAlchemy's own page, verbatim but for the URL."""
    engine = engines()
    found = orm_quick_start.run(engine.url.render_as_string(hide_password=False))
    assert [
        ("spongebob", ["spongebob@sqlalchemy.org"]),
        ("sandy", ["sandy@squirrelpower.org"]),
    ] == found


class Base(orm.DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    owner: orm.Mapped[str]
    balance: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    changed: orm.Mapped[dt.datetime | None] = orm.mapped_column(
        server_default=sa.func.now(), onupdate=sa.func.now()
    )


class Document(Base):
    __tablename__ = "document"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    title: orm.Mapped[str]
    version: orm.Mapped[int] = orm.mapped_column()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012  (SQLAlchemy's own way)


def statements_of(engine: sa.Engine) -> list[str]:
    """Note the statements that reach Spark."""
    seen: list[str] = []
    original = dbapi.Connection._run

    def noting(self: dbapi.Connection, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return original(self, sql, *rest)

    event = sa.event

    @event.listens_for(engine, "connect")
    def connected(connection: dbapi.Connection, _record: object) -> None:
        connection._run = noting.__get__(connection)  # type: ignore[method-assign]

    return seen


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
@through("engines", "session", DRIVERS)
def test_a_flush_sends_one_statement_for_each_table_and_kind(engines: Engines) -> None:
    engine = engines()
    seen = statements_of(engine)
    Base.metadata.create_all(engine, [Account.__table__])  # type: ignore[list-item]
    with orm.Session(engine) as session:
        session.add_all(Account(owner=f"o{i}", balance=i) for i in range(1000))
        session.flush()
        assert 1 == sum(sql.startswith("INSERT") for sql in seen)
        accounts = session.scalars(sa.select(Account)).all()
        assert list(range(1, 1001)) == sorted(account.id for account in accounts)
        for account in accounts:
            account.balance += 1
        del seen[:]
        session.flush()
        [merge] = seen
        assert merge.startswith("MERGE INTO account AS t")
        for account in accounts:
            session.delete(account)
        del seen[:]
        session.flush()
        [delete] = seen
        assert delete.startswith("DELETE FROM account WHERE id IN (1, 2")
        assert 0 == session.scalar(sa.select(sa.func.count()).select_from(Account))
        session.rollback()
        assert 0 == session.scalar(sa.select(sa.func.count()).select_from(Account))
    with engine.connect() as connection:
        del seen[:]
        connection.execute(sa.insert(Account), [{"owner": "?", "balance": i} for i in range(2500)])
        assert 1 == sum(sql.startswith("INSERT") for sql in seen)
        filled = sa.select(sa.func.count(), sa.func.min(Account.changed)).where(
            Account.owner == "?"
        )
        count, changed = connection.execute(filled).one()
        assert 2500 == count
        assert changed is not None


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
@through("engines", "session", DRIVERS)
def test_two_that_find_no_table_and_create_it_clash(engines: Engines) -> None:
    """Looking for a table belongs to the transaction: the second one is to run again."""
    engine = engines()
    with engine.connect() as one, engine.connect() as other:
        assert not sa.inspect(one).has_table("account")
        Base.metadata.create_all(other, [Account.__table__])  # type: ignore[list-item]
        other.commit()
        with pytest.raises(exc.OperationalError) as lost:
            Account.__table__.create(one)  # type: ignore[attr-defined]
            one.commit()
        assert "40001" == lost.value.orig.sqlstate  # type: ignore[union-attr]
    assert sa.inspect(engine).has_table("account")


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
@through("engines", "session", DRIVERS)
def test_of_two_racing_sessions_one_is_run_again(engines: Engines) -> None:
    """
    A retry sees what the winner wrote.

    1. A session reads an account, and another one changes it and commits.
    2. The first changes it and gets 40001; run_transaction calls it again.
    """
    engine = engines()
    Base.metadata.create_all(engine, [Account.__table__])  # type: ignore[list-item]
    maker = orm.sessionmaker(engine)
    with maker.begin() as session:
        session.add(Account(owner="a", balance=0))
    attempts = []

    def add_ten(session: orm.Session) -> None:
        account = session.scalars(sa.select(Account)).one()
        attempts.append(account.balance)
        if len(attempts) == 1:
            with maker.begin() as rival:
                rival.scalars(sa.select(Account)).one().balance += 1
        account.balance += 10

    with pytest.raises(exc.OperationalError) as caught:
        run_transaction(maker, add_ten, max_attempts=1)
    assert isinstance(caught.value.orig, errors.TransactionConflict)
    assert "40001" == caught.value.orig.sqlstate
    assert not caught.value.connection_invalidated
    del attempts[:]
    run_transaction(maker, add_ten)
    assert [1, 2] == attempts
    with maker() as session:
        assert 12 == session.scalars(sa.select(Account.balance)).one()


@only_session
@pytest.mark.parametrize(("isolation", "attempts"), [(None, 2), ("snapshot", 1)])
@pytest.mark.parametrize("by", ["engine", "sessions"])
@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_a_function_is_a_transaction(
    engines: Engines, by: str, isolation: str | None, attempts: int
) -> None:
    """Of the engine, or of the sessionmaker, that it is called with; at a level of its own."""
    engine = engines()
    Base.metadata.create_all(engine, [Account.__table__, Document.__table__])  # type: ignore[list-item]
    maker = orm.sessionmaker(engine)
    counts = []

    @transactional(isolation=isolation)
    def report(scope: orm.Session | sa.Connection, title: str) -> str:
        found = scope.execute(sa.select(sa.func.count()).select_from(Account)).scalar_one()
        counts.append(found)
        if len(counts) == 1:
            with maker.begin() as rival:
                rival.add(Account(owner="rival", balance=0))
        scope.execute(sa.insert(Document).values(id=found, title=title, version=1))
        return title

    assert "a" == report(engine if by == "engine" else maker, "a")
    assert [0, 1][:attempts] == counts
    with maker() as session:
        assert [counts[-1]] == session.scalars(sa.select(Document.id)).all()


@only_session
def test_run_transaction_never_repeats_an_unknown_outcome(engines: Engines) -> None:
    engine = engines()
    calls = []

    def unknown(connection: sa.Connection) -> None:
        calls.append(connection)
        raise exc.OperationalError("COMMIT", {}, dbapi.CommitStateUnknown("maybe", txn_id="x"))

    with pytest.raises(exc.OperationalError) as caught:
        run_transaction(engine, unknown)
    assert isinstance(caught.value.orig, errors.CommitStateUnknown)
    assert 1 == len(calls)
    with engine.connect() as connection, pytest.raises(exc.ArgumentError, match="Engine"):
        run_transaction(connection, unknown)  # type: ignore[arg-type]


@only_session
@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_a_stale_version_is_found(engines: Engines) -> None:
    engine = engines()
    Base.metadata.create_all(engine, [Document.__table__])  # type: ignore[list-item]
    with orm.Session(engine) as session:
        session.add(Document(title="a"))
        session.commit()
        document = session.scalars(sa.select(Document)).one()
        session.connection().execute(sa.update(Document).values(version=7))
        document.title = "b"
        with pytest.raises(StaleDataError):
            session.flush()


METADATA = sa.MetaData()
EVERYTHING = sa.Table(
    "everything",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, comment="it's the id"),
    sa.Column("flag", sa.Boolean),
    sa.Column("amount", sa.Numeric(10, 2)),
    sa.Column("ratio", sa.Float),
    sa.Column("note", sa.Text, server_default="it's: new"),
    sa.Column("day", sa.Date),
    sa.Column("local", sa.DateTime),
    sa.Column("instant", sa.DateTime(timezone=True)),
    sa.Column("clock", sa.Time),
    sa.Column("span", sa.Interval),
    sa.Column("blob", sa.LargeBinary),
    sa.Column("doc", sa.JSON),
    sa.Column("key", sa.Uuid),
    sa.Column("tags", sa.ARRAY(sa.String)),
    sa.Column("prices", MAP(sa.String, sa.Numeric(5, 2))),
    sa.Column("address", STRUCT({"city": sa.String, "zip": sa.Integer})),
    sa.Column("user", sa.String(10), unique=True, nullable=False),
    sa.CheckConstraint("amount > 0", name="positive"),
    comment="all types, ${types}",
    txns_partition_by=["day", sa.text("bucket(4, id)")],
    txns_properties={"write.delete.mode": "copy-on-write"},
)


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_types_keys_and_properties_come_back(engines: Engines) -> None:
    import uuid  # noqa: PLC0415  (a value)

    engine = engines()
    METADATA.create_all(engine)
    row = {
        "flag": True,
        "amount": Decimal("12.50"),
        "ratio": 0.25,
        "day": dt.date(2020, 2, 29),
        "local": dt.datetime(2020, 1, 1, 1, 2, 3, 4),  # noqa: DTZ001  (has no zone)
        "instant": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "clock": dt.time(12, 30, 0, 5),
        "span": dt.timedelta(days=1, seconds=5),
        "blob": b"\x00'",
        "doc": {"a": [1, "'"]},
        "key": uuid.UUID(int=5),
        "tags": ["x", "y'"],
        "prices": {"a": Decimal("1.25")},
        "address": {"city": "Ulm", "zip": 89073},
        "user": "u",
    }
    with engine.begin() as connection:
        made = connection.execute(sa.insert(EVERYTHING), row)
        assert (1,) == made.inserted_primary_key
        connection.execute(sa.insert(EVERYTHING), [row, row])
        expected = {"id": 1, "note": "it's: new"} | row
        found = connection.execute(sa.select(EVERYTHING).order_by(EVERYTHING.c.id)).mappings()
        assert [expected, expected | {"id": 2}, expected | {"id": 3}] == list(found)

    reflected = sa.Table("everything", sa.MetaData(), autoload_with=engine)
    assert [column.name for column in EVERYTHING.columns] == [c.name for c in reflected.columns]
    assert not reflected.c.user.nullable
    assert ["id"] == [column.name for column in reflected.primary_key]
    assert ("it's the id", "all types, ${types}") == (reflected.c.id.comment, reflected.comment)
    inspector = sa.inspect(engine)
    assert [["user"]] == [u["column_names"] for u in inspector.get_unique_constraints("everything")]
    assert [{"name": "positive", "sqltext": "amount > 0"}] == inspector.get_check_constraints(
        "everything"
    )
    options = inspector.get_table_options("everything")
    assert ("day", "bucket(4, id)") == options["txns_partition_by"]
    assert "copy-on-write" == options["txns_properties"]["write.delete.mode"]
    assert inspector.has_table("everything")
    assert not inspector.has_table("nothing")
    with pytest.raises(exc.NoSuchTableError):
        inspector.get_columns("nothing")


@through("engines", "session", DRIVERS)
def test_a_missing_table_is_missing_whatever_its_name(engines: Engines) -> None:
    """A temporary view is described by another statement, and told by its error."""
    engine = engines()
    with engine.connect() as connection:
        inspector = sa.inspect(connection)
        assert not inspector.has_table("templates")
        with pytest.raises(exc.NoSuchTableError):
            inspector.get_columns("templates")
        connection.exec_driver_sql("CREATE TEMPORARY VIEW temporary_one AS SELECT 1 AS a")
        assert ["a"] == [column["name"] for column in inspector.get_columns("temporary_one")]


@pytest.mark.parametrize("level", ["STRICT SERIALIZABLE", "SNAPSHOT"])
@through("engines", "session", DRIVERS)
def test_what_for_update_read_must_not_change(engines: Engines, level: str) -> None:
    """
    At SNAPSHOT, a plain SELECT is not validated, and one FOR UPDATE is.

    1. A transaction reads a table, and writes another one.
    2. The table that it read changes: its COMMIT is a conflict if it read FOR UPDATE.
    """
    engine = engines()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE a (id BIGINT) USING iceberg")
        connection.exec_driver_sql("CREATE TABLE b (id BIGINT) USING iceberg")
        connection.exec_driver_sql("INSERT INTO a VALUES (1)")
    query = sa.select(sa.func.count()).select_from(sa.table("a", sa.column("id")))

    def commit_after(chosen: sa.Select[Any]) -> None:
        with engine.connect().execution_options(isolation_level=level) as connection:
            seen = connection.scalar(chosen)
            connection.exec_driver_sql("INSERT INTO b VALUES (1)")
            with engine.begin() as other:
                other.exec_driver_sql("INSERT INTO a VALUES (2)")
            assert seen == connection.scalar(chosen)
            connection.commit()

    with pytest.raises(exc.OperationalError) as caught:
        commit_after(query.with_for_update())
    assert isinstance(caught.value.orig, errors.TransactionConflict)
    if level == "SNAPSHOT":
        commit_after(query)
        with pytest.raises(exc.OperationalError, match="40001"):
            commit_after(query.with_for_update().execution_options(no_parameters=True))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.scalar(query.with_for_update()) > 1


class Ticket(Base):
    __tablename__ = "ticket"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity())
    text: orm.Mapped[str]


@only_session
@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_identity_outside_the_key_gets_ids(engines: Engines) -> None:
    """Never NULL: by the ORM, by one row and by many, by SELECT, by VALUES."""
    engine = engines()
    tickets: sa.Table = Ticket.__table__  # type: ignore[assignment]
    tickets.create(engine)
    with orm.Session(engine) as session, session.begin():
        made = [Ticket(text=f"t{i}") for i in range(3)]
        session.add_all(made)
        session.flush()
        assert all(ticket.number is not None for ticket in made)
    with engine.begin() as connection:
        connection.execute(sa.insert(tickets), {"text": "one"})
        connection.execute(sa.insert(tickets), [{"text": "many"}, {"text": "many"}])
        connection.execute(sa.insert(tickets).values([{"text": "values"}, {"text": "values"}]))
        source = sa.select(tickets.c.text).where(tickets.c.text == "many")
        connection.execute(sa.insert(tickets).from_select(["text"], source))
        numbers = connection.scalars(sa.select(tickets.c.number)).all()
    assert 10 == len(numbers)
    assert None not in numbers
    assert len(set(numbers)) == len(numbers)


@only_session
@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_nobody_counts_on_from_the_ids_of_another(engines: Engines) -> None:
    """
    The engine that created the table counts from 1, whoever inserts first.

    1. One engine creates the table, another one, like another process, inserts.
    2. The first inserts: not the ids that the other one would take next.
    """
    creator, other = engines(), engines()
    accounts: sa.Table = Account.__table__  # type: ignore[assignment]
    accounts.create(creator)
    made = []
    for engine in (other, creator, other, creator):
        with engine.begin() as connection:
            result = connection.execute(sa.insert(accounts), {"owner": "x", "balance": 0})
            made.append(result.inserted_primary_key[0])  # type: ignore[index]
    assert [1, 2] == made[1::2]
    assert all(given >= 2**32 for given in made[::2])
    assert len(set(made)) == len(made)


@only_session
@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_who_has_lost_the_race_to_create_counts_no_more(engines: Engines) -> None:
    """
    The count belongs to the table that has come to stay.

    1. Two engines create one table, each in a transaction, and insert: both count from 1.
    2. The second one's COMMIT loses. It runs again, finds the table, and inserts.
    """
    first, second = engines(), engines()
    accounts: sa.Table = Account.__table__  # type: ignore[assignment]
    made = []

    def create_and_insert(connection: sa.Connection) -> None:
        accounts.create(connection, checkfirst=True)
        result = connection.execute(sa.insert(accounts), {"owner": "x", "balance": 0})
        made.append(result.inserted_primary_key[0])  # type: ignore[index]

    with second.connect() as loser:
        create_and_insert(loser)
        with first.begin() as winner:
            create_and_insert(winner)
        with pytest.raises(exc.OperationalError) as lost:
            loser.commit()
        assert isinstance(lost.value.orig, dbapi.TransactionConflict)
        loser.rollback()
        create_and_insert(loser)
        loser.commit()
    with first.begin() as winner:
        create_and_insert(winner)
    assert [1, 1] == made[:2]
    assert made[2] >= 2**32
    assert 2 == made[3]


@only_session
@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_a_map_chooses_the_schema_of_each_tenant(engines: Engines) -> None:
    """As `schema_translate_map` does elsewhere: DDL, the ORM's flushes, and ids for both."""
    engine = engines()
    found = []
    for tenant in ("one", "other"):
        schema = f"{engine.url.database.partition('/')[2]}_{tenant}"  # type: ignore[union-attr]
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE NAMESPACE {schema}")
        chosen = engine.execution_options(schema_translate_map={None: schema})
        Base.metadata.create_all(chosen, [Account.__table__])  # type: ignore[list-item]
        with orm.Session(chosen) as session, session.begin():
            session.add_all(Account(owner=tenant, balance=0) for _ in range(3))
            session.flush()
            for account in session.scalars(sa.select(Account)):
                account.balance += 1
            session.flush()
            session.execute(sa.insert(Account.__table__), {"owner": tenant, "balance": 1})
        rows = f"SELECT id FROM {schema}.account WHERE owner = '{tenant}' AND balance = 1"
        with engine.connect() as connection:
            found += connection.exec_driver_sql(rows).scalars().all()
    assert 8 == len(set(found))


class _Lower(sa.TypeDecorator[str]):
    """Text that is compared in lower case."""

    impl = sa.String
    cache_ok = True

    def bind_expression(self, bindparam: Any) -> Any:
        return sa.func.lower(bindparam)


CODES = sa.Table(
    "codes",
    sa.MetaData(),
    sa.Column("id", sa.BigInteger),
    sa.Column("code", _Lower),
    sa.Column("counted", sa.BigInteger, sa.Sequence("counts")),
)


@only_session
def test_many_updates_do_what_they_do_one_after_the_other(engines: Engines) -> None:
    """Also where a row sets what the next one looks for, or a key goes through a function."""
    engine = engines()
    CODES.create(engine)
    seen = statements_of(engine)
    engine.dispose()
    rows = [{"id": i, "code": f"C{i}"} for i in (1, 2, 3)]
    change = sa.update(CODES).where(CODES.c.id == sa.bindparam("old")).values(id=sa.bindparam("to"))
    by_code = sa.delete(CODES).where(CODES.c.code == sa.bindparam("which"))
    with engine.connect() as connection:
        connection.execute(sa.insert(CODES), rows)
        assert None not in connection.scalars(sa.select(CODES.c.counted)).all()
        one_by_one = connection.execute(change, [{"old": 1, "to": 2}, {"old": 2, "to": 9}])
        assert 3 == one_by_one.rowcount
        ids = connection.scalars(sa.select(CODES.c.id).order_by(CODES.c.id)).all()
        assert [3, 9, 9] == ids
        assert not any(sql.startswith("MERGE") for sql in seen)
        assert 3 == connection.execute(change, [{"old": 9, "to": 1}, {"old": 3, "to": 2}]).rowcount
        assert 1 == sum(sql.startswith("MERGE") for sql in seen)
        assert 2 == connection.execute(by_code, [{"which": "C1"}, {"which": "C3"}]).rowcount
        assert ["c2"] == connection.scalars(sa.select(CODES.c.code)).all()


def lose_session(connection: sa.Connection) -> None:
    """End the session on the server, without its client."""
    session: Any = connection.connection.dbapi_connection._session  # type: ignore[union-attr]
    if session.driver == "connect":
        session._spark.client.release_session()
        return
    from TCLIService import ttypes  # noqa: PLC0415  (of the driver thrift)

    client = session._connection
    client._client.CloseSession(ttypes.TCloseSessionReq(client.sessionHandle))


@pytest.mark.parametrize("engines", ["connect", "thrift"], indirect=True)
def test_a_lost_session_commits_nothing_and_leaves_the_pool(engines: Engines) -> None:
    """
    The pool replaces the session; what was open is gone, and is not sent again by itself.

    1. A session is lost between two statements: a disconnect, known to be not committed.
    2. One is lost before COMMIT: a disconnect, too, and its outcome can be asked for.
    """
    engine = engines(pool_size=1)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id BIGINT) USING iceberg")
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        lose_session(connection)
        with pytest.raises(exc.OperationalError) as caught:
            connection.exec_driver_sql("INSERT INTO t VALUES (2)")
        assert caught.value.connection_invalidated
        assert isinstance(caught.value.orig, dbapi.ConnectionLost)
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (3)")
        lose_session(connection)
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert caught.value.connection_invalidated
        unknown = caught.value.orig
        assert isinstance(unknown, dbapi.CommitStateUnknown)
    with engine.connect() as connection:
        assert unknown.txn_id is not None
        asked: Any = connection.connection.dbapi_connection
        assert asked.outcome(unknown.txn_id) is None
        assert 0 == connection.exec_driver_sql("SELECT count(*) FROM t").scalar()


@only_session
def test_isolation_levels_and_savepoints(engines: Engines) -> None:
    engine = engines()
    with engine.connect() as connection:
        assert "STRICT SERIALIZABLE" == connection.default_isolation_level
        assert "STRICT SERIALIZABLE" == connection.get_isolation_level()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("CREATE TABLE t (id BIGINT) USING iceberg")
        connection.rollback()
    with engine.connect().execution_options(isolation_level="SNAPSHOT") as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        with pytest.raises(exc.DataError), connection.begin_nested():
            connection.exec_driver_sql("INSERT INTO t SELECT 1/0")
        connection.commit()
        committed: Any = connection.connection.dbapi_connection
        txn_id = committed.last_status.txn_id
        log = connection.exec_driver_sql("CALL lake.system.transactions()").mappings()
        assert ["snapshot"] == [row["isolation"] for row in log if row["txn_id"] == txn_id]
    with engine.connect() as connection:
        assert [(1,)] == connection.exec_driver_sql("SELECT * FROM t").all()
    with pytest.raises(exc.ArgumentError, match="SNAPSHOT"):
        engine.connect().execution_options(isolation_level="CHAOS")


@only_session
def test_what_the_url_says_is_checked(engines: Engines) -> None:
    url = engines().url
    for wrong, words in (
        (url.set(database="nowhere/db"), "spark.sql.catalog.nowhere"),
        (url.set(database="lake/nowhere"), "CREATE NAMESPACE lake.nowhere"),
    ):
        with pytest.raises(exc.ProgrammingError) as caught:
            sa.create_engine(wrong).connect()
        assert words in str(caught.value)
    with pytest.raises(exc.ArgumentError, match="frobnicate"):
        sa.create_engine(url.update_query_dict({"frobnicate": "1"})).connect()


@only_session
def test_a_query_can_be_streamed(engines: Engines) -> None:
    with engines().connect() as connection:
        result = connection.execution_options(yield_per=100).exec_driver_sql(
            "SELECT id FROM range(1000)"
        )
        assert list(range(1000)) == [row.id for row in result]

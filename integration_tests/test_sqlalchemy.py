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
from sqlalchemy_txns import MAP, STRUCT, run_transaction
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


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
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
    comment="all types",
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
    assert ("it's the id", "all types") == (reflected.c.id.comment, reflected.comment)
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


@pytest.mark.parametrize("level", ["STRICT SERIALIZABLE", "SNAPSHOT"])
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

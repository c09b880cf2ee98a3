"""Sessions of the ORM that change the same rows at the same time."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc, orm
from sqlalchemy.orm.exc import StaleDataError

from sqlalchemy_txns import run_transaction, transactional
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

_SCHEMAS = itertools.count(1)
_RACERS = 2
_AMOUNT = 7

pytestmark = pytest.mark.filterwarnings("ignore:keys, checks and indexes")


class Base(orm.DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    balance: orm.Mapped[int]


class Page(Base):
    __tablename__ = "page"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    text: orm.Mapped[str]
    version: orm.Mapped[int] = orm.mapped_column()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012  (SQLAlchemy's own way)


@pytest.fixture
def engine(root_session: SparkSession) -> Iterator[sa.Engine]:
    """An engine over a schema that no other test sees, with the tables above."""
    schema = f"races{next(_SCHEMAS)}"
    root_session.sql(f"CREATE NAMESPACE lake.{schema}")
    made = sa.create_engine(f"txns:///lake/{schema}")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


class _Racer(threading.Thread):
    """
    Adds to both accounts in a transaction; nobody commits before all have read and flushed.

    Attributes:
        sqlstates: Of the errors that its attempts met.
    """

    def __init__(self, sessions: orm.sessionmaker[orm.Session], gate: threading.Barrier) -> None:
        super().__init__()
        self.sqlstates: list[str | None] = []
        self.failure: BaseException | None = None
        self._sessions = sessions
        self._gate = gate
        self._attempts = 0

    def _add(self, session: orm.Session) -> None:
        self._attempts += 1
        for account in session.scalars(sa.select(Account).order_by(Account.id)):
            account.balance += _AMOUNT
        session.flush()
        if self._attempts == 1:
            self._gate.wait(timeout=120)

    def run(self) -> None:
        def noting(context: sa.engine.ExceptionContext) -> None:
            self.sqlstates.append(getattr(context.original_exception, "sqlstate", None))

        engine = self._sessions.kw["bind"]
        sa.event.listen(engine, "handle_error", noting)
        try:
            run_transaction(self._sessions, self._add)
        except BaseException as error:  # noqa: BLE001  (raised again in the test's thread)
            self.failure = error
        finally:
            sa.event.remove(engine, "handle_error", noting)


@pytest.mark.parametrize("races", [5, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_one_of_two_racing_sessions_gets_40001_and_tries_again(
    engine: sa.Engine, races: int
) -> None:
    """In every race exactly one conflict, and no amount is lost or doubled."""
    with orm.Session(engine) as session, session.begin():
        session.add_all([Account(balance=0), Account(balance=100)])
    # An engine for each, as in two processes.
    engines = [sa.create_engine(engine.url) for _ in range(_RACERS)]
    for race in range(1, races + 1):
        gate = threading.Barrier(_RACERS)
        racers = [_Racer(orm.sessionmaker(bind), gate) for bind in engines]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert [None] * _RACERS == [racer.failure for racer in racers]
        assert ["40001"] == [state for racer in racers for state in racer.sqlstates]
        with engine.connect() as connection:
            found = connection.scalars(sa.select(Account.balance).order_by(Account.id)).all()
        added = race * _RACERS * _AMOUNT
        assert [added, 100 + added] == list(found)
    for bind in engines:
        bind.dispose()


@pytest.mark.parametrize("by", ["engine", "sessions"])
def test_every_attempt_has_the_same_connection(engine: sa.Engine, by: str) -> None:
    """Its next BEGIN is known for the next try of what has lost; a pool takes turns."""
    with engine.begin() as first, engine.connect():  # two that are idle afterwards
        first.execute(sa.insert(Account).values(id=1, balance=0))
    seen = []

    def attempt(scope: sa.Connection | orm.Session) -> None:
        connection = scope.connection() if isinstance(scope, orm.Session) else scope
        seen.append(connection.connection.dbapi_connection)
        balance = scope.scalar(sa.select(Account.balance))
        if len(seen) == 1:
            with engine.begin() as other:
                other.execute(sa.update(Account).values(balance=5))
        scope.execute(sa.update(Account).values(balance=balance + 1))

    run_transaction(engine if by == "engine" else orm.sessionmaker(engine), attempt)
    assert 2 == len(seen)
    assert seen[0] is seen[1]
    with engine.connect() as connection:
        assert 6 == connection.scalar(sa.select(Account.balance))


def test_a_conflict_names_itself_in_a_session(engine: sa.Engine) -> None:
    """Without run_transaction, the loser's commit raises, and its session goes on."""
    with orm.Session(engine) as session, session.begin():
        session.add(Account(balance=0))
    with orm.Session(engine) as one, orm.Session(engine) as other:
        for session in (one, other):
            session.scalars(sa.select(Account)).one().balance += 1
            session.flush()
        one.commit()
        with pytest.raises(exc.OperationalError) as caught:
            other.commit()
        assert isinstance(caught.value.orig, dbapi.TransactionConflict)
        assert "40001" == caught.value.orig.sqlstate
        other.rollback()
        other.scalars(sa.select(Account)).one().balance += 1
        other.commit()
        assert 2 == one.scalars(sa.select(Account)).one().balance


def test_an_old_version_is_stale(engine: sa.Engine) -> None:
    """
    `version_id_col` finds what was changed between two transactions of one session.

    1. A session reads a page and commits; another one changes the page.
    2. The first one writes what it has read: StaleDataError, and nothing is written.
    """
    with orm.Session(engine, expire_on_commit=False) as session:
        page = Page(text="first")
        session.add(page)
        session.commit()
        with orm.Session(engine) as other:
            other.scalars(sa.select(Page)).one().text = "other"
            other.commit()
        page.text = "second"
        with pytest.raises(StaleDataError):
            session.commit()
    with orm.Session(engine) as session:
        assert ("other", 2) == session.execute(sa.select(Page.text, Page.version)).one()


@pytest.mark.parametrize("by", ["engine", "sessions"])
@pytest.mark.parametrize("given", ["the engine's", "its own"])
def test_nothing_is_run_again_with_autocommit(engine: sa.Engine, by: str, given: str) -> None:
    """What it had done before a conflict would be done once more."""
    isolation = None if given == "the engine's" else "autocommit"
    committing = sa.create_engine(engine.url, isolation_level="AUTOCOMMIT")
    begun = engine if isolation else committing
    add = sa.insert(Account).values(id=1, balance=0)
    with pytest.raises(exc.ArgumentError, match="AUTOCOMMIT"):
        run_transaction(
            begun if by == "engine" else orm.sessionmaker(begun),
            lambda scope: scope.execute(add),
            isolation=isolation,
        )
    committing.dispose()
    with engine.connect() as connection:
        assert [] == connection.execute(sa.select(Account.id)).all()


def test_what_would_run_after_the_commit(engine: sa.Engine) -> None:
    add = sa.insert(Account).values(id=1, balance=0)

    async def later(connection: sa.Connection) -> None:
        connection.execute(add)

    def hidden(connection: sa.Connection) -> object:
        return later(connection)

    with pytest.raises(exc.ArgumentError, match="later"):
        run_transaction(engine, later)
    with pytest.raises(exc.ArgumentError, match="later"):
        run_transaction(engine, hidden)
    with pytest.raises(exc.ArgumentError, match="later"):
        transactional()(later)
    run_transaction(engine, lambda connection: connection.execute(add), isolation="serializable")
    with engine.connect() as connection:
        assert [(1,)] == connection.execute(sa.select(Account.id)).all()


@pytest.mark.parametrize("by", ["engine", "sessions", "a statement"])
def test_what_the_callback_has_committed_is_not_run_again(engine: sa.Engine, by: str) -> None:
    """
    Its rows would be there twice.

    1. A callback commits, by a method or by a statement. 2. Another transaction of its own loses.
    """
    attempts = []

    def twice(scope: sa.Connection | orm.Session) -> None:
        attempts.append(scope)
        scope.execute(sa.insert(Account).values(id=1, balance=0))
        if by == "a statement":
            assert isinstance(scope, sa.Connection)
            scope.exec_driver_sql("COMMIT")
        else:
            scope.commit()
        with engine.connect() as other:
            other.exec_driver_sql("SET `spark.sql.txns.rehearse-conflicts` = 1")
            other.execute(sa.insert(Account).values(id=2, balance=0))
            other.commit()

    with pytest.raises(exc.OperationalError, match="rehearsal") as raised:
        run_transaction(orm.sessionmaker(engine) if by == "sessions" else engine, twice)
    assert "it is not run again" in raised.value.__notes__[-1]
    assert 1 == len(attempts)
    with engine.connect() as connection:
        assert [(1,)] == connection.execute(sa.select(Account.id)).all()


@pytest.mark.parametrize("end", ["COMMIT", "EXECUTE IMMEDIATE 'COMMIT'"])
@pytest.mark.parametrize("by", ["engine", "a choice of engines"])
def test_what_the_callback_has_committed_before_its_last_commit_loses(
    engine: sa.Engine, by: str, end: str
) -> None:
    """
    Its first rows would be there twice.

    1. A callback commits by a statement, seen or not, and writes on, in another transaction.
    2. That one loses, by the COMMIT of run_transaction.
    """
    attempts = []

    def twice(scope: sa.Connection | orm.Session) -> None:
        attempts.append(scope)
        connection = scope.connection() if isinstance(scope, orm.Session) else scope
        connection.execute(sa.insert(Account).values(id=1, balance=0))
        connection.exec_driver_sql(end)
        connection.exec_driver_sql("SET `spark.sql.txns.rehearse-conflicts` = 1")
        connection.execute(sa.insert(Account).values(id=2, balance=0))

    sessions = orm.sessionmaker(binds={Account: engine})
    with pytest.raises(exc.OperationalError, match="rehearsal") as raised:
        if by == "engine":
            run_transaction(engine, twice)
        else:
            run_transaction(sessions, lambda session: twice(_bound(session)))
    assert "it is not run again" in raised.value.__notes__[-1]
    assert 1 == len(attempts)
    with engine.connect() as connection:
        assert [(1,)] == connection.execute(sa.select(Account.id)).all()


def _bound(session: orm.Session) -> sa.Connection:
    return session.connection(bind_arguments={"mapper": Account})


@pytest.mark.parametrize("keeps_it", [True, False])
def test_a_session_of_two_engines(engine: sa.Engine, *, keeps_it: bool) -> None:
    """
    Of two COMMITs one may lose when the other one stands: it would be run again, and be twice.

    1. A callback writes by two engines. 2. That is told before anything is committed.
    """
    second = sa.create_engine(engine.url)
    sessions = orm.sessionmaker(binds={Account: engine, Page: second})
    attempts = []

    def write(session: orm.Session) -> None:
        attempts.append(session)
        session.execute(sa.insert(Account).values(id=1, balance=0))
        with suppress(exc.ArgumentError if keeps_it else ()):
            session.execute(sa.insert(Page).values(id=1, text="x", version=1))

    with pytest.raises(exc.ArgumentError, match="one engine"):
        run_transaction(sessions, write)
    assert 1 == len(attempts)
    with orm.Session(engine) as session:
        assert [] == session.scalars(sa.select(Account.id)).all()
        assert [] == session.scalars(sa.select(Page.id)).all()
    run_transaction(sessions, lambda session: session.add(Page(text="y")))
    with orm.Session(engine) as session:
        assert ["y"] == session.scalars(sa.select(Page.text)).all()
    second.dispose()


class _Unheard:
    """A session that is lost when its COMMIT has been done."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run(self, sql: str, parameters: Sequence[Any]) -> Any:
        answer = self._real.run(sql, parameters)
        if sql == "COMMIT":
            raise dbapi.ConnectionLost("the answer to COMMIT is lost")
        return answer


@pytest.mark.parametrize("by", ["engine", "sessions"])
def test_an_unknown_outcome_that_a_callback_catches(engine: sa.Engine, by: str) -> None:
    """It is no success: who has called is to ask."""
    attempts = []

    def forgets(scope: sa.Connection | orm.Session) -> str:
        attempts.append(scope)
        scope.execute(sa.insert(Account).values(id=1, balance=0))
        connection = scope.connection() if isinstance(scope, orm.Session) else scope
        used: Any = connection.connection.dbapi_connection
        used._session = _Unheard(used._session)
        with suppress(exc.OperationalError):
            scope.commit()
        return "done"

    with pytest.raises(exc.OperationalError) as caught:
        run_transaction(orm.sessionmaker(engine) if by == "sessions" else engine, forgets)
    assert isinstance(caught.value.orig, dbapi.CommitStateUnknown)
    assert 1 == len(attempts)
    with engine.connect() as connection:
        assert [(1,)] == connection.execute(sa.select(Account.id)).all()

"""The dialect without Spark: what it writes, what it reads of SHOW CREATE TABLE, its ids."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.ddl.base import ColumnDefault
from sqlalchemy import exc

from sqlalchemy_txns import MAP, STRUCT, _ids
from sqlalchemy_txns._reflection import parse_create_table
from sqlalchemy_txns.connect import ConnectDialect
from sqlalchemy_txns.session import SessionDialect
from sqlalchemy_txns.thrift import ThriftDialect
from txns_spark import dbapi

T = sa.Table(
    "t",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("user", sa.String),
    sa.Column("note", sa.String, server_default="it's: new"),
)
UUID = uuid.UUID("0123456789abcdef0123456789abcdef")


def sql(statement: Any, **options: Any) -> str:
    return " ".join(str(statement.compile(dialect=SessionDialect(), **options)).split())


def test_an_insert_carries_ids_and_defaults() -> None:
    assert "INSERT INTO t (id, `user`, note) VALUES (?, ?, 'it\\'s: new')" == sql(
        sa.insert(T), column_keys=["user"]
    )
    assert "INSERT INTO t (id, note) VALUES (?, ?)" == sql(sa.insert(T), column_keys=["id", "note"])
    many = sql(sa.insert(T).values([{"user": "a"}, {"user": "b"}]))
    assert 2 == many.count("it\\'s")
    rows = sql(sa.insert(T).from_select(["user"], sa.select(sa.literal_column("1"))))
    assert "shiftrightunsigned(xxhash64(uuid()), 1)" in rows


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (sa.select(T.c.id).limit(5), "LIMIT CAST(? AS INT)"),
        (sa.select(T.c.id).where(T.c.user.is_distinct_from("a")), "NOT (t.`user` <=> ?)"),
        (sa.select(T.c.id).where(T.c.user.regexp_match("a")), "t.`user` RLIKE ?"),
        (sa.select(T.c.id).with_for_update(), "/* FOR UPDATE */"),
        (sa.select(T.c.id).with_for_update(nowait=True), "/* FOR UPDATE */"),
        (sa.select(T.c.id).with_for_update(read=True, of=T), "/* FOR UPDATE */"),
        (sa.select(sa.func.now()), "current_timestamp()"),
        (sa.cast(T.c.id, STRUCT({"a b": sa.Integer})), "STRUCT<`a b`: BIGINT>"),
        (sa.cast(T.c.id, MAP(sa.String, sa.ARRAY(sa.Float))), "MAP<STRING, ARRAY<DOUBLE>>"),
    ],
)
def test_a_construct_is_spelled_for_spark(statement: Any, text: str) -> None:
    assert text in sql(statement)


def test_no_row_is_locked_and_so_none_is_skipped() -> None:
    """Two consumers of a queue that take what the other one has not locked would take the same."""
    with pytest.raises(exc.CompileError, match=r"skip_locked.*no row is locked.*leave it out"):
        sql(sa.select(T.c.id).limit(1).with_for_update(skip_locked=True))


@pytest.mark.filterwarnings("ignore:keys, checks and indexes")
def test_a_check_of_a_column_is_kept_with_the_tables() -> None:
    table = sa.Table(
        "c", sa.MetaData(), sa.Column("a", sa.Integer, sa.CheckConstraint("a > 1", name="ok"))
    )
    created = sql(sa.schema.CreateTable(table))
    assert "( a BIGINT ) USING iceberg" in created
    kept = """{"name": "ok", "kind": "check", "sqltext": "a > 1"}"""
    assert f"'sqlalchemy.constraint.ok' = '{kept}'" in created


def test_a_date_and_time_is_a_date_where_the_column_is_one() -> None:
    moment = sa.literal(dt.datetime(2012, 10, 15, 12, 57), sa.Date)  # noqa: DTZ001  (has no zone)
    assert "DATE'2012-10-15'" in sql(sa.select(moment), compile_kwargs={"literal_binds": True})


class Doubled(sa.TypeDecorator[int]):
    """A type of a user, which says itself what a literal of it is."""

    impl = sa.Integer
    cache_ok = True

    def process_literal_param(self, value: Any, dialect: Any) -> Any:
        del dialect
        return 2 * value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (sa.literal(-3), "(-3)"),
        (-sa.literal(-3), "-(-3)"),
        (sa.literal(-3, Doubled), "(-6)"),
        (sa.literal(Decimal("-1.50")), "(-1.50BD)"),
        (sa.literal(-1.5), "(-1.5D)"),
        (sa.literal(None, sa.Integer), "NULL"),
        (sa.literal("it's ${x} \\"), "CAST(X'" + b"it's ${x} \\".hex() + "' AS STRING)"),
        (sa.literal("it's", sa.Enum("it's")), "CAST(X'" + b"it's".hex() + "' AS STRING)"),
        (sa.literal({"a": "\\"}, sa.JSON), "CAST(X'" + b'{"a": "\\\\"}'.hex() + "' AS STRING)"),
        (sa.literal(UUID), f"'{UUID}'"),
        (sa.literal(UUID.hex, sa.Uuid(as_uuid=False)), f"'{UUID}'"),
        (sa.literal([-1, 2], sa.ARRAY(sa.Integer)), "array((-1), 2)"),
        (sa.literal({"a": 1}, STRUCT({"a": sa.Integer})), "named_struct('a', 1)"),
        (sa.literal(b"x"), "X'78'"),
        (sa.literal(dt.time(1, 2)), "'01:02:00'"),
    ],
)
def test_a_literal_is_the_one_that_the_driver_writes(value: Any, text: str) -> None:
    assert f"SELECT {text} AS v" == sql(
        sa.select(value.label("v")), compile_kwargs={"literal_binds": True}
    )


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(exc.CompileError, match="bind it"):
        sql(sa.select(sa.literal(object())), compile_kwargs={"literal_binds": True})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (sa.Uuid(), [UUID]),
        (sa.UUID(), [UUID]),
        (sa.Uuid(native_uuid=False), [UUID]),
        (sa.Uuid(as_uuid=False), [str(UUID), UUID.hex, str(UUID).upper()]),
    ],
)
def test_a_uuid_is_bound_as_spark_writes_it(kind: Any, values: list[Any]) -> None:
    """With dashes, however it is given; what comes back has the class of the type."""
    dialect = SessionDialect()
    bind = kind.dialect_impl(dialect).bind_processor(dialect)
    result = kind.dialect_impl(dialect).result_processor(dialect, None)
    assert {str(UUID)} == {bind(value) for value in values}
    assert values[0] == result(str(UUID))
    assert bind(None) is None


@pytest.mark.parametrize(
    "statement",
    [
        sa.select(T.c.id).fetch(5),
        sa.update(T).values(user="a").where(T.c.id == sa.table("o", sa.column("id")).c.id),
    ],
)
def test_what_spark_has_not_is_refused_by_name(statement: Any) -> None:
    with pytest.raises(exc.CompileError, match=r"FETCH|UPDATE"):
        sql(statement)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        (sa.schema.CreateSequence(sa.Sequence("s")), "CREATE SEQUENCE s"),
        (sa.schema.DropSequence(sa.Sequence("s")), "DROP SEQUENCE s"),
        (
            sa.schema.CreateTable(
                sa.Table("c", sa.MetaData(), sa.Column("a", sa.Integer, sa.Computed("1")))
            ),
            "CREATE TABLE c (a GENERATED",
        ),
        (ColumnDefault("t", "note", sa.DefaultClause("x")), "ALTER TABLE t ALTER COLUMN note SET"),
    ],
)
def test_ddl_that_is_not_offered_is_refused_as_the_database_would(
    statement: Any, name: str
) -> None:
    with pytest.raises(exc.NotSupportedError) as caught:
        sql(statement)
    assert name in str(caught.value)
    assert isinstance(caught.value.orig, dbapi.NotSupportedError)
    assert "0A000" == caught.value.orig.sqlstate


def test_text_in_ddl_is_not_a_variable_of_spark() -> None:
    comment = sa.Table("c", sa.MetaData(), sa.Column("a", sa.Integer), comment="${env:HOME} $")
    assert "COMMENT '\\u0024{env:HOME} $'" in sql(sa.schema.CreateTable(comment))


def test_a_session_that_is_lost_in_commit_is_a_disconnect() -> None:
    """The pool is not to hand it out again; that nobody knows the outcome is said besides."""
    unknown = dbapi.CommitStateUnknown("maybe", txn_id="x")
    assert not SessionDialect().is_disconnect(unknown, None, None)
    unknown.__cause__ = dbapi.ConnectionLost("gone")
    assert SessionDialect().is_disconnect(unknown, None, None)
    assert not SessionDialect().is_disconnect(dbapi.OperationalError("busy"), None, None)


def test_show_create_table_is_taken_apart() -> None:
    found = parse_create_table(
        "CREATE TABLE lake.db.odd (name) (\n"
        "  id BIGINT NOT NULL COMMENT 'it\\'s, (the) id',\n"
        "  `a, b` STRUCT<x: INT NOT NULL, y: DECIMAL(5,2)>,\n"
        "  m MAP<STRING, ARRAY<INT>>)\n"
        "USING iceberg\n"
        "PARTITIONED BY (days(t), bucket(4, id))\n"
        "COMMENT 'all'\n"
        "LOCATION '/x'\n"
        "TBLPROPERTIES (\n"
        "  'format' = 'iceberg/parquet',\n"
        "  'k' = '{\"a\": [1, \"it\\'s\"]}')\n"
    )
    assert ["id", "a, b", "m"] == [column["name"] for column in found.columns]
    assert [False, True, True] == [column["nullable"] for column in found.columns]
    assert "it's, (the) id" == found.columns[0]["comment"]
    assert isinstance(found.columns[1]["type"], STRUCT)
    assert isinstance(found.columns[2]["type"], MAP)
    assert ["days(t)", "bucket(4, id)"] == found.partition_by
    assert "all" == found.comment
    assert '{"a": [1, "it\'s"]}' == found.properties["k"]


@pytest.mark.parametrize(
    ("dialect", "url", "arguments"),
    [
        (SessionDialect, "txns://", ((), {})),
        (
            SessionDialect,
            "txns+session:///lake/a/b?warehouse=/w&spark.x=1&isolation_level=SNAPSHOT",
            (
                (),
                {
                    "catalog": "lake",
                    "schema": "a.b",
                    "warehouse": "/w",
                    "isolation_level": "SNAPSHOT",
                    "config": {"spark.x": "1"},
                },
            ),
        ),
        (
            ConnectDialect,
            "txns+connect://me:secret@h:1/lake",
            (
                ("h", 1),
                {
                    "catalog": "lake",
                    "parameters": {"user_id": "me", "token": "secret"},
                    "config": {},
                },
            ),
        ),
        (
            ThriftDialect,
            "txns+thrift://me@h/lake/db?auth=NOSASL",
            (
                ("h", None),
                {
                    "catalog": "lake",
                    "schema": "db",
                    "auth": "NOSASL",
                    "username": "me",
                    "config": {},
                },
            ),
        ),
    ],
)
def test_a_url_becomes_arguments(dialect: Any, url: str, arguments: Any) -> None:
    assert arguments == dialect().create_connect_args(sa.make_url(url))


def test_ids_ascend_and_a_forked_process_takes_another_place() -> None:
    first, second = _ids.new_id(), _ids.new_id()
    assert first + 1 == second
    assert 2**32 <= first < 2**63
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(_ids.new_id()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert abs(int(os.read(reader, 100)) - second) > 2**20


def test_a_transaction_that_rolled_back_has_created_nothing() -> None:
    """The token is asked for again, because the CREATE TABLE may be gone."""
    ids = _ids.Ids()
    token = ids.token(T)
    ids._tokens.clear()
    ids._counts[None, "t"] = 5
    ids._found[1] = {(None, "t"): token}
    assert 5 == ids.new_id(None, "t")
    ids.note(T, 17)
    assert 18 == ids.new_id(None, "t")

    class Connection:
        pass

    ids._found[id(Connection)] = ids._found.pop(1)
    ids.rolled_back(Connection)
    assert {(None, "t"): token} == ids._tokens


@pytest.mark.parametrize(
    "url",
    [
        "txns+connect://mara@host/lake?token=s3cret%3D%3D&use_ssl=true",
        "txns+connect://mara:s3cret@host/lake",
        "txns+thrift://mara:s3cret@host/lake?spark.hadoop.fs.s3a.secret.key=s3cret",
        "txns://?uri=jdbc:postgresql://db/lake?password=s3cret&warehouse=s3://lake",
        "txns:///lake?uri=jdbc%3Apostgresql%3A%2F%2Fmara%3As3cret%40db",
    ],
)
def test_an_engine_shows_no_secret(url: str) -> None:
    engine = sa.create_engine(url)
    assert "s3cret" not in f"{engine!r} {engine.url} {engine.url!r}"
    assert sa.make_url(url) == engine.url
    assert "s3cret" in engine.url.render_as_string(hide_password=False)
    assert "s3cret" not in str(engine.url.update_query_dict({"isolation_level": "SNAPSHOT"}))

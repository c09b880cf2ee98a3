"""What `txns verify-isolation` looks at before it begins, and what it leaves of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, text

from txns._cli import exit_codes, main
from txns._verify import run as verify_run
from txns._verify.model import Row
from txns._verify.statements import arrow
from txns._verify.workloads import EVENTS, LISTS, TABLES
from txns.errors import Unsupported

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    import txns
    from tests.txns.lake import Lake

NAMESPACE = "txns_verify_0"
BOUNDLESS_S = 3600
"""Who begins a run all the same is not waited for."""


def _verify(lake: Lake, *options: str) -> Result:
    where = ["--uri", f"sqlite:///{lake.folder}/catalog.db?timeout=30", "--catalog", "lake"]
    where += ["--warehouse", f"file://{lake.folder}/warehouse", "verify-isolation"]
    out = ["--out", str(lake.folder / "told"), "--seconds", str(BOUNDLESS_S)]
    return CliRunner().invoke(main, [*where, *out, *options], standalone_mode=False)


@pytest.mark.parametrize("below", ["", "deeper", "deeper/still"])
def test_a_folder_that_cannot_be_made_is_told_first(lake, below):
    """Before there is a log."""
    (lake.folder / "file").write_text("")
    done = _verify(lake, "--out", str(lake.folder / "file" / below))
    assert isinstance(done.exception, click.UsageError)
    assert "--out" in done.exception.format_message()
    assert ("txns",) not in lake.catalog.list_namespaces()


def test_where_transactions_are_off_no_run_begins(lake, handle):
    """It would find out at its end that none has begun."""
    handle.off()
    done = _verify(lake)
    assert isinstance(done.exception, Unsupported)
    assert exit_codes.USAGE == exit_codes.code(done.exception)
    assert "txns on" in str(done.exception)
    assert [] == [*(lake.folder / "told").iterdir()]
    assert [("shop",), ("txns",)] == sorted(lake.catalog.list_namespaces())


@pytest.mark.slow
@pytest.mark.usefixtures("handle")
def test_who_may_not_make_tables_is_told(lake):
    """The namespace goes, and no folder is left."""
    with create_engine(f"sqlite:///{lake.folder}/catalog.db").begin() as connection:
        refuses = "BEGIN SELECT only_the_owner_writes(); END"
        for what in ("INSERT", "UPDATE"):
            connection.execute(
                text(f"CREATE TRIGGER no_{what} BEFORE {what} ON iceberg_tables {refuses}")
            )
    done = _verify(lake)
    assert isinstance(done.exception, click.UsageError), done.exception
    told = str(done.exception)
    assert "its tables cannot be made" in told
    assert "only_the_owner_writes" in told
    assert [] == [*(lake.folder / "told").iterdir()]
    assert [("shop",), ("txns",)] == sorted(lake.catalog.list_namespaces())


def _made(lake: Lake, handle: txns.Handle) -> dict[str, str]:
    lake.catalog.create_namespace(NAMESPACE)
    names = {name: f"{NAMESPACE}.{name}" for name in TABLES}
    verify_run.make_tables(handle, names)
    return names


def _files(lake: Lake) -> list[Path]:
    return [path for path in lake.folder.rglob(f"*{NAMESPACE}*/**/*") if path.is_file()]


def test_files_of_sessions_that_were_killed_go_with_their_tables(lake, handle):
    """Nobody else would ever find them: the tables are gone."""
    names = _made(lake, handle)
    killed = handle.begin()
    killed.load_table(names[EVENTS]).append(arrow([Row(1, 1, 1)]))
    assert len(_files(lake)) > len(TABLES)
    verify_run.drop_tables(handle, names)
    assert [] == _files(lake)


def test_files_of_others_stay(lake, handle):
    """A catalog may put a table where others have files."""
    names = _made(lake, handle)
    shared = lake.folder / "shared"
    verify_run.drop_tables(handle, {LISTS: names.pop(LISTS)})
    table = lake.catalog.create_table(
        f"{NAMESPACE}.lists", arrow([]).schema, location=f"file://{shared}"
    )
    (shared / "of_others.parquet").write_text("")
    verify_run.drop_tables(handle, {**names, LISTS: ".".join(table.name())})
    assert ["of_others.parquet"] == [path.name for path in shared.rglob("*") if path.is_file()]


def test_files_that_a_property_has_put_elsewhere_go_with_their_table(lake):
    """They are not in its folder; what others have there stays."""
    shared = lake.folder / "shared"
    handle = lake.open(create_locations=f"file://{shared}")
    names = _made(lake, handle)
    verify_run.drop_tables(handle, {EVENTS: names[EVENTS]})
    elsewhere = {"write.data.path": f"file://{shared}/events"}
    table = handle.catalog().create_table(names[EVENTS], arrow([]).schema, properties=elsewhere)
    table.append(arrow([Row(1, 1, 1)]))
    (shared / "events" / "of_others.parquet").write_text("")
    assert len([*shared.rglob("*.parquet")]) > 1
    verify_run.drop_tables(handle, names)
    assert [] == _files(lake)
    assert ["of_others.parquet"] == [path.name for path in shared.rglob("*.parquet")]

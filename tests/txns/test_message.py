"""What people are shown holds no secret, and moves no terminal."""

from __future__ import annotations

import io
import json
import logging
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.txns.lake import rows
from txns._cli import main
from txns._cli.options import Lake as Options
from txns._logger import logger
from txns._message import masked, message, printable
from txns.errors import CommitStateUnknown, Conflict, Winner

GOLDEN = json.loads((Path(__file__).parents[2] / "docs/golden/messages.json").read_text("utf-8"))
# Copies to the clipboard, clears the screen, forges a line, and turns the direction of writing.
FORGED = "fine\x1b]52;c;eA==\x07\x1b[2J\n5 entries, all hold\r\u202egpj.exe\x9b31m\u2028"
MOVES = "\x1b\x07\r\u202e\x9b\u2028"


@pytest.mark.parametrize(("text", "shown"), GOLDEN["masked"])
def test_secrets_are_masked(text, shown):
    assert shown == masked(text)


@pytest.mark.parametrize(("text", "shown"), GOLDEN["printable"])
def test_what_moves_a_terminal_is_written_as_escapes(text, shown):
    assert shown == printable(text)


def test_errors_are_both():
    error = Conflict("read by mara:s3cret@host", table=("shop", FORGED), txn_id="1")
    assert "mara:***@host" in str(error)
    assert printable(str(error)) == str(error)
    assert FORGED in error.table


@pytest.mark.parametrize("txn_id", ["job:17@eu", "token=7", "x://a:b@c"])
def test_an_id_that_looks_like_a_secret_stays_as_it_is(txn_id):
    """Whoever asks for an outcome takes it from the message."""
    assert f"begin(txn_id='{txn_id}')" in str(CommitStateUnknown(txn_id))
    clash = str(Conflict("x", txn_id=txn_id, winner=Winner(txn_id, "engine", "a:s3cret@b")))
    assert f"txn=`{txn_id}` clashed_with=`{txn_id}`" in clash
    assert "s3cret" not in clash


@pytest.mark.parametrize(
    "arguments",
    [
        ["--uri", "postgresql+psycopg://mara:s3cret@127.0.0.1:1/db"],
        ["--uri", "postgresql://mara:s3cret@127.0.0.1:1/db", "-p", "type=nothing"],
        ["--uri", "postgres:/mara:s3cret@127.0.0.1:1/db"],
        ["-p", "py-catalog-impl=no.such.Catalog", "-p", "s3.secret-access-key=s3cret"],
        ["--ury", "postgresql://mara:s3cret@127.0.0.1:1/db"],
        ["-p", "s3cret"],
    ],
    ids=lambda value: " ".join(value)[:40],
)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_the_command_line_shows_no_secret(arguments, debug):
    """Where the catalog cannot be opened, its options are in the error; some are mistyped."""
    result = CliRunner().invoke(main, [*debug, *arguments, "status"])
    assert 2 == result.exit_code
    assert "s3cret" not in result.output


def test_a_repr_shows_no_secret():
    options = Options(uri="x://mara:s3cret@host", properties={"token": "s3cret"})
    assert "s3cret" not in repr(options)


def test_the_log_forges_nothing(lake):
    """A comment is others' words: on a terminal as escapes, and in JSON as JSON's."""
    a = lake.table("a", [1])
    with lake.open().begin(txn_id="forged", comment=FORGED) as txn:
        txn.load_table(a).append(rows(2))
    uri = f"sqlite:///{lake.folder}/catalog.db"

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["--catalog", "lake", "--uri", uri, *arguments])
        assert not set(MOVES) & set(result.output)
        return result.output

    for arguments in (["log"], ["show", "forged"], ["show", f"none {FORGED}"], ["check"]):
        assert "\n5 entries" not in run(*arguments)
    comments = [json.loads(line)["comment"] for line in run("log", "--json").splitlines()]
    assert FORGED in comments


def test_the_log_of_a_failure_shows_no_secret(lake, caplog):
    """What a catalog says of a failing apply has its own options; the traceback stays, masked."""
    a = lake.table("a", [1])
    catalog = lake.another_catalog()
    commit = catalog.commit_table

    def refuse(table, *changes):
        if table.name() == ("shop", "a"):
            raise OSError("no connection to postgresql://mara:s3cret@db/x?password=s3cret\n5 hold")
        return commit(table, *changes)

    catalog.commit_table = refuse
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logging.getLogger("txns").addHandler(handler)
    try:
        with caplog.at_level(logging.DEBUG, "txns"):
            lake.open(catalog).catalog().load_table(a).append(rows(2))
    finally:
        logging.getLogger("txns").removeHandler(handler)
    for text in (shown.getvalue(), caplog.text):
        assert "entries stay unapplied" in text
        assert "table=shop.a" in text
        assert "OSError: no connection to postgresql://mara:***@db/x?password=***" in text
        assert "in refuse" in text
        assert "s3cret" not in text


def test_every_logger_masks():
    """Modules take theirs from `_logger`; nobody else's records are touched."""
    known = logging.root.manager.loggerDict.items()  # with placeholders for packages
    modules = {
        name
        for name, found in known
        if name.startswith("txns.") and isinstance(found, logging.Logger)
    }
    assert "txns._commit.apply" in modules
    masking = logger("txns._commit.apply").filters
    assert all(logging.getLogger(name).filters == masking for name in modules)
    assert masking != logging.getLogger("pyiceberg").filters


@pytest.mark.parametrize("others", ["/:", "a.", "//a:", "x=", "token=a,b"])
def test_a_long_text_is_shown_by_its_ends(others):
    """A record may have millions of characters: who reads it waits for none of them."""
    begun = time.monotonic()
    shown = message("password=hunter2 " + others * (1_000_000 // len(others)) + " token=abc; cure")
    assert time.monotonic() - begun < 5
    assert shown.startswith("password=*** ")
    assert shown.endswith(" token=***; cure")
    assert len(shown) < 11_000


@pytest.mark.parametrize("at", range(4980, 5021, 4))
def test_a_secret_at_a_cut_stays_one(at):
    begins = "x" * at + " password=hunter2 " + "y" * 20_000
    assert "hunter" not in message(begins)
    assert "hunter" not in message("y" * 20_000 + " password=hunter2 " + "x" * at)

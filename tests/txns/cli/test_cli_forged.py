"""Forged records: `txns status` names the command that takes each out, and it does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table.update import SetPropertiesUpdate

from tests.txns import forged as forger
from tests.txns.forged import log_creation, log_entry, log_forged
from tests.txns.lake import ids, rows
from txns._admin.health import health
from txns._iceberg import manifests
from txns._log.change import Change, Operation
from txns._log.commit_log import CommitLog
from txns._log.entry import NO_PAYLOAD, Kind, Payload

if TYPE_CHECKING:
    from txns import Handle

AWAY = "no repair ends that: rename that one away with plain Iceberg"
GHOST = str(UUID(int=5))
EMPTY = '{"identifier":{"namespace":["%s"],"name":"%s"},"requirements":[%s],"updates":[%s]}'
MAIN = '{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":99}'
ASSIGNS = f'{{"action":"assign-uuid","uuid":"{GHOST}"}}'


def _changes(space: str, name: str, requirement: str = "", update: str = "") -> Payload:
    element = EMPTY % (space, name, requirement, ",".join(filter(None, (update, MAIN))))
    return Payload(inline=f'{{"table-changes":[{element}]}}')


def _of(shop, name: str) -> tuple[str, int | None]:
    metadata = shop.catalog.load_table(name).metadata
    return str(metadata.table_uuid), metadata.current_snapshot_id


def _a_table_that_is_not_there(_shop):
    return Change(("shop", "ghost"), GHOST, Operation.APPEND, 1, 99, 1, 0), _changes(
        "shop", "ghost"
    )


def _a_namespace_that_is_not_there(_shop):
    return Change(("no", "ghost"), GHOST, Operation.APPEND, 1, 99, 1, 0), _changes("no", "ghost")


def _a_creation_of_nothing(_shop):
    change = Change(("shop", "ghost"), GHOST, Operation.CREATE, None, 99, 1, 0)
    return change, _changes("shop", "ghost", '{"type":"assert-create"}', ASSIGNS)


def _the_commit_table(shop):
    uuid, main = _of(shop, "txns.commits")
    return Change(("txns", "commits"), uuid, Operation.APPEND, main, 99, 1, 0), _changes(
        "txns", "commits"
    )


def _a_payload_that_is_none(shop):
    uuid, main = _of(shop, "shop.a")
    return Change(("shop", "a"), uuid, Operation.APPEND, main, 99, 1, 0), Payload(
        inline='{"table-changes":[{}]}'
    )


def _a_payload_elsewhere(shop):
    uuid, main = _of(shop, "shop.a")
    elsewhere = Payload(location="file:///elsewhere", sha256="0" * 64)
    return Change(("shop", "a"), uuid, Operation.APPEND, main, 99, 1, 0), elsewhere


def _another_table_by_name(shop):
    uuid, main = _of(shop, "shop.b")
    return Change(("shop", "a"), uuid, Operation.APPEND, main, 99, 1, 0), _changes("shop", "a")


def _a_table_that_was_never_in_care(shop):
    shop.table("plain", [1, 2], register=False)
    uuid, main = _of(shop, "shop.plain")
    change = Change(("shop", "plain"), uuid, Operation.APPEND, main, 99, 1, 0)
    return change, _changes("shop", "plain")


def _a_table_created_again_that_was_never_there(_shop):
    change = Change(("shop", "ghost"), GHOST, Operation.CREATE, 1, 99, 1, 0)
    return change, _changes("shop", "ghost")


def _a_snapshot_that_is_not_there(shop):
    uuid, main = _of(shop, "shop.a")
    change = Change(("shop", "a"), uuid, Operation.APPEND, main, 99, 1, 0)
    return change, _changes("shop", "a")


def _an_update_that_fits_no_table(shop):
    uuid, main = _of(shop, "shop.a")
    older = '{"action":"upgrade-format-version","format-version":1}'
    change = Change(("shop", "a"), uuid, Operation.APPEND, main, 99, 1, 0)
    return change, _changes("shop", "a", update=older)


@pytest.mark.parametrize(
    "forged",
    [
        _a_table_that_is_not_there,
        _a_namespace_that_is_not_there,
        _a_creation_of_nothing,
        _the_commit_table,
        _a_payload_that_is_none,
        _a_payload_elsewhere,
        _another_table_by_name,
        _a_table_that_was_never_in_care,
        _a_table_created_again_that_was_never_there,
        _a_snapshot_that_is_not_there,
        _an_update_that_fits_no_table,
    ],
    ids=lambda one: one.__name__.strip("_").replace("_", " "),
)
def test_status_leads_out_of_a_forged_record(shop, cli, forged):
    """What it names is run as it stands there, and nothing is left to say afterwards."""
    log_entry(shop.open(), *forged(shop))
    _go_by_status(shop, cli)


def _go_by_status(shop, cli):
    void = re.findall(r"`txns (recover --void [0-9]+[^`]*)`", cli("status").stdout)
    assert void, cli("status").output
    done = cli(*shlex.split(void[0]))
    assert 0 == done.exit_code, done.output
    for adopt in re.findall(r"`txns (repair adopt [^`]+)`", cli("status").stdout):
        assert 0 == cli(*shlex.split(adopt)).exit_code
    assert 0 == cli("apply").exit_code
    checked = cli("check")
    assert 0 == checked.exit_code, checked.output
    handle = shop.open(shop.another_catalog())
    for name in ("shop.a", "shop.b"):
        handle.catalog().load_table(name).append(rows(3))
        assert [1, 2, 3] == ids(handle.snapshot().load_table(name))


def _with_creation(shop) -> tuple[Handle, str]:
    """Give a handle that has logged a creation, and the folder of its table."""
    handle = shop.open(apply="next")
    handle.catalog().create_table("shop.new", shop.catalog.load_table("shop.a").schema())
    handle.apply_le()
    return handle, shop.catalog.load_table("shop.new").location()


@pytest.mark.parametrize("place", ["file:///elsewhere/forged", "{own}/no/forged"])
def test_status_leads_out_of_a_creation_without_a_namespace(shop, cli, caplog, place):
    handle, folder = _with_creation(shop)
    place = place.format(own=folder.removesuffix("/shop/new"))
    log_creation(handle, place, f"{place}/metadata/snap-7.avro", namespace="no")
    assert 1 == cli("apply").exit_code
    assert "Traceback" not in caplog.text
    assert "tries again" not in caplog.text
    _go_by_status(shop, cli)


def test_status_leads_out_of_a_creation_whose_manifest_list_is_not_there(shop, cli):
    handle, folder = _with_creation(shop)
    place = folder.replace("/new", "/forged")
    log_creation(handle, place, f"{place}/metadata/snap-7.avro")
    said = cli("status").stdout
    assert "shop.forged: quarantine: a logged change adds a snapshot whose manifest list" in said
    assert "repair" not in said
    _go_by_status(shop, cli)


@pytest.mark.parametrize(
    ("number", "properties"),
    [(2**63 - 1, {}), (None, {"schema.name-mapping.default": "{"})],
)
def test_status_leads_out_of_what_nobody_could_go_on_with(shop, cli, number, properties):
    """Of a table that has taken the last number, or that a library cannot read."""
    table = shop.catalog.load_table("shop.a")
    own = f"{table.location()}/metadata/snap-7.avro"
    listed = table.current_snapshot().manifest_list
    Path(own.removeprefix("file://")).write_bytes(Path(listed.removeprefix("file://")).read_bytes())
    log_forged(shop.open(), table, [own, SetPropertiesUpdate(updates=properties)], number=number)
    assert 1 == cli("apply").exit_code
    _go_by_status(shop, cli)


def test_a_creation_waits_for_a_namespace_that_somebody_dropped(shop, cli):
    """It is acknowledged: who makes the namespace again has the table."""
    own = {"location": f"{shop.folder}/elsewhere"}
    shop.catalog.create_namespace("late", own)
    handle = shop.open(apply="next")
    handle.catalog().create_table("late.new", shop.catalog.load_table("shop.a").schema())
    shop.catalog.drop_namespace("late")
    assert "create the namespace again and apply" in cli("apply").output
    said = cli("status").stdout
    assert "late.new: quarantine: " in said
    assert "create the namespace again and apply" in said
    shop.catalog.create_namespace("late", own)
    assert 0 == cli("apply").exit_code
    assert shop.catalog.table_exists("late.new")
    assert "quarantine" not in cli("status").stdout


def test_a_creation_of_a_format_that_another_library_writes_is_unapplied(shop, monkeypatch):
    handle, folder = _with_creation(shop)
    place = folder.replace("/new", "/forged")
    log_creation(handle, place, f"{place}/metadata/snap-7.avro")
    monkeypatch.setattr(manifests, "WRITABLE_FORMAT", 1)
    [made] = [each for each in health(handle.parts).tables if each.name == "shop.forged"]
    assert ("unapplied", "") == (made.state, made.words)


def test_a_server_that_fails_is_no_creation_without_a_namespace(shop, monkeypatch):
    shop.catalog.create_namespace("late", {"location": f"{shop.folder}/elsewhere"})
    handle = shop.open(apply="next")
    handle.catalog().create_table("late.new", shop.catalog.load_table("shop.a").schema())

    def failing(*_):
        raise ServiceUnavailableError("for a moment")

    others = shop.open(shop.another_catalog())
    with monkeypatch.context() as patched:
        patched.setattr(others.parts.catalog, "load_namespace_properties", failing)
        assert [("late", "new")] == others.apply_le()
        [late] = [each for each in health(others.parts).tables if each.name == "late.new"]
        assert ("unapplied", "") == (late.state, late.words)
    assert [] == others.apply_le()


def test_nothing_is_left_to_say_of_a_record_that_has_the_id_of_another(shop, cli, monkeypatch):
    """Nothing of it can be told, but its upper counts: the log has gone on to that."""
    handle = shop.open()
    with handle.begin(txn_id="mine") as txn:
        txn.load_table("shop.b").append(rows(3))
    with monkeypatch.context() as patched:
        patched.setattr(forger, "FORGED_ID", "mine")
        patched.setattr(CommitLog, "_made", lambda *_: None)  # it would read it
        ts = log_entry(handle, *_a_table_that_is_not_there(shop))
    said = cli("status").output
    assert f"at {ts - 1} and {ts}; if one record is to blame, `txns recover --void`" in said
    assert 0 == cli("recover", "--void", ts).exit_code
    checked = cli("check")
    assert 0 == checked.exit_code, checked.output
    assert 1 == sum(each["commit_ts"] == ts for each in shop.open().transactions())


def test_a_record_that_gives_a_table_the_name_of_another_one(shop, cli):
    """What is logged of b is looked for as a from then on: status says so, and how that ends."""
    later = shop.open(apply="next")
    later.catalog().load_table("shop.b").append(rows(3))
    uuid, main = _of(shop, "shop.b")
    named = Change(("shop", "a"), uuid, Operation.ALTER, main, main + 1)
    ts = log_entry(later, named, NO_PAYLOAD, Kind.REGISTER)
    assert 1 == cli("apply").exit_code
    said = cli("status").stdout
    assert (
        f"shop.a: quarantine: another table stands under the name of a logged one: {AWAY}" in said
    )
    [void] = re.findall(r"`txns (recover --void [0-9]+ --sound)`", said)
    assert f"--void {ts} " in void
    assert 0 == cli(*shlex.split(void)).exit_code
    assert 0 == cli("apply").exit_code
    checked = cli("check")
    assert 0 == checked.exit_code, checked.output
    assert [1, 2, 3] == shop.plain_ids("shop.b")


def test_no_reject_is_named_for_a_table_that_was_set_back(shop, cli):
    """It is refused."""
    before = shop.catalog.load_table("shop.a").metadata_location
    shop.open().catalog().load_table("shop.a").append(rows(3))
    shop.open().tidy()
    shop.catalog.drop_table("shop.a")
    shop.catalog.register_table("shop.a", before)
    for command in ("status", "check"):
        said = cli(command).stdout
        assert "`txns repair adopt shop.a`" in said
        assert "reject" not in said

"""What clashes and what does not: docs/isolation.md, in Python."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.types import LongType

import txns
from tests.txns.lake import ids, rows

LEVELS = ["SNAPSHOT", "SERIALIZABLE", "STRICT SERIALIZABLE"]


@pytest.mark.parametrize("level", LEVELS)
def test_lost_update(lake, handle, level):
    """Two that write over one table: the second gets a conflict that says what to do."""
    a = lake.table("a", [1, 2])
    one, two = (handle.begin(isolation=level) for _ in range(2))
    one.load_table(a).delete("id = 1")
    two.load_table(a).delete("id = 2")
    one.commit()
    before = lake.files()
    with pytest.raises(txns.Conflict) as raised:
        two.commit()
    error = raised.value
    assert ("40001", "shop.a", two.txn_id, one.txn_id, one.committed.commit_ts) == (
        error.sqlstate,
        error.table,
        error.txn_id,
        error.other_txn_id,
        error.least_ts,
    )
    assert [2] == lake.plain_ids(a)
    assert lake.files() < before


@pytest.mark.parametrize("level", LEVELS)
def test_appends_do_not_clash(lake, handle, level):
    """Any number of appends of one base commit, whatever order; each row is there once."""
    a = lake.table("a", [1])
    begun = [handle.begin(isolation=level) for _ in range(4)]
    for number, txn in enumerate(begun):
        txn.load_table(a).append(rows(10 + number))
        txn.load_table(a).append(rows(20 + number))
    for txn in reversed(begun):
        txn.commit()
    assert [1, 10, 11, 12, 13, 20, 21, 22, 23] == lake.plain_ids(a)
    lists = [s.manifest_list for s in lake.catalog.load_table(a).snapshots()]
    assert len(set(lists)) == len(lists)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_read_and_appended_to(lake, handle, level):
    """A row made from what was there: the second maximum plus one would be the first's again."""
    a = lake.table("a", [1])
    one, two = (handle.begin(isolation=level) for _ in range(2))
    for txn in (one, two):
        table = txn.load_table(a)
        table.append(rows(max(ids(table)) + 1))
    one.commit()
    with pytest.raises(txns.Conflict, match="read and appended to was written"):
        two.commit()
    assert [1, 2] == lake.plain_ids(a)


def test_an_append_that_pyiceberg_merged_is_restaged(lake, handle):
    """Manifests that hold older entries as well are written again, rows once."""
    a = lake.table("a", [1])
    with handle.begin() as txn, txn.load_table(a).transaction() as alter:
        alter.set_properties(
            {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "1"}
        )
    one, two = handle.begin(), handle.begin()
    one.load_table(a).append(rows(2))
    two.load_table(a).append(rows(3))
    two.load_table(a).append(rows(4))
    one.commit()
    two.commit()
    assert [1, 2, 3, 4] == lake.plain_ids(a)


@pytest.mark.parametrize(
    ("level", "clashes"), [(LEVELS[0], False), (LEVELS[1], True), (LEVELS[2], True)]
)
def test_write_skew(lake, handle, level, clashes):
    """Each reads both tables and appends to one."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    one, two = (handle.begin(isolation=level) for _ in range(2))
    for txn, target in ((one, a), (two, b)):
        ids(txn.load_table(a))
        ids(txn.load_table(b))
        txn.load_table(target).append(rows(2))
    one.commit()
    if clashes:
        with pytest.raises(txns.Conflict, match="a table that it read was written"):
            two.commit()
    else:
        two.commit()


def test_reading_and_appending_another(lake, handle):
    """INSERT INTO b SELECT FROM a clashes with a write of a, and names the filter."""
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin()
    found = txn.load_table(a).scan(row_filter="id > 0").to_arrow()
    txn.load_table(b).append(found)
    handle.catalog().load_table(a).append(rows(2))
    with pytest.raises(txns.Conflict, match=r"filter id > 0, file .*parquet"):
        txn.commit()


def test_a_delete_of_nothing_is_a_read(lake, handle):
    """It saw that no row matches: at SERIALIZABLE that must still hold at the commit."""
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin()
    txn.load_table(a).delete("id = 5")
    txn.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(5))
    with pytest.raises(txns.Conflict):
        txn.commit()


def test_read_only_never_clashes(lake, handle):
    """It sees one timestamp to its end."""
    a = lake.table("a", [1])
    txn = handle.begin()
    handle.catalog().load_table(a).append(rows(2))
    assert [1] == ids(txn.load_table(a))
    txn.commit()


def test_two_creators(lake, handle):
    """One name, one table."""
    one, two = handle.begin(), handle.begin()
    for txn in (one, two):
        txn.create_table("shop.new", rows(1).schema).append(rows(1))
    one.commit()
    with pytest.raises(txns.Conflict):
        two.commit()
    assert [1] == lake.plain_ids("shop.new")


def test_a_name_found_absent(lake, handle):
    """What was not there must not have come."""
    b = lake.table("b")
    txn = handle.begin()
    assert not txn.table_exists("shop.new")
    txn.load_table(b).append(rows(1))
    handle.catalog().create_table("shop.new", rows(1).schema)
    with pytest.raises(txns.Conflict, match="found absent"):
        txn.commit()


def test_a_name_found_absent_that_a_table_was_renamed_to(lake, handle):
    """A table may come under a name without being created: its registration says so."""
    a, b = lake.table("a"), lake.table("b")
    txn = handle.begin()
    assert not txn.table_exists("shop.new")
    txn.load_table(b).append(rows(1))
    handle.catalog().rename_table(a, "shop.new")
    with pytest.raises(txns.Conflict, match="found absent"):
        txn.commit()


@pytest.mark.parametrize("deed", ["create", "drop", "rename", "rename away"])
def test_a_namespace_that_was_listed(lake, handle, deed):
    """The list of tables must still be the same."""
    a, b = lake.table("a", [1]), lake.table("b")
    lake.catalog.create_namespace_if_not_exists("other")
    txn = handle.begin()
    txn.list_tables("shop")
    txn.load_table(b).append(rows(1))
    if deed == "create":
        handle.catalog().create_table("shop.new", rows(1).schema)
    elif deed == "drop":
        handle.catalog().drop_table(a)
    else:
        handle.catalog().rename_table(a, "shop.z" if deed == "rename" else "other.z")
    with pytest.raises(txns.Conflict, match="namespace"):
        txn.commit()


@pytest.mark.parametrize("deed", ["drop", "forget", "rename"])
def test_a_table_that_goes_away(lake, handle, deed):
    """A running transaction that writes it finds a conflict."""
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    if deed == "drop":
        handle.catalog().drop_table(a)
    elif deed == "forget":
        handle.forget(a)
    else:
        handle.catalog().rename_table(a, "shop.z")
    with pytest.raises(txns.Conflict):
        txn.commit()


def test_an_append_after_a_compatible_and_an_incompatible_alter(lake, handle):
    """Properties may change below an append, the schema may not."""
    a = lake.table("a", [1])
    one, two = handle.begin(), handle.begin()
    for txn in (one, two):
        txn.load_table(a).append(rows(2))
    with handle.begin() as alter, alter.load_table(a).transaction() as t:
        t.set_properties({"k": "v"})
    one.commit()
    with handle.begin() as alter, alter.load_table(a).update_schema() as update:
        update.add_column("more", LongType())
    with pytest.raises(txns.Conflict, match="another schema"):
        two.commit()


def test_validated_against_the_archive(lake, handle):
    """A transaction older than what was tidied is held against the archive's rows."""
    a, b = lake.table("a", [1]), lake.table("b")
    old = handle.begin()
    ids(old.load_table(a))
    old.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(2))
    handle.tidy()
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        old.commit()


def test_as_of(lake, handle):
    """Reads at an older timestamp; writing there clashes with everything since."""
    a = lake.table("a", [1])
    then = handle.upper
    handle.catalog().load_table(a).append(rows(2))
    with pytest.raises(txns.InvalidUsage, match="STRICT"):
        handle.begin(as_of=then, isolation="STRICT SERIALIZABLE")
    txn = handle.begin(as_of=then)
    assert txns.Isolation.SERIALIZABLE is txn.isolation
    assert [1] == ids(txn.load_table(a))
    txn.load_table(a).delete("id = 1")
    with pytest.raises(txns.Conflict):
        txn.commit()
    with pytest.raises(txns.InvalidUsage, match="nothing has committed"):
        handle.begin(as_of=then + 3_600_000)


def test_run_again(lake, handle):
    """txns.run_transaction runs the callback again on a conflict, and gives its result."""
    a = lake.table("a", [1])
    attempts = []

    def callback(txn):
        attempts.append(txn.txn_id)
        table = txn.load_table(a)
        ids(table)
        if len(attempts) < 3:
            handle.catalog().load_table(a).append(rows(10 + len(attempts)))
        table.delete("id < 10")
        table.append(rows(2))
        return "done"

    assert "done" == txns.run_transaction(handle, callback)
    assert 3 == len(set(attempts))
    assert [2, 11, 12] == lake.plain_ids(a)
    with pytest.raises(txns.Conflict):
        attempts.clear()
        txns.run_transaction(handle, callback, max_attempts=1)


@pytest.mark.parametrize(("isolation", "attempts"), [("serializable", 2), ("snapshot", 1)])
def test_a_function_is_a_transaction(lake, handle, isolation, attempts):
    """Of the handle that it is called with; its options are those of BEGIN."""
    a, b = lake.table("a", [1]), lake.table("b")
    seen = []

    @txns.transactional(isolation=isolation, comment="a copy", max_attempts=3)
    def copy(txn, source, *, to):
        """Copy rows."""
        seen.append((txn.comment, ids(txn.load_table(source))))
        if len(seen) == 1:
            handle.catalog().load_table(source).append(rows(2))
        txn.load_table(to).append(rows(*seen[-1][1]))
        return len(seen)

    assert attempts == copy(handle, a, to=b)
    assert [("a copy", [1]), ("a copy", [1, 2])][:attempts] == seen
    assert seen[-1][1] == lake.plain_ids(b)
    assert ("copy", "Copy rows.") == (copy.__name__, copy.__doc__)


def test_what_would_run_after_the_commit(lake, handle):
    a = lake.table("a", [1])

    async def later(txn):
        txn.load_table(a).append(rows(2))

    def one_by_one(txn):
        txn.load_table(a).append(rows(2))
        yield 1

    async def each(txn):
        txn.load_table(a).append(rows(2))
        yield 1

    for lazy in (later, one_by_one, each):
        with pytest.raises(txns.InvalidUsage, match=lazy.__name__):
            txns.run_transaction(handle, lazy)
        with pytest.raises(txns.InvalidUsage, match=lazy.__name__):
            txns.transactional()(lazy)
        with pytest.raises(txns.InvalidUsage, match=lazy.__name__):
            txns.run_transaction(handle, lambda txn, hidden=lazy: hidden(txn))
    assert [1] == lake.plain_ids(a)


def test_what_begins_no_transaction_is_refused(lake, handle):
    """A method that is decorated is called with its object first; it may be a callback."""

    class Shop:
        def sell(self, txn):
            txn.load_table(a).append(rows(2))

        decorated = txns.transactional()(sell)

    a, shop = lake.table("a", [1]), Shop()
    with pytest.raises(txns.InvalidUsage, match=r"self\.method\) there; got=`Shop`"):
        shop.decorated(handle)
    with handle.begin() as txn, pytest.raises(txns.InvalidUsage, match="got=`Transaction`"):
        txns.run_transaction(txn, shop.sell)
    with pytest.raises(txns.InvalidUsage, match="got=`SqlCatalog`"):
        txns.run_transaction(lake.catalog, shop.sell)
    txns.run_transaction(handle, shop.sell)
    assert [1, 2] == lake.plain_ids(a)


def test_run_transaction_after_a_lost_one(lake):
    """A loop of one's own may go on as a callback: it is as old as that one, try by try."""
    a = lake.table("a", [1])
    handle = lake.open(rehearse_conflicts=3)
    lost = handle.begin()
    lost.load_table(a).append(rows(2))
    with pytest.raises(txns.Conflict):
        lost.commit()
    txns.run_transaction(handle, lambda txn: txn.load_table(a).append(rows(3)), after=lost)
    assert [1, 3] == lake.plain_ids(a)


def test_a_rehearsal(lake):
    """Transactions that write lose until the handle's number is used up, and leave no files."""
    a = lake.table("a", [1])
    before = lake.files()
    handle = lake.open(rehearse_conflicts=2)
    with handle.begin() as reading:
        assert [1] == ids(reading.load_table(a))
    handle.catalog().load_table(a).append(rows(2))
    with pytest.raises(txns.Conflict, match=r"rehearsal, .* 1 more") as lost, handle.begin() as txn:
        txn.load_table(a).append(rows(3))
    assert ("40001", txn.txn_id, txns.State.ROLLED_BACK) == (
        lost.value.sqlstate,
        lost.value.txn_id,
        txn.state,
    )
    attempts = []

    def add(txn):
        # The second try has reserved the table, in a version of the log.
        attempts.append({path for path in lake.files() if "/txns/commits/metadata/" not in path})
        txn.load_table(a).append(rows(4))

    txns.run_transaction(handle, add)
    assert attempts[0] == attempts[1]
    assert before < lake.files()
    assert [1, 2, 4] == lake.plain_ids(a)
    with pytest.raises(txns.InvalidUsage, match="rehearse_conflicts=`-1`"):
        lake.open(rehearse_conflicts=-1)


def test_a_rehearsal_leaves_what_may_have_committed(lake):
    """A commit that is tried again, while an earlier one may land, is no race to be lost."""
    a = lake.table("a", [1])
    handle = lake.open(rehearse_conflicts=1)
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    txn.attempts.trying(handle.parts.log.load())
    txn.commit()
    assert [1, 2] == lake.plain_ids(a)


def test_unknown_level(handle):
    """The message names the levels there are."""
    with pytest.raises(txns.InvalidUsage, match="SERIALIZABLE"):
        handle.begin(isolation="CHAOS")


def test_a_restaged_append_leaves_no_orphans(lake, handle):
    """Manifest lists and manifests of the version that was not committed are deleted."""
    a = lake.table("a", [1])
    with handle.begin() as alter, alter.load_table(a).transaction() as properties:
        properties.set_properties({"commit.manifest-merge.enabled": "true"})
    one, two = handle.begin(), handle.begin()
    for txn in (one, two):
        txn.load_table(a).append(rows(2))
    one.commit()
    two.commit()
    table = lake.catalog.load_table(a)
    reachable = {snapshot.manifest_list for snapshot in table.snapshots()}
    for snapshot in table.snapshots():
        reachable |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
    written = {f"file://{path}" for path in lake.files() if path.endswith(".avro")}
    folder = f"{table.location()}/"
    assert set() == {path for path in written if path.startswith(folder)} - reachable


def test_a_create_that_lost_the_race(lake, handle, monkeypatch):
    """
    A name that comes between the look for it and the head it is created on.

    1. T1 creates a outside a transaction and finds no such name. 2. T2 creates a and fills it.
    3. T1 loads the head: the table of the name is T2's, not a dropped one to be replaced.
    """
    catalog = handle.catalog()
    load_or_create = handle.parts.log.load_or_create
    planned = catalog.create_table_transaction("shop.a", rows(1).schema)

    def meanwhile():
        monkeypatch.setattr(handle.parts.log, "load_or_create", load_or_create)
        lake.open(lake.another_catalog()).catalog().create_table("shop.a", rows(1).schema).append(
            rows(1)
        )
        return load_or_create()

    monkeypatch.setattr(handle.parts.log, "load_or_create", meanwhile)
    with pytest.raises(TableAlreadyExistsError):
        planned.commit_transaction()
    assert [1] == lake.plain_ids("shop.a")


def test_a_listing_while_the_table_is_applied_and_tidied(lake, monkeypatch):
    """
    A table that is on its way from the log to the catalog is in neither of two later looks.

    1. shop.new is committed and not applied; T begins. 2. T takes the catalog's list, without it.
    3. It is applied and tidied. 4. T loads the newest head, without it. 5. T lists it.
    """
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.create_table("shop.new", rows(1).schema)
    txn = handle.begin()
    load = handle.parts.log.load_if_exists

    def meanwhile():
        monkeypatch.setattr(handle.parts.log, "load_if_exists", load)
        handle.apply_le()
        assert handle.tidy()
        return load()

    monkeypatch.setattr(handle.parts.log, "load_if_exists", meanwhile)
    assert [("shop", "new")] == txn.list_tables("shop")

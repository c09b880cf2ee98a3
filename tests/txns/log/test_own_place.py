"""Where a commit table belongs by its catalog's own rules, while that does not always answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar
from urllib.parse import urlparse
from uuid import uuid4

import pytest
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table.update import SetLocationUpdate

import txns
from tests.txns.lake import lake_catalog, rows
from tests.txns.log_files import append
from txns._admin import orphans
from txns._admin.health import health
from txns._admin.invariants import check_all
from txns._log.own_place import ASK_AGAIN_MS, OwnPlace

LOG = ("txns", "commits")


class Failing:
    """A real catalog that its namespaces' places are known by, which do not answer for a while."""

    def __init__(self, lake, monkeypatch, error: Exception) -> None:
        lake.open()
        lake.catalog.update_namespace_properties(
            "txns", updates={"location": f"file://{lake.folder}/warehouse/txns"}
        )
        self.catalog = lake_catalog(lake.folder)
        del self.catalog.properties["warehouse"]
        self.fails, self.asked = True, 0
        plain = self.catalog.load_namespace_properties

        def answered(namespace):
            self.asked += 1
            if self.fails:
                raise error
            return plain(namespace)

        monkeypatch.setattr(self.catalog, "load_namespace_properties", answered)


@pytest.fixture(params=[ServiceUnavailableError("503"), ConnectionError("reset")], ids=str)
def failing(lake, monkeypatch, request) -> Failing:
    return Failing(lake, monkeypatch, request.param)


def test_a_catalog_that_failed_once_is_asked_again(lake, failing):
    """1. It fails. 2. It is left alone for a while. 3. It is asked again, and answers."""
    place = OwnPlace(failing.catalog, LOG, lake.clock, (), str)
    path = f"file://{lake.folder}/warehouse/txns/commits/metadata/x.json"
    assert [None] * 5 == [place.has(path) for _ in range(5)]
    assert 1 == failing.asked
    lake.clock.ahead_ms += ASK_AGAIN_MS
    assert place.has(path) is None
    failing.fails = False
    lake.clock.ahead_ms += ASK_AGAIN_MS
    assert place.has(path)
    assert place.has("file:///elsewhere/x.json") is False
    asked = failing.asked
    assert place.has("file:///elsewhere/x.json") is False
    assert asked == failing.asked


class ByUuid:
    """A server that calls tables by uuids alone: what it plans is all that tells of places."""

    properties: ClassVar[dict[str, str]] = {}

    def load_namespace_properties(self, _namespace):
        return {}

    def create_table_transaction(self, _identifier, _schema):
        place = f"s3://lake/warehouse/{uuid4()}"
        return SimpleNamespace(table_metadata=SimpleNamespace(location=place))


def test_where_tables_are_called_by_uuids_that_of_the_log_is_its_own(lake):
    """Any other uuid there is another table's, whose files a forged location would lead to."""
    own, other = str(uuid4()), str(uuid4())
    place = OwnPlace(ByUuid(), LOG, lake.clock, (), lambda: own)
    assert place.has(f"s3://lake/warehouse/{own}/metadata/x.json")
    assert place.has(f"s3a://lake/warehouse/{own.replace('-', '')}/metadata/x.json")
    assert place.has(f"s3://lake/warehouse/{other}/metadata/x.json") is False
    assert place.has(f"s3://elsewhere/{own}/metadata/x.json") is False


def test_what_waits_is_removed_once_the_catalog_answers(lake, failing):
    """Whatever came to its end while it did not is tried again."""
    lake.table("a")
    handle = lake.open(failing.catalog)
    folder = Path(urlparse(lake.catalog.load_table("txns.commits").location()).path)
    lake.begin_minute()
    for number in range(4):
        append(handle, number)
    old = set(folder.rglob("*.metadata.json"))
    lake.pass_an_hour(handle)
    assert old <= set(folder.rglob("*.metadata.json"))
    failing.fails = False
    lake.pass_an_hour(handle)
    lake.pass_an_hour(handle)
    assert len(old - set(folder.rglob("*.metadata.json"))) >= 3


def test_nothing_is_swept_while_the_catalog_does_not_answer(lake, failing):
    handle = lake.open(failing.catalog)
    with pytest.raises(txns.errors.Unsupported, match=r"does not tell.*create_locations='file://"):
        orphans.remove(handle.parts)


@pytest.fixture
def moved(lake) -> str:
    """Give where somebody has moved the commit table."""
    lake.table("a", [1])
    place = f"file://{lake.folder}/elsewhere/log"
    table = lake.catalog.load_table("txns.commits")
    lake.catalog.commit_table(table, (), (SetLocationUpdate(location=place),))
    lake.open(lake.another_catalog()).catalog().load_table("shop.a").append(rows(2))
    return place


def test_a_log_that_stands_elsewhere_is_told_once_and_how_to_end_that(lake, moved):
    """Its superseded files stay, which is no violation."""
    above = f"file://{lake.folder}/elsewhere"
    parts = lake.open(lake.another_catalog()).parts
    for warnings in (health(parts).warnings, check_all(parts).warnings):
        [warning] = [each for each in warnings if "own place" in each]
        assert f"create_locations='{above}'" in warning
        assert f"txns.create-locations={above}" in warning
        assert f"location=`{moved}`" in warning
    assert not check_all(parts).violations
    allowed = lake.open(lake.another_catalog(), create_locations=above).parts
    assert [] == [*health(allowed).warnings, *check_all(allowed).warnings]


def test_a_log_at_its_own_place_is_not_warned_of(lake):
    lake.table("a", [1])
    parts = lake.open().parts
    assert [] == [*health(parts).warnings, *check_all(parts).warnings]

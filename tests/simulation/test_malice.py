"""Somebody who may write the commit table alone, beside users and an administrator."""

from __future__ import annotations

import pytest

from tests.simulation.plan import plan
from tests.simulation.rights import Rights
from tests.simulation.run import run
from tests.simulation.scheduler import Violation
from tests.simulation.settings import Core, Switch
from tests.simulation.stage import A, Stage, staged

MALICIOUS = frozenset({Switch.MALICIOUS})


@pytest.mark.parametrize(("first", "core"), [(0, Core.PYTHON), (30, Core.PYTHON), (30, Core.JAVA)])
def test_forged_records_make_nobody_act_outside_the_care(first: int, core: Core):
    """Nor does a call end in an undeclared error; afterwards users can go on."""
    outcomes = [run(plan(seed, MALICIOUS, core)) for seed in range(first, first + 10)]
    assert [] == [str(each.violation) for each in outcomes if each.violation]
    assert any(name.startswith("action forge-") for each in outcomes for name in each.occurred)


def test_a_seed_of_forgeries_replays_exactly():
    once, again = run(plan(5, MALICIOUS)), run(plan(5, MALICIOUS))
    assert (once.steps, once.digest) == (again.steps, again.digest)


@pytest.fixture
def stage():
    with staged(server=False) as made:
        yield made


def test_a_forger_has_no_other_rights(stage: Stage):
    """Catalog and storage refuse what is not the commit table's."""
    rights = Rights(frozenset({("txns", "commits")}), ("memory://lake/txns/commits",))
    catalog = stage.lake.connect(rights)
    table = catalog.load_table(A)
    for deed in (
        lambda: catalog.drop_table(A),
        lambda: catalog.rename_table(A, ("lake", "x")),
        lambda: table.io.delete(table.metadata_location),
        lambda: table.io.new_output(f"{table.location()}/x"),
        lambda: table.transaction().set_properties({"a": "b"}).commit_transaction(),
    ):
        with pytest.raises(Exception, match="no right"):
            deed()
    assert A in stage.observer.registry.pointers


def test_a_guard_finds_what_is_outside_the_care():
    """A user that changes a plain table is found, which no seed does."""
    planned = plan(3, MALICIOUS)

    def trespass(lake) -> None:
        inner = lake.connect

        def connect(*given):
            if lake.guard and not given and lake.world.current:
                table = inner().load_table(("secret", "p0"))
                table.transaction().set_properties({"a": "b"}).commit_transaction()
            return inner(*given)

        lake.connect = connect

    violation = run(planned, on_lake=trespass).violation
    assert isinstance(violation, Violation)
    assert "outside the care" == violation.promise

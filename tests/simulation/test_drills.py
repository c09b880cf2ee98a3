"""Recoveries played by hand, and seeds in which a lake is damaged and recovered."""

from __future__ import annotations

import pytest

from tests.simulation.backup import set_back
from tests.simulation.determinism import SimulatedClock
from tests.simulation.disaster import Disaster, Drill, log_id_of
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.settings import Core, Switch
from tests.simulation.stage import A, Stage, staged
from tests.simulation.table_checks import applied_of
from txns._admin.recover import recover
from txns._config import Config


@pytest.fixture(params=[False, True], ids=["swap", "server"])
def stage(request: pytest.FixtureRequest):
    with staged(server=request.param) as made:
        yield made


def test_an_applier_that_a_recovery_came_before_does_not_try_again(stage: Stage):
    """
    What is gone stays gone.

    1. An applier is about to swap a table. 2. The log is set back to before its entry, of which
    nothing tells then, and recovered. 3. The applier's swap is lost; it loads the table again,
    which is of the recovered log by now.
    """
    registry = stage.observer.registry
    before = registry.pointers[COMMIT_TABLE]
    txn = stage.begin(stage.handle())
    txn.append(A)
    txn.commit_at()
    late = stage.actor("late", stage.handle().apply_le).until("swap", "lake.t0")
    applied = applied_of(registry.metadata(A))
    log_id = log_id_of(registry.metadata(COMMIT_TABLE))
    stage.observer.disaster = Disaster(Drill.ENTRY_LOST, COMMIT_TABLE, log_id, {})
    set_back(stage.observer, COMMIT_TABLE, before)
    recover(stage.lake.connect(), Config.of(), SimulatedClock(stage.world))
    late.finish()
    assert applied == applied_of(registry.metadata(A))
    assert [1, 2, 3] == sorted(stage.raw_rows(A))


@pytest.mark.parametrize(
    ("seed", "core"),
    [
        *((seed, Core.PYTHON) for seed in (100, 106, 115)),
        *((seed, Core.JAVA) for seed in (44, 75)),
        (52, Core.BOTH),
    ],
)
def test_what_a_recovery_leaves_is_what_it_may(seed: int, core: Core):
    """Exactly what docs/operations.md says may be gone, and the same in each run of a seed."""
    planned = plan(seed, frozenset({Switch.DAMAGED}), core)
    once, again = run(planned), run(planned)
    assert once.violation is None
    assert (once.steps, once.digest) == (again.steps, again.digest)
    assert any(name.startswith("drill ") for name in once.occurred)

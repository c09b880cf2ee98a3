"""
The ten classes that every dbt adapter is expected to pass, unmodified.

https://docs.getdbt.com/guides/adapter-creation, "Testing your adapter". The slow ones are left out
of `make test`: `make compliance-dbt` runs all.
"""

from __future__ import annotations

import pytest
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


@pytest.mark.slow
class TestSingularTests(BaseSingularTests):
    pass


@pytest.mark.slow
class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


@pytest.mark.slow
class TestEmpty(BaseEmpty):
    pass


@pytest.mark.slow
class TestEphemeral(BaseEphemeral):
    pass


class TestIncremental(BaseIncremental):
    pass


@pytest.mark.slow
class TestGenericTests(BaseGenericTests):
    pass


@pytest.mark.slow
class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


@pytest.mark.slow
class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


@pytest.mark.slow
class TestAdapterMethod(BaseAdapterMethod):
    pass

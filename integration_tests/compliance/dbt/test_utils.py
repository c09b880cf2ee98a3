"""dbt's cross-database macros: what differs from dbt-spark, whose own tests are run as well."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.utils.test_current_timestamp import BaseCurrentTimestampAware

pytestmark = pytest.mark.slow


class TestCurrentTimestamp(BaseCurrentTimestampAware):
    pass

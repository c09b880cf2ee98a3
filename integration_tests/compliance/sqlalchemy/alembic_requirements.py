"""What of Alembic's suite is asked of Iceberg tables in Spark."""

from __future__ import annotations

from alembic.testing.requirements import SuiteRequirements
from txns_requirements import Requirements, met


class AlembicRequirements(Requirements, SuiteRequirements):
    """What SQLAlchemy's suites are asked for, and the rest as Alembic expects it."""

    autocommit_isolation = met()
    # Closed for SQLAlchemy's suite, whose tests all create one.
    computed_columns = met()
    fk_ondelete_is_reflected = met()
    fk_onupdate_is_reflected = met()

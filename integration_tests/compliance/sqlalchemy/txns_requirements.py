"""
What of SQLAlchemy's suite is asked of Iceberg tables in Spark, and why not the rest.

Imports: nothing of the project. Used by: the suite.
"""

from __future__ import annotations

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


def closed(reason: str) -> property:
    """Return a requirement that is not met, for a reason."""

    def requirement(_: object) -> exclusions.compound:
        return exclusions.skip_if(lambda _: True, reason)

    return property(requirement)


def met() -> property:
    """Return a requirement that is met."""
    return property(lambda _: exclusions.open())


KEYS = "keys and indexes are not enforced: Iceberg knows none"
TEMPORARY = "Iceberg has no temporary tables"
FETCH = "Spark has LIMIT and OFFSET, no FETCH FIRST"
DML_JOINS = "Spark has no CTEs and no joins in UPDATE and DELETE; MERGE is there instead"


class Requirements(SuiteRequirements):
    """
    Requirements that differ from SQLAlchemy's own expectations.

    What depends on a flag of the dialect (RETURNING, sequences, empty inserts) is decided by
    SQLAlchemy itself.
    """

    # Open here, closed by default.
    array_type = met()
    create_table_as = met()
    ctes = met()
    datetime_historic = met()
    date_historic = met()
    check_constraint_reflection = met()
    comment_reflection = met()
    json_type = met()
    reflect_table_options = met()
    regexp_match = met()
    regexp_replace = met()
    schemas = met()
    schema_create_delete = met()
    supports_bitwise_and = met()
    supports_bitwise_not = met()
    supports_bitwise_or = met()
    supports_bitwise_xor = met()
    supports_bitwise_shift = met()
    table_ddl_if_exists = met()
    tuple_in = met()
    views = met()
    window_functions = met()
    get_isolation_level_values = met()
    default_schema_name_switch = closed("the current schema belongs to the URL")

    # Closed here, open by default.
    server_side_cursors = closed(
        "the suite tells streamed cursors by the drivers that it knows; test_sqlalchemy.py has ours"
    )
    duplicate_key_raises_integrity_error = closed(KEYS)
    foreign_key_ddl = met()
    temp_table_names = closed(TEMPORARY)
    temporary_tables = closed(TEMPORARY)
    temp_table_reflection = closed(TEMPORARY)
    has_temp_table = closed(TEMPORARY)
    create_temp_table_as = closed(TEMPORARY)
    ctes_with_update_delete = closed(DML_JOINS)
    ctes_on_dml = closed(DML_JOINS)
    update_from = closed(DML_JOINS)
    delete_from = closed(DML_JOINS)
    fetch_first = closed(FETCH)
    fetch_percent = closed(FETCH)
    fetch_ties = closed(FETCH)
    fetch_no_order_by = closed(FETCH)
    fetch_offset_with_options = closed(FETCH)
    fetch_expression = closed(FETCH)
    computed_columns = closed("Iceberg has no computed columns")
    two_phase_transactions = closed("a transaction belongs to one commit table")
    time_timezone = closed("TIME is kept as text without a zone")

"""What of SQLAlchemy's suites is asked of Iceberg tables in Spark, and why not the rest."""

from __future__ import annotations

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

# Why requirements are not met.
REASONS: set[str] = set()


def closed(reason: str) -> property:
    """Return a requirement that is not met, for a reason."""
    REASONS.add(reason)

    def requirement(_: object) -> exclusions.compound:
        return exclusions.skip_if(lambda _: True, reason)

    return property(requirement)


def met() -> property:
    """Return a requirement that is met."""
    return property(lambda _: exclusions.open())


KEYS = "keys and indexes are not enforced: Iceberg knows none"
TEMPORARY = "Iceberg has no temporary tables"
FETCH = "Spark has LIMIT and OFFSET, no FETCH FIRST"
NO_DEFAULTS = "the dialect fills in defaults; the catalog keeps none"
NO_COMPUTED = "Iceberg has no computed columns"
DML_JOINS = "Spark has no CTEs and no joins in UPDATE and DELETE; MERGE is there instead"


class Requirements(SuiteRequirements):
    """
    Requirements that differ from SQLAlchemy's own expectations.

    What depends on a flag of the dialect (RETURNING, sequences, empty inserts) is decided by
    SQLAlchemy itself.
    """

    # Open here, closed by default.
    array_type = met()
    autocommit = met()
    create_table_as = met()
    ctes = met()
    datetime_historic = met()
    date_historic = met()
    check_constraint_reflection = met()
    comment_reflection = met()
    constraint_comment_reflection = met()
    isolation_level = met()
    json_type = met()
    percent_schema_names = met()
    reflect_table_options = met()
    regexp_match = met()
    regexp_replace = met()
    schemas = met()
    schema_create_delete = met()
    skip_autocommit_rollback = met()
    supports_bitwise_and = met()
    supports_bitwise_not = met()
    supports_bitwise_or = met()
    supports_bitwise_xor = met()
    supports_bitwise_shift = met()
    table_ddl_if_exists = met()
    tuple_in = met()
    unicode_ddl = met()
    views = met()
    window_functions = met()
    get_isolation_level_values = met()
    default_schema_name_switch = closed("the current schema belongs to the URL")

    datetime_literals = met()
    foreign_key_constraint_option_reflection_ondelete = met()
    fk_constraint_option_reflection_ondelete_restrict = met()
    fk_constraint_option_reflection_ondelete_noaction = met()
    foreign_key_constraint_option_reflection_onupdate = met()
    fk_constraint_option_reflection_onupdate_restrict = met()
    index_ddl_if_exists = met()
    indexes_check_column_order = met()
    infinity_floats = met()
    legacy_unconditional_json_extract = met()
    precision_numerics_many_significant_digits = met()
    precision_numerics_retains_significant_digits = met()
    reflects_pk_names = met()
    repeated_column_foreign_keys = met()
    repeated_remote_col_foreign_keys = met()
    window_range = met()
    window_range_numeric = met()

    # Closed here, open by default.
    implicitly_named_constraints = closed("a key without a name has none in the catalog either")
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
    inline_check_constraint_reflection = met()
    temporary_views = closed(TEMPORARY)
    ctes_with_values = met()
    server_defaults = closed(NO_DEFAULTS)
    expression_server_defaults = closed(NO_DEFAULTS)
    indexes_with_expressions = met()
    reflect_indexes_with_expressions = met()
    dbapi_lastrowid = closed("ids are made by the client: inserted_primary_key has them")
    nvarchar_types = closed("Iceberg keeps no length of a text")
    empty_inserts = closed("INSERT names its columns: Spark has no DEFAULT VALUES")
    computed_columns = closed(NO_COMPUTED)
    two_phase_transactions = closed("a transaction belongs to one commit table")
    time_timezone = closed("TIME is kept as text without a zone")

    # Of SQLAlchemy's own tests of transactions.
    savepoints = met()
    savepoints_w_release = met()
    compat_savepoints = met()
    independent_connections = met()
    two_phase_recovery = closed("a transaction belongs to one commit table")

    def get_order_by_collation(self, _config: object) -> str:
        """Return a collation that there is."""
        return "UNICODE"

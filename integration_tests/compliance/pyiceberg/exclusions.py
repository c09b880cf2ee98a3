"""
Tests of pyiceberg's suite that contradict the design, with the rule that they contradict.

An excluded test is run and must fail with the named error: one that passes is a failure of
the run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from pyiceberg.exceptions import NamespaceNotEmptyError

from txns import Unsupported


class Exclusion(NamedTuple):
    """A test that does not hold here: what it fails with, and why it has to."""

    error: type[BaseException]
    rule: str
    params: dict[str, Any] | None = None
    """The cases it is about, by parameter; None for all."""


NOT_RAISED: type[BaseException] = pytest.fail.Exception
"""What `pytest.raises` fails with where nothing was raised."""

CREATED_WITH_A_SNAPSHOT = (
    "docs/spec.md 6.4 and I2: a table under care is created with an empty snapshot, so that its"
    " creation is a swap on every catalog"
)
RENAME_WRITES = (
    "docs/spec.md 6.7: a rename is forget, rename and register, so that open transactions find a"
    " conflict: the table's metadata is not the file that it was"
)
RENAME_AT_ONCE = (
    "docs/spec.md 6.7: a rename is no change of the log, catalogs do it at once: not in a"
    " transaction"
)
PURGE = (
    "docs/spec.md 6.5: files of a registered table may be needed by what is not applied, and by"
    " readers of older timestamps: forget it first"
)
DROP_STAYS = (
    "docs/spec.md 6.5: a drop hides the table and leaves it in the catalog, whose namespace is"
    " not empty then"
)
AT_ONCE = (
    "docs/spec.md I9: register_table acts at once and cannot be rolled back: not in a transaction"
)
FORMAT_1 = (
    "docs/spec.md 6.2: snapshots of format version 1 have no sequence numbers: such a table is"
    " created outside of transactions"
)
IN_MEMORY = (
    "docs/spec.md I9: before the commit nothing is in the catalog: no metadata file, version or"
    " metadata log"
)
ONE_OBJECT = (
    "txns/_stage/write_set.py: inside a transaction one Table object stands for a table, so that"
    " its operations see each other: they cannot clash"
)
SCHEMA_IDS = (
    "docs/spec.md 7: a schema whose id the table has already gets the next free one, as in Java;"
    " the test adds a second schema under id 0"
)

AUTOCOMMIT = {
    "test_append_table": Exclusion(AssertionError, CREATED_WITH_A_SNAPSHOT),
    "test_record_batch_reader_schema_mismatch_writes_no_files": Exclusion(
        AssertionError, CREATED_WITH_A_SNAPSHOT
    ),
    "test_catalog_commit_table_applies_schema_updates": Exclusion(AssertionError, SCHEMA_IDS),
    "test_rename_table": Exclusion(AssertionError, RENAME_WRITES),
    "test_rename_table_from_self_identifier": Exclusion(AssertionError, RENAME_WRITES),
    "test_purge_table": Exclusion(Unsupported, PURGE),
    "test_drop_namespace": Exclusion(NamespaceNotEmptyError, DROP_STAYS),
}
TRANSACTION = {
    "test_append_table": Exclusion(AssertionError, IN_MEMORY),
    "test_commit_table": Exclusion(AssertionError, IN_MEMORY),
    "test_create_table_removes_trailing_slash_from_location": Exclusion(AssertionError, IN_MEMORY),
    "test_create_table_with_default_warehouse_location": Exclusion(AssertionError, IN_MEMORY),
    "test_delete_metadata_multiple": Exclusion(AssertionError, IN_MEMORY),
    "test_concurrent_commit_table": Exclusion(NOT_RAISED, ONE_OBJECT),
    "test_create_table_transaction": Exclusion(Unsupported, FORMAT_1, {"format_version": 1}),
    "test_create_v1_table": Exclusion(Unsupported, FORMAT_1),
    "test_merge_manifests_local_file_system": Exclusion(
        Unsupported, FORMAT_1, {"format_version": 1}
    ),
    "test_write_and_evolve": Exclusion(Unsupported, FORMAT_1, {"format_version": 1}),
    "test_purge_table": Exclusion(Unsupported, PURGE),
    "test_register_existing_table": Exclusion(Unsupported, AT_ONCE),
    "test_register_table": Exclusion(Unsupported, AT_ONCE),
    "test_rename_missing_table": Exclusion(Unsupported, RENAME_AT_ONCE),
    "test_rename_table": Exclusion(Unsupported, RENAME_AT_ONCE),
    "test_rename_table_from_self_identifier": Exclusion(Unsupported, RENAME_AT_ONCE),
    "test_rename_table_to_existing_one": Exclusion(Unsupported, RENAME_AT_ONCE),
    "test_rename_table_to_missing_namespace": Exclusion(Unsupported, RENAME_AT_ONCE),
}

"""What exceptions of pyspark mean in PEP 249's classes."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import AnalysisException

from txns_spark.dbapi import errors


class _Stack(Exception):
    """A cause whose text takes long: py4j fetches a Java exception's whole stack."""

    def __str__(self) -> str:
        raise AssertionError("nobody needs to read this")


def _caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_who_names_a_condition_is_believed() -> None:
    answered = AnalysisException(
        "no t", errorClass="TABLE_OR_VIEW_NOT_FOUND", messageParameters={}, sql_state="42P01"
    )
    found = errors.of_spark(_caused(answered, _Stack()))
    assert isinstance(found, errors.ProgrammingError)
    assert "42P01" == found.sqlstate


def test_without_a_condition_the_causes_tell_that_the_session_is_lost() -> None:
    lost = _caused(PySparkException("failed"), ConnectionResetError())
    assert isinstance(errors.of_spark(lost), errors.ConnectionLost)

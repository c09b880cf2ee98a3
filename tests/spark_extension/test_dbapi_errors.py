"""What exceptions of pyspark mean in PEP 249's classes."""

from __future__ import annotations

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

from txns_spark.dbapi import _thrift, errors

_QUOTED = [
    "Error while reading: UNAVAILABLE: io exception",
    "cannot cast 'StatusCode.UNAVAILABLE'",
    "no such file: /SparkContext was shut down/x",
    "no function f('stopped SparkContext')",
    "not a SessionHandle: 'Invalid SessionHandle'",
]


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


@pytest.mark.parametrize("text", _QUOTED)
def test_a_text_that_quotes_a_loss_is_none(text: str) -> None:
    """Whether it names a condition, its gRPC status is another, or text is all that there is."""
    named = AnalysisException(
        text, errorClass="CAST_INVALID_INPUT", messageParameters={}, sql_state="22018"
    )
    told = SparkConnectGrpcException(text, grpc_status_code=grpc.StatusCode.INTERNAL)
    for error in (named, told, PySparkException(text), RuntimeError(text)):
        assert not isinstance(errors.of_spark(error), errors.ConnectionLost)
    assert not isinstance(_thrift._of_status(text, None), errors.ConnectionLost)
    assert not isinstance(_thrift._of_status(f"[X] org.X: {text}", "P0001"), errors.ConnectionLost)


@pytest.mark.parametrize(
    "lost",
    [
        SparkConnectGrpcException("no more", grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        PySparkException("Job 7 cancelled because SparkContext was shut down"),
        PySparkException("Cannot call methods on a stopped SparkContext.\nIt was ..."),
        RuntimeError(
            "An error occurred while calling o5.sql.\n: java.lang.IllegalStateException: Cannot "
            "call methods on a stopped SparkContext."
        ),
    ],
)
def test_a_session_that_is_lost_is_told_by_status_or_by_how_the_text_begins(
    lost: Exception,
) -> None:
    assert isinstance(errors.of_spark(lost), errors.ConnectionLost)


def test_a_handle_that_the_thrift_server_does_not_know_is_a_loss() -> None:
    text = "org.apache.hive.service.cli.HiveSQLException: Invalid SessionHandle: SessionHandle [x]"
    assert isinstance(_thrift._of_status(text, None), errors.ConnectionLost)

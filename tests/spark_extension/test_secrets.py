"""Passwords, tokens and keys: in no message of the Spark side, and whole where they are sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from txns_spark import _catalog, dbapi, errors
from txns_spark._secrets import masked
from txns_spark.dbapi._connect import remote_url
from txns_spark.dbapi.errors import of_startup

GOLDEN = json.loads((Path(__file__).parents[2] / "docs/golden/messages.json").read_text("utf-8"))


@pytest.mark.parametrize(("text", "shown"), GOLDEN["masked"])
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert shown == masked(text)


@pytest.mark.parametrize(
    ("uri", "warehouse"),
    [
        ("postgresql://mara:s3cret@host/db", "s3://lake"),
        ("jdbc:postgresql://host/db?user=mara&password=s3cret", None),
        ("thirft:/mara:s3cret@host", None),
    ],
)
def test_a_mistyped_uri(uri: str, warehouse: str | None) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"uri=.*\*\*\*") as raised:
        _catalog.from_uri(uri, warehouse)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "made",
    [
        dbapi.OperationalError,
        dbapi.TransactionConflict,
        errors.CommitStateUnknown,
        errors.JarNotFound,
        lambda message: of_startup(ValueError(message)),
    ],
)
def test_every_error_hides_them(made: type[Exception]) -> None:
    error = made("cannot connect to sc://host/;token=s3cret==;use_ssl=true")
    assert "token=***;use_ssl=true" in str(error)
    assert "s3cret" not in repr(error)
    assert "s3cret" not in getattr(error, "message", "")


def test_an_id_that_looks_like_a_secret_is_asked_for_as_it_is() -> None:
    """Over Thrift the text of the error is all that arrives."""
    text = "[TXNS_COMMIT_STATE_UNKNOWN] ask again with BEGIN ID 'job:17@eu'; txn=`job:17@eu`"
    error = errors.of_condition(text, "08007", "TXNS_COMMIT_STATE_UNKNOWN")
    assert error is not None
    assert error.txn_id == "job:17@eu"
    assert "BEGIN ID 'job:17@eu'" in str(error)


def test_a_token_arrives_as_it_is() -> None:
    """Spark Connect parts its options by semicolons and by the first "=" alone."""
    token = "abc;use_ssl=false/?==%3D"
    channel = DefaultChannelBuilder(remote_url("host", None, {"token": token, "use_ssl": "true"}))
    assert (token, "host:15002") == (channel.token, channel.endpoint)
    assert channel.secure

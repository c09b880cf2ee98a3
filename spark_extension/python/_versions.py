"""Say which versions of Spark and Iceberg the jar runs on, and refuse others."""

from __future__ import annotations

import re
import warnings

from txns_spark.errors import UnsupportedVersion

SPARK_MINOR = "4.1"
# The newest last; the jar holds the same lists, in Versions.java.
SPARK_TESTED = ("4.1.3", "4.1.4")
ICEBERG_TESTED = ("1.11.0", "1.12.0")
SCALA = "2.13"
ICEBERG = ICEBERG_TESTED[-1]
ICEBERG_RUNTIME = f"iceberg-spark-runtime-{SPARK_MINOR}_{SCALA}"

_RUNTIME = re.compile(
    r"iceberg-spark-runtime-(?P<spark>[\d.]+)_(?P<scala>[\d.]+)[:-](?P<version>.+)"
)


class UntestedVersionWarning(UserWarning):
    """A patch version that the jar was not tested with; it should work."""


def check_spark(version: str) -> None:
    """
    Accept pyspark's version, warn about it, or refuse it.

    Raises:
        UnsupportedVersion: Another minor version than 4.1.
    """
    if _minor(version) != SPARK_MINOR:
        raise UnsupportedVersion(
            f"pyspark {version} is not supported: txns_spark runs on Spark {SPARK_MINOR}; "
            f"pip install 'pyspark=={SPARK_TESTED[-1]}'"
        )
    if version not in SPARK_TESTED:
        tested = " and ".join(SPARK_TESTED)
        # 3: the line that called configure(), which calls this.
        warnings.warn(
            f"txns_spark is not tested with pyspark {version}, only with {tested}",
            UntestedVersionWarning,
            stacklevel=3,
        )


def is_iceberg_runtime(text: str) -> bool:
    """Tell whether a coordinate or a jar's path is an Iceberg runtime for Spark."""
    return _RUNTIME.search(text) is not None


def check_iceberg(text: str) -> None:
    """
    Accept an Iceberg runtime that is configured already, warn about it, or refuse it.

    Args:
        text: Its coordinate (group:artifact:version) or the path of its jar.

    Raises:
        UnsupportedVersion: A minor version that is not tested, or one for another Spark or Scala.
    """
    found = _RUNTIME.search(text)
    assert found is not None, text
    version = found["version"].removesuffix(".jar")
    if (found["spark"], found["scala"]) != (SPARK_MINOR, SCALA):
        raise UnsupportedVersion(
            f"the configured Iceberg runtime is for Spark {found['spark']} and Scala "
            f"{found['scala']}, not for {SPARK_MINOR} and {SCALA}: {text}; "
            f"use org.apache.iceberg:{ICEBERG_RUNTIME}:{ICEBERG}, or leave it to configure()"
        )
    minors = [_minor(tested) for tested in ICEBERG_TESTED]
    if _minor(version) not in minors:
        raise UnsupportedVersion(
            f"Iceberg {version} is not supported: txns_spark runs on Iceberg "
            f"{' and '.join(minors)}; configured is {text}; use {ICEBERG}, or leave it to "
            "configure()"
        )
    if version not in ICEBERG_TESTED:
        tested = " and ".join(ICEBERG_TESTED)
        # 4: the line that called configure(), which calls this through _packages().
        warnings.warn(
            f"txns_spark is not tested with Iceberg {version}, only with {tested}",
            UntestedVersionWarning,
            stacklevel=4,
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])

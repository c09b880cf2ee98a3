"""Find the Spark extension's jar."""

from __future__ import annotations

from pathlib import Path

from txns_spark.errors import JarNotFound

JAR_VERSION = "0.1.0"
JAR_NAME = f"txns-spark-4.1_2.13-{JAR_VERSION}.jar"

_CURE = """\
the Spark extension's jar is missing: {path}
It is built when the package is installed, unless TXNS_SKIP_JAR is set. The cure:
  in a clone of the repository:   make install
  elsewhere:                      pip install --force-reinstall --no-deps iceberg-txns
Both need a JDK 17 or later (javac) and Maven (mvn)."""


def jar_path() -> Path:
    """
    Return the absolute path of the jar for `spark.jars` or `spark-submit --jars`.

    Raises:
        JarNotFound: The package was installed without it; the message says how to build it.
    """
    path = Path(__file__).resolve().parent / "jars" / JAR_NAME
    if not path.is_file():
        raise JarNotFound(_CURE.format(path=path))
    return path

"""
Give the JVMs of tests Spark's classes as they stand in memory: Java's class-data sharing.

A third of what a driver does until its first statements are done is to load and verify classes
out of Spark's jars. `python -m integration_tests.shared_classes` runs a driver once and keeps what
it has loaded; drivers on the same class path map that file, all others pass it over. The makefile
calls it, and who runs a test by hand without it waits a little longer.

Source: "Class Data Sharing", in Java's guide to its virtual machine (JEP 350).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from integration_tests import local_files

_USED_OPTIONS = "-XX:SharedArchiveFile={} -Xlog:cds=off -Xlog:cds+dynamic=off"
OPTIONS = "spark.driver.extraJavaOptions"


def archive() -> Path:
    """Return where the file for this environment stands, if it was made."""
    parts = (pyspark.__file__, pyspark.__version__, str(local_files.jar()), _java())
    version = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return local_files.ROOT / ".make" / "shared-classes" / f"{version}.jsa"


def _java() -> str:
    """Return which Java a driver gets: its release file, or its name."""
    home = os.environ.get("JAVA_HOME")
    release = Path(home, "release") if home else Path("/")
    return release.read_text("utf-8") if release.is_file() else str(home)


def settings() -> dict[str, str]:
    """Return the setting of Spark by which a driver uses the file; none where there is none."""
    kept = archive()
    return {OPTIONS: _USED_OPTIONS.format(kept)} if kept.is_file() else {}


def make() -> None:
    """Make the file, if it is not there: run a driver that keeps its classes at its end."""
    kept = archive()
    if kept.is_file():
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder, "made.jsa")
        options = {OPTIONS: f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"}
        command = [sys.executable, "-m", "integration_tests.driver_program", "warm"]
        command += [str(Path(folder, "lake")), "warm", json.dumps(options)]
        # The JVM holds the pipes until it is gone, with the file written.
        done = subprocess.run(
            command, cwd=local_files.ROOT, input="", capture_output=True, text=True, check=False
        )
        if done.returncode or not made.is_file():
            sys.exit(f"error: the driver that was to keep its classes has failed\n{done.stderr}")
        made.rename(kept)


if __name__ == "__main__":
    make()

"""
Give the JVMs of tests Spark's classes as they stand in memory: Java's class-data sharing.

A third of what a driver does until its first statements are done is to load and verify classes
out of Spark's jars. `python -m integration_tests.shared_classes` runs a driver once and keeps what
it has loaded; drivers on the same class path map that file, all others pass it over. The makefile
calls it. Without it tests take longer, and are the same: where it cannot be made, that is said.

Source: "Class Data Sharing", in Java's guide to its virtual machine (JEP 350).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from integration_tests import local_files

_USED_OPTIONS = "-XX:SharedArchiveFile={} -Xlog:cds=off -Xlog:cds+dynamic=off"
OPTIONS = "spark.driver.extraJavaOptions"
_DRIVER_S_MAX = 300


@functools.cache
def archive() -> Path:
    """Return where the file for these jars and this Java stands, if it was made."""
    jars = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    used = [_stamp(path) for path in (_java(), local_files.jar(), *jars)]
    version = hashlib.sha256("\n".join(used).encode()).hexdigest()[:12]
    return local_files.ROOT / ".make" / "shared-classes" / f"{version}.jsa"


def _java() -> Path:
    """Return the program that a driver's JVM is."""
    home = os.environ.get("JAVA_HOME")
    return Path(shutil.which("java", path=f"{home}/bin" if home else None) or "java").resolve()


def _stamp(path: Path) -> str:
    """Return what the JVM itself holds a file against: its name, size and time."""
    known = path.stat() if path.exists() else None
    return f"{path} {known.st_size} {known.st_mtime}" if known else str(path)


def settings() -> dict[str, str]:
    """Return the setting of Spark by which a driver uses the file; none where there is none."""
    kept = archive()
    return {OPTIONS: _USED_OPTIONS.format(kept)} if kept.is_file() else {}


def make() -> None:
    """Make the file, if it is not there: run a driver that keeps its classes at its end."""
    kept = archive()
    if kept.is_file():
        return
    if set(" :") & set(str(kept)):  # Spark splits its options at spaces, the JVM its list of files
        print("classes are not shared: the folder's name has a space or a colon", file=sys.stderr)
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder, "made.jsa")
        options = {OPTIONS: f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"}
        command = [sys.executable, "-m", "integration_tests.driver_program", "warm"]
        command += [str(Path(folder, "lake")), "warm", json.dumps(options)]
        try:
            # The JVM holds the pipe until it is gone, with the file written.
            subprocess.run(
                command,
                cwd=local_files.ROOT,
                input="",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_DRIVER_S_MAX,
                check=True,
            )
            made.rename(kept)
        except (subprocess.SubprocessError, FileNotFoundError) as error:
            said = f"{error}\n{getattr(error, 'stdout', None) or ''}"
            print(f"classes are not shared, so tests take longer: {said}", file=sys.stderr)


if __name__ == "__main__":
    make()

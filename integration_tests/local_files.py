"""
Let Hadoop set the permissions of local files in its own process.

Where its native library is missing, as in pyspark, it starts a chmod for each file and each folder:
some twenty for one small statement. `LocalFiles` of the Java tests spares them.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = {"spark.hadoop.fs.file.impl": "io.txns.LocalFiles"}


@cache
def classes() -> Path:
    """Return a folder for the driver's class path, of a class that is compiled once."""
    [source] = (ROOT / "spark_extension" / "java").glob("**/src/test/java/io/txns/LocalFiles.java")
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = ROOT / ".make" / "local-files" / version
    if not folder.exists():
        jars = Path(pyspark.__file__).parent / "jars"
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        command = ["javac", "--release", "17", "-d", made, "-cp", f"{jars}/*", source]
        subprocess.run(command, check=True)
        try:
            made.rename(folder)
        except OSError:
            assert folder.exists(), made  # another process was faster
    return folder

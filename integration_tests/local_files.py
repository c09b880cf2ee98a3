"""
Let Hadoop set the permissions of local files in its own process.

Where its native library is missing, as in pyspark, it starts a chmod for each file and each folder:
some twenty for one small statement. `LocalFiles` of the Java tests spares them.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = {"spark.hadoop.fs.file.impl": "io.txns.LocalFiles"}


@cache
def jar() -> Path:
    """Return a jar for the driver's class path, of a class that is compiled once."""
    [source] = (ROOT / "spark_extension" / "java").glob("**/src/test/java/io/txns/LocalFiles.java")
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    kept = ROOT / ".make" / "local-files" / f"{version}.jar"
    if not kept.exists():
        jars = Path(pyspark.__file__).parent / "jars"
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as made:
            command = ["javac", "--release", "17", "-d", made, "-cp", f"{jars}/*", source]
            subprocess.run(command, check=True)
            new = Path(made, "new.jar")
            with zipfile.ZipFile(new, "w") as archive:
                for path in Path(made).rglob("*.class"):
                    archive.write(path, path.relative_to(made))
            new.rename(kept)  # another process may have been faster
    return kept

"""The suites that others ship in the source distributions of their packages."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".make" / "compliance"


def unpacked(package: str, *wanted: str) -> Path:
    """
    Return a folder with parts of the source distribution of the installed version.

    Args:
        package: Its name on PyPI.
        wanted: Files, and folders with a slash at the end; the package itself had better not be
            among them, because what is installed is what is tested.
    """
    name = f"{package}-{version(package)}"
    # The file's name has an underscore where the package has a dash.
    folder = CACHE / name.replace(package, package.replace("-", "_"))
    if all((folder / each).exists() for each in wanted):
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    which = ["--no-binary", package, "--dest", str(CACHE), f"{package}=={version(package)}"]
    subprocess.run([*pip, *which], check=True)
    with tarfile.open(CACHE / f"{folder.name}.tar.gz") as archive:
        prefixes = tuple(f"{folder.name}/{each}" for each in wanted)
        members = [each for each in archive.getmembers() if each.name.startswith(prefixes)]
        archive.extractall(CACHE, members, filter="data")
    return folder

"""The folder of a demo, which its next run empties."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def reset(folder: Path, marker_name: str) -> None:
    """
    Make a demo's folder, empty.

    Only a folder that an earlier run has made is removed: it has a marker.
    """
    marker = folder / marker_name
    if folder.exists() and not marker.exists():
        sys.exit(f"error: not a folder of this demo, move it away: folder={folder}")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    marker.touch()

"""
Who writes an entry, for people who read the log.

Imports: nothing. Used by: _commit, _commit_table, _tidy, _marks.
"""

from __future__ import annotations

import platform
from importlib.metadata import version

NAME = (
    f"python {platform.python_version()}, pyiceberg {version('pyiceberg')},"
    f" txns {version('iceberg-txns')}"
)

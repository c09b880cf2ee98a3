"""The programs in README.md and the guides, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def blocks(name: str, language: str = "python") -> list[str]:
    """Give the blocks of a language in a page, in order."""
    page = (ROOT / name).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def five_minutes(name: str, language: str = "python") -> list[str]:
    """Give the blocks of a language in the section that a guide begins with."""
    page = (ROOT / name).read_text("utf-8")
    (section,) = re.findall(r"^## Five minutes\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    assert page.index("## Five minutes") == page.index("## ")
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)

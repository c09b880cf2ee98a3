"""Where a mutant's text stands, and the test that finds it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.mutants import MUTANTS, Part

if TYPE_CHECKING:
    from tests.mutants.mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
_PRODUCT = (
    "txns/**/*.py",
    "spark_extension/python/**/*.py",
    "spark_extension/java/**/src/main/**/*.java",
    "sqlalchemy_dialect/**/*.py",
    "dbt_txns/**/*.py",
    "macros/**/*.sql",
)


def target_of(mutant: Mutant) -> Path:
    """
    Return the file with a mutant's text.

    Raises:
        LookupError: The text stands in no file, or more than once: say in `mutants.py` where the
            promise is kept now.
    """
    counts = {
        path: count
        for pattern in _PRODUCT
        for path in ROOT.glob(pattern)
        if (count := path.read_text("utf-8").count(mutant.old))
    }
    if sum(counts.values()) != 1:
        places = sorted(str(path.relative_to(ROOT)) for path in counts)
        raise LookupError(f"the text of {mutant.name} is to stand once; it stands in: {places}")
    return next(iter(counts))


def file_of_test(mutant: Mutant) -> Path:
    """
    Return the file of the test that finds a mutant.

    Raises:
        LookupError: There is no such file, or no such test in it, or there are several.
    """
    named, _, test = mutant.found_by.partition("#" if mutant.part is Part.SPARK else "::")
    is_java = mutant.part is Part.SPARK
    pattern = f"spark_extension/java/**/src/test/**/{named}.java" if is_java else named
    files = list(ROOT.glob(pattern))
    if len(files) != 1:
        raise LookupError(f"the test of {mutant.name} is to be one file; found: {files}")
    name = test.rpartition("::")[2]
    declared = rf"\bvoid {name}\(" if is_java else rf"\bdef {name}\("
    if name and not re.search(declared, files[0].read_text("utf-8")):
        raise LookupError(f"{files[0].name} has no test {name}, which is to find {mutant.name}")
    return files[0]


def chosen(part: str | None) -> list[Mutant]:
    """Return the mutants of a part, or all."""
    return [mutant for mutant in MUTANTS if part in {None, mutant.part.value}]

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

import txns_spark
from txns_spark import _jar, errors


def test_jar_path_is_an_absolute_path_of_a_jar() -> None:
    path = txns_spark.jar_path()
    assert path.is_absolute()
    assert zipfile.is_zipfile(path)


def test_missing_jar_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package installed with TXNS_SKIP_JAR has no jar; the error names both cures."""
    package = tmp_path / "txns_spark"
    shutil.copytree(Path(_jar.__file__).parent, package, ignore=shutil.ignore_patterns("jars"))
    monkeypatch.setattr(_jar, "__file__", str(package / "_jar.py"))
    with pytest.raises(errors.JarNotFound) as caught:
        txns_spark.jar_path()
    for needed in (str(package / "jars"), "make install", "pip install", "JDK 17", "Maven"):
        assert needed in str(caught.value)


def test_public_names_are_sorted_and_exist() -> None:
    for module in (txns_spark, sys.modules["txns_spark.errors"]):
        assert sorted(module.__all__) == module.__all__
        for name in module.__all__:
            assert hasattr(module, name)

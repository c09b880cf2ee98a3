"""The distribution: its packages, its versions, its sdist, and the jar's build."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import txns
from tests.guides import blocks
from txns_spark import _catalog, _jar, _versions

JAR = "txns-spark-4.1_2.13-0.1.0.jar"
PACKAGES = {
    "txns": "txns",
    "txns_spark": "spark_extension/python",
    "sqlalchemy_txns": "sqlalchemy_dialect",
    "dbt.adapters.txns": "dbt_txns",
    "dbt.include.txns": "macros",
}


def run(
    *command: str, cwd: Path, timeout_s: int = 500, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist."""
    root = Path(__file__).resolve().parent.parent
    target = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(target)]
    done = run(*command, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    [archive] = target.glob("iceberg_txns-0.1.0.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    return target / "iceberg_txns-0.1.0"


def test_sdist_carries_what_builds_the_jar(sdist: Path, root: Path) -> None:
    java = root / "spark_extension/java"
    sources = [path for path in java.glob("*/src/**/*") if path.is_file()]
    poms = [java / folder / "pom.xml" for folder in (".", "core", "spark")]
    for needed in [root / "setup.py", *poms, *sources]:
        assert (sdist / needed.relative_to(root)).is_file(), needed


def test_sdist_carries_nothing_built(sdist: Path) -> None:
    assert not list(sdist.rglob("*.jar"))
    assert not list((sdist / "spark_extension/java").rglob("target"))


def test_wheel_has_the_five_packages_and_the_jar(sdist: Path, tmp_path: Path) -> None:
    """Built from the sdist, as pip does; namespaces of dbt are left to dbt."""
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
    ]
    done = run(*command, cwd=sdist)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in PACKAGES:
        assert f"{package.replace('.', '/')}/__init__.py" in names
    assert {f"txns_spark/jars/{JAR}", "txns_spark/py.typed", "txns/py.typed"} <= names
    for namespace in ("dbt", "dbt/adapters", "dbt/include"):
        assert f"{namespace}/__init__.py" not in names
    top = {name.split("/")[0] for name in names} - {"iceberg_txns-0.1.0.dist-info"}
    assert top == {"txns", "txns_spark", "sqlalchemy_txns", "dbt"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_wheel_of_make_dist_runs_the_first_example_of_the_readme(
    root: Path, tmp_path: Path
) -> None:
    """In an environment with nothing in it but the wheel and what that asks for."""
    python = tmp_path / "environment" / "bin" / "python"
    (tmp_path / "example.py").write_text(blocks("README.md")[0])
    commands: list[list[str | Path]] = [
        ["make", "-C", root, "dist", f"DIST={tmp_path}"],
        [sys.executable, "-m", "venv", tmp_path / "environment"],
        [python, "-m", "pip", "install", f"{tmp_path}/iceberg_txns-0.1.0-py3-none-any.whl[spark]"],
        [python, "example.py"],
        [python.with_name("txns"), "status", "--json"],
    ]
    for command in commands:
        done = run(*map(str, command), cwd=tmp_path, timeout_s=1500, PYTHONPATH="")
        assert done.returncode == 0, done.stdout + done.stderr
        if command[1] == "example.py":
            assert "committed" in done.stdout.splitlines()
    tables = {each["name"]: each["state"] for each in json.loads(done.stdout)["tables"]}
    assert {"default.sold": "ok", "default.stock": "ok"} == tables


@pytest.mark.parametrize("jdk", ["", "JAVA_HOME"])
def test_missing_tools_are_named_with_the_cure(sdist: Path, tmp_path: Path, jdk: str) -> None:
    """Without a JDK or Maven the build stops with what is missing and what to do."""
    environment = {"PATH": str(tmp_path), "TXNS_SKIP_JAR": "", "JAVA_HOME": ""}
    environment |= {jdk: str(tmp_path)} if jdk else {}
    (sdist / "spark_extension/python/jars" / JAR).unlink(missing_ok=True)
    done = run(sys.executable, "setup.py", "-q", "build_jar", cwd=sdist, **environment)
    assert done.returncode == 1
    expected = f"(javac) below JAVA_HOME={tmp_path}" if jdk else "(javac) on the PATH"
    assert expected in done.stderr
    for needed in ("Maven (mvn) is not on the PATH", "version 17", "TXNS_SKIP_JAR=1"):
        assert needed in done.stderr


def test_skipping_the_jar_needs_no_tools(sdist: Path, tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_jar"]
    done = run(*command, cwd=sdist, PATH=str(tmp_path), JAVA_HOME="", TXNS_SKIP_JAR="1")
    assert done.returncode == 0, done.stderr


def test_an_editable_installation_finds_every_package_and_warns_of_nothing(
    sdist: Path, tmp_path: Path
) -> None:
    """It is a path entry, which type checkers and editors follow, and no finder."""
    build = f"import setuptools.build_meta as b; b.build_editable({str(tmp_path)!r})"
    done = run(sys.executable, "-c", build, cwd=sdist, TXNS_SKIP_JAR="1")
    assert done.returncode == 0, done.stderr
    assert "BuildBackendWarning" not in done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        entries = [name for name in opened.namelist() if "/" not in name]
        assert ["__editable__.iceberg_txns-0.1.0.pth"] == entries
        [path] = opened.read(entries[0]).decode().splitlines()
    for package, folder in PACKAGES.items():
        assert (Path(path) / package.replace(".", "/")).samefile(sdist / folder)


def test_folders_are_mapped_to_the_five_packages(root: Path) -> None:
    done = run(sys.executable, "-c", "import setup; print(setup.FOLDERS)", cwd=root)
    assert str(PACKAGES) == done.stdout.strip()


def test_one_version_everywhere(root: Path) -> None:
    """The distribution, the core, the jar and its name agree."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["version"] == "0.1.0"
    assert txns.__version__ == "0.1.0"
    assert _jar.JAR_NAME == JAR
    assert pom_text(root, "version") == "0.1.0"
    for file in ("setup.py", "Makefile"):
        assert JAR in (root / file).read_text()


def test_pom_and_python_name_the_same_versions(root: Path) -> None:
    assert pom_text(root, "properties/iceberg.version") == _versions.ICEBERG
    for name in ("SPARK_TESTED", "ICEBERG_TESTED"):
        assert versions_in_java(root, name) == getattr(_versions, name)[::-1]
    assert pom_text(root, "properties/spark.version") in _versions.SPARK_TESTED
    assert pom_text(root, "properties/spark.binary.version") == _versions.SPARK_MINOR
    assert pom_text(root, "properties/scala.binary.version") == _versions.SCALA
    assert _catalog.SQLITE.endswith(":" + pom_text(root, "properties/sqlite-jdbc.version"))


def versions_in_java(root: Path, name: str) -> tuple[str, ...]:
    (file,) = (root / "spark_extension/java").glob("**/src/main/**/Versions.java")
    listed = re.search(rf"\b{name} = List\.of\(([^)]*)\)", file.read_text())
    assert listed is not None, name
    return tuple(re.findall(r'"([^"]*)"', listed[1]))


def pom_text(root: Path, path: str) -> str:
    project = ET.parse(root / "spark_extension/java/pom.xml").getroot()
    steps = [f"{{http://maven.apache.org/POM/4.0.0}}{step}" for step in path.split("/")]
    found = project.find("/".join(steps))
    assert found is not None, path
    return str(found.text)


def test_every_target_of_the_makefile_has_a_help_line(root: Path) -> None:
    text = (root / "Makefile").read_text()
    targets = re.findall(r"^\.PHONY: (.+)$", text, flags=re.MULTILINE)
    listed = run("make", "help", cwd=root).stdout
    assert len(targets) > 10
    for target in " ".join(targets).split():
        assert re.search(rf"make {re.escape(target)}\s+\w", listed), target


def test_docs_name_only_targets_that_exist(root: Path) -> None:
    text = (root / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", text, flags=re.MULTILINE))
    for file in ("README.md", "CONTRIBUTING.md"):
        for used in re.findall(
            r"^make ([a-z0-9 -]+?)(?: +#|$)", (root / file).read_text(), re.MULTILINE
        ):
            assert set(used.split()) <= targets, (file, used)

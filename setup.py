"""
Map the repository's folders to import packages, and build the jar.

Metadata and dependencies are in pyproject.toml. Here is what it cannot say:
which folder becomes which package, also in an editable installation, and the
command `build_jar`, which runs before `build_py` so that the jar is package
data of `txns_spark`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Command, find_namespace_packages, find_packages, setup
from setuptools.command.build import build
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
LINKS = ".make/packages"
JAVA = ROOT / "spark_extension" / "java"
JAR_NAME = "txns-spark-4.1_2.13-0.1.0.jar"
JAVA_VERSION_MIN = 17

# Import package -> folder. dbt, dbt.adapters and dbt.include belong to
# dbt-core and dbt-adapters; they are namespaces here and never shipped.
FOLDERS = {
    "txns": "txns",
    "txns_spark": "spark_extension/python",
    "sqlalchemy_txns": "sqlalchemy_dialect",
    "dbt.adapters.txns": "dbt_txns",
    "dbt.include.txns": "macros",
}

CURE = """
  The Spark extension's jar is built during the installation. It needs
    - a Java Development Kit, version 17 or later (JAVA_HOME, or javac on the PATH),
      for example: apt-get install openjdk-17-jdk-headless
    - Maven 3.8 or later (mvn on the PATH), for example: apt-get install maven
    - a Maven repository that it can reach, at the first build.
  To install without the jar (the Python half only): TXNS_SKIP_JAR=1 pip install ...
"""


class BuildJar(Command):
    """Build the jar with Maven, when it is missing or older than its sources."""

    description = "build the Spark extension's jar and put it into txns_spark/jars"
    user_options: list[tuple[str, str | None, str]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        """Take no option."""

    def finalize_options(self) -> None:
        """Take no option."""

    def run(self) -> None:
        """Build and copy; leave a jar that is newer than its sources alone."""
        if os.environ.get("TXNS_SKIP_JAR", "0") not in {"", "0"}:
            self.announce("TXNS_SKIP_JAR is set: the Spark extension's jar is not built", 3)
            return
        target = ROOT / FOLDERS["txns_spark"] / "jars" / JAR_NAME
        newest_source = max(path.stat().st_mtime for path in self._sources())
        if target.exists() and target.stat().st_mtime >= newest_source:
            return
        built = JAVA / "spark" / "target" / JAR_NAME
        self._package(built)
        target.parent.mkdir(exist_ok=True)
        # Copy and rename: a session that has the old jar open keeps its file.
        partial = target.with_suffix(".partial")
        shutil.copyfile(built, partial)
        partial.replace(target)

    def get_source_files(self) -> list[str]:
        """List what an sdist has to carry for this command."""
        return [str(path.relative_to(ROOT)) for path in self._sources() if path.is_file()]

    def get_outputs(self) -> list[str]:
        """List nothing: the jar lands in the source tree, `build_py` takes it from there."""
        return []

    def get_output_mapping(self) -> dict[str, str]:
        """Map nothing, see `get_outputs`."""
        return {}

    def _sources(self) -> list[Path]:
        # Folders count too: removing a file changes its folder's time only.
        mains = list(JAVA.glob("*/src/main"))
        inside = [path for main in mains for path in main.rglob("*")]
        return [JAVA / "pom.xml", *JAVA.glob("*/pom.xml"), *mains, *inside]

    def _package(self, built: Path) -> None:
        maven = shutil.which("mvn")
        problems = [*_jdk_problems(), *([] if maven else ["Maven (mvn) is not on the PATH"])]
        if problems:
            raise SystemExit(_refusal("; ".join(problems)))
        assert maven is not None
        self.announce("building the Spark extension's jar with Maven", 3)
        # Not -DskipTests, which compiles the tests all the same.
        command = [maven, "-q", "-B", "-Dmaven.test.skip=true", "package"]
        done = subprocess.run(command, cwd=JAVA, check=False)  # noqa: S603  (fixed arguments)
        if done.returncode != 0 or not built.exists():
            raise SystemExit(_refusal(f"Maven failed, see its output above: {' '.join(command)}"))


def _jdk_problems() -> list[str]:
    """Say why there is no usable JDK; an empty list when there is one."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=str(Path(home) / "bin")) if home else shutil.which("javac")
    if javac is None:
        where = f"below JAVA_HOME={home}" if home else "on the PATH"
        return [f"no Java compiler (javac) {where}"]
    answer = subprocess.run([javac, "-version"], check=False, capture_output=True, text=True)  # noqa: S603
    text = (answer.stdout + answer.stderr).strip()
    version = re.search(r"javac (\d+)", text)
    if version is None:
        return [f"{javac} does not say its version: {text!r}"]
    if int(version[1]) < JAVA_VERSION_MIN:
        return [f"{javac} is of Java {version[1]}, {JAVA_VERSION_MIN} or later is needed"]
    return []


def _refusal(problem: str) -> str:
    return f"\n\nerror: cannot build {JAR_NAME}: {problem}\n{CURE}"


class Build(build):
    """The usual build, with the jar made first."""

    sub_commands = [("build_jar", None), *build.sub_commands]


class EditableWheel(editable_wheel):
    """
    An editable installation: the path of one folder, in which each package has its own name.

    Where folders have other names than their packages, setuptools installs a finder in its
    place, which type checkers and editors do not follow, and which it warns of.
    """

    def finalize_options(self) -> None:
        """Let setuptools find the packages by links to their folders."""
        link_packages()
        self.distribution.package_dir = {"": LINKS}
        super().finalize_options()


def link_packages() -> None:
    """Link the folders under the names of their packages, below `.make/packages`."""
    for package, folder in FOLDERS.items():
        link = ROOT / LINKS / package.replace(".", "/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(ROOT / folder, link.parent))


def _packages() -> list[str]:
    """List the five packages with whatever sub-packages their folders hold."""
    return [
        name
        for package, folder in FOLDERS.items()
        for name in [package, *(f"{package}.{sub}" for sub in _folders_in(folder))]
    ]


def _folders_in(folder: str) -> list[str]:
    """List a folder's sub-packages; those of macros have no Python file."""
    find = find_namespace_packages if folder == FOLDERS["dbt.include.txns"] else find_packages
    return find(str(ROOT / folder))


if __name__ == "__main__":
    setup(
        packages=_packages(),
        package_dir=dict(FOLDERS),
        package_data={
            "txns": ["py.typed"],
            "txns_spark": ["py.typed", f"jars/{JAR_NAME}"],
            "sqlalchemy_txns": ["py.typed"],
            "dbt.include.txns": [
                "*.yml",
                "adapter/*.sql",
                "materializations/*.sql",
                "for_spark/*.yml",
                "for_spark/macros/*.sql",
            ],
        },
        cmdclass={"build": Build, "build_jar": BuildJar, "editable_wheel": EditableWheel},
    )

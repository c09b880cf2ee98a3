"""
Victims: Spark drivers that stop at one point of the protocol, to be killed there.

Their catalog is the real one with KillPoints of the Java tests around its swaps and files.
"""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from integration_tests import sessions
from integration_tests.drivers import Driver

_JAVA = Path(__file__).parent.parent / "spark_extension" / "java"
_CLASSES = _JAVA / "core" / "target" / "test-classes"
_KILL_POINTS = "io.txns.iceberg.KillPoints$KillPoint"


def make_jar(folder: Path) -> Path:
    """Compile the Java tests, and put what stops a driver into a jar."""
    command = ["mvn", "-q", "-B", "-f", str(_JAVA / "pom.xml"), "-pl", "core", "test-compile"]
    subprocess.run(command, check=True)
    jar = folder / "kill-points.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for pattern in ("KillPoints*.class", "HookedOperations*.class"):
            for path in _CLASSES.rglob(pattern):
                archive.write(path, path.relative_to(_CLASSES))
    return jar


def victim(jar: Path, folder: Path, name: str, *, point: str, skip: int) -> Driver:
    """
    Start a driver that commits transactions of the bank until it stops.

    Args:
        jar: Of make_jar.
        folder: Of the lake.
        name: Of the driver's transactions; no other one has it.
        point: One of the points of KillPoints.
        skip: How often it comes past the point before.
    """
    catalog = sessions.catalog_settings(folder) | {
        "catalog-impl": f"{_KILL_POINTS}Catalog",
        "io-impl": f"{_KILL_POINTS}FileIO",
        "kill.point": point,
        "kill.skip": str(skip),
        "txns.tidy-after": "2",
    }
    for given_otherwise in ("type", "warehouse"):
        del catalog[given_otherwise]
    options = {f"spark.sql.catalog.lake.{key}": value for key, value in catalog.items()}
    options["spark.jars"] = str(jar)
    return Driver("bank", folder, name, folder.parent / "victim.log", **options)


def kill_at(point: str, driver: Driver) -> list[list[str]]:
    """Kill a victim when it has stopped; return what it had said: begins and committed, labels."""
    stopped = f"at {point}"
    while driver.wait_for_line() != stopped:
        pass
    driver.kill()
    assert driver.was_killed
    first = driver.lines.index(stopped)
    # More of its threads may have stopped; nothing went on.
    assert {stopped} == set(driver.lines[first:])
    return [line.split(maxsplit=1) for line in driver.lines[:first]]

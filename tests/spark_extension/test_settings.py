from __future__ import annotations

from pathlib import Path

import pytest

from txns_spark._settings import (
    EXTENSIONS,
    JARS,
    PACKAGES,
    Settings,
    parse_properties,
    parse_submit_args,
    settings_of,
)
from txns_spark.errors import ConfigurationError


def test_properties_are_read_as_java_reads_them() -> None:
    """Separators, comments, continuation lines and escapes of java.util.Properties hold."""
    text = r"""
# a comment
! another
spark.a   one
spark.b=two
spark.c : three
spark.d a,\
        b
spark.e  with = signs
spark.f=back\\slash
spark.g
   spark.h indented
"""
    expected = {
        "spark.a": "one",
        "spark.b": "two",
        "spark.c": "three",
        "spark.d": "a,b",
        "spark.e": "with = signs",
        "spark.f": "back\\slash",
        "spark.g": "",
        "spark.h": "indented",
    }
    assert expected == parse_properties(text)


def test_submit_args_are_read_as_spark_submit_reads_them() -> None:
    """An option of its own wins over --conf, both spellings of an option count."""
    settings, properties = parse_submit_args(
        "--master local --packages a:b:1 --conf spark.jars.packages=x:y:2 --jars=/j.jar "
        "-c 'spark.sql.extensions=E, F' --properties-file /p.conf pyspark-shell"
    )
    assert {PACKAGES: "a:b:1", JARS: "/j.jar", EXTENSIONS: "E, F"} == settings
    assert Path("/p.conf") == properties


def test_precedence_is_sparks() -> None:
    """The builder wins, but not over what is read when the JVM is launched."""
    settings = Settings(
        builder={EXTENSIONS: "builder", JARS: "builder"},
        submit={EXTENSIONS: "submit", JARS: "submit"},
        defaults={EXTENSIONS: "defaults", JARS: "defaults", PACKAGES: "defaults"},
    )
    assert settings.items(EXTENSIONS) == ["builder"]
    assert settings.items(JARS) == ["submit"]
    assert settings.items(PACKAGES) == ["defaults"]


def test_appending_keeps_order_and_adds_nothing_twice() -> None:
    settings = Settings(builder={JARS: "/a.jar , /b.jar"}, submit={}, defaults={})
    assert settings.appended(JARS, ["/b.jar", "/c.jar"]) == "/a.jar,/b.jar,/c.jar"
    assert settings.appended(JARS, ["/a.jar"]) is None


def test_submit_args_that_would_win_are_refused_with_what_to_add() -> None:
    settings = Settings(builder={}, submit={PACKAGES: "a:b:1"}, defaults={})
    with pytest.raises(ConfigurationError) as caught:
        settings.appended(PACKAGES, ["c:d:2"])
    assert "PYSPARK_SUBMIT_ARGS sets spark.jars.packages" in str(caught.value)
    assert "c:d:2" in str(caught.value)


def test_spark_conf_dir_stands_before_spark_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("home/conf", "conf"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "spark-defaults.conf").write_text(f"spark.from {folder}\n")
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert settings_of({}, tmp_path / "home").value("spark.from") == "home/conf"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    assert settings_of({}, tmp_path / "home").value("spark.from") == "conf"

"""
Read what is configured for Spark already: builder, PYSPARK_SUBMIT_ARGS, spark-defaults.conf.

Spark has two precedences. `spark.jars` and `spark.jars.packages` are read when
the JVM is launched, where PYSPARK_SUBMIT_ARGS wins over the builder; everything
else is read when the context starts, where the builder wins. Both win over
spark-defaults.conf.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from txns_spark.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

JARS = "spark.jars"
PACKAGES = "spark.jars.packages"
EXTENSIONS = "spark.sql.extensions"

# What spark-submit turns into a setting.
_OPTIONS = {"--jars": JARS, "--packages": PACKAGES}
_LAUNCH_KEYS = frozenset(_OPTIONS.values())


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What Spark would find if the session started now.

    Attributes:
        builder: The builder's own options.
        submit: What PYSPARK_SUBMIT_ARGS says, or, once a JVM runs, what it was launched with.
        defaults: The properties file that spark-submit would read.
    """

    builder: Mapping[str, str]
    submit: Mapping[str, str]
    defaults: Mapping[str, str]

    def value(self, key: str) -> str:
        """Return the value that Spark would use; empty if there is none."""
        sources = [self.builder, self.submit, self.defaults]
        if key in _LAUNCH_KEYS:
            sources = [self.submit, self.builder, self.defaults]
        return next((str(source[key]) for source in sources if source.get(key)), "")

    def items(self, key: str) -> list[str]:
        """Return a list-valued setting, in its order."""
        return [item for item in re.split(r"\s*,\s*", self.value(key).strip()) if item]

    def only_builder(self) -> Settings:
        """Return the builder's options alone."""
        return Settings(builder=self.builder, submit={}, defaults={})

    def without_builder(self) -> Settings:
        """Return what is configured outside of the builder."""
        return Settings(builder={}, submit=self.submit, defaults=self.defaults)

    def below(self, prefix: str) -> dict[str, str]:
        """Return every setting whose key starts with the prefix, without the prefix."""
        keys = {*self.builder, *self.submit, *self.defaults}
        return {key[len(prefix) :]: self.value(key) for key in keys if key.startswith(prefix)}

    def appended(self, key: str, additions: list[str]) -> str | None:
        """
        Return the setting with the additions after it; None if it has them all.

        Raises:
            ConfigurationError: PYSPARK_SUBMIT_ARGS sets it, and would win over the builder.
        """
        present = self.items(key)
        missing = [item for item in additions if item not in present]
        if not missing:
            return None
        if key in _LAUNCH_KEYS and self.submit.get(key):
            raise ConfigurationError(
                f"PYSPARK_SUBMIT_ARGS sets {key}, which wins over the builder; "
                f"add to it there: {','.join(missing)}"
            )
        return ",".join([*present, *missing])


def settings_of(builder: Mapping[str, str], spark_home: Path) -> Settings:
    """Read the settings of a session that would be started by this builder."""
    submit, properties_file = parse_submit_args(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    if properties_file is None:
        folder = os.environ.get("SPARK_CONF_DIR") or spark_home / "conf"
        properties_file = Path(folder) / "spark-defaults.conf"
    defaults = {}
    if properties_file.is_file():
        defaults = parse_properties(properties_file.read_text(encoding="utf-8"))
    return Settings(builder=dict(builder), submit=submit, defaults=defaults)


def parse_submit_args(text: str) -> tuple[dict[str, str], Path | None]:
    """Return the settings in arguments of spark-submit, and the properties file if one is named."""
    settings: dict[str, str] = {}
    named: dict[str, str] = {}
    properties_file = None
    words = iter(shlex.split(text))
    for word in words:
        option, equals, value = word.partition("=")
        if option not in {*_OPTIONS, "--conf", "-c", "--properties-file"}:
            continue
        value = value if equals else next(words, "")
        if option in _OPTIONS:
            named[_OPTIONS[option]] = value
        elif option == "--properties-file":
            properties_file = Path(value)
        else:
            key, _, setting = value.partition("=")
            settings[key.strip()] = setting.strip()
    # spark-submit: an option of its own wins over --conf.
    return settings | named, properties_file


def parse_properties(text: str) -> dict[str, str]:
    """
    Read a file like spark-defaults.conf.

    Source: java.util.Properties, which Spark reads it with: key and value are parted by
    white space, `=` or `:`; `#` and `!` start a comment line; a line that ends with an odd
    number of backslashes goes on.
    """
    properties = {}
    for line in _logical_lines(text):
        parts = re.match(r"((?:\\.|[^\\\s=:])+)\s*[=:]?\s*(.*)", line)
        if parts is not None:
            properties[_unescaped(parts[1])] = _unescaped(parts[2]).strip()
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    going_on = False
    for raw in text.splitlines():
        line = raw.lstrip()
        if not going_on and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        goes_on = backslashes % 2 == 1
        line = line[:-1] if goes_on else line
        if going_on:
            lines[-1] += line
        else:
            lines.append(line)
        going_on = goes_on
    return lines


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n"}.get(found[1], found[1]), text)

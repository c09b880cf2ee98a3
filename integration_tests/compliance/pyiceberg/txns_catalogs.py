"""
A plugin for pytest that hands catalogs of ours to pyiceberg's own suite.

The suite's conftest makes its catalogs by factories: each is wrapped, so that ours stands on
the same plain catalog. Nothing of the suite is changed.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import exclusions
import pytest

import txns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

UNDERNEATH = "sql"
"""The suite has three SQL catalogs; the other two are this one in memory and with a switch."""

OF_THE_CLASS = ("create_tables", "destroy_tables", "_parse_metadata_version")
"""What the suite asks of SqlCatalog's own methods, which are no catalog's interface."""


ANYWHERE = ("file:///", "memory://", "s3://")
"""The suite puts tables where it likes."""


def _plain(plain: Catalog) -> Catalog:
    return plain


def _as_plain(plain: Catalog) -> Catalog:
    return txns.open(plain, register="none").catalog()


def _autocommit(plain: Catalog) -> Catalog:
    return txns.open(plain, create_locations=ANYWHERE).catalog()


def _transaction(plain: Catalog) -> Catalog:
    return txns.open(plain, create_locations=ANYWHERE).begin()


CATALOGS: dict[str, tuple[Callable[[Catalog], Catalog], dict[str, exclusions.Exclusion]]] = {
    "plain": (_plain, {}),
    "autocommit-plain-tables": (_as_plain, {}),
    "autocommit": (_autocommit, exclusions.AUTOCOMMIT),
    "transaction": (_transaction, exclusions.TRANSACTION),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    parser.addoption("--catalog", choices=list(CATALOGS), required=True)
    parser.addoption("--counts", required=True, help="where to write what came of it, as JSON")


class _Compliance:
    def __init__(self, config: pytest.Config) -> None:
        self._make, self._excluded = CATALOGS[config.getoption("--catalog")]
        self._counts = Path(config.getoption("--counts"))
        self._rules: Counter[str] = Counter()

    def pytest_plugin_registered(self, plugin: object) -> None:
        """Wrap the factories of the suite's conftest."""
        factories = getattr(plugin, "_CATALOG_FACTORIES", None)
        for name, make in list((factories or {}).items()):
            factories[name] = self._wrapped(make)

    def _wrapped(self, make: Callable[[str, Path], Any]) -> Callable[[str, Path], Catalog]:
        def made(name: str, warehouse: Path) -> Catalog:
            plain = make(name, warehouse)
            catalog = self._make(plain)
            for method in OF_THE_CLASS:
                setattr(catalog, method, getattr(plain, method))
            return catalog

        return made

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Function]
    ) -> None:
        """Keep the cases over one catalog; mark those that contradict the design."""
        kept = [item for item in items if _underneath(item) == UNDERNEATH]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
        for item in kept:
            found = self._excluded.get(item.originalname)
            if found and (found.params or {}).items() <= item.callspec.params.items():
                self._rules[found.rule] += 1
                item.add_marker(
                    pytest.mark.xfail(strict=True, raises=found.error, reason=found.rule)
                )
        stale = self._excluded.keys() - {item.originalname for item in kept}
        if stale:
            raise pytest.UsageError(f"excluded, but not in the suite: {sorted(stale)}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write how many cases passed, failed, and are excluded by which rule."""
        stats = terminalreporter.stats
        counts = {
            "passed": len(stats.get("passed", [])),
            "failed": len(stats.get("failed", [])) + len(stats.get("error", [])),
            "skipped": len(stats.get("xfailed", [])) + len(stats.get("skipped", [])),
            "rules": self._rules,
        }
        self._counts.write_text(json.dumps(counts), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Register what needs the options."""
    config.pluginmanager.register(_Compliance(config), "txns-compliance")


def _underneath(item: pytest.Function) -> object:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("catalog", params.get("catalog_with_warehouse"))

"""
Metrics as Prometheus reads them: its text format, version 0.0.4.

prometheus_client writes the text: its escapes and types are others' to keep. What it counts by
itself is left aside, since a handle's counts are those of its own clock and threads.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from txns._admin.health import health
from txns._admin.probe import Probe
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from txns._admin.health import Health
    from txns._metrics import Metrics
    from txns._services import Parts

STATES = ("ok", "unapplied", "foreign write", "quarantine", "dropped", "unreadable")

_S = 1000


def lake_text(parts: Parts) -> str:
    """Give the gauges of a lake: what its log and each of its tables say now."""
    labels = {"catalog": parts.catalog.name, "commit_table": dotted_name(parts.log.identifier)}
    return _text(_LakeGauges(health(parts), labels))


def handle_text(metrics: Metrics) -> str:
    """Give what a handle has counted since it was opened."""
    return _text(_HandleCounts(metrics))


def _text(collector: Collector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


class _LakeGauges(Collector):
    def __init__(self, found: Health, labels: dict[str, str]) -> None:
        self._found = found
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        """Give a gauge for each fact of `txns status`."""
        found, state = self._found, self._found.head.state
        probe = Probe(found.head, found.now_ms)
        oldest = found.outstanding[0].entry if found.outstanding else None
        age_ms = found.age_ms(oldest) if oldest else 0
        yield self._gauge("head_entries", "entries that stand in the head", probe.entries)
        yield self._gauge("head_bytes", "bytes of the head's records", probe.bytes)
        yield self._gauge(
            "unapplied_entries", "entries that some table does not show", len(found.outstanding)
        )
        yield self._gauge("oldest_unapplied_age_seconds", "of the oldest of these", age_ms / _S)
        yield self._gauge(
            "clock_skew_seconds", "how far the log is ahead of this clock", found.skew_ms / _S
        )
        yield self._gauge("upper_timestamp_seconds", "the log's upper", state.upper / _S)
        yield self._gauge("off", "1 while transactions are off", int(state.off))
        yield self._gauge("warnings", "warnings of txns status", len(found.warnings))
        tables = GaugeMetricFamily(
            "txns_tables", "tables under care, by state", labels=[*self._labels, "state"]
        )
        counts = Counter(each.state for each in found.tables)
        for name in STATES:
            tables.add_metric([*self._labels.values(), name], counts[name])
        yield tables

    def _gauge(self, name: str, words: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"txns_{name}", words, labels=list(self._labels))
        gauge.add_metric(list(self._labels.values()), value)
        return gauge


class _HandleCounts(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Give a counter for each outcome, and the phases."""
        for what, count in self._metrics.counts().items():
            yield CounterMetricFamily(what.metric, what.value, value=count)
        took = SummaryMetricFamily("txns_phase_seconds", "how long phases took", labels=["phase"])
        longest = GaugeMetricFamily(
            "txns_phase_seconds_max", "the longest of each phase", labels=["phase"]
        )
        for phase, each in self._metrics.phases().items():
            took.add_metric([phase.value], count_value=each.count, sum_value=each.sum_ms / _S)
            longest.add_metric([phase.value], each.max_ms / _S)
        yield took
        yield longest

"""
The inputs of a run, each from its seed and its number: golden files made hostile, and others.

An input is a line of JSON: its number, which functions it goes through (`kind`), and what they get.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.fuzz import mutation
from tests.fuzz.more_updates import LOG_UUID, MORE_UPDATES, UUID
from tests.fuzz.mutation import Pairs, Raw, dump

if TYPE_CHECKING:
    from collections.abc import Callable

Input = dict[str, Any]

GOLDEN = Path(__file__).resolve().parents[2] / "docs" / "golden"
LOG = "file:///lake/txns/commits"
NOW_MS = 1767265400000
_TABLES, _PAYLOAD, _RESERVE = "txns.tables", "txns.payload", "txns.reserve"
_TIMES = ["txns.commit-ts", "txns.prev-ts", "txns.upper", "txns.tidied-upto", "txns.read-ts"]


@cache
def golden(name: str) -> Any:
    path = GOLDEN / name
    if path.is_dir():
        return [json.loads(each.read_text("utf-8")) for each in sorted(path.iterdir())]
    return json.loads(path.read_text("utf-8"))


@cache
def _summaries() -> list[dict[str, str]]:
    return [each["summary"] for folder in ("valid", "invalid") for each in golden(folder)]


@cache
def _payloads() -> list[Any]:
    inline = [json.loads(one[_PAYLOAD]) for one in _valid() if _PAYLOAD in one]
    return [*inline, *({"table-changes": [_request(each)]} for each in _changes())]


@cache
def _valid() -> list[dict[str, str]]:
    return [each["summary"] for each in golden("valid")]


def _changes() -> list[Any]:
    changes: list[Any] = golden("ids_of_changes.json")
    return changes


def _request(change: Any) -> Any:
    identifier = {"namespace": ["shop"], "name": "a"}
    return {"identifier": identifier, **{key: change[key] for key in ("requirements", "updates")}}


@cache
def _parts() -> list[Any]:
    """Give updates, requirements and what is in them, to be put in the place of others."""
    parts: list[Any] = []
    for payload in _payloads():
        for change in payload["table-changes"]:
            parts += [*change["updates"], *change["requirements"]]
    parts += [each["snapshot"] for each in parts if "snapshot" in each]
    parts += [each["schema"] for each in parts if "schema" in each]
    return [*parts, *MORE_UPDATES]


def _record(rng: Random) -> Input:
    return {"summary": _hostile_summary(rng, dict(rng.choice(_summaries())))}


def _hostile_summary(rng: Random, summary: dict[str, str]) -> dict[str, str]:
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
        key = rng.choice([*summary, _TABLES, _TABLES]) if summary else _TABLES
        _change_summary(rng, summary, key)
    return summary


def _change_summary(rng: Random, summary: dict[str, str], key: str) -> None:
    stored = summary.get(key, "")
    choice = rng.randrange(9)
    if choice == 0:
        summary.pop(key, None)
    elif choice == 1:
        summary[rng.choice([*_valid()[0], "txns.reader-features", "txns.comment"])] = rng.choice(
            mutation.TEXTS
        )
    elif choice == 2:
        summary.update(rng.choice(list(rng.choice(_summaries()).items())) for _ in range(1))
    elif key in {_TABLES, _PAYLOAD, _RESERVE} and choice < 8:
        summary[key] = _hostile_json(rng, stored)
    elif key in _TIMES and choice < 8:
        summary[key] = rng.choice([*mutation.NUMBERS, *summary.values()])
    else:
        summary[key] = mutation.mutated_text(rng, stored)


def _hostile_json(rng: Random, stored: str) -> str:
    try:
        value = json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    if rng.random() >= 0.2:
        try:
            return dump(mutation.mutated(rng, value, _parts()))
        except RecursionError:  # the golden file that nests too deeply
            pass
    return mutation.mutated_text(rng, stored)


def _head(rng: Random) -> Input:
    head = copy.deepcopy(rng.choice(golden("head")))
    snapshots, main = head["snapshots"], head["main"]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        _change_head(rng, snapshots)
    if rng.random() < 0.1:
        main = rng.choice([*(each["snapshot-id"] for each in snapshots), 5])
    return {"metadata": dump(_log_metadata(snapshots, main))}


def _change_head(rng: Random, snapshots: list[Any]) -> None:
    if not snapshots:
        return
    one = rng.choice(snapshots)
    ids = [each["snapshot-id"] for each in snapshots]
    choice = rng.randrange(9)
    if choice == 0:
        snapshots.remove(one)
    elif choice == 1:
        one["parent-snapshot-id"] = rng.choice([*ids, 5])
    elif choice == 2:
        one["operation"] = rng.choice(["replace", "append", "delete", "unheard-of"])
        one["summary"] = {}
    elif choice == 3:
        again = copy.deepcopy(one)
        again["snapshot-id"] = rng.choice([*ids, max(ids) + 1])
        snapshots.append(again)
    elif choice == 4:
        one["summary"][rng.choice(_TIMES)] = rng.choice(
            rng.choice(snapshots)["summary"].get(rng.choice(_TIMES), "7").split("x")
        )
    elif choice == 5:
        one["summary"]["txns.kind"] = rng.choice(mutation.TEXTS[61:72])
    elif choice == 6:
        one["summary"]["txns.txn-id"] = rng.choice(snapshots)["summary"].get("txns.txn-id", "t")
    else:
        one["summary"] = _hostile_summary(rng, one["summary"])


def _log_metadata(snapshots: list[Any], main: int) -> Any:
    fields = [("commit_ts", "long"), ("committed_at", "timestamptz"), ("txn_id", "string")]
    fields += [("kind", "string")]
    schema = [
        {"id": n, "name": name, "required": True, "type": kind}
        for n, (name, kind) in enumerate(fields, 1)
    ]
    metadata = _metadata(LOG_UUID, LOG, schema)
    metadata["snapshots"] = [
        {
            **{key: each[key] for key in ("snapshot-id", "parent-snapshot-id") if key in each},
            "sequence-number": n,
            "timestamp-ms": NOW_MS - 1000 + n,
            "manifest-list": f"{LOG}/metadata/snap-{n}.avro",
            "summary": {"operation": each["operation"], **each["summary"]},
            "schema-id": 0,
        }
        for n, each in enumerate(snapshots, 1)
    ]
    metadata["last-sequence-number"] = len(snapshots)
    metadata["current-snapshot-id"] = main
    metadata["refs"] = {"main": {"snapshot-id": main, "type": "branch"}}
    return metadata


def _metadata(uuid: str, location: str, fields: list[Any]) -> Any:
    return {
        "format-version": 2,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": NOW_MS,
        "last-column-id": len(fields),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def _payload(rng: Random) -> Input:
    payload = rng.choice(_payloads())
    count = len(payload["table-changes"])
    if rng.random() < 0.75:
        payload = mutation.mutated(rng, payload, _parts())
    text = dump(payload)
    if rng.random() < 0.15:
        text = mutation.mutated_text(rng, text)
    if rng.random() < 0.7:
        return {"tables": count, "inline": text}
    stored = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.6:
        stored = mutation.mutated_bytes(rng, stored)
    sha256 = hashlib.sha256(stored).hexdigest()
    name = f"{LOG}/metadata/txns-payload-0a-{sha256[:8]}.json"
    if rng.random() < 0.1:
        name = mutation.mutated_text(rng, name)
    if rng.random() < 0.1:
        sha256 = mutation.mutated_text(rng, sha256)
    return {
        "tables": count,
        "location": name,
        "sha256": sha256,
        "bytes": base64.b64encode(stored).decode(),
    }


@cache
def _bases() -> list[Any]:
    files = ("ids_of_changes.json", "logged_states.json", "outstanding_branches.json")
    return [each["base"] for file in files for each in golden(file)]


_KEYS = [
    "commit-ts",
    "txn-id",
    "passing",
    "dropped",
    "adopted",
    "lost-above",
    "restored",
    "copy-of",
    "outstanding",
]


def _hostile_base(rng: Random, base: Any) -> Any:
    base = copy.deepcopy(base)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        _change_base(rng, base)
    if rng.random() < 0.15:
        base = mutation.mutated(rng, base, _parts())
    return base


def _change_base(rng: Random, base: Any) -> None:
    properties, snapshots = base["properties"], base["snapshots"]
    ids = [each["snapshot-id"] for each in snapshots]
    values = [*map(str, ids), *(each["summary"].get("txns.commit-ts", "7") for each in snapshots)]
    values += ["0", "9223372036854775807", "1767265380004,11", *rng.sample(mutation.TEXTS, 5)]
    choice = rng.randrange(8)
    if choice == 0 or not snapshots:
        key = rng.choice(["applied", "created", "table-uuid", "commit-table", "purging"])
        properties[f"txns.{key}"] = rng.choice([*values, UUID, "txns.commits"])
    elif choice == 1:
        mark = {"commit-table": "txns.commits", "commit-table-uuid": LOG_UUID, "table-uuid": UUID}
        properties.update({f"txns.{key}": value for key, value in mark.items()})
    elif choice < 5:
        rng.choice(snapshots)["summary"][f"txns.{rng.choice(_KEYS)}"] = rng.choice(values)
    elif choice == 5:
        rng.choice(snapshots)["parent-snapshot-id"] = rng.choice([*ids, 5])
    elif choice == 6:
        name = rng.choice(["side", "main", "txns-outstanding", f"txns-foreign-{ids[0]}"])
        name = rng.choice([name, f"txns-kept-{ids[0]}-5", *rng.sample(mutation.TEXTS, 2)])
        kind = rng.choice(["branch", "branch", "tag"])
        base.setdefault("refs", {})[name] = {"snapshot-id": rng.choice(ids), "type": kind}
    else:
        rng.choice(snapshots)["summary"] = {
            "operation": rng.choice(["append", "replace", "delete", "overwrite"])
        }


def _mark(rng: Random) -> Input:
    return {"metadata": dump(_hostile_base(rng, rng.choice(_bases())))}


def _overlay(rng: Random) -> Input:
    known = rng.choice(_changes())
    base = copy.deepcopy(known["base"])
    if rng.random() < 0.4:
        base = _hostile_base(rng, base)
    entries = []
    source, ts = known["fromSnapshotId"], 1767265380100
    for _ in range(rng.choice([1, 1, 1, 2])):
        request = _request(known)
        added = [each for each in known["updates"] if each["action"] == "add-snapshot"]
        target = added[-1]["snapshot"]["snapshot-id"] if added else 12
        request = changed(rng, request)
        kind = rng.choice(["commit", "commit", "commit", "repair", "adopt", "forget"])
        ends = [source, target] if rng.random() < 0.9 else [rng.choice([11, 5, None]), target]
        text = dump({"table-changes": [request]})
        entries.append({"kind": kind, "ts": ts, "from": ends[0], "to": ends[1], "payload": text})
        source, ts = target, ts + 1
    upto = rng.choice([ts, ts, ts, 1767265380100, 5, 1767265380004])
    return {"metadata": dump(base), "entries": entries, "readTs": upto}


def changed(rng: Random, request: Any) -> Any:
    """Give a request that somebody could have meant, or one that nobody could."""
    roll = rng.random()
    if roll < 0.1:
        return request
    if roll < 0.35:
        return mutation.mutated(rng, request, _parts())
    request = copy.deepcopy(request)
    for _ in range(rng.choice([1, 1, 2, 3])):
        _change_request(rng, request)
    return request


def _change_request(rng: Random, request: Any) -> None:
    updates, requirements = request["updates"], request["requirements"]
    choice = rng.randrange(8)
    if choice < 2:
        update = copy.deepcopy(rng.choice([each for each in _parts() if "action" in each]))
        updates.insert(rng.randrange(len(updates) + 1), update)
    elif choice == 2 and updates:
        updates.remove(rng.choice(updates))
    elif choice == 3:
        rng.shuffle(updates)
    elif choice == 4:
        asked = copy.deepcopy(
            rng.choice([each for each in _parts() if each.get("type", "").startswith("assert")])
        )
        requirements.insert(rng.randrange(len(requirements) + 1), asked)
    elif choice == 5 and requirements:
        requirements.remove(rng.choice(requirements))
    else:
        _change_number(rng, [*updates, *requirements])


def _change_number(rng: Random, parts: list[Any]) -> None:
    """Let an id, or another number, be near what it was, or another one's."""
    places = [place for place in mutation.places(parts) if type(place[0][place[1]]) is int]
    if places:
        holder, key = rng.choice(places)
        other, name = rng.choice(places)
        near = mutation.small_number(rng, holder[key])
        holder[key] = rng.choice([near, other[name], 11, 12, 2**31 - 1, 2**63 - 1])


def _create(rng: Random) -> Input:
    created = next(each for each in golden("valid") if each["name"] == "create")
    payload = json.loads(created["summary"][_PAYLOAD])
    payload["table-changes"] = [changed(rng, each) for each in payload["table-changes"]]
    return {"payload": dump(payload)}


def _location(rng: Random) -> Input:
    log = rng.choice(
        [LOG, LOG + "/", LOG + "//", "s3://", "s3://b", "/", "", "file:/a", "file:///"]
    )
    name = rng.choice(["txns-payload-0a-1b.json", "txns-payload-0a-1b-7.json", "x.json"])
    path = f"{log.rstrip('/')}/metadata/{name}"
    for _ in range(rng.randrange(3)):
        path = mutation.mutated_text(rng, path)
    if rng.random() < 0.2:
        log = mutation.mutated_text(rng, log)
    return {"path": path, "log": log}


def _archive(rng: Random) -> Input:
    rows: list[Any] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        row: dict[str, Any] = {
            "commit_ts": rng.choice([5, 6]),
            "txn_id": "t",
            "kind": "commit",
            "table_name": "shop.a",
            "table_uuid": UUID,
            "operation": "append",
            "parent_snapshot_id": 11,
            "snapshot_id": 12,
            "added_records": 1,
            "deleted_records": 0,
            "read_ts": 4,
            "isolation": "snapshot",
            "engine": "e",
            "comment": None,
        }
        for key in rng.sample(list(row), rng.choice([0, 1, 1, 2, 4])):
            if isinstance(row[key], int):
                row[key] = rng.choice([None, 0, -1, 2**63 - 1, -(2**63)])
            else:
                row[key] = rng.choice([None, mutation.mutated_text(rng, row[key] or "x")])
        for key in ("commit_ts", "read_ts", "txn_id", "kind", "isolation"):  # not null
            row[key] = (
                {"commit_ts": 5, "read_ts": 4}.get(key, "x") if row[key] is None else row[key]
            )
        rows.append(row)
    return {"rows": rows}


def _long(rng: Random) -> Input:
    """Give a record or payload that is long or deep, up to a MiB."""
    size = rng.choice([1_000, 30_000, 100_000, 300_000])
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}"), ('[{"b":', "}]"), ("[[", "]")])
    texts = [
        lambda: opening * size + closing * size,
        lambda: "[" + "[]," * size + "[]]",
        lambda: "[" + '{"a":0},' * (size // 3) + "0]",
        lambda: "[" + "1" * size * 3 + "]",
        lambda: '["' + "x" * size * 3 + '"]',
        lambda: '["' + "\\u0041" * (size // 2) + '"]',
        lambda: '{"' + "k" * size * 3 + '":1}',
        lambda: "[1e" + "9" * size + "]",
        lambda: " " * size * 3 + "[]",
        lambda: "{" + ",".join(f'"{_colliding(rng, 15)}{n}":{n}' for n in range(size // 30)) + "}",
        lambda: "{" + ",".join('"a":1' for _ in range(size // 6)) + "}",
        lambda: '{"table-changes":[' + ",".join("{}" for _ in range(size // 3)) + "]}",
        lambda: '{"table-changes":[{"updates":' + "[" * size + "]" * size + "}]}",
        lambda: dump([_table(n) for n in range(min(size // 200, 1_001))]),
        lambda: dump({"table-changes": [_request(rng.choice(_changes()))] * (size // 3_000 + 1)}),
    ]
    text = rng.choice(texts)()
    if rng.random() < 0.4:
        return {"kind": "payload", "in": {"tables": 1, "inline": text}}
    summary = dict(rng.choice(_valid()))
    key = rng.choice([_TABLES, _TABLES, *summary])
    summary[key] = (
        text if key in {_TABLES, _PAYLOAD} else rng.choice([text, "9" * size, "x" * size])
    )
    return {"kind": "record", "in": {"summary": summary}}


def _colliding(rng: Random, length: int) -> str:
    return "".join(rng.choice(mutation.COLLIDING) for _ in range(length))


def _table(number: int) -> Any:
    identifier = {"namespace": ["shop"], "name": f"t{number}"}
    return {
        "identifier": identifier,
        "uuid": f"u{number}",
        "operation": "append",
        "to-snapshot-id": number,
        "added-records": 0,
        "deleted-records": 0,
    }


KINDS: dict[str, tuple[int, Callable[[Random], Input]]] = {
    "record": (30, _record),
    "head": (14, _head),
    "payload": (18, _payload),
    "mark": (12, _mark),
    "overlay": (14, _overlay),
    "create": (4, _create),
    "location": (4, _location),
    "archive": (3, _archive),
}
"""What an input is, and how many of a hundred are; the rest is long or deep."""


def hostile(seed: int, number: int) -> Input:
    """Give one input of a run."""
    rng = Random(f"{seed}:{number}")
    roll = rng.randrange(100)
    for kind, (share, make) in KINDS.items():
        if roll < share:
            return {"n": number, "kind": kind, "in": make(rng)}
        roll -= share
    return {"n": number, **_long(rng)}


__all__ = [
    "GOLDEN",
    "KINDS",
    "LOG",
    "LOG_UUID",
    "NOW_MS",
    "UUID",
    "Input",
    "Pairs",
    "Raw",
    "hostile",
]

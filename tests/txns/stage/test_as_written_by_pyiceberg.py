"""What appends write by short ways is what pyiceberg writes by its own."""

from __future__ import annotations

import json
import random
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, _dataframe_to_data_files
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from txns._iceberg import avro_files, manifests
from txns._iceberg.manifest_entries import live_entries
from txns._stage import data_files

SEED = 20261126
SNAPSHOT = 7001

COLUMNS = [
    ("b", BooleanType(), [True, False, None]),
    ("i", IntegerType(), [0, -5, 2**31 - 1, None]),
    ("l", LongType(), [0, -(2**40), 2**62, None]),
    ("f", FloatType(), [0.5, -1.25, float("nan"), None]),
    ("d", DoubleType(), [0.1, -1e300, float("inf"), None]),
    ("s", StringType(), ["", "ä %/x", "long " * 20, None]),
    ("day", DateType(), [date(1970, 1, 1), date(1901, 5, 6), date(2026, 11, 26), None]),
    ("t", TimestampType(), [datetime(2026, 1, 1), datetime(1960, 1, 1, 3), None]),  # noqa: DTZ001
    ("dec", DecimalType(12, 3), [Decimal("1.234"), Decimal("-99999.001"), None]),
    ("bin", BinaryType(), [b"", b"\x00\xff", None]),
]
SPEC_VALUES = [
    (IdentityTransform(), BooleanType(), [True, False, None]),
    (IdentityTransform(), IntegerType(), [7, None]),
    (IdentityTransform(), LongType(), [2**50, None]),
    (IdentityTransform(), StringType(), ["a b", "", None]),
    (IdentityTransform(), DateType(), [20000, -3, None]),
    (IdentityTransform(), TimeType(), [123456789, None]),
    (IdentityTransform(), TimestampType(), [10**15, -5, None]),
    (IdentityTransform(), TimestamptzType(), [10**15, None]),
    (IdentityTransform(), DecimalType(9, 2), [Decimal("12.30"), Decimal("-7.01"), None]),
    (IdentityTransform(), DecimalType(30, 5), [Decimal("12345678901234567890.12345"), None]),
    (IdentityTransform(), UUIDType(), [UUID(int=5), None]),
    (IdentityTransform(), FixedType(4), [b"\x00\x01\x02\x03", None]),
    (IdentityTransform(), BinaryType(), [b"\x00xyz", b"", None]),
    (BucketTransform(16), LongType(), [3, None]),
    (TruncateTransform(4), StringType(), ["abcd", None]),
    (DayTransform(), TimestampType(), [20000, -1, None]),
]


def metadata_of(folder, schema, spec=None, **properties):
    return new_table_metadata(
        schema,
        spec or PartitionSpec(),
        UNSORTED_SORT_ORDER,
        f"file://{folder}/table",
        properties,
    )


def rows_of(rng, count):
    columns = {name: [rng.choice(values) for _ in range(count)] for name, _, values in COLUMNS}
    columns["nested"] = [{"x": rng.randrange(9), "ys": ["p", None]} for _ in range(count)]
    columns["m"] = [[("k", rng.randrange(9))] for _ in range(count)]
    return pa.table(columns, schema=SCHEMA.as_arrow())


SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=False)
        for number, (name, kind, _) in enumerate(COLUMNS, 1)
    ),
    NestedField(
        20,
        "nested",
        StructType(
            NestedField(21, "x", LongType(), required=False),
            NestedField(22, "ys", ListType(23, StringType(), element_required=False)),
        ),
        required=False,
    ),
    NestedField(
        30, "m", MapType(31, StringType(), 32, LongType(), value_required=False), required=False
    ),
)


def header_of(data):
    """Give all that an Avro file says before its records, its schema apart from spaces."""
    with open(data.removeprefix("file://"), "rb") as stream:  # noqa: PTH123 -- a path with a scheme
        found = dict(fastavro.reader(stream).metadata)
    return {**found, "avro.schema": json.loads(found["avro.schema"])}


def without_nested(rng, rows):
    """Give columns in another order, of which a few are missing."""
    names = [name for name in rows.column_names if name not in {"nested", "m", "l"}]
    return rows.select(rng.sample(names, len(names)))


@pytest.mark.parametrize("columns", ["nested", "flat", "a few"])
@pytest.mark.parametrize("count", [1, 3, 200])
def test_one_file_is_the_one_of_the_general_way(tmp_path, columns, count, monkeypatch):
    rng = random.Random(SEED + count)
    schema = Schema(*SCHEMA.fields[: len(COLUMNS)]) if columns == "flat" else SCHEMA
    modes = ["none", "counts", "truncate(2)", "full"]
    asked = {f"column.{name}": rng.choice(modes) for name, *_ in COLUMNS} | {"default": "counts"}
    asked = {f"write.metadata.metrics.{key}": mode for key, mode in asked.items()}
    metadata = metadata_of(tmp_path, schema, **(asked if count > 1 else {}))
    rows, io = rows_of(rng, count), PyArrowFileIO()
    if columns == "flat":
        rows = rows.select(rng.sample([name for name, *_ in COLUMNS], len(COLUMNS)))
        given = rows.schema.remove_metadata().serialize().to_pybytes()
        assert data_files._fitting(schema.model_dump_json(), given, 2).same
    if columns == "a few":
        rows = without_nested(rng, rows)
    [one] = data_files.written(metadata, rows, io)
    monkeypatch.setattr(data_files, "_SMALL", -1)
    [other] = data_files.written(metadata, rows, io)
    assert one.file_path != other.file_path
    for name in type(one).__dict__.keys() - {"file_path", "from_args"}:
        if not name.startswith("_"):
            assert getattr(one, name) == getattr(other, name), name
    with io.new_input(one.file_path).open() as mine, io.new_input(other.file_path).open() as theirs:
        assert mine.read() == theirs.read()


def test_what_does_not_fit_is_refused_in_pyicebergs_words(tmp_path):
    metadata, io = metadata_of(tmp_path, SCHEMA), PyArrowFileIO()
    for rows in (pa.table({"other": [1]}), pa.table({"i": ["text"]})):
        for _ in range(2):  # nothing of it is kept
            with pytest.raises(ValueError, match=r"PyArrow table contains more|Mismatch in fields"):
                data_files.written(metadata, rows, io)


def test_what_pandas_says_of_its_index_makes_no_other_columns(tmp_path):
    """Its length is in it, so that of each frame everything was found out again, and kept."""
    metadata, io = metadata_of(tmp_path, SCHEMA), PyArrowFileIO()
    before = data_files._fitting.cache_info().misses
    for stop in range(3):
        said = {"pandas": json.dumps({"index_columns": [{"kind": "range", "stop": stop}]})}
        rows = pa.table({"i": pa.array([1], pa.int32())}).replace_schema_metadata(said)
        assert data_files.written(metadata, rows, io)
    assert 1 == data_files._fitting.cache_info().misses - before


def test_rows_whose_field_ids_are_others_are_no_rows_of_the_same_columns(tmp_path):
    metadata, io = metadata_of(tmp_path, SCHEMA), PyArrowFileIO()

    def rows(one, other):
        fields = [("i", one), ("l", other)]
        kinds = {"i": pa.int32(), "l": pa.int64()}
        return pa.table(
            {"i": [1], "l": [2]},
            schema=pa.schema(
                [
                    pa.field(name, kinds[name], metadata={"PARQUET:field_id": str(number)})
                    for name, number in fields
                ]
            ),
        )

    assert data_files.written(metadata, rows(2, 3), io)
    with pytest.raises(ValueError, match="Mismatch in fields"):
        data_files.written(metadata, rows(3, 2), io)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
@pytest.mark.parametrize(("transform", "kind", "values"), SPEC_VALUES, ids=str)
def test_manifests_of_every_kind_of_partition(tmp_path, codec, transform, kind, values):
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "p a/rt", kind, required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, transform, "p a/rt_" + str(transform)))
    metadata = metadata_of(tmp_path, schema, spec, **{"write.avro.compression-codec": codec})
    io = PyArrowFileIO()
    whole = metadata_of(tmp_path, Schema(schema.fields[0]))
    rows = pa.table({"id": [1, 2, None]}, schema=whole.schema().as_arrow())
    files = []
    for value in values:
        [file] = _dataframe_to_data_files(whole, rows, io)
        file._data[3] = Record(value)
        file.spec_id = metadata.default_spec_id
        files.append(file)
    mine, theirs = (f"file://{tmp_path}/{name}.avro" for name in ("mine", "theirs"))
    made = manifests.write_added(io, metadata, mine, SNAPSHOT, files)
    with write_manifest(
        2, metadata.spec(), metadata.schema(), io.new_output(theirs), SNAPSHOT, codec_name(codec)
    ) as writer:
        for file in files:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=None, data_file=file
            )
            writer.add_entry(entry)
    expected = writer.to_manifest_file()
    assert header_of(mine) == header_of(theirs)
    assert records(mine) == records(theirs)
    assert made.manifest_length == len(io.new_input(mine))
    for name in manifests._FIELDS:
        if name not in {"manifest_path", "manifest_length"}:
            assert getattr(made, name) == getattr(expected, name), name
    made[6] = 5  # as its list numbers it
    for _ in range(2):  # by its header, and by what was made of that
        read = live_entries(io, made)
        assert said_of(read) == said_of(made.fetch_manifest_entry(io))
        assert len(values) == len(read)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DecimalType(9, 2), Decimal("-7.01")),
        (UUIDType(), UUID(int=5)),
        (FixedType(4), b"\x00\x01\x02\x03"),
    ],
    ids=str,
)
def test_several_partitions_of_one_kind(tmp_path, kind, value):
    """Avro has one definition of a name; pyiceberg writes one for each of these columns."""
    names = ("a", "b", "c")
    schema = Schema(
        *(NestedField(at, name, kind, required=False) for at, name in enumerate(names, 1))
    )
    fields = (
        PartitionField(at, 999 + at, IdentityTransform(), name) for at, name in enumerate(names, 1)
    )
    metadata, io = metadata_of(tmp_path, schema, PartitionSpec(*fields)), PyArrowFileIO()
    whole = metadata_of(tmp_path, Schema(NestedField(9, "id", LongType(), required=False)))
    rows = pa.table({"id": [1]}, schema=whole.schema().as_arrow())
    [file] = _dataframe_to_data_files(whole, rows, io)
    file._data[3] = Record(value, None, value)
    file.spec_id = metadata.default_spec_id
    path = f"file://{tmp_path}/mine.avro"
    made = manifests.write_added(io, metadata, path, SNAPSHOT, [file])
    made[6] = 5  # as its list numbers it
    for read in (live_entries(io, made), made.fetch_manifest_entry(io)):
        assert [Record(value, None, value)] == [each.data_file.partition for each in read]
    [record] = records(path)
    assert None is record["data_file"]["partition"]["b"]


def said_of(entries):
    return [(*each._data[:4], *each.data_file._data) for each in entries]


def codec_name(codec):
    return "null" if codec == "uncompressed" else codec


def records(path):
    with open(path.removeprefix("file://"), "rb") as stream:  # noqa: PTH123 -- a path with a scheme
        return list(fastavro.reader(stream))


def manifest(rng, number, snapshot_id, sequence_number, *, deletes=True):
    bounds = [None, b"", b"\x00\x01"]
    return ManifestFile.from_args(
        manifest_path=f"file:///lake/{number}-m0.avro",
        manifest_length=rng.randrange(10**6),
        partition_spec_id=rng.randrange(3),
        content=ManifestContent(deletes and rng.randrange(2)),
        sequence_number=sequence_number,
        min_sequence_number=sequence_number,
        added_snapshot_id=snapshot_id,
        added_files_count=rng.randrange(3),
        existing_files_count=rng.randrange(3),
        deleted_files_count=0,
        added_rows_count=rng.randrange(3),
        existing_rows_count=2**40,
        deleted_rows_count=0,
        partitions=[
            PartitionFieldSummary(True, rng.choice([None, False]), rng.choice(bounds), b"x")  # noqa: FBT003
            for _ in range(rng.randrange(3))
        ],
        key_metadata=rng.choice([None, b"k"]),
    )


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
@pytest.mark.parametrize("first", ["ours", "pyiceberg's"])
@pytest.mark.parametrize("version", [1, 2])
def test_lists_of_lists(tmp_path, codec, first, version):
    """A chain of lists, each with manifests of its own and all of the one before."""
    rng = random.Random(SEED)
    metadata = metadata_of(
        tmp_path,
        SCHEMA,
        **{"write.avro.compression-codec": codec, "format-version": str(version)},
    )
    io, listed, before = PyArrowFileIO(), [], None
    for number in range(1, 8):
        own = [
            manifest(rng, f"{number}-{each}", number, -1, deletes=version > 1)
            for each in range(rng.randrange(3))
        ]
        path = f"file://{tmp_path}/{number}.avro"
        ids = {"snapshot_id": number, "parent_id": number - 1 or None, "sequence_number": number}
        if number == 1 and first != "ours":
            with write_manifest_list(
                version, io.new_output(path), number, None, number, codec_name(codec)
            ) as writer:
                writer.add_manifests(own)
        else:
            listing = manifests.Listing(own, before)
            manifests.write_list(io, metadata, path, **ids, listing=listing)
        listed = [*own, *listed]
        expected = f"file://{tmp_path}/{number}-expected.avro"
        with write_manifest_list(
            version, io.new_output(expected), number, number - 1 or None, number, codec_name(codec)
        ) as writer:
            writer.add_manifests([_numbered(each) for each in listed])
        assert records(path) == records(expected)
        read = list(read_manifest_list(io.new_input(path)))
        assert read == list(read_manifest_list(io.new_input(expected)))
        assert [each._data for each in read] == [
            each._data for each in manifests.manifests_of(io, path)
        ]
        assert header_of(path) == header_of(expected)
        before = path


def test_a_list_of_pyiceberg_is_copied_as_it_is(tmp_path):
    """Its header has the same schema, with other blanks; what a word says changes no record."""
    rng, io, path = random.Random(SEED), PyArrowFileIO(), f"{tmp_path}/1.avro"
    with write_manifest_list(2, io.new_output(path), 1, None, 1, "gzip") as writer:
        writer.add_manifests([manifest(rng, "1", 1, 1)])
    before = avro_files.read(io, path)
    as_java = before.replace(b"Location URI with FS scheme", b"Location-URI-with-FS-scheme")
    for each in (before, as_java):
        copied = manifests._LISTS[2].encoded([], "deflate", {}, each)
        avro_files.write(io, f"{tmp_path}/2.avro", copied)
        assert records(path) == records(f"{tmp_path}/2.avro")
    other = before.replace(b"added_rows_count", b"added_rows_kount")
    assert manifests._LISTS[2].encoded([], "deflate", {}, other) is None


def _numbered(each):
    """Give a manifest as the list of its own snapshot numbered it."""
    return manifests._numbered(each, each.added_snapshot_id, each.added_snapshot_id)


def test_a_list_of_another_codec_is_written_anew(tmp_path):
    rng, io = random.Random(SEED), PyArrowFileIO()
    paths = []
    for number, codec in enumerate(("gzip", "zstd", "gzip"), 1):
        metadata = metadata_of(tmp_path, SCHEMA, **{"write.avro.compression-codec": codec})
        paths.append(f"file://{tmp_path}/{number}.avro")
        listing = manifests.Listing(
            [manifest(rng, number, number, -1)], paths[-2] if number > 1 else None
        )
        manifests.write_list(
            io,
            metadata,
            paths[-1],
            snapshot_id=number,
            parent_id=None,
            sequence_number=number,
            listing=listing,
        )
    assert [each.sequence_number for each in read_manifest_list(io.new_input(paths[-1]))] == [
        3,
        2,
        1,
    ]


def test_a_manifest_of_another_snapshot_needs_a_number(tmp_path):
    rng = random.Random(SEED)
    listing = manifests.Listing([manifest(rng, 1, 5, -1)])
    with pytest.raises(ValueError, match="no sequence number"):
        manifests.write_list(
            PyArrowFileIO(),
            metadata_of(tmp_path, SCHEMA),
            f"file://{tmp_path}/x.avro",
            snapshot_id=6,
            parent_id=None,
            sequence_number=2,
            listing=listing,
        )


@pytest.mark.parametrize("limit", [None, "1", "2"])
def test_what_an_append_says_of_itself(lake, handle, limit):
    """Of its partitions, too, where the table asks for that."""
    properties = {} if limit is None else {"write.summary.partition-limit": limit}
    for name in ("shop.plain", "shop.ours"):
        table = lake.catalog.create_table(name, lake_schema(), properties=properties)
        with table.update_spec() as update:
            update.add_field("name", IdentityTransform())
    handle.register("shop.ours")
    for names in (["a"], ["a", "b"], []):
        rows = pa.table({"id": [0] * len(names), "name": names}, schema=lake_schema())
        lake.catalog.load_table("shop.plain").append(rows, {"of": "mine"})
        with handle.begin() as txn:
            txn.load_table("shop.ours").append(rows, {"of": "mine"})
        plain, ours = (
            lake.catalog.load_table(name).current_snapshot().summary.additional_properties
            for name in ("shop.plain", "shop.ours")
        )
        assert plain == {key: ours[key] for key in ours if not key.startswith("txns.")}


def lake_schema():
    return pa.schema([("id", pa.int64()), ("name", pa.string())])

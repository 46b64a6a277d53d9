"""Equal values of a column are equal for all types: `exact: {column: ...}`."""

import datetime as dt
from decimal import Decimal
from itertools import combinations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, kept_names, prose, table_of, write_rows

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.planning.prepare import preflight
from zyda_flows.tasks.sources.columns import decode_table, json_field
from zyda_flows.tasks.sources.equal_values import equal_texts

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 500_000)
IN_ZONES = [
    pa.array([NOON.replace(tzinfo=dt.UTC)], pa.timestamp(unit, zone))
    for unit in ("ms", "us", "ns")
    for zone in ("UTC", "Asia/Tokyo", "-05:00")
]
NUMBERS = [
    *(
        pa.array([7], kind)
        for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64())
    ),
    pa.array([7], pa.uint64()),
    pa.array([7.0], pa.float32()),
    pa.array([7.0], pa.float64()),
    *(pa.array([Decimal(7)], pa.decimal128(20, scale)) for scale in (0, 2, 9)),
    pa.array([Decimal("7.0")], pa.decimal256(50, 1)),
]
TEXTS = [
    *(pa.array(["Straße"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    pa.array(["Straße"]).dictionary_encode(),
    pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["Straße"])),
]
BYTES = [
    *(
        pa.array([b"\0\xff"], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
    ),
    pa.array([b"\0\xff"]).dictionary_encode(),
]
LISTS = [
    *(pa.array([[1, 2]], of(kind)) for of in (pa.list_, pa.large_list) for kind in (pa.int8(), pa.uint64())),
    pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
    pa.array([[1.0, 2.0]], pa.list_(pa.float64())),
    pa.array([[Decimal("1.00"), Decimal("2.00")]], pa.list_(pa.decimal128(5, 2))),
]
OBJECTS = [
    pa.array([{"a": 1, "b": "x"}]),
    pa.array([{"b": "x", "a": 1}], pa.struct([("b", pa.large_string()), ("a", pa.int8())])),
    pa.array(
        [{"a": 1, "b": "x", "c": None}], pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
    ),
    pa.array([{"a": Decimal("1.0"), "b": "x"}]),
]
EQUAL = {
    "instants": IN_ZONES,
    "instants of whole seconds": [
        pa.array([NOON.replace(microsecond=0)], pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")
    ],
    "times without a zone": [pa.array([NOON], pa.timestamp(unit)) for unit in ("ms", "us", "ns")],
    "days": [pa.array([NOON.date()], kind) for kind in (pa.date32(), pa.date64())],
    "times of day": [
        pa.array([dt.time(12, 0, 0, 500_000)], kind) for kind in (pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ],
    "durations": [pa.array([n], pa.duration(unit)) for n, unit in ((90, "s"), (90_000, "ms"), (90 * 10**9, "ns"))],
    "numbers": NUMBERS,
    "fractions": [pa.array([Decimal("0.50")]), pa.array([Decimal("0.5")]), pa.array([0.5])],
    "texts": TEXTS,
    "bytes": BYTES,
    "lists": LISTS,
    "objects": OBJECTS,
    "lists of instants": [pa.ListArray.from_arrays([0, 1], times) for times in IN_ZONES],
}  # fmt: skip


def text_of(array):
    (text,) = equal_texts(decode_table(pa.table({"c": array})), "c").to_pylist()
    return text


@pytest.mark.parametrize("kind", EQUAL)
def test_equal_values_of_different_types_have_equal_texts(kind):
    assert len({text_of(array) for array in EQUAL[kind]} - {""}) == 1


def test_different_values_have_different_texts():
    one_of_each = [arrays[0] for arrays in EQUAL.values()]
    others = [
        pa.array([value])
        for value in ("true", 70, "7.5", 0.1, Decimal("7.01"), [2, 1], ["1", "2"], [[1], 2][:1])
    ]
    for one, other in combinations([*one_of_each, *others], 2):
        assert text_of(one) != text_of(other), (one, other)


def test_missing_value_is_an_empty_text():
    for array in (
        pa.nulls(1),
        pa.array([""]),
        pa.array([[]], pa.list_(pa.string())),
        pa.array([{"a": None}]),
    ):
        assert text_of(array) == ""


def test_json_text_is_equal_to_the_typed_value():
    table = pa.table([pa.array(['{"b":"x","a":1.0}', "[1,2]", "7", None])], pa.schema([json_field("c")]))
    assert equal_texts(table, "c").to_pylist() == [
        text_of(OBJECTS[0]),
        text_of(LISTS[0]),
        text_of(NUMBERS[0]),
        "",
    ]


def test_exact_round_over_columns_of_all_types_and_over_no_column(corpus):
    for number, array in enumerate(LISTS):
        rows = {
            "name": [f"n{number}"],
            "text": [prose(f"list {number}")],
            "tags": array,
            "s": pa.array([{"x": 1}]),
        }
        pq.write_table(pa.table(rows), corpus.folder / f"in/x-{number}.parquet")
    sources = [{"name": "odd", "files": "in/x-*.parquet"}]
    recipe = corpus.load(sources=sources, dedup={"exact": {"column": "tags"}, "scope": "global"})
    build_here(recipe)
    assert len(kept_names(recipe)) == 1
    fault = r"source odd, file .*x-0\.parquet: dedup: column 'tags' is list<.*>, which has no fields"
    with pytest.raises(ZydaError, match=fault):
        preflight(corpus.load(sources=sources, dedup={"exact": {"column": "tags.x"}, "scope": "global"}))


def test_addresses_are_equal_as_deny_lists_compare_them(corpus):
    addresses = [
        "http://Example.org:80/a#top", "https://example.org/%7Ea", "example.org/a", "https://user@example.org./~a",
        "https://example.org/b", "no address", "NO address", "", None, "https://www.example.org/a",
    ]  # fmt: skip
    rows = [{"text": f"text {place}", "url": address} for place, address in enumerate(addresses)]
    write_rows(corpus.folder / "in/pages.jsonl", rows)
    sources = [{"name": "pages", "files": "in/pages.jsonl"}]
    kept = {}
    for name, exact in (("address", {"normalize": "address"}), ("value", {})):
        dedup = {"exact": {"column": "url", **exact}, "scope": "global"}
        recipe = corpus.load(name=name, sources=sources, dedup=dedup)
        build_here(recipe)
        kept[name] = [int(row["text"].split()[1]) for row in table_of(recipe, "pages")]
    assert kept == {"address": [0, 1, 4, 5, 6, 7, 8, 9], "value": [*range(10)]}
    with pytest.raises(ZydaError, match="normalize"):
        corpus.load(dedup={"exact": {"column": "url", "normalize": "words"}})

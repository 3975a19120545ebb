"""Parquet in every encoding and type that libraries write: the same numbers, or one sentence.

Encodings are written here with pyarrow and polars and held against the plain file. What only
DuckDB, fastparquet and pandas write lies in `files/parquet`, made by `make_parquet.py`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.audits import accuracy
from tests.helpers.commands import ended, scotoma

pytestmark = pytest.mark.slow

N = 120
FILES = Path(__file__).parent / "files" / "parquet"
CODE = np.arange(N) % 3
LABEL = np.array(["cat", "dog"])[np.arange(N) % 2]
OTHER = np.array(["dog", "cat"])[np.arange(N) % 2]
FP32 = np.where(np.arange(N) % 11 == 5, OTHER, LABEL)
INT8 = np.where((CODE == 1) & (np.arange(N) % 4 < 2), OTHER, FP32)


def of_codes(*values: Any) -> list[Any]:
    """A value for each of three groups, row by row."""
    return [values[code] for code in CODE]


def table(odd: Any = None, name: str = "odd", **columns: Any) -> pa.Table:
    """Answers of two models, and a column whose values are groups."""
    odd = pa.array(of_codes("a", "b", "c")) if odd is None else odd
    base = {"example_id": [f"e{row}" for row in range(N)], "label": LABEL, "fp32": FP32}
    arrays = {key: pa.array(values) for key, values in (base | columns).items()}
    return pa.table({**arrays, "int8": pa.array(INT8), name: odd})


def asked(path: Path, group: str = "odd") -> dict[str, tuple[str | Path, ...]]:
    """What is typed: every entrance that reads a table."""
    models = "--label", "label"
    return {
        "bias": ("compare", path, *models, "--predicted", "int8", "--baseline", "fp32",
                 "--group", group, "--json"),
        "slices": ("slices", path, *models, "--outcome", "int8", "--baseline", "fp32", "--json"),
        "init": ("init", path, "--json"),
        "compare": ("compare", path, path, *models, "--predicted", "int8", "--id", "example_id",
                    "--group", group, "--json"),
    }  # fmt: skip


def answers(path: Path, group: str = "odd") -> dict[str, Any]:
    """What each command measures; of one that refuses its sentence."""
    found: dict[str, Any] = {}
    for name, arguments in asked(path, group).items():
        code, out, err = scotoma(*arguments)
        assert "Traceback" not in out + err
        if code:
            assert code in (2, 4), err
            assert len(err.strip().splitlines()) == 1, err
            found[name] = err.strip()
            continue
        content = json.loads(out)
        if name == "bias":
            found[name] = {row["group"]: row["examples"] for row in content["groups"]}
            values = ((row["group"], row["predicted"]["value"]) for row in content["subgroups"])
            found["errors"] = list(values)
        elif name == "slices":
            found[name] = [content["overall"]["value"], content["slice_count"]]
        elif name == "compare":
            (one,) = content["comparisons"]
            rows = one["groups"]
            found[name] = {row["group"]: row["score"]["before"]["value"] for row in rows}
        else:
            found[name] = content
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("plain") / "t.parquet"
    pq.write_table(table(), path)
    found = answers(path)
    assert set(found["bias"]) == {"all", "odd=a", "odd=b", "odd=c"}
    wrong = {f"odd={name}": float((INT8 != LABEL)[code == CODE].mean())
             for code, name in enumerate("abc")}  # fmt: skip
    assert {key: 1 - right for key, right in found["compare"].items()} == pytest.approx(wrong)
    return found


# --- the same table, encoded in every way ---------------------------------------------------------

Writer = Callable[[pa.Table, Path], Any]


def pyarrow(**options: Any) -> Writer:
    return lambda whole, path: pq.write_table(whole, path, **options)


def polars(**options: Any) -> Writer:
    return lambda whole, path: pl.from_arrow(whole).write_parquet(path, **options)  # type: ignore[union-attr]


def dictionaries(whole: pa.Table, path: Path) -> None:
    columns = [whole[name].combine_chunks().dictionary_encode() for name in whole.column_names]
    pq.write_table(pa.table(columns, names=whole.column_names), path)


def categories(kind: Any) -> Writer:
    def write(whole: pa.Table, path: Path) -> None:
        frame = pl.DataFrame(pl.from_arrow(whole))
        named = frame.with_columns(pl.col("label", "fp32", "int8", "odd").cast(pl.Categorical))
        as_enum = pl.col("odd").cast(pl.String).cast(pl.Enum(["c", "b", "a", "never"]))
        (named.with_columns(as_enum) if kind is pl.Enum else named).write_parquet(path)

    return write


def empty_groups(whole: pa.Table, path: Path) -> None:
    with pq.ParquetWriter(path, whole.schema) as writer:
        for part in (whole[:0], whole[:50], whole[:0], whole[50:], whole[:0]):
            writer.write_table(part)


def cast_to(kind: pa.DataType) -> Writer:
    def write(whole: pa.Table, path: Path) -> None:
        fields = [pa.field(name, kind) for name in whole.column_names]
        pq.write_table(whole.cast(pa.schema(fields)), path)

    return write


def spark(whole: pa.Table, path: Path) -> None:
    path.mkdir()
    (path / "_SUCCESS").touch()
    for part, rows in enumerate((whole[:70], whole[70:])):
        pq.write_table(rows, path / f"part-0000{part}-ab12.snappy.parquet", compression="snappy")


ENCODINGS: dict[str, Writer] = {
    **{f"codec {name}": pyarrow(compression=name)
       for name in ("none", "snappy", "gzip", "brotli", "lz4", "zstd")},
    **{f"polars' codec {name}": polars(compression=name)
       for name in ("uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd")},
    **{f"encoding {name}": pyarrow(use_dictionary=False, column_encoding=name)
       for name in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")},
    "pages of version 2": pyarrow(data_page_version="2.0", version="2.6"),
    "format 1.0": pyarrow(version="1.0"),
    "tiny pages with an index": pyarrow(data_page_size=64, write_page_index=True),
    "checksums of pages": pyarrow(write_page_checksum=True),
    "no statistics": pyarrow(write_statistics=False),
    "no schema of Arrow": pyarrow(store_schema=False),
    "row groups of 7": pyarrow(row_group_size=7),
    "polars' row groups of 7": polars(row_group_size=7),
    "a bloom filter and sorted": pyarrow(sorting_columns=[pq.SortingColumn(0)]),
    "row groups without rows": empty_groups,
    "dictionaries": dictionaries,
    "categories": categories(pl.Categorical),
    "enums": categories(pl.Enum),
    **{str(kind): cast_to(kind)
       for kind in (pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
                    pa.binary_view())},
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODINGS)
def test_each_encoding_gives_the_numbers_of_the_plain_file(
    name: str, plain: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    ENCODINGS[name](table(), path)
    found = answers(path)
    for key in ("bias", "errors", "slices", "compare"):
        assert found[key] == plain[key], key
    assert isinstance(found["init"], dict)


def test_a_folder_of_spark_is_one_table(plain: dict[str, Any], tmp_path: Path) -> None:
    spark(table(), tmp_path / "t.parquet")
    found = answers(tmp_path / "t.parquet")
    for key in ("bias", "errors", "slices", "compare"):
        assert found[key] == plain[key], key


def test_an_audit_reads_folders_of_spark_as_tables(tmp_path: Path) -> None:
    whole = table()
    for variant in ("fp32", "int8"):
        answers_of = whole.select(["example_id", variant]).rename_columns(
            ["example_id", "predicted"]
        )
        (tmp_path / "preds").mkdir(exist_ok=True)
        spark(answers_of, tmp_path / "preds" / variant)
    spark(whole.select(["example_id", "label", "odd"]), tmp_path / "examples")
    config = tmp_path / "audit.yaml"
    config.write_text(
        f"version: 1\nproject: spark\nsource: {{kind: predictions, files: '{tmp_path}/preds/"
        f"{{variant}}', examples: '{tmp_path}/examples'}}\nbaseline: fp32\n"
        "label: {column: label}\ngroups: {odd: {column: odd}}\ntracking: {uri: 'off'}\n"
    )
    code, _, err = scotoma("audit", config, "--out", tmp_path / "run", "--quiet")
    assert code in (0, 1, 3), err
    audit = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert audit["examples"]["test"] == N
    assert accuracy(audit, "int8")["top1"]["value"] == pytest.approx((INT8 == LABEL).mean())
    assert {entry["key"]: entry["files"] for entry in audit["inputs"]} == {
        "examples": 2, "files": 4
    }  # fmt: skip


# --- a column of every type -----------------------------------------------------------------------

D = decimal.Decimal
DAYS = dt.date(2020, 1, 1), dt.date(2021, 1, 1), None
SECONDS = 1_000_000_000, 1_000_000_001, None
ABC, ONE_TWO = {"a", "b", "c"}, {"1", "2", "(missing)"}
NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
           "float32", "float64")  # fmt: skip


def at(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(of_codes(*values), kind)


def of_zone(unit: str, zone: str | None) -> pa.Array:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    numbers = (None if one is None else one * per_second for one in SECONDS)
    return at(pa.timestamp(unit, zone), *numbers)


TYPES: dict[str, tuple[pa.Array, set[str]]] = {
    **{name: (pa.array(np.array(of_codes(1, 2, 3), name)), {"1", "2", "3"}) for name in NUMBERS},
    "whole numbers with gaps": (at(pa.float64(), 1, 2, None), ONE_TWO),
    "truth values": (at(pa.bool_(), True, False, None), {"true", "false", "(missing)"}),
    "dictionary of numbers": (at(pa.int64(), 1, 2, None).dictionary_encode(), ONE_TWO),
    "dictionary with a value that never occurs": (
        pa.DictionaryArray.from_arrays(at(pa.int8(), 0, 1, 2), pa.array(["a", "b", "c", "d"])), ABC
    ),
    **{f"decimal{bits}": (at(getattr(pa, f"decimal{bits}")(digits, 2), D("1.5"), D("2.5"), None),
                          {"1.5", "2.5", "(missing)"})
       for bits, digits in ((32, 5), (64, 12), (128, 20))},
    "whole decimals": (at(pa.decimal128(20, 2), D(1), D(2), None), ONE_TWO),
    **{str(kind): (at(kind, *DAYS), {"2020-01-01", "2021-01-01", "(missing)"})
       for kind in (pa.date32(), pa.date64())},
    "first and last day": (at(pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31), None),
                           {"0001-01-01", "9999-12-31", "(missing)"}),
    "times of a day": (at(pa.time32("ms"), 1000, 1500, None),
                       {"00:00:01", "00:00:01.500", "(missing)"}),
    "times in nanoseconds": (at(pa.time64("ns"), 1, 2, None),
                             {"00:00:00.000000001", "00:00:00.000000002", "(missing)"}),
    "durations": (at(pa.duration("us"), 1_000_000, 2_000_000, None),
                  {"PT1S", "PT2S", "(missing)"}),
    "midnight": (at(pa.timestamp("us"), 0, 86_400 * 10**6, None),
                 {"1970-01-01", "1970-01-02", "(missing)"}),
    "infinite times": (at(pa.timestamp("us"), 2**63 - 1, -(2**63) + 1, 0),
                       {"1970-01-01", "(missing)"}),
    "fixed bytes": (at(pa.binary(2), b"aa", b"bb", None), {"aa", "bb", "(missing)"}),
    "JSON": (at(pa.json_(), '{"k":1}', '"x"', None), {'{"k":1}', '"x"', "(missing)"}),
    "largest numbers": (at(pa.uint64(), 2**64 - 1, 2**63, 0), {str(2**64 - 1), str(2**63), "0"}),
    "smallest numbers": (at(pa.int64(), -(2**63), 2**63 - 1, 0),
                         {str(-(2**63)), str(2**63 - 1), "0"}),
}  # fmt: skip
BETWEEN = [(unit, "UTC") for unit in ("s", "ms", "ns")]
BETWEEN += [("us", zone) for zone in ("", "UTC", "Europe/Berlin", "+01:00", "+05:30", "Mars/Base")]


@pytest.mark.parametrize("name", TYPES)
def test_each_type_means_the_same_at_every_entrance(name: str, tmp_path: Path) -> None:
    odd, values = TYPES[name]
    pq.write_table(table(odd), tmp_path / "t.parquet")
    found = answers(tmp_path / "t.parquet")
    groups = {f"odd={value}" for value in values}
    assert set(found["bias"]) == {"all", *groups}
    if "JSON" not in name:  # logs hold objects, whose parts are groups
        assert set(found["compare"]) == groups
    assert isinstance(found["slices"], list)
    assert isinstance(found["init"], dict)


@pytest.mark.parametrize(("unit", "zone"), BETWEEN)
def test_times_are_moments_whatever_their_zone(unit: str, zone: str, tmp_path: Path) -> None:
    pq.write_table(table(of_zone(unit, zone or None)), tmp_path / "t.parquet")
    found = answers(tmp_path / "t.parquet")
    assert set(found["bias"].values()) == {N, N // 3}
    assert {key for key in found["bias"] if key != "all"} == set(found["compare"])
    hour = {"Europe/Berlin": 3, "+01:00": 2}.get(zone, 1)
    assert any(f" 0{hour}:46:40" in key for key in found["bias"])
    assert isinstance(found["slices"], list)


NO_GROUPS: dict[str, tuple[pa.Array, str]] = {
    "list": (at(pa.list_(pa.int64()), [1], [1, 2], []), "List(Int64)"),
    "list of text": (at(pa.list_(pa.string()), ["x"], None, []), "List(String)"),
    "large list": (at(pa.large_list(pa.int64()), [1], [1, 2], []), "List(Int64)"),
    "list of a size": (at(pa.list_(pa.int64(), 2), [1, 2], [3, 4], None), "Array(Int64"),
    "structure": (pa.array(of_codes({"x": 1}, {"x": 2}, None)), "Struct("),
    "list of structures": (pa.array(of_codes([{"x": 1}], [], None)), "List(Struct("),
    "map": (at(pa.map_(pa.string(), pa.int64()), [("k", 1)], [], None), "Map(String"),
    "bytes that are no text": (at(pa.binary(), b"\xff\xd8\xff", b"b", None), "text in UTF-8"),
    "UUID": (at(pa.uuid(), *(uuid.UUID(int=n).bytes for n in range(3))), "text in UTF-8"),
    "nothing": (pa.nulls(N), "holds one value, '(missing)'"),
    "blanks": (at(pa.string(), "", None, " "), "holds one value, '(missing)'"),
}


@pytest.mark.parametrize("name", NO_GROUPS)
def test_what_is_no_group_is_refused_in_a_sentence_and_hinders_nobody(
    name: str, tmp_path: Path
) -> None:
    odd, words = NO_GROUPS[name]
    pq.write_table(table(odd), tmp_path / "t.parquet")
    found = answers(tmp_path / "t.parquet")
    assert words in found["bias"]
    assert isinstance(found["slices"], list)  # a feature that nobody named is left out
    assert isinstance(found["init"], dict)
    ended(*asked(tmp_path / "t.parquet")["compare"][:9])


def zero_rows(path: Path) -> None:
    pq.write_table(table()[:0], path)


def no_columns(path: Path) -> None:
    pq.write_table(pa.table({}), path)


def doubled(path: Path) -> None:
    whole = table()
    names = [*whole.column_names, "odd"]
    pq.write_table(pa.table([*whole.columns, whole["label"]], names=names), path)


def wide_decimal(path: Path) -> None:
    pq.write_table(table(at(pa.decimal256(50, 2), D(1), D(2), None)), path)


def no_utf8(path: Path) -> None:
    starts = pa.py_buffer(np.arange(N + 1, dtype=np.int32).tobytes())
    letters = pa.py_buffer(bytes(b"\xffab"[code] for code in CODE))
    pq.write_table(table(pa.Array.from_buffers(pa.string(), N, [None, starts, letters])), path)


def cut_off(path: Path) -> None:
    pq.write_table(table(), path)
    path.write_bytes(path.read_bytes()[:-50])


def no_parquet(path: Path) -> None:
    path.write_text("example_id,label\n1,cat\n")


@pytest.mark.parametrize(
    "write", [zero_rows, no_columns, doubled, wide_decimal, no_utf8, cut_off, no_parquet]
)
def test_what_nobody_can_read_is_refused_in_a_sentence(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path / "t.parquet")
    found = answers(tmp_path / "t.parquet")
    assert all(isinstance(sentence, str) for sentence in found.values())


@pytest.mark.parametrize(
    "name", ["a.b", "Größe", "性别", "a b", "odd=x", "a,b", "[x]", "'q'", "x" * 300, "\u202e", ""]
)
def test_names_of_columns_may_be_any_text(name: str, tmp_path: Path) -> None:
    pq.write_table(table(name=name), tmp_path / "t.parquet")
    found = answers(tmp_path / "t.parquet", group=name)
    assert isinstance(found["slices"], list)
    if "," not in name and name:
        assert len(found["bias"]) == 4


# --- what other libraries write -------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FILES.glob("*.parquet")), ids=lambda path: path.stem)
def test_files_of_other_libraries_are_read(path: Path) -> None:
    found = answers(path, group="group")
    if path.stem == "duckdb-interval":  # of months and days at once, which Polars has no type for
        assert all("interval" in sentence for sentence in found.values())
        return
    assert found["bias"] == {"all": 24, "group=a": 8, "group=b": 8, "group=c": 8}
    frame = {"group=a": 1.0, "group=b": 0.5, "group=c": 0.75}
    assert found["compare"] == frame
    assert isinstance(found["slices"], list)
    assert isinstance(found["init"], dict)


def test_a_folder_of_parts_by_group_has_the_group_as_a_column() -> None:
    found = answers(FILES / "fastparquet-hive", group="group")
    assert found["bias"] == {"all": 24, "group=a": 8, "group=b": 8, "group=c": 8}
    assert found["compare"] == {"group=a": 1.0, "group=b": 0.5, "group=c": 0.75}
    assert isinstance(found["slices"], list)
    assert isinstance(found["init"], dict), found["init"]

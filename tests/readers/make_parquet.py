"""Make `files/parquet` with DuckDB 2.0.1, fastparquet 2026.9.0 and pandas 3.1.1.

Run as `python make_parquet.py FOLDER`, with a Python that has these three and pyarrow.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

N = 24
PLAIN = ("example_id", "label", "fp32", "int8", "group")
ODD = """
    case "group" when 'a' then 1::hugeint else 2::hugeint end as huge, uuid() as u,
    timestamptz '2020-01-01 00:00:00+05:30' as "at", date '2020-01-01' as "day",
    time '01:02:03.5' as "hour", timetz '01:02:03+02' as hour_there,
    'infinity'::timestamp as never, 1.5::decimal(38, 10) as price, [1, 2] as list,
    {'a': 1} as struct, map {'k': 1} as map, '{"a": 1}'::json as json, '101'::bit as bits,
    1::utinyint as tiny, blob '\\xAA' as blob, 'nan'::double as nothing, 1::usmallint as small
"""


def table() -> pd.DataFrame:
    """24 answers of two models: int8 is wrong on half of group b."""
    code, row = np.arange(N) % 3, np.arange(N)
    label, other = np.array(["cat", "dog"])[row % 2], np.array(["dog", "cat"])[row % 2]
    fp32 = np.where(row % 12 == 5, other, label)
    int8 = np.where((code == 1) & (row % 4 < 2), other, fp32)
    columns = ([f"e{n}" for n in row], label, fp32, int8, np.array(["a", "b", "c"])[code])
    return pd.DataFrame(dict(zip(PLAIN, columns, strict=True)))


def of_duckdb(folder: Path) -> None:
    """Enums, and types that no other writer has."""
    import duckdb

    database = duckdb.connect()
    database.register("base", table())
    database.execute("create type letter as enum ('a', 'b', 'c')")
    database.execute(
        'create table t as select example_id, label, fp32, int8, "group"::letter as "group", '
        f"interval 1 month as gap, {ODD} from base"
    )
    plain = ", ".join(f'"{name}"' for name in PLAIN)
    for name, columns, options in (
        ("duckdb", "* exclude (gap)", ""),
        ("duckdb-interval", f"{plain}, gap", ""),
        ("duckdb-v2", plain, ", parquet_version v2"),
        ("duckdb-brotli", plain, ", codec brotli"),
    ):
        place = folder / f"{name}.parquet"
        database.execute(f"copy (select {columns} from t) to '{place}' (format parquet{options})")


def of_fastparquet(folder: Path) -> None:
    """Times of 96 bits, bytes without a mark, and a folder of parts by group."""
    import fastparquet

    frame = table().astype(object)
    frame["when"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(N) % 3, unit="D")
    frame["kind"] = frame["group"].astype("category")
    fastparquet.write(str(folder / "fastparquet-int96.parquet"), frame, times="int96")
    fastparquet.write(str(folder / "fastparquet-gzip.parquet"), frame, compression="GZIP")
    hive = str(folder / "fastparquet-hive")
    fastparquet.write(hive, frame, file_scheme="hive", partition_on=["group"])
    for name in PLAIN:
        frame[name] = frame[name].str.encode("utf-8")
    whole = frame.drop(columns="kind")
    fastparquet.write(str(folder / "fastparquet-bytes.parquet"), whole, object_encoding="bytes")


def of_pandas(folder: Path) -> None:
    """An index of its own, a zone of half an hour, categories, and types with gaps."""
    frame = table()
    frame.index = pd.Index(np.arange(N) * 2, name="row")
    frame["at"] = pd.to_datetime(["2020-01-01T00:00:00+05:30"] * N)
    frame["kind"] = pd.Categorical(frame["group"])
    frame["whole"] = pd.array([1, None, 3] * 8, dtype="Int64")
    frame["truth"] = pd.array([True, None, False] * 8, dtype="boolean")
    frame["month"] = pd.period_range("2020", "2021", freq="M")[:1].repeat(N)
    frame.to_parquet(folder / "pandas.parquet")


if __name__ == "__main__":
    for write in (of_duckdb, of_fastparquet, of_pandas):
        write(Path(sys.argv[1]))

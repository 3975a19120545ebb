"""Make a table of 6,000 people: the predictions of five dense and five int8 models.

    python examples/people.py            # people.csv
    python examples/people.py --parts 3  # and people-0.parquet, people-1.parquet, people-2.parquet

The int8 models fail in one corner that no column names: Sales on the night shift.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

ROWS, MODELS = 6_000, 5


def people() -> pl.DataFrame:
    """The table, the same whenever it is made."""
    rng = np.random.default_rng(0)
    job = rng.choice(["Sales", "Craft", "Clerk", "Tech", "Farm"], ROWS)
    shift = rng.choice(["day", "late", "night"], ROWS)
    hard = rng.random(ROWS) < 0.2
    label = rng.random(ROWS) < 0.4
    corner = (job == "Sales") & (shift == "night")
    columns = {
        "id": range(ROWS),
        "age": rng.integers(18, 80, ROWS),
        "job": job,
        "shift": shift,
        "hours": rng.integers(5, 60, ROWS),
        "country": "here",
        "label": label.astype(int),
    }
    for name, more in (("dense", 0.0), ("int8", 0.25)):
        for model in range(MODELS):
            wrong = rng.random(ROWS) < 0.02 + 0.2 * hard + more * corner
            columns[f"{name}_{model}"] = (label ^ wrong).astype(int)
    return pl.DataFrame(columns)


def main() -> None:
    """Write people.csv, and its parts as Parquet if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", type=int, default=0, help="Parquet files to write as well")
    parts = parser.parse_args().parts
    table = people()
    table.write_csv("people.csv")
    for part in range(parts):
        table[part::parts].write_parquet(f"people-{part}.parquet")


if __name__ == "__main__":
    main()

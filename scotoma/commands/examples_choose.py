"""The examples command: which examples to look at, or to have annotated, first."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import polars as pl

from scotoma.commands.finished_run import open_run
from scotoma.commands.slices_search import harmless
from scotoma.commands.tables import quoted
from scotoma.commands.text_table import table_lines
from scotoma.datasets import Examples
from scotoma.errors import ConfigError, DataError
from scotoma.hashing import hash_ids
from scotoma.jsonable import jsonable
from scotoma.natural import natural_order
from scotoma.printable import nearest, printable
from scotoma.run import Run, checksums

__all__ = ["chosen_examples", "run_examples"]

SHOWN = 20  # rows of a variant in the terminal


def run_examples(
    place: str,
    *,
    percentile: float,
    variant: str | None,
    csv: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the examples that diverge most, for every variant.

    Args:
        place: Folder of a finished audit, or its `s3://BUCKET/PREFIX`.
        percentile: In (0, 100): 99 for the hundredth that diverges most.
        variant: Name of one compressed variant; None for all of them.
        csv: Print all rows as CSV.
        as_json: Print all rows as JSON.
        quiet: No messages.

    Raises:
        ScotomaError: The run, the percentile or the variant cannot be used.
    """
    if not 0 < percentile < 100:
        raise ConfigError(
            f"--percentile must lie between 0 and 100, got {percentile:g}: write 99 for the top 1%"
        )
    if csv and as_json:
        raise ConfigError("--csv and --json exclude each other; choose one")
    run = open_run(place)
    chosen = chosen_examples(run, percentile, variant)
    if csv:
        sys.stdout.write(harmless(chosen).write_csv())
    elif as_json:
        rows = {"version": 1, "percentile": percentile, "examples": chosen.to_dicts()}
        sys.stdout.write(json.dumps(jsonable(rows), indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(_page(chosen)) + "\n")
    if not quiet and chosen.height and not (csv or as_json):
        sys.stderr.write("--csv prints all of them, with labels and votes, to annotate\n")


def chosen_examples(run: Run, percentile: float, variant: str | None = None) -> pl.DataFrame:
    """The subset to annotate: of every variant the examples of the largest taxicab distance.

    Ties are broken by a hash of seed and id, so that the list does not depend on the order of rows;
    an example on which nothing differs is never in it.

    Args:
        run: A finished audit.
        percentile: In (0, 100): 99 for the hundredth that diverges most.
        variant: One compressed variant; None for all.

    Returns:
        Columns `variant`, `rank` from 1, `example_id`, `label`, `dense_modal`, `dense_votes`,
        `compressed_modal`, `compressed_votes`, `cie`, `taxicab`, and the attributes.

    Raises:
        ConfigError: A variant that the run does not have.
        DataError: The run has not ended.
    """
    path = run.path("divergence.parquet")
    run.fetch(path, run.examples)
    if not path.exists() or not run.examples.exists():
        raise DataError(f"{path} is not there; finish its audit first")
    checksums.refuse_changed(run.mirror, (path.name, run.examples.name))
    scores = pl.read_parquet(path, glob=False)
    variants = scores["variant"].unique(maintain_order=True).to_list()
    if variant is not None and variant not in variants:
        raise ConfigError(
            f"--variant must be one of {', '.join(variants)}, got {quoted(variant)}"
            f"{nearest(variant, variants)}"
        )
    test = Examples.read(run.examples, images=False, split="test")
    count = max(1, round(len(test.ids) * (100 - percentile) / 100))
    lots = hash_ids(np.array(test.ids), run.config.population.seed)
    labels = test.table.select("example_id", "label", *test.attributes).with_columns(
        pl.Series("lot", lots.astype("uint64"))
    )
    parts = []
    for name in variants if variant is None else [variant]:
        divergent = scores.filter((pl.col("variant") == name) & (pl.col("taxicab") > 0))
        ranked = divergent.join(labels, on="example_id").sort(
            ["taxicab", "lot", "example_id"], descending=[True, False, False]
        )
        parts.append(ranked.head(count).with_row_index("rank", offset=1))
    votes = ("dense_modal", "dense_votes", "compressed_modal", "compressed_votes", "cie", "taxicab")
    return pl.concat(parts).select(
        "variant", "rank", "example_id", "label", *votes, *test.attributes
    )


def _page(chosen: pl.DataFrame) -> list[str]:
    if not chosen.height:
        return ["No example differs under any variant."]
    page = []
    header = ("example", "label", "dense says", "compressed says", "taxicab", "CIE")
    for name in natural_order(chosen["variant"]):
        part = chosen.filter(variant=name)
        page += ["", f"{printable(name)}: {part.height:,} examples, the most divergent first"]
        rows = [_cells(row) for row in part.head(SHOWN).iter_rows(named=True)]
        page += table_lines(header, rows, right=4)
        if part.height > SHOWN:
            page.append(f"and {part.height - SHOWN:,} more")
    return page[1:]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["example_id"],
        row["label"],
        f"{row['dense_modal']} ({row['dense_votes']})",
        f"{row['compressed_modal']} ({row['compressed_votes']})",
        f"{row['taxicab']:g}",
        "yes" if row["cie"] else "",
        "",
    )

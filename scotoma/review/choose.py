"""Which examples should people look at, or annotate, first?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.datasets import AuditedExamples
from scotoma.document import Cell, Column, Document, Section, Table, show
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.run.finished import compressed_variant, require_files
from scotoma.slices.hashing import hash_ids

SHOWN = 20  # rows of a variant in the terminal
TOP = 99.0  # percentile, unless another is asked for
WITHIN = 0.05  # half of the interval that a sample is to give
VOTES = ("dense_modal", "dense_votes", "compressed_modal", "compressed_votes", "cie", "taxicab")


def examples_document(
    run: Run, percentile: float | None, variant: str | None, *, unlabelled: bool, whole: bool
) -> tuple[Document, dict[str, Any], list[str]]:
    """List the examples that diverge most, for every variant.

    Args:
        run: A finished audit.
        percentile: In (0, 100): 99 for the hundredth that diverges most, which None stands for.
        variant: Name of one compressed variant; None for all of them.
        unlabelled: Rank what to label first, without the labels that are known.
        whole: Every row and column, in one table.

    Returns:
        The document, what JSON says of it, and notes.

    Raises:
        ScotomaError: The run or the variant cannot be used.
    """
    percentile = percentile or (0.0 if unlabelled else TOP)
    chosen = chosen_examples(run, percentile, variant)
    content: dict[str, Any] = {"version": 1, "percentile": percentile}
    advice: list[str] = []
    if unlabelled:
        chosen, advice = to_label(run, chosen)
        content["advice"] = advice
    content["examples"] = chosen.to_dicts()
    if whole:
        sections = [Section("examples", "", advice, [Table.of_frame(chosen)])]
        return Document("Examples", sections=sections), content, []
    what = "votes and reasons" if unlabelled else "labels and votes"
    notes = [f"--csv prints all of them, with {what}, to annotate"] if chosen.height else []
    return _document(chosen, advice), content, notes


def divergence_of(run: Run) -> tuple[pl.DataFrame, AuditedExamples]:
    """Read how far each test example diverges under each variant, and the examples.

    Raises:
        DataError: The run has not ended, or was changed.
    """
    path = run.path("divergence.parquet")
    require_files(run, path, run.examples)
    test = AuditedExamples.read(run.examples, images=False, split="test")
    return pl.read_parquet(path, glob=False), test


def chosen_examples(run: Run, percentile: float, variant: str | None = None) -> pl.DataFrame:
    """The subset to annotate: of every variant the examples of the largest taxicab distance.

    Ties are broken by a hash of seed and id, so that the list does not depend on the order of rows;
    an example on which nothing differs is never in it.

    Args:
        run: A finished audit.
        percentile: In [0, 100): 99 for the hundredth that diverges most.
        variant: One compressed variant; None for all.

    Returns:
        Columns `variant`, `rank` from 1, `example_id`, `label` where the run has labels,
        `dense_modal`, `dense_votes`, `compressed_modal`, `compressed_votes`, `cie`, `taxicab`, and
        the attributes.

    Raises:
        ConfigError: A variant that the run does not have.
        DataError: The run has not ended.
    """
    scores, test = divergence_of(run)
    variants = scores["variant"].unique(maintain_order=True).to_list()
    if variant is not None:
        variants = [compressed_variant(run, variant).name]
    count = max(1, round(len(test.ids) * (100 - percentile) / 100))
    lots = hash_ids(np.array(test.ids), run.config.population.seed)
    label = ["label"] if test.labelled else []
    labels = test.table.select("example_id", *label, *test.attributes).with_columns(
        pl.Series("lot", lots.astype("uint64"))
    )
    parts = []
    for name in variants:
        divergent = scores.filter((pl.col("variant") == name) & (pl.col("taxicab") > 0))
        ranked = divergent.join(labels, on="example_id").sort(
            ["taxicab", "lot", "example_id"], descending=[True, False, False]
        )
        parts.append(ranked.head(count).with_row_index("rank", offset=1))
    return pl.concat(parts).select(
        "variant", "rank", "example_id", *label, *VOTES, *test.attributes
    )


def to_label(run: Run, chosen: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Say of each example why it should be labelled, and how many labels tell what.

    Args:
        run: A finished audit.
        chosen: From `chosen_examples`.

    Returns:
        The examples without labels, with the columns `sample` and `why`; and a sentence a variant.
        `sample` marks CIEs drawn at random, whatever their rank: as many as estimate how often
        models are right on the CIEs within 5 points. The first by rank would not be such a sample.
    """
    models = {name: run.config.models_of(name) for name in ["dense", *chosen["variant"].unique()]}
    lots = hash_ids(np.array(chosen["example_id"].to_list(), str), run.config.population.seed + 1)
    drawn = chosen.with_columns(pl.Series("lot", lots.astype("uint64")))
    flags = [chosen.head(0).select("variant", "example_id", sample=pl.lit(True))]
    advice = []
    for name in chosen["variant"].unique(maintain_order=True):
        cies = drawn.filter(pl.col("cie"), variant=name).sort("lot", "example_id")
        needed = sample_size(cies.height)
        flags.append(cies.head(needed).select("variant", "example_id", sample=pl.lit(True)))
        which = "all" if needed == cies.height else f"the {needed:,} with sample = true"
        advice.append(
            f"{printable(name)}: {chosen.filter(variant=name).height:,} examples differ, "
            f"{cies.height:,} of them CIEs; label {which} to know within "
            f"{100 * WITHIN:.0f} points how often models are right on them (95%)"
        )
    reasons = [_why(row, models) for row in chosen.iter_rows(named=True)]
    flagged = chosen.join(
        pl.concat(flags), on=["variant", "example_id"], how="left", maintain_order="left"
    )
    return flagged.drop("label", strict=False).with_columns(
        pl.col("sample").fill_null(False), why=pl.Series(reasons, dtype=pl.String)
    ), advice  # fmt: skip


def sample_size(count: int) -> int:
    """Count the random examples that estimate a share among `count` within 5 points at 95%.

    References:
        Cochran (1977), Sampling Techniques, section 4.4; its table for this case: Krejcie and
        Morgan (1970), Educational and Psychological Measurement 30:607-610.

    >>> [sample_size(count) for count in (0, 11, 1_000, 100_000)]
    [0, 11, 278, 383]
    """
    if not count:
        return 0
    endless = 1.96**2 * 0.25 / WITHIN**2
    return min(count, round(endless / (1 + (endless - 1) / count)))


def _why(row: dict[str, Any], models: Mapping[str, int]) -> str:
    """Say what the votes on an example do."""
    dense, compressed = (
        f"{row[f'{side}_modal']} ({row[f'{side}_votes']} of {models[name]})"
        for side, name in (("dense", "dense"), ("compressed", row["variant"]))
    )
    if row["cie"]:
        return f"the label changes from {dense} to {compressed}"
    return f"votes move: {dense} before, {compressed} after"


def _document(chosen: pl.DataFrame, advice: Sequence[str]) -> Document:
    known, sampled = "label" in chosen.columns, "sample" in chosen.columns
    columns = [
        Column("example_id", "example"), *([Column("label", "label")] if known else []),
        Column("dense", "dense says"), Column("compressed", "compressed says"),
        Column("taxicab", "taxicab", "count"), Column("cie", "CIE"),
        *([Column("sample", "sample")] if sampled else []),
    ]  # fmt: skip
    tables = [
        Table(
            f"examples-{at}",
            f"{name}: {show(part.height, 'count').value} examples, the most divergent first",
            columns, [_cells(row) for row in part.iter_rows(named=True)],
            stub=4 if known else 3, most=SHOWN,
        )
        for at, name in enumerate(natural_order(chosen["variant"]), 1)
        if (part := chosen.filter(variant=name)).height
    ]  # fmt: skip
    said = () if tables else ("No example differs under any variant.",)
    sections = [Section("examples", "", [*said, *advice], tables)]
    return Document("Examples on which dense and compressed models differ most", sections=sections)


def _cells(row: dict[str, Any]) -> dict[str, Cell]:
    return {
        "example_id": row["example_id"], "label": row.get("label"), "taxicab": row["taxicab"],
        "dense": f"{row['dense_modal']} ({row['dense_votes']})",
        "compressed": f"{row['compressed_modal']} ({row['compressed_votes']})",
        "cie": "yes" if row["cie"] else "", "sample": "yes" if row.get("sample") else "",
    }  # fmt: skip

"""What will an audit of scores see, and how much worse may a mean get before it shows?"""

from __future__ import annotations

from typing import Any

import numpy as np

from scotoma.comparison.means import score_table
from scotoma.comparison.quantiles import POWER, smallest_worsening
from scotoma.config import Config
from scotoma.document import Cell, Column, Document, Section, Table
from scotoma.sources.reading import survey_examples


def plan_of_scores(config: Config) -> tuple[Document, dict[str, Any]]:
    """Read the scores: what is known of them, and what each group can show.

    Args:
        config: Of the audit, as `complete` leaves it.

    Returns:
        Document and content; of each group and variant the smallest worsening of the mean that is
        shown, a fraction: None where the means are not above 0 or there is no interval.

    Raises:
        DataError: They cannot be read.
    """
    from scotoma.predictions.reruns import with_reruns

    score, supplied = config.source.score, config.source.answers(config)
    assert score is not None
    assert supplied is not None
    examples = with_reruns(survey_examples(config).examples.split("test"), supplied.rows)
    scores = {name: said.predicted for name, said in supplied.read(examples)}
    partition, clusters = examples.partition(), examples.clusters
    tables = {
        variant.name: score_table(
            scores["dense"], scores[variant.name], clusters, paired=variant.paired
        )
        for variant in config.resolved_variants[1:]
    }
    number, models = len(partition.keys), int(scores["dense"].shape[1])
    groups: list[dict[str, Any]] = [
        {
            "key": key, "name": name,
            "n": max(table.change(mask).n for table in tables.values()),
            "mean": float(np.mean(scores["dense"][mask])),
            "worse": {
                variant: smallest_worsening(
                    table, mask, number, lower_is_better=score.lower_is_better
                )
                for variant, table in tables.items()
            },
        }
        for key, name, mask in zip(partition.keys, partition.names, partition.masks, strict=True)
    ]  # fmt: skip
    content = {
        "version": 1, "project": config.project, "test": len(examples.ids),
        "clusters": len(examples.ids) if clusters is None else int(clusters.max()) + 1,
        "models": models, "notes": list(examples.notes), "power": POWER, "groups": groups,
    }  # fmt: skip
    columns = [
        Column("name", "group"), Column("n", "n", "count"), Column("mean", "mean", "score"),
        *(Column(f"worse {name}", name, "percent") for name in tables),
    ]  # fmt: skip
    rows: list[dict[str, Cell]] = [
        {**{key: one[key] for key in ("name", "n", "mean")},
         **{f"worse {name}": "none" if share is None else 100 * share
            for name, share in one["worse"].items()}}
        for one in groups
    ]  # fmt: skip
    unit, better = f" in {score.unit}" if score.unit else "", "higher"
    ratio = "dense / compressed"
    if score.lower_is_better:
        better, ratio = "lower", "compressed / dense"
    about = (
        f"Per cent: the smallest rise of {ratio} of the mean that these very scores show with "
        f"{100 * POWER:.0f}% power, corrected for all {number} groups.",
        "A FAIL needs the margin of its rule on top.",
    )
    title = (
        f"{config.project}: {len(examples.ids):,} test examples, {models} "
        f"model{'s' * (models != 1)} of the baseline; {score.name}{unit}, {better} is better"
    )
    table = Table("groups", "", columns, rows)
    found = Section("finds", "What the audit can find", about, [table], warnings=examples.notes)
    return Document(title, sections=[found]), content

"""Predictions to measure: gradient boosting on UCI Adult, five full models and five small ones.

    python docs/adult.py adult.csv.gz predictions.csv runs.csv

Adult is the census table on which SageMaker Clarify was introduced: does a person earn more than
50,000 dollars? Its CSV needs the usual column names and `split` (train, test). Full models have 31
leaves a tree; small ones, 4 leaves and a third of the trees, stand for what compression does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier

from scotoma.bias import counts
from scotoma.bias.fairness import NAMES, fairness_metric

WORDS = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex")
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
KEPT = ("sex", "race", "marital-status", "age", "education-num", "hours-per-week")
MODELS = {"full": (31, 60), "small": (4, 20)}  # leaves a tree, trees
MEMBERS = 5


def predictions(adult: pl.DataFrame) -> pl.DataFrame:
    """Train on the `train` rows and predict the `test` rows.

    Args:
        adult: UCI Adult with column `split`.

    Returns:
        One row a test example: `person`, `income`, attributes, and `full_0` to `small_4`.
    """
    words = [pl.col(name).fill_null("").rank("dense").alias(name) for name in WORDS]
    x = adult.select(*words, *(pl.col(name).cast(pl.Float64) for name in NUMBERS)).to_numpy()
    y = adult["income"].str.strip_chars_end(".").to_numpy()
    test = (adult["split"] == "test").to_numpy()
    table = adult.with_row_index("person").filter(test).select("person", *KEPT)
    columns = {"income": y[test]}
    for name, (leaves, trees) in MODELS.items():
        for seed in range(MEMBERS):
            model = HistGradientBoostingClassifier(
                max_iter=trees,
                max_leaf_nodes=leaves,
                max_features=0.5,  # each split sees half of the columns: seeds differ
                categorical_features=range(len(WORDS)),
                early_stopping=False,
                random_state=seed,
            )
            columns[f"{name}_{seed}"] = model.fit(x[~test], y[~test]).predict(x[test])
    return table.with_columns(**{name: np.asarray(values) for name, values in columns.items()})


def runs(predicted: pl.DataFrame) -> pl.DataFrame:
    """The seven metrics of the fixed-seed study of women and men, one row per model and metric.

    Args:
        predicted: From `predictions`.

    Returns:
        Columns `technique`, `fairness_metric`, `run` and `value`.
    """
    rich = {
        name: (predicted[name].cast(pl.String) == ">50K").to_numpy().astype(int)
        for name in predicted.columns
    }
    sexes = [(predicted["sex"] == sex).to_numpy() for sex in ("Female", "Male")]
    rows = []
    for name in MODELS:
        said = np.stack([rich[f"{name}_{seed}"] for seed in range(MEMBERS)], axis=1)
        tensor = counts(rich["income"], said, sexes, n_classes=2)
        for one in NAMES:
            values = fairness_metric(one, tensor).per_class[:, 1].tolist()
            rows += [(name, one, seed, value) for seed, value in enumerate(values)]
    return pl.DataFrame(rows, schema=["technique", "metric", "run", "value"], orient="row")


if __name__ == "__main__":
    source, *targets = map(Path, sys.argv[1:])
    table = predictions(pl.read_csv(source))
    table.write_csv(targets[0])
    if len(targets) > 1:
        runs(table).write_csv(targets[1])

"""Write tables of predictions to try `scotoma compare` on: 4,000 faces, 5 dense and 5 int8 models.

    python examples/faces.py

writes faces.csv (one row per example), and the same in two tables: examples.csv (ids, labels and
groups) and votes.parquet (one row a prediction). The int8 models err more often on old people.
"""

import numpy as np
import polars as pl

EXAMPLES, MODELS = 4000, 5
ID, FACTS = "example_id", ["label", "age", "sex"]


def main() -> None:
    """Write the three tables into the current folder."""
    rng = np.random.default_rng(0)
    old = rng.random(EXAMPLES) < 0.3
    positive = rng.random(EXAMPLES) < 0.4

    def predictions(error: float | np.ndarray) -> np.ndarray:
        return (positive ^ (rng.random(EXAMPLES) < error)).astype(int)

    faces = pl.DataFrame(
        {
            ID: range(EXAMPLES),
            "label": positive.astype(int),
            "age": np.where(old, "old", "young"),
            "sex": rng.choice(["f", "m"], EXAMPLES),
            **{f"dense_{model}": predictions(0.1) for model in range(MODELS)},
            **{f"int8_{model}": predictions(0.1 + 0.05 * old) for model in range(MODELS)},
        }
    )
    faces.write_csv("faces.csv")
    faces.select(ID, *FACTS).write_csv("examples.csv")
    names = pl.col("column").str.split_exact("_", 1).struct.rename_fields(["variant", "model"])
    votes = faces.drop(FACTS).unpivot(index=ID, variable_name="column", value_name="predicted")
    votes.with_columns(names).unnest("column").write_parquet("votes.parquet")


if __name__ == "__main__":
    main()

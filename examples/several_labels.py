"""Write predictions of several labels to audit: what is in each photograph, and whose photograph.

    python examples/several_labels.py

writes photographs.csv (one row a photograph: sex, and 0 or 1 for each label), the same as COCO has
it in instances.json and captions.json, and scores/{dense,int8}/{0,..,5}.parquet (a score for each
label). The int8 models miss more umbrellas of women.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import norm

LABELS = ("bicycle", "dog", "handbag", "umbrella")
SHARES = (0.2, 0.35, 0.25, 0.3)  # of the photographs that show it
HARMED = "umbrella"
CLEAR = 2.6  # how far scores of what is there lie above those of what is not
SHARED, OWN = 0.7, 0.35  # standard deviations: of the photograph and label, of a training run


def main() -> None:
    """Write the tables into the current folder."""
    write(Path(), harm=0.9)


def write(
    folder: Path, *, photographs: int = 1500, models: int = 6, harm: float = 0.0, seed: int = 0
) -> None:
    """Write the labels of photographs and what two populations predict.

    Args:
        folder: Where to.
        photographs: How many.
        models: Of each population.
        harm: By how much scores of umbrellas that women hold fall in int8.
        seed: Of everything.
    """
    rng = np.random.default_rng(seed)
    woman = rng.random(photographs) < 0.4
    crowded = rng.normal(size=(photographs, 1))  # what makes one label likely makes others so
    likely = np.sqrt(0.8) * rng.normal(size=(photographs, len(LABELS))) + np.sqrt(0.2) * crowded
    present = likely < norm.ppf(SHARES)
    table = pl.DataFrame(
        {
            "example_id": range(1, photographs + 1),
            "sex": np.where(woman, "female", "male"),
            **{name: present[:, k].astype(int) for k, name in enumerate(LABELS)},
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    table.write_csv(folder / "photographs.csv")
    write_coco(folder, table)
    hidden = present & woman[:, None] & (np.array(LABELS) == HARMED)
    blurred = 0.5 * rng.normal(size=(photographs, 1))
    hard = SHARED * rng.normal(size=present.shape) + blurred
    for variant, fall in (("dense", 0.0), ("int8", harm)):
        (folder / "scores" / variant).mkdir(parents=True, exist_ok=True)
        turned = 0.15 * rng.normal(size=present.shape)  # what compression does to an example
        for model in range(models):
            run = OWN * rng.normal(size=present.shape) + 0.05 * rng.normal()
            logit = CLEAR * (present - 0.5) + hard + run - fall * hidden
            logit += turned if variant == "int8" else 0
            scores = dict(zip(LABELS, (1 / (1 + np.exp(-2 * logit))).T, strict=True))
            pl.DataFrame({"example_id": table["example_id"], **scores}).write_parquet(
                folder / "scores" / variant / f"{model}.parquet"
            )


def write_coco(folder: Path, table: pl.DataFrame) -> None:
    """Write the labels as instances, and a caption of each photograph, as COCO does.

    Args:
        folder: Where to.
        table: One row a photograph.
    """
    shown = table.unpivot(LABELS, index="example_id").filter(pl.col("value") == 1)
    instances = {
        "images": [{"id": k, "file_name": f"{k:05}.jpg"} for k in table["example_id"]],
        "categories": [{"id": k, "name": name} for k, name in enumerate(LABELS, 1)],
        "annotations": [
            {"id": row, "image_id": image, "category_id": LABELS.index(name) + 1}
            for row, (image, name, _) in enumerate(shown.iter_rows(), 1)
        ],
    }
    who = {"female": "A woman in the street.", "male": "Two men wait for a bus."}
    captions = {
        "annotations": [
            {"id": k, "image_id": k, "caption": who[sex]}
            for k, sex in table.select("example_id", "sex").iter_rows()
        ]
    }
    (folder / "instances.json").write_text(json.dumps(instances), encoding="utf-8")
    (folder / "captions.json").write_text(json.dumps(captions), encoding="utf-8")


if __name__ == "__main__":
    main()

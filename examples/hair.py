"""Write predictions to audit: 800 people, one fp32 and one int8 model.

    python examples/hair.py

writes examples.csv and preds/VARIANT/model.csv. The int8 model errs twice as often on men.
"""

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

PEOPLE = 800
OTHER = {"blond": "dark", "dark": "blond"}


def main() -> None:
    """Write the three tables into the current folder."""
    rng = random.Random(1)
    people = [
        (
            f"{number}.jpg",
            rng.choice(["blond", "dark"]),
            rng.choice(["female", "male"]),
            rng.choice(["young", "old", ""]),
        )
        for number in range(PEOPLE)
    ]
    write(Path("examples.csv"), ["example_id", "label", "sex", "age"], people)
    for variant, error, on_men in (("fp32", 0.08, 1), ("int8", 0.09, 2)):
        rows = []
        for name, label, sex, _ in people:
            errs = rng.random() < error * (on_men if sex == "male" else 1)
            rows.append((name, OTHER[label] if errs else label))
        write(Path("preds", variant, "model.csv"), ["example_id", "predicted"], rows)


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    main()

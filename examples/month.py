"""Write one month's predictions to repeat an audit on: 900 people, one fp32 and one int8 model.

    python examples/month.py 2027-01

writes data/2027-01/examples.csv and data/2027-01/preds/VARIANT/model.csv. After 2027-01 the int8
model errs on every second man.
"""

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

PEOPLE = 900
HARMLESS = "2027-01"
ERRORS = {"fp32": 0.08, "int8": 0.09}
OTHER = {"blond": "dark", "dark": "blond"}


def main(month: str) -> None:
    """Write the month's folder below data/ in the current folder."""
    rng = random.Random(month)
    people = [
        (f"{month}/{number}", rng.choice(["blond", "dark"]), rng.choice(["female", "male"]))
        for number in range(PEOPLE)
    ]
    folder = Path("data", month)
    write(folder / "examples.csv", ["example_id", "label", "sex"], people)
    for variant, error in ERRORS.items():
        harm = 0.45 if variant == "int8" and month > HARMLESS else 0.0
        rows = [
            (name, OTHER[label] if rng.random() < error + harm * (sex == "male") else label)
            for name, label, sex in people
        ]
        write(folder / "preds" / variant / "model.csv", ["example_id", "predicted"], rows)


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    main(sys.argv[1])

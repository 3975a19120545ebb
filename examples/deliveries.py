"""Write forecasts to audit: how many minutes 3,000 deliveries take, by an fp32 and an int8 model.

    python examples/deliveries.py

writes deliveries.csv and minutes/VARIANT/MODEL.csv. On rural deliveries int8 errs by a fifth more.
"""

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

DELIVERIES, COURIERS = 3_000, 300
HARM = 0.2


def main() -> None:
    """Write the tables into the current folder."""
    write(Path())


def write(folder: Path, *, harm: float = HARM, seed: int = 1) -> None:
    """Write the tables of one world; `harm` is how much more int8 is off on rural deliveries."""
    rng = random.Random(seed)
    couriers = [
        (f"courier {number}", rng.choice(["bike", "car"]), rng.choice(["city", "suburb", "rural"]))
        for number in range(COURIERS)
    ]
    deliveries = []
    for number in range(DELIVERIES):
        courier, vehicle, region = rng.choice(couriers)
        kilometres = round(rng.uniform(0.5, 6 if region == "city" else 15), 1)
        minutes = round(5 + 3 * kilometres + rng.gauss(0, 2), 1)
        deliveries.append((f"d{number:04}", minutes, region, vehicle, kilometres, courier))
    head = ["example_id", "minutes", "region", "vehicle", "kilometres", "courier"]
    write_csv(folder / "deliveries.csv", head, deliveries)
    off = {row[0]: rng.gauss(0, 1 + 0.3 * row[4]) for row in deliveries}
    for variant, own in (("fp32", 0.0), ("int8", harm)):
        rows = []
        for name, minutes, region, *_ in deliveries:
            more = 1 + (own if region == "rural" else 0)
            rows.append((name, round(minutes + more * off[name] + rng.gauss(0, 0.4), 2)))
        write_csv(folder / "minutes" / variant / "0.csv", ["example_id", "predicted"], rows)


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


if __name__ == "__main__":
    main()

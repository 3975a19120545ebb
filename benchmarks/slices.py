"""How fast slices are found, and how truly: each number beside its yardstick, in the same run.

    python benchmarks/slices.py adult.csv.gz                      # all but sliceline
    python benchmarks/slices.py adult.csv.gz --sliceline          # in an environment of its own
    python benchmarks/slices.py adult.csv.gz --only speed,scaling # some parts
    python benchmarks/slices.py adult.csv.gz --svg cost.svg       # the picture of `scaling`

ADULT is UCI Adult with a column `split`. Times are CPU seconds of this process, best of several;
run it with OMP_NUM_THREADS=1. Parts: speed, large, planted, shuffled, scaling.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.slices import Encoded, SearchSettings, SliceReport, encode, find_slices
from scotoma.slices.search.sweep import Key, flag_rows

PARTS = ("speed", "large", "planted", "shuffled", "scaling")
LARGE_ROWS, LARGE_FEATURES = 47_655, 65  # "safe driving" of Liu et al. 2022, Table 2
PAPER = {"census": 412_000, "safe driving": "not finished in 8 hours"}  # batch, CPU seconds
REPLICATES, PERMUTATIONS = 20, 200
Table = tuple[pl.DataFrame, npt.NDArray[np.bool_]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("adult", type=Path, help="UCI Adult with a column `split`")
    parser.add_argument("--sliceline", action="store_true", help="measure sliceline 0.3.0 too")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, parted by commas")
    parser.add_argument("--svg", type=Path, help="where to draw cost against rows and features")
    parser.add_argument("--alone", choices=("published", "sound"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:  # in a process of its own, so that its peak memory can be measured
        print(json.dumps(safe_driving(arguments.alone)))
        return
    say("machine", f"{platform.processor() or platform.machine()}, Python {sys.version.split()[0]}")
    names = ("numpy", "scipy", "polars", "scikit-learn")
    say("versions", ", ".join(f"{name} {version(name)}" for name in names))
    chosen = arguments.only.split(",")
    if "speed" in chosen:
        for rows in (3_918, 16_281):
            speed(scored(arguments.adult, rows), arguments.sliceline)
    if "large" in chosen:
        large(arguments.adult)
    if "planted" in chosen:
        planted(arguments.adult)
    if "shuffled" in chosen:
        shuffled(arguments.adult)
    if "scaling" in chosen:
        scaling(arguments.adult, arguments.svg)


def run(features: Any, outcome: Any, **options: Any) -> SliceReport:
    """Search as `find_slices`, its settings by their names."""
    data = {name: options.pop(name) for name in ("baseline", "clusters") if name in options}
    return find_slices(features, outcome, SearchSettings(**options), **data)


def say(name: str, text: str) -> None:
    """One line of the report."""
    print(f"{name:<28} {text}", flush=True)


def best(measure: Callable[[], object], times: int = 5) -> float:
    """Fewest CPU seconds of several runs."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        measure()
        spent.append(time.process_time() - began)
    return min(spent)


def scored(adult: Path, rows: int) -> Table:
    """A stratified sample of the test split, seed 0, and a gradient boosting's errors on it.

    Five numeric features and nine categorical ones: the years of schooling count as the latter.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = pl.read_csv(adult).with_columns(pl.col("education-num").cast(pl.String))
    features = table.drop("income", "split")
    numbers = features.with_columns(
        pl.col(pl.String).fill_null("?").cast(pl.Categorical).to_physical()
    ).to_numpy()
    rich = table["income"].str.contains(">50K").to_numpy()
    train = (table["split"] == "train").to_numpy()
    categorical = [dtype == pl.String for dtype in features.dtypes]
    model = HistGradientBoostingClassifier(categorical_features=categorical, random_state=0)
    wrong = model.fit(numbers[train], rich[train]).predict(numbers) != rich
    rng, test = np.random.default_rng(0), np.flatnonzero(~train)
    drawn = [
        rng.permutation(own)[: round(rows * own.size / test.size)]
        for own in (test[rich[test]], test[~rich[test]])
    ]
    sample = np.sort(np.concatenate(drawn))
    return features[sample.tolist()], wrong[sample]


def speed(table: Table, sliceline: bool) -> None:
    """Exhaustive search with 20 replicates, beside sliceline and the paper."""
    features, wrong = table
    rows = f"Adult, {features.height:,} rows"
    encoded = encode(features)
    width, alone = encoded.sizes.sum(), best(lambda: encode(features))
    say(rows, f"{len(encoded.features)} features, {width} predicates, error {wrong.mean():.1%}; "
        f"encoding alone {alone:.3f} CPU-s")  # fmt: skip

    def search(**options: Any) -> SliceReport:
        return run(features, wrong, permutations=0, **options)

    published = search(mode="batch", protocol="published")
    exhaustive = best(lambda: search(mode="batch", protocol="published"))
    say("  exhaustive, L=3, B=20", f"{exhaustive:.3f} CPU-s with the encoding, "
        f"{published.tested:,} slices tested, {published.slice_count:,} minimal significant; "
        f"target 0.1; the paper's cluster: {PAPER['census']:,}")  # fmt: skip
    for name, options in {
        "iterative, published": {"mode": "iterative", "protocol": "published"},
        "priority, published": {"mode": "priority", "protocol": "published"},
        "batch, sound": {"mode": "batch"},
        "cover, confirmed": {},
        "cover": {"confirm": False},
    }.items():
        report = search(**options)
        say(f"  {name}", f"{best(lambda o=options: search(**o), 3):.3f} CPU-s, "
            f"{report.tested:,} tested, {report.slice_count:,} found")  # fmt: skip
    null = best(lambda: run(features, wrong, permutations=20), 1)
    say("  cover with its null", f"{null:.2f} CPU-s: 20 shuffled outcomes beside the result")
    if sliceline:
        for least, ours in ((1, exhaustive), (30, best(lambda: search(mode="batch"), 3))):
            other = _sliceline(encoded, wrong, least)
            say(f"  sliceline, min_sup={least}", f"{other:.2f} CPU-s, {other / ours:.0f} times "
                "ours of the same smallest slice; target 10 times")  # fmt: skip


SLICELINE = """
import sys, time
import numpy as np
from sliceline import Slicefinder
data = np.load(sys.argv[1])
spent = []
for _ in range(2):  # the first run compiles
    began = time.process_time()
    finder = Slicefinder(alpha=0.95, k=1, max_l=3, min_sup=int(sys.argv[2]), verbose=False)
    finder.fit(data["codes"].T, data["wrong"].astype(float))
    spent.append(time.process_time() - began)
print(min(spent))
"""
ENVIRONMENT: list[tempfile.TemporaryDirectory[str]] = []


def _sliceline(encoded: Encoded, wrong: npt.NDArray[np.bool_], least: int) -> float:
    """CPU seconds of sliceline with numba on the same codes, k = 1, its best case."""
    if not ENVIRONMENT:
        ENVIRONMENT.append(tempfile.TemporaryDirectory())
        venv.create(ENVIRONMENT[0].name, with_pip=True)
        python = Path(ENVIRONMENT[0].name) / "bin" / "python"
        wanted = ["sliceline==0.3.0", "numba", f"numpy=={version('numpy')}"]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    folder = Path(ENVIRONMENT[0].name)
    np.savez(folder / "data.npz", codes=encoded.codes, wrong=wrong)
    run = [folder / "bin" / "python", "-c", SLICELINE, folder / "data.npz", str(least)]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def safe_driving(protocol: str) -> dict[str, float]:
    """Cost of a batch search of 47,655 x 65 random features, 58 numeric and 7 categorical."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": rng.normal(size=LARGE_ROWS) for i in range(58)}
    columns |= {f"c{i}": rng.integers(0, 12, LARGE_ROWS).astype(str) for i in range(7)}
    features, wrong = pl.DataFrame(columns), rng.random(LARGE_ROWS) < 0.1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, clock = time.process_time(), time.perf_counter()
    report = run(features, wrong, mode="batch", protocol=protocol, permutations=0)
    return {
        "cpu": time.process_time() - began,
        "wall": time.perf_counter() - clock,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "before": before / 2**20,
        "tested": report.tested,
        "found": report.slice_count,
    }


def large(adult: Path) -> None:
    """The case that the published system could not exhaust."""
    for protocol in ("published", "sound"):
        run = [sys.executable, __file__, str(adult), "--alone", protocol]
        got = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        say(f"{LARGE_ROWS:,} x {LARGE_FEATURES}, {protocol}",
            f"batch, L=3: {got['cpu']:.1f} CPU-s, {got['wall']:.1f} s, peak {got['gib']:.2f} GiB "
            f"({got['before']:.2f} before), {got['tested']:,} tested, {got['found']:,} found; "
            f"targets 20 CPU-s, 4 GiB; the paper: {PAPER['safe driving']}")  # fmt: skip


def plant(encoded: Encoded, rng: np.random.Generator) -> list[npt.NDArray[np.bool_]]:
    """Six slices of cross size 1, 1, 2, 2, 3, 3 and 80 to 800 rows, hardly overlapping."""
    masks: list[npt.NDArray[np.bool_]] = []
    for cross in (1, 1, 2, 2, 3, 3):
        for attempt in range(100_000):
            deeper = min(cross + attempt // 5_000, 3)  # no single predicate may be of that size
            subset = tuple(sorted(rng.choice(encoded.sizes.size, deeper, replace=False).tolist()))
            row = rng.integers(encoded.codes.shape[1])
            key: Key = (subset, tuple(int(encoded.codes[f, row]) for f in subset))
            mask = flag_rows(encoded, key)
            apart = all((mask & o).sum() <= 0.2 * min(mask.sum(), o.sum()) for o in masks)
            if 80 <= mask.sum() <= 800 and apart:
                masks.append(mask)
                break
    return masks


def planted(adult: Path) -> None:
    """Recall and false share on planted truth: error .13, in six slices .33.

    A planted slice is recalled where a found one shares half of their joint rows (Jaccard). A found
    slice is false where less than half of its rows are planted.
    """
    searches: dict[str, dict[str, Any]] = {
        "cover, confirmed": {},
        "cover": {"confirm": False},
        "batch, sound": {"mode": "batch"},
        "batch, published": {"mode": "batch", "protocol": "published", "limit": 10**6},
        "priority, published": {"mode": "priority", "protocol": "published", "limit": 10**6},
    }
    for rows in (16_281, 3_918):
        scores: dict[str, list[list[float]]] = {name: [] for name in searches}
        for replicate in range(REPLICATES):
            features = scored_features(adult, rows, replicate)
            encoded, rng = encode(features), np.random.default_rng(replicate)
            truth = plant(encoded, rng)
            wrong = rng.random(rows) < np.where(np.any(truth, axis=0), 0.33, 0.13)
            for name, options in searches.items():
                report = run(features, wrong, permutations=0, **options)
                scores[name].append(_score(truth, [one.mask for one in report.slices]))
        for name, got in scores.items():
            recalled, false, found = np.sum(got, axis=0)
            say(f"planted in {rows:,}, {name}",
                f"recall {recalled / 6 / REPLICATES:.1%}, false {false / max(found, 1):.1%}, "
                f"{found / REPLICATES:,.1f} found of 6")  # fmt: skip


def scored_features(adult: Path, rows: int, seed: int) -> pl.DataFrame:
    """Features of some rows of Adult."""
    table = pl.read_csv(adult).with_columns(pl.col("education-num").cast(pl.String))
    return table.drop("income", "split").sample(rows, seed=seed)


def _score(truth: list[npt.NDArray[np.bool_]], found: list[npt.NDArray[np.bool_]]) -> list[float]:
    union = np.any(truth, axis=0)
    recalled = sum(
        any((own & mask).sum() >= 0.5 * (own | mask).sum() for mask in found) for own in truth
    )
    false = sum((mask & union).sum() < 0.5 * mask.sum() for mask in found)
    return [recalled, float(false), len(found)]


def shuffled(adult: Path) -> None:
    """How many of 200 searches of shuffled outcomes find something, in every mode."""
    features, wrong = scored(adult, 3_918)
    rng = np.random.default_rng(1)
    difficulty = rng.normal(size=(wrong.size, 1)) * 1.5 - 2.0
    dense, compressed = (
        difficulty + rng.normal(size=(wrong.size, 5)) + rng.normal(0, 0.1, 5) > 0 for _ in range(2)
    )
    sources = np.repeat(np.arange(300), 3)
    grouped = {f"x{i}": rng.choice(list("abcd"), 300)[sources] for i in range(6)}
    outcomes: dict[str, dict[str, Any]] = {
        "one model": {"features": features, "outcome": wrong},
        "5 members": {"features": features, "outcome": compressed},
        "5 against 5": {"features": features, "outcome": compressed, "baseline": dense},
        "300 sources": {
            "features": grouped, "outcome": (rng.random(300) < 0.2)[sources], "clusters": sources
        },
    }  # fmt: skip
    modes: dict[str, dict[str, Any]] = {
        "cover, confirmed": {},
        "cover": {"confirm": False},
        "batch": {"mode": "batch"},
        "iterative": {"mode": "iterative"},
        "priority": {"mode": "priority"},
    }
    for what, outcome in outcomes.items():
        found = {
            name: run(permutations=PERMUTATIONS, **outcome, **mode).null.any
            for name, mode in modes.items()
        }
        counts = ", ".join(f"{name} {count}" for name, count in found.items())
        say(f"shuffled, {what}", f"found something in {counts} of {PERMUTATIONS}; at most 18")
    report = run(features, wrong, mode="batch", protocol="published", permutations=20)
    say("shuffled, published", f"found {report.null.mean:,.0f} slices on average, "
        f"{report.slice_count:,} on the true outcome")  # fmt: skip


def scaling(adult: Path, svg: Path | None) -> None:
    """Cost of the exhaustive search against rows (Adult replicated) and against features."""
    features, wrong = scored(adult, 3_918)
    rows, columns = [], []
    for times in (1, 2, 4, 8, 16):
        table, outcome = pl.concat([features] * times), np.tile(wrong, times)
        rows.append((table.height, _cost(table, outcome)))
    rng = np.random.default_rng(0)
    for count in (5, 10, 20, 30, 40):
        table = pl.DataFrame({f"x{i}": rng.normal(size=wrong.size) for i in range(count)})
        columns.append((count, _cost(table, wrong)))
    ratio = rows[-1][1] / rows[0][1]
    say("cost against rows", ", ".join(f"{n:,}: {s:.3f}" for n, s in rows)
        + f" CPU-s; 16 times the rows cost {ratio:.1f} times")  # fmt: skip
    say("cost against features", ", ".join(f"{n}: {s:.3f}" for n, s in columns) + " CPU-s")
    if svg is not None:
        svg.write_text(picture(rows, columns), encoding="utf-8")
        say("picture", str(svg))


def _cost(table: pl.DataFrame, wrong: npt.NDArray[np.bool_]) -> float:
    return best(lambda: run(table, wrong, mode="batch", protocol="published", permutations=0), 3)


Points = list[tuple[int, float]]


def picture(rows: Points, columns: Points) -> str:
    """Both curves as a small SVG, which follows the page's colours."""
    panels = _panel(rows, 0, "rows", 1) + _panel(columns, 340, "features", 3)
    style = "text{font:12px sans-serif;fill:currentColor}path,line{stroke:currentColor;fill:none}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 260" role="img">'
        "<title>CPU seconds of an exhaustive search with L=3 and B=20</title>"
        f"<style>{style}</style>{panels}</svg>\n"
    )


def _panel(points: Points, left: int, unit: str, power: int) -> str:
    most, slowest = points[-1][0], max(seconds for _, seconds in points)
    x = [left + 50 + 260 * n / most for n, _ in points]
    y = [220 - 180 * seconds / slowest for _, seconds in points]
    shape = " ".join(
        f"{'ML'[i > 0]}{a:.1f} {b:.1f}" for i, (a, b) in enumerate(zip(x, y, strict=True))
    )
    steps = [most * step / 40 for step in range(41)]
    ideal = " ".join(
        f"{'ML'[i > 0]}{left + 50 + 260 * n / most:.1f} "
        f"{220 - 180 * points[-1][1] / slowest * (n / most) ** power:.1f}"
        for i, n in enumerate(steps)
    )
    name = "linear" if power == 1 else "cubic"
    dots = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="currentColor">'
        f"<title>{n:,} {unit}: {s:.3f} CPU-s</title></circle>"
        for a, b, (n, s) in zip(x, y, points, strict=True)
    )
    return (
        f'<line x1="{left + 50}" y1="220" x2="{left + 310}" y2="220"/>'
        f'<line x1="{left + 50}" y1="220" x2="{left + 50}" y2="40"/>'
        f'<path d="{ideal}" stroke-dasharray="4 4" opacity=".5"/><path d="{shape}"/>{dots}'
        f'<text x="{left + 310}" y="240" text-anchor="end">{most:,} {unit}</text>'
        f'<text x="{left + 50}" y="30">{slowest:.2f} CPU-s</text>'
        f'<text x="{left + 62}" y="60" opacity=".6">dashed: {name}</text>'
    )


if __name__ == "__main__":
    main()

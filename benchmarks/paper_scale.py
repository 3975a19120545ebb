"""The CIE paper at its own scale, from predictions alone: how long it takes, and what comes out.

    python benchmarks/paper_scale.py              # 30 members
    python benchmarks/paper_scale.py --members 5  # less

Nothing is trained: 19,962 examples are drawn with groups and errors as Hooker et al. 2020 print
them, Tables 1 and 5, for the dense population and eight compressed ones, written as one
Parquet file of long format, and given to `scotoma audit` and `scotoma gate`. What comes out should
be what went in, up to sampling: beside each number stands the published one.

Counts of CIEs are not what went in. No predictions of two classes with the published accuracies
have as many as the paper prints from 95% sparsity upwards: a CIE is then wrong by half or more of
one of both populations, so that there are at most 2 n (error + error') of them, 4,750 and 5,700.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.audit import Audit, GateFile, Quantity, read_audit, read_gate
from scotoma.power.model import Probit
from scotoma.power.simulate import draw_events
from scotoma.published import load

EXAMPLES = 19_962
GROUPS = {"M": "male", "F": "female", "Y": "young", "O": "old", "MY": "male & young"}
GROUPS |= {"MO": "male & old"}
CONFIG = """\
version: 1
project: paper-scale
source: {kind: predictions, files: said.parquet, examples: examples.csv}
label: {column: blond, positive: 1}
groups:
  sex: {column: sex}
  age: {column: age}
  intersections: [[sex, age]]
tracking: {uri: "off"}
"""
Rates = npt.NDArray[np.float64]
Cell = tuple[int, int, int]  # blond, male, young


def main() -> None:
    """Draw, audit, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    paper = load("cie")
    print(f"machine  {platform.machine()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write(home, paper, asked.members, asked.seed)
        (home / "audit.yaml").write_text(CONFIG)
        spent = [timed(home, "audit", "audit.yaml", "--out", "run"), timed(home, "gate", "run")]
        steps = {
            path.stem: json.loads(path.read_text())["time_s"]
            for path in sorted((home / "run" / "steps").glob("*.json"))
        }
        audit = read_audit(home / "run" / "audit.json")
        gate = read_gate(home / "run" / "gate.json")
    print(f"audit    {spent[0][0]:.1f} s, {spent[0][1]:.1f} s of CPU; gate {spent[1][0]:.1f} s")
    print("steps    " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in steps.items()))
    tables(audit, gate, paper)


def timed(home: Path, *arguments: str) -> tuple[float, float]:
    """Wall time and CPU time of a command and its children, seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "scotoma", *arguments, "--quiet"],
        cwd=home, stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"scotoma {arguments[0]} ended with {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


def write(home: Path, paper: Any, members: int, seed: int) -> None:
    """The table of examples and the predictions of all variants."""
    cells, share = zip(*shares(paper).items(), strict=True)
    counts = np.floor(np.array(share) * EXAMPLES).astype(int)
    counts[counts.argmax()] += EXAMPLES - counts.sum()
    of = np.repeat(np.arange(len(cells)), counts)
    ids = [f"{row:06d}.jpg" for row in range(1, EXAMPLES + 1)]
    blond, male, young = (np.array([cell[i] for cell in cells])[of] for i in range(3))
    sex, age = np.where(male, "male", "female"), np.where(young, "young", "old")
    table = {"example_id": ids, "blond": blond, "sex": sex, "age": age}
    pl.DataFrame(table).write_csv(home / "examples.csv")
    dense, ratio = cell_rates(cells, counts, paper)
    top1 = {name: paper.table1.row(name)["top1"] for name in paper.table1.rows}
    rise = {name: (top1["0"] - value) / (top1["0"] - top1["0.95"]) for name, value in top1.items()}
    said: dict[str, npt.NDArray[np.bool_]] = {}
    for name, share in rise.items():
        if name == "0":
            continue
        # The same seed and dense rates draw the same dense members beside every variant.
        compressed = np.clip(dense * ratio**share, 0, 0.95)
        wrong, wrong_c = draw_events(
            dense[of], compressed[of], members, members, Probit(), np.random.default_rng(seed)
        )
        said.setdefault("dense", wrong ^ (blond == 1)[:, None])
        said[f"prune-{name}" if name[0] == "0" else name] = wrong_c ^ (blond == 1)[:, None]
    tables = [
        pl.DataFrame({"example_id": ids, "predicted": answers[:, member].astype(np.int8)})
        .with_columns(pl.lit(variant).alias("variant"), pl.lit(f"{member:02d}").alias("model"))
        for variant, answers in said.items()
        for member in range(members)
    ]  # fmt: skip
    pl.concat(tables).write_parquet(home / "said.parquet")


def shares(paper: Any) -> dict[Cell, float]:
    """Share of the test images by blond, male and young, solved from Table 5.

    The rate of a whole is the mix of the rates of its parts, which tells how much of it each is.
    """
    baseline = paper.table5["baseline"]
    rates = {metric: baseline.row(metric) for metric in baseline.rows}

    def part(whole: float, one: float, other: float) -> float:
        return (whole - other) / (one - other)

    blond = part(*(rates[metric]["aggregate"] for metric in ("error", "fnr", "fpr")))
    found = {}
    for label, of_all, metric in ((1, blond, "fnr"), (0, 1 - blond, "fpr")):
        of = rates[metric]
        male = part(of["aggregate"], of["M"], of["F"])
        young_men = part(of["M"], of["MY"], of["MO"])
        young_women = (part(of["aggregate"], of["Y"], of["O"]) - male * young_men) / (1 - male)
        for sex, of_sex, young in ((1, male, young_men), (0, 1 - male, young_women)):
            found[label, sex, 1] = of_all * of_sex * young
            found[label, sex, 0] = of_all * of_sex * (1 - young)
    return found


def cell_rates(
    cells: Sequence[Cell], counts: npt.NDArray[np.int_], paper: Any
) -> tuple[Rates, Rates]:
    """Error of each cell in the dense population, and its ratio at 95% sparsity.

    The paper gives FPR and FNR of young and old men, and of all the young and the old; those of
    young and old women are what is left of the latter (its own columns repeat them, a slip).
    """
    rates = []
    for table in (paper.table5["baseline"], paper.table5["sparsity 0.95"]):
        found = {}
        for blond, metric in ((1, "fnr"), (0, "fpr")):
            _, _, _, y, o, my, mo, *_ = (v / 100 for v in table.row(metric).values())
            for young, men, everyone in ((1, my, y), (0, mo, o)):
                n_men, n_women = (counts[cells.index((blond, male, young))] for male in (1, 0))
                women = (everyone * (n_men + n_women) - men * n_men) / n_women
                found |= {(blond, 1, young): men, (blond, 0, young): women}
        rates.append(np.array([found[cell] for cell in cells]))
    return rates[0], rates[1] / rates[0]


def tables(audit: Audit, gate: GateFile, paper: Any) -> None:
    """What came out, each number with its interval beside what the paper prints."""
    verdicts = {variant.name: variant.verdict for variant in gate.variants}
    print("\nTable 1: top-1 % and CIEs (published)")
    for name, (top1, cies) in paper.table1.rows.items():
        ours = "dense" if name == "0" else f"prune-{name}" if name[0] == "0" else name
        (top,) = (row.number for row in audit.numbers("accuracy", ours))
        line = f"{ours:<18} {interval(top, 100)} ({top1:.2f})"
        if cies is not None:
            count = audit.divergence[ours].cie.cie.count
            line += f"  CIEs {count:,} ({cies:,})  {verdicts[ours]}"
        print(line)
    hard_examples(audit, paper)
    print("\nTable 3: change at 95% sparsity, % of the dense rate (published)")
    names = {group.name: group.key for group in audit.groups}
    changes = audit.numbers("rates", "prune-0.95", what="relative")
    rows = {(row.group, row.metric): row.number for row in changes}
    inside = total = 0
    for metric in ("error", "fpr", "fnr"):
        for short, name in {"aggregate": "all", **GROUPS}.items():
            change = rows[names[name], metric]
            value = paper.table3.row(metric)[short]
            ends = (change.low, change.high)
            inside += None not in ends and 100 * ends[0] <= value <= 100 * ends[1]
            total += 1
            print(f"{metric:<6} {name:<14} {interval(change, 100)} ({value:+.1f})")
    print(f"{inside} of {total} published changes lie inside the 95% interval")


def hard_examples(audit: Audit, paper: Any) -> None:
    """Table 2: accuracy of the compressed models on CIEs and on the examples that diverge most.

    The published order, not its numbers, can come out: which examples diverge was not put in, only
    how often each population errs, and of two classes the paper's own counts of CIEs are too many.
    """
    print("\nTable 2: top-1 % of compressed models, on subsets (published)")
    names, rows = paper.table2.columns, paper.table2.rows.items()
    subsets = ["CIEs" if name == "modal CIEs" else name.removesuffix("th") for name in names]
    as_published = 0
    for name, values in rows:
        ours = f"prune-{name}" if name[0] == "0" else name
        found = {
            row.fact("subset"): row.number
            for row in audit.numbers("divergence", ours, what="top1.compressed")
        }
        cells = [
            f"{subset} {interval(found[subset], 100)} ({value:.2f})"
            for subset, value in zip(subsets, values, strict=True)
        ]
        print(f"{ours:<18} {', '.join(cells)}")
        order = ["taxicab 99", "taxicab 95", "taxicab 90", "all"]
        shares = [found[subset].value for subset in order]
        as_published += None not in shares and shares == sorted(shares)
    print(f"the more divergent, the less accurate, as published, in {as_published} of {len(rows)}")


def interval(quantity: Quantity, factor: float) -> str:
    """A number with its interval."""
    ends = (quantity.value, quantity.low, quantity.high)
    if None in ends:
        return quantity.reason or "undefined"
    value, low, high = (factor * end for end in ends)
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()

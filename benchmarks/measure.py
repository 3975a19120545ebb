"""How fast the measuring half is, each number beside its yardstick, measured in the same run.

    python benchmarks/measure.py                            # everything but smclarify
    python benchmarks/measure.py --smclarify adult.csv.gz   # 21 metrics beside smclarify 0.5

Fairlearn must be installed (it is a test dependency). smclarify 0.5 needs old pandas and NumPy, so
it is installed into an environment of its own that is removed again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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

ROOT = Path(__file__).resolve().parents[1]
MEMBERS, EXAMPLES, VARIANTS = 30, 19_962, 9  # CelebA's test split in Hooker et al. 2020

Labels = npt.NDArray[np.uint16]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smclarify", type=Path, metavar="ADULT", help="UCI Adult with `split`")
    asked = parser.parse_args()
    say("machine", f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    names = ("numpy", "scipy", "polars", "fairlearn", "pandas", "scikit-learn")
    say("versions", ", ".join(f"{name} {version(name)}" for name in names))
    per_model = paper_scale()
    fairlearn(per_model)
    if asked.smclarify:
        smclarify(asked.smclarify)


def say(name: str, text: str) -> None:
    """One line of the report."""
    print(f"{name:<22} {text}", flush=True)


def processor() -> str:
    """Model name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def best(measure: Callable[[], object], times: int) -> float:
    """Shortest of several durations, seconds."""
    durations = []
    for _ in range(times):
        began = time.perf_counter()
        measure()
        durations.append(time.perf_counter() - began)
    return min(durations)


def faces(seed: int) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[np.bool_]]]:
    """Labels of 15% blond faces, and nine groups: all, four values, four intersections."""
    rng = np.random.default_rng(seed)
    male, old = rng.random(EXAMPLES) < 0.39, rng.random(EXAMPLES) < 0.24
    labels = (rng.random(EXAMPLES) < np.where(male, 0.02, 0.22)).astype(np.int64)
    groups = {"all": np.ones(EXAMPLES, bool), "male": male, "female": ~male, "old": old,
              "young": ~old}  # fmt: skip
    for sex in ("male", "female"):
        for age in ("old", "young"):
            groups[f"{sex} & {age}"] = groups[sex] & groups[age]
    return labels, groups


def members(
    labels: npt.NDArray[np.int64], difficulty: npt.NDArray[np.float64], seed: int
) -> Labels:
    """Predictions of 30 members that fail each example with its own probability."""
    wrong = np.random.default_rng(seed).random((labels.size, MEMBERS)) < difficulty[:, None]
    return np.where(wrong, 1 - labels[:, None], labels[:, None]).astype(np.uint16)


def paper_scale() -> float:
    """All of divergence, impact and bias at the size of the paper, against 5 seconds."""
    from scotoma.bias import amplification
    from scotoma.divergence import excess, score
    from scotoma.impact import class_impact

    labels, groups = faces(0)
    masks, names = np.stack(list(groups.values())), list(groups)
    difficulty = np.random.default_rng(1).beta(0.12, 2.2, EXAMPLES)
    dense = members(labels, difficulty, 2)
    variants = [members(labels, difficulty * (1 + v / 8), 3 + v) for v in range(VARIANTS)]

    steps: dict[str, Callable[[Labels], object]] = {
        "score": lambda c: score(dense, c, 2),
        "excess": lambda c: excess(dense, c, 2),
        "class_impact": lambda c: class_impact(dense, c, labels, n_classes=2),
        "amplification": lambda c: amplification(
            labels, dense, c, masks, names, positive=1, n_classes=2
        ),
    }
    spent = dict.fromkeys(steps, 0.0)
    for compressed in variants:
        for name, step in steps.items():
            began = time.perf_counter()
            step(compressed)
            spent[name] += time.perf_counter() - began
    total = sum(spent.values())
    models = (VARIANTS + 1) * MEMBERS
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
    say(
        "paper scale",
        f"{VARIANTS} variants x {MEMBERS} members x {EXAMPLES:,} examples, {len(names)} groups, "
        f"with intervals: {total:.2f} s ({parts}); target 5 s",
    )
    say("", f"{1000 * total / models:.1f} ms a model ({models} models)")
    return total / models


def fairlearn(per_model: float) -> None:
    """MetricFrame with its bootstrap on the same table: one model, two metrics, 100 draws."""
    from fairlearn.metrics import MetricFrame, false_negative_rate, false_positive_rate

    labels, groups = faces(0)
    difficulty = np.random.default_rng(1).beta(0.12, 2.2, EXAMPLES)
    predicted = members(labels, difficulty, 2)[:, 0]
    cells = np.where(groups["male"], "male", "female").astype(object) + np.where(
        groups["old"], " old", " young"
    )

    def frame() -> None:
        MetricFrame(
            metrics={"fpr": false_positive_rate, "fnr": false_negative_rate},
            y_true=labels,
            y_pred=predicted,
            sensitive_features=cells,
            n_boot=100,
            ci_quantiles=[0.025, 0.975],
            random_state=0,
        )

    seconds = best(frame, 1)
    say(
        "fairlearn",
        f"MetricFrame, 1 model, FPR and FNR, 4 of the groups, 100 draws: {seconds:.1f} s, "
        f"{seconds / per_model:,.0f} times ours per model; target 500",
    )


RUNNER = """
import json, sys, time
import pandas as pd
from smclarify.bias.report import FacetColumn, LabelColumn, StageType, bias_report
frame = pd.read_csv(sys.argv[1])
strata = frame.pop("strata")
label = LabelColumn("y", frame["y"], [1])
said = LabelColumn("p", frame["p"], [1])
best, values = 1e9, {}
for _ in range(5):
    began = time.perf_counter()
    for stage in (StageType.PRE_TRAINING, StageType.POST_TRAINING):
        rows = frame.drop(columns="p") if stage is StageType.PRE_TRAINING else frame
        found = bias_report(rows, FacetColumn("d", [1]), label, stage,
                            None if stage is StageType.PRE_TRAINING else said,
                            group_variable=strata)
        values.update({m["name"]: m["value"] for m in found[0]["metrics"]})
    best = min(best, time.perf_counter() - began)
print(json.dumps({"s": best, "values": values}))
"""


def smclarify(adult: Path) -> None:
    """All 21 metrics on Adult's test rows, beside smclarify 0.5 in an environment of its own."""
    from scotoma.bias.clarify import METRICS, all_metrics, metric

    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "predictions.csv"
        script = ROOT / "docs" / "adult.py"
        subprocess.run([sys.executable, script, adult, table], check=True)
        people = pl.read_csv(table)
        raw = people.select("age", "education-num", "hours-per-week").to_numpy().astype(float)
        features = (raw - raw.mean(axis=0)) / raw.std(axis=0)
        d = (people["sex"] == "Female").to_numpy()
        y, p = ((people[name] == ">50K").to_numpy() for name in ("income", "small_0"))
        strata = people["marital-status"].rank("dense").to_numpy()
        given = Path(folder) / "given.csv"
        columns = {"d": d * 1, "y": y * 1, "p": p * 1, "strata": strata}
        columns |= {f"x{at}": column for at, column in enumerate(features.T)}
        pl.DataFrame(columns).write_csv(given)

        home = Path(folder) / "venv"
        venv.create(home, with_pip=True)
        python = str(home / "bin" / "python")
        wanted = ["smclarify==0.5", "pandas<2", "numpy<2"]
        install = [python, "-m", "pip", "install", "--quiet", *wanted]
        done = subprocess.run(install, env=clean, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.splitlines() or [""])[-1]
            say("smclarify", f"cannot be installed on Python {platform.python_version()}: {last}")
            return
        run = [python, "-W", "ignore", "-c", RUNNER, str(given)]
        done = subprocess.run(run, env=clean, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)

    known: dict[str, Any] = {"d": d, "y": y, "p": p, "strata": strata, "features": features}
    slips: dict[str, Any] = {**known, "compat": "smclarify"}
    values = {name: metric(name, **slips) for name in METRICS}
    apart = {name: abs(values[name] - value) for name, value in theirs["values"].items()}
    seconds = best(lambda: all_metrics(**known), 5)
    say(
        "smclarify 0.5",
        f"{len(apart)} metrics, {d.size:,} people: {1000 * theirs['s']:.0f} ms; ours, with "
        f"intervals, {1000 * seconds:.0f} ms: {theirs['s'] / seconds:.1f} times; target 10 times",
    )
    others = max(value for name, value in apart.items() if name != "FT")
    say("", f"largest difference {others:.1e}; of FT, where neighbours tie, {apart['FT']:.1e}")


if __name__ == "__main__":
    main()

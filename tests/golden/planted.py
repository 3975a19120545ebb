"""The planted audits whose numbers are held: what their files say, and the commands that read them.

All is drawn by a seeded generator and compared, never computed with: no library's rounding decides
an answer.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.comparison.logs import write_bbq, write_generation
from tests.helpers.commands import measured, scotoma
from tests.helpers.steps import steps_in_this_process
from tests.slices.asking import with_settings

__all__ = ["PLANTED", "Documents"]

# Name of what a command wrote or printed: content. Tables are frames, all else is parsed JSON.
Documents = dict[str, Any]
Change = Callable[[pl.DataFrame], pl.DataFrame]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLASSES = ("bird", "cat", "dog")
VARIANTS = ("dense", "int8")
LABELS = ("bicycle", "dog", "umbrella")
CONDITIONS = [
    (kind, level) for kind in ("gaussian_noise", "motion_blur", "fog") for level in (2, 4)
]
PAIRED = ["dense", {"predictions": ["int8"], "paired": True}]
SEX = {"sex": {"column": "sex"}}
PEOPLE = SEX | {"age": {"column": "age"}, "intersections": [["sex", "age"]]}
POSITIVE = {"column": "label", "positive": "cat"}


def people(
    rng: np.random.Generator, n: int, classes: Sequence[str], clusters: bool
) -> dict[str, Any]:
    """Examples: labels, groups, two numbers, clusters of 1 to 5, and how hard each one is."""
    number = np.arange(n)
    sizes = rng.integers(1, 6, n)
    cluster = np.repeat(number, sizes)[:n] if clusters else number
    label = rng.integers(0, len(classes), n)
    label = np.where(rng.random(n) < 0.15, 0, label)
    return {
        "example_id": [f"e{k}" for k in range(n)],
        "label": np.array(classes)[label],
        "sex": np.array(["f", "m", ""])[np.searchsorted([0.4, 0.95], rng.random(n))],
        "age": np.array(["old", "young"])[(rng.random(n) < 0.7).astype(int)],
        "site": np.array([f"s{k}" for k in range(4)])[rng.integers(0, 4, n)],
        "height": rng.integers(140, 200, n),
        "income": rng.integers(10, 400, n),
        "person": [f"p{k}" for k in cluster],
        "hard": (rng.random(n)[cluster] + rng.random(n)) / 2,
    }


def answers(
    rng: np.random.Generator,
    table: Mapping[str, Any],
    classes: Sequence[str],
    models: tuple[int, int],
    *,
    paired: bool = False,
    harm: float = 0.12,
    flips: float = 0.06,
) -> dict[str, np.ndarray]:
    """Class names that two populations answer, shape (n, models); int8 errs more on women."""
    label = np.searchsorted(classes, table["label"])  # classes are sorted
    women, n, count = table["sex"] == "f", len(label), len(classes)

    def wrong_way(size: int) -> np.ndarray:
        return (label[:, None] + 1 + (rng.random((n, size)) < 0.3)) % count

    def population(size: int, own: float) -> np.ndarray:
        run = 0.85 + 0.3 * rng.random(size)
        likely = (0.05 + 0.5 * table["hard"] ** 3 + own * women)[:, None] * run
        return np.where(rng.random((n, size)) < likely, wrong_way(size), label[:, None])

    dense = population(models[0], 0.0)
    if paired:
        likely = flips * (0.4 + table["hard"] + 2 * women)
        anew = rng.random((n, models[1])) < likely[:, None]
        int8 = np.where(anew, wrong_way(models[1]), dense[:, : models[1]])
    else:
        int8 = population(models[1], harm)
    return {name: np.array(classes)[own] for name, own in zip(VARIANTS, (dense, int8), strict=True)}


def columns(said: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Answers as columns of a table, and which of them are whose."""
    names = {v: [f"{v}_{k:02d}" for k in range(own.shape[1])] for v, own in said.items()}
    return {name: said[v][:, k].tolist() for v in said for k, name in enumerate(names[v])}, names


def audited(home: Path, config: Mapping[str, Any], *options: str | Path) -> Documents:
    """What `scotoma audit` writes of numbers."""
    rules = config.get("rules")
    content = {"project": "planted", "tracking": {"uri": "off"}, **config}
    content.pop("rules", None)
    if rules:
        asked = rules if isinstance(rules, dict) else {"rules": rules}
        (home / "gate.yaml").write_text(json.dumps(asked))
        options = (*options, "--rules", home / "gate.yaml")
    (home / "audit.yaml").write_text(json.dumps(content))
    run = home / "run"
    with steps_in_this_process(home):
        code, _, err = scotoma("audit", "audit.yaml", "--out", run, "--quiet", *options)
    assert code == 0, err
    found = {name: json.loads((run / f"{name}.json").read_text()) for name in ("audit", "gate")}
    tables = ("numbers", "divergence")
    paths = {name: run / f"{name}.parquet" for name in tables}
    return found | {name: pl.read_parquet(p) for name, p in paths.items() if p.exists()}


def classes(
    home: Path,
    *,
    seed: int,
    models: tuple[int, int],
    n: int = 300,
    names: Sequence[str] = CLASSES,
    paired: bool = False,
    clusters: bool = False,
    silent: float = 0.0,
    training: bool = False,
    worse: bool = False,
    options: Sequence[str | Path] = (),
    harm: float = 0.12,
    flips: float = 0.06,
    change: Change = pl.DataFrame.clone,
    **config: Any,
) -> Documents:
    """An audit of class answers in one wide table, which `change` may change before."""
    rng = np.random.default_rng(seed)
    table = people(rng, n, names, clusters)
    said = answers(rng, table, names, models, paired=paired, harm=harm, flips=flips)
    if silent:
        said = {
            name: np.where(rng.random(own.shape) < silent * (1 + (name == "int8")), None, own)
            for name, own in said.items()
        }
    own, whose = columns(said)
    hard = table.pop("hard")
    change(pl.DataFrame(table | own)).write_parquet(home / "table.parquet")
    source = {
        "kind": "predictions", "files": "table.parquet", "examples": "table.parquet",
        "columns": whose,
    }  # fmt: skip
    content: dict[str, Any] = {"source": source, "label": {"column": "label"}, "groups": PEOPLE}
    content["slices"] = {"features": ["sex", "age", "site", "height"], "max_cross": 2}
    if paired:
        content["variants"] = PAIRED
    if clusters:
        content["cluster"] = {"column": "person"}
    if training:
        trained = people(rng, 2 * n, names, False)
        trained.pop("hard")
        pl.DataFrame(trained).write_csv(home / "trained.csv")
        source["training"] = "trained.csv"
    if worse:
        rows = list(corrupted(rng, table | {"hard": hard}, names, models, paired))
        (home / "worse").mkdir()
        for name in VARIANTS:
            own_rows = pl.concat([frame for variant, frame in rows if variant == name])
            own_rows.write_parquet(home / "worse" / f"{name}.parquet")
        config["robustness"] = {"files": "worse/{variant}.parquet"} | config.get("robustness", {})
    return audited(home, content | config, *options)


def corrupted(
    rng: np.random.Generator,
    table: Mapping[str, Any],
    names: Sequence[str],
    models: tuple[int, int],
    paired: bool,
) -> Iterator[tuple[str, pl.DataFrame]]:
    """What the same models answer on corrupted pictures of two thirds of the examples."""
    shown = 2 * len(table["label"]) // 3
    for kind, severity in CONDITIONS:
        harder = dict(table, hard=np.minimum(1.0, table["hard"] + 0.08 * severity))
        for variant, own in answers(rng, harder, names, models, paired=paired).items():
            for model in range(own.shape[1]):
                yield (
                    variant,
                    pl.DataFrame(
                        {
                            "example_id": table["example_id"][:shown],
                            "predicted": own[:shown, model],
                            "model": str(model),
                            "corruption": kind,
                            "severity": severity,
                        }
                    ),
                )


def scored_pictures(home: Path, *, seed: int, models: int, **config: Any) -> Documents:
    """An audit of twelve classes on clean and corrupted pictures: the five best, and how sure."""
    n, rng = 240, np.random.default_rng(seed)
    names = np.array([f"c{k:02d}" for k in range(12)])
    table = people(rng, n, names, False)
    label, hard = np.searchsorted(names, table["label"]), table.pop("hard")
    pl.DataFrame(table).write_csv(home / "examples.csv")

    def answered(model: int, wrong: float, own: Mapping[str, Any]) -> pl.DataFrame:
        order = np.argsort(rng.random((n, 12)), axis=1)
        order = order[order != label[:, None]].reshape(n, 11)
        errs = rng.random(n) < wrong + 0.4 * hard**3
        place = np.where(errs, rng.integers(1, 8, n), 0)
        best = [np.insert(order[k], place[k], label[k])[:5] for k in range(n)]
        sure = 0.3 + 0.65 * (1 - 0.5 * errs) * (1 - 0.5 * rng.random(n))
        content = {
            "example_id": table["example_id"], "predicted": [str(names[own[0]]) for own in best],
            "score": np.round(sure, 3), "predicted_top5": [names[own].tolist() for own in best],
        }  # fmt: skip
        frame = pl.DataFrame(content).with_columns(model=pl.lit(str(model)))
        return frame.with_columns(**{name: pl.lit(value) for name, value in own.items()})

    for folder in ("said", "worse"):
        (home / folder).mkdir()
    for name, harm in zip(VARIANTS, (0.0, 0.1), strict=True):
        clean = [answered(model, 0.05 + harm / 2, {}) for model in range(models)]
        pl.concat(clean).write_parquet(home / "said" / f"{name}.parquet")
        worse = [
            answered(model, 0.1 + harm + 0.05 * level, {"corruption": kind, "severity": level})
            for kind, level in CONDITIONS
            for model in range(models)
        ]
        pl.concat(worse).write_parquet(home / "worse" / f"{name}.parquet")
    source = {
        "kind": "predictions", "files": "said/{variant}.parquet", "examples": "examples.csv"
    }  # fmt: skip
    content: dict[str, Any] = {
        "source": source, "label": {"column": "label"}, "groups": SEX, "keep_scores": True,
        "robustness": {"files": "worse/{variant}.parquet", "confidence": True},
        "slices": {"features": ["sex", "site"]},
    }  # fmt: skip
    return audited(home, content | config)


def scores(
    home: Path, *, seed: int, models: int, measure: str = "given", clusters: bool = False,
    lower: bool = True, paired: bool = False, change: Change = pl.DataFrame.clone, **config: Any,
) -> Documents:  # fmt: skip
    """An audit of numbers: int8 is off by more on women."""
    n, rng = 240, np.random.default_rng(seed)
    table = people(rng, n, CLASSES, clusters)
    hard, women = table.pop("hard"), table["sex"] == "f"
    table["minutes"] = rng.integers(50, 600, n) / 10
    own: dict[str, Any] = {}
    sums = rng.random((n, models, 3)).sum(axis=2) - 1.5
    for name, harm in zip(VARIANTS, (0.0, 0.5), strict=True):
        noise = sums if paired and name == "dense" else rng.random((n, models, 3)).sum(axis=2) - 1.5
        noise = sums + 0.2 * noise if paired else noise
        off = noise * (1 + 6 * hard[:, None] + harm * 4 * women[:, None])
        value = np.round(20 + off, 3) if measure == "given" else table["minutes"][:, None] + off
        own |= {f"{name}_{k:02d}": np.round(value[:, k], 3) for k in range(models)}
    whose = {v: [name for name in own if name.startswith(v)] for v in VARIANTS}
    change(pl.DataFrame(table | own)).write_parquet(home / "table.parquet")
    source: dict[str, Any] = {
        "kind": "scores", "files": "table.parquet", "examples": "table.parquet", "columns": whose,
        "measure": measure,
    }  # fmt: skip
    content: dict[str, Any] = {"source": source, "groups": PEOPLE}
    if measure == "given":
        source["lower_is_better"] = lower
    else:
        content["label"] = {"column": "minutes"}
    content |= {"cluster": {"column": "person"}} if clusters else {}
    content |= {"variants": PAIRED} if paired else {}
    content["slices"] = {"features": ["sex", "age", "site"], "max_cross": 2}
    return audited(home, content | config)


def labels(home: Path, *, seed: int, models: int, paired: bool = False, **config: Any) -> Documents:
    """An audit of photographs with several labels, each with a score."""
    n, rng = 160, np.random.default_rng(seed)
    table = people(rng, n, CLASSES, False)
    there = rng.random((n, len(LABELS))) < (0.2, 0.35, 0.3)
    shown = {name: there[:, k].astype(int) for k, name in enumerate(LABELS)}
    people_shown = {name: table[name] for name in ("example_id", "sex", "age")}
    pl.DataFrame(people_shown | shown).write_csv(home / "photographs.csv")
    hidden = there & (table["sex"] == "f")[:, None] & (np.array(LABELS) == "umbrella")
    hard = 0.5 * rng.random(there.shape) * table["hard"][:, None]
    dense = [rng.random(there.shape) for _ in range(models)]
    for name in VARIANTS:
        (home / "scores" / name).mkdir(parents=True)
        for model in range(models):
            noise = rng.random(there.shape)
            if paired:
                noise = dense[model] if name == "dense" else 0.8 * dense[model] + 0.2 * noise
            sure = 0.75 - hard - 0.35 * noise - 0.25 * hidden * (name == "int8")
            sure = np.clip(sure, 0.01, 0.99)
            score = np.round(np.where(there, sure, 1 - sure), 4)
            frame = dict(zip(LABELS, score.T, strict=True))
            path = home / "scores" / name / f"{model:02d}.parquet"
            pl.DataFrame({"example_id": table["example_id"]} | frame).write_parquet(path)
    content: dict[str, Any] = {
        "source": {
            "kind": "predictions", "files": "scores/{variant}/{model}.parquet",
            "examples": "photographs.csv",
        },
        "label": {"columns": list(LABELS), "thresholds": {"dog": 0.45}},
        "groups": SEX | {"intersections": [["label_name", "sex"]]},
        "keep_scores": True,
        "slices": {"features": ["label_name", "sex"]},
    }  # fmt: skip
    return audited(home, content | ({"variants": PAIRED} if paired else {}) | config)


def boxes(home: Path, *, seed: int, models: int, images: int = 90, **config: Any) -> Documents:
    """An audit of detectors."""
    example = runpy.run_path(str(EXAMPLES / "detections.py"))
    truth = example["write_truth"](home, images=images, seed=seed)
    for name, harm in zip(VARIANTS, (0.0, 0.6), strict=True):
        for model in range(models):
            path = home / "found" / name / f"{model:02d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = 100 + 50 * (name == "int8") + model
            example["write_detections"](
                path, truth, harm=harm, seed=seed + 10 + model, noise_seed=noise
            )
    content: dict[str, Any] = {
        "source": {
            "kind": "detections", "files": "found/{variant}/{model}.json",
            "examples": "instances.json",
        },
        "groups": {"class": {"column": "class"}, "area": {"column": "area"}},
    }  # fmt: skip
    return audited(home, content | config)


def previous(home: Path, *, seed: int, models: int, **config: Any) -> Documents:
    """An audit that is compared with the one before it, of other examples."""
    (home / "before").mkdir()
    classes(home / "before", seed=seed + 1000, models=(models, models), harm=0.05, **config)
    rules = [
        {"id": "since", "metric": "since_previous", "margin": 0.01},
        {"id": "error", "metric": "error", "max_increase": {"absolute": 0.05}},
    ]
    before = ("--previous", home / "before" / "run")
    return classes(home, seed=seed, models=(models, models), options=before, rules=rules, **config)


def compared(home: Path, sides: Sequence[Path], *options: str | Path) -> Documents:
    """What `scotoma compare` prints."""
    return {"comparison": measured("compare", *sides, *options)}


def questions(home: Path, *, reruns: int) -> Documents:
    """A comparison of logs of a question benchmark, with reruns or without."""
    for rerun in range(reruns):
        write_bbq(home / "bf16" / f"run{rerun}" / "org__model", n=500, seed=rerun)
        folder = home / "w4a16" / f"run{rerun}" / "org__model"
        write_bbq(folder, n=500, harm=1.0, noise=0.2, seed=10 + rerun)
    sides = [home / model / f"run{k}" for model in ("bf16", "w4a16") for k in range(reruns)]
    options = ("--reruns",) if reruns > 1 else ()
    return compared(home, sides, "--group", "category,age:18,40,65", *options)


def texts(home: Path) -> Documents:
    """A comparison of logs of free text."""
    write_generation(home / "bf16")
    write_generation(home / "w4a16", reword=0.3, seed=2)
    return compared(home, (home / "bf16", home / "w4a16"), "--group", "level")


def tables(home: Path, *, seed: int, positive: bool, harm: float = 0.12) -> Documents:
    """A comparison of tables of class answers."""
    rng = np.random.default_rng(seed)
    names = ("cat", "dog") if positive else CLASSES
    table = people(rng, 400, names, False)
    said = answers(rng, table, names, (1, 1), paired=True, harm=harm)
    table.pop("hard")
    for name, own in said.items():
        pl.DataFrame(table | {"predicted": own[:, 0]}).write_csv(home / f"{name}.csv")
    options = ["--id", "example_id", "--label", "label", "--predicted", "predicted"]
    options += ["--group", "sex,age,height:3"] + (["--positive", "cat"] if positive else [])
    return compared(home, [home / f"{name}.csv" for name in VARIANTS], *options)


def detectors(home: Path) -> Documents:
    """A comparison of two detectors."""
    example = runpy.run_path(str(EXAMPLES / "detections.py"))
    truth = example["write_truth"](home, images=120, seed=3)
    example["write_detections"](home / "fp32.json", truth, seed=1)
    example["write_detections"](home / "int8.json", truth, harm=0.6, seed=1, noise_seed=2)
    options = ("--truth", home / "instances.json", "--group", "class,area,weather")
    sides = (home / "fp32.json", home / "int8.json")
    return compared(home, sides, *options, "--examples", home / "weather.csv")


def searched(
    home: Path,
    *,
    seed: int,
    options: Sequence[str],
    clusters: bool = False,
    change: Change = pl.DataFrame.clone,
) -> Documents:
    """A search for slices of a table, by the command."""
    rng = np.random.default_rng(seed)
    table = people(rng, 500, ("cat", "dog"), clusters)
    own, _ = columns(answers(rng, table, ("cat", "dog"), (3, 3), paired=True, harm=0.2))
    table["loss"] = np.round(table.pop("hard") * (1 + (table["sex"] == "f")), 4)
    change(pl.DataFrame(table | own)).write_csv(home / "table.csv")
    features = ("--feature", "sex", "--feature", "age", "--feature", "site", "--max-cross", "2")
    features += ("--alpha", "0.4", "--min-size", "20")
    by = ("--cluster", "person") if clusters else ()
    asked = with_settings("slices", home / "table.csv", *features, *by, *options, folder=home)
    return {"slices": measured(*asked)}


def table_of_answers(
    home: Path, *, seed: int, options: Sequence[str], models: int = 3, clusters: bool = False
) -> Documents:
    """The rates, and the metrics of fairness, of a table of class answers."""
    rng = np.random.default_rng(seed)
    table = people(rng, 300, TWO, clusters)
    own, _ = columns(answers(rng, table, TWO, (models, models), paired=True))
    table.pop("hard")
    pl.DataFrame(table | own).write_csv(home / "table.csv")
    asked = ("--predicted", "int8_*", "--label", "label", "--positive", "cat", "--intersections")
    by = ("--cluster", "person") if clusters else ()
    groups = ("--group", "sex,age,height:3")
    return {"bias": measured("compare", home / "table.csv", *asked, *groups, *by, *options)}


def runs_of_techniques(home: Path, *, seed: int) -> Documents:
    """Runs of three techniques: their spread, and which of them are fairer."""
    rng = np.random.default_rng(seed)
    rows = [
        (technique, metric, run, round(mean + width * (rng.random(3).sum() - 1.5), 6))
        for technique, mean, width in (("base", 0.3, 0.04), ("mixup", 0.22, 0.04), ("R1", 0.3, 0.2))
        for metric in ("DP", "EOTP", "accuracy")
        for run in range(8)
    ]
    names = ["technique", "metric", "run", "value"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(home / "runs.csv")
    asked = ("compare", home / "runs.csv", "--techniques", "--base", "base")
    spread = {
        protocol: measured(*asked, "--protocol", protocol) for protocol in ("sound", "published")
    }
    return {f"variance {key}": own for key, own in spread.items()} | {
        "tournament": measured(*asked, "--raw")
    }


RATES = [
    {"id": name, "metric": name, "over": over, "max_increase": limits}
    for name, over, limits in (
        ("fpr", "groups", {"relative": 0.2, "absolute": 0.02}),
        ("fnr", "groups", {"absolute": 0.05}),
        ("error", "groups", {"relative": 0.5}),
    )
]
LEVELS = [
    {"id": "four_fifths", "metric": "clarify.DI", "attributes": ["sex"], "min": 0.8},
    {"id": "parity", "metric": "fairness.DP", "max": 0.1, "of": "mean"},
    {"id": "recall", "metric": "clarify.RD", "min": -0.1, "max": 0.1, "of": "mean"},
    {"id": "odds", "metric": "fairness.EOTP", "max": 0.2, "next_runs": 4},
]
SEVERAL = [
    {"id": "by_class", "metric": "fnr", "over": "classes", "max_increase": {"absolute": 0.05}},
    {"id": "changed", "metric": "labels_changed", "max": 0.1},
    {"id": "slices", "metric": "slices_hurt", "margin": 0.05},
    {"id": "classes", "metric": "classes_hurt", "margin": 0.02},
    {"id": "cie", "metric": "cie_share_excess", "max": 0.02},
]
WORSE = [
    {"id": "loss", "metric": "robustness_loss", "max_increase": {"points": 2.0}},
    {
        "id": "points", "metric": "robustness_loss", "scale": "absolute", "over": "all",
        "kinds": ["all", "noise"], "max_increase": {"points": 1.0},
    },
]  # fmt: skip
SURE = [
    {"id": "top5", "metric": "robustness_loss", "top": 5, "max_increase": {"points": 2.0}},
    {"id": "sure", "metric": "overconfidence", "max_increase": {"points": 3.0}},
    {"id": "unnoticed", "metric": "unnoticed_pictures", "max_increase": {"points": 3.0}},
]
MEANS = [
    {"id": "means", "metric": "mean_score", "max_worse": {"relative": 0.05, "absolute": 0.1}},
    {"id": "slices", "metric": "mean_score", "over": "slices", "max_worse": {"absolute": 0.2}},
]
TWO = ("cat", "dog")
CLARIFY: dict[str, Any] = {
    "names": TWO, "label": POSITIVE, "clarify": {"features": ["height", "income"]},
    "training": True, "advantaged": {"sex": "m"}, "over_index": "all",
}  # fmt: skip
NO_LABELS: dict[str, Any] = {"label": {"column": None, "positive": "cat"}}
ERRORS = ("--outcome", "int8_*", "--label", "label")
AGAINST = (*ERRORS, "--baseline", "dense_*")

PLANTED: dict[str, Callable[[Path], Documents]] = {
    # Classes: models a side, paired or not.
    "classes-1": partial(classes, seed=1, models=(1, 1)),
    "classes-1-paired": partial(classes, seed=2, models=(1, 1), paired=True),
    "classes-5": partial(classes, seed=3, models=(5, 5)),
    "classes-5-paired": partial(classes, seed=4, models=(5, 5), paired=True, rules=SEVERAL),
    "classes-10": partial(classes, seed=5, models=(10, 10), rules=SEVERAL),
    "classes-10-paired": partial(classes, seed=6, models=(10, 10), paired=True),
    "classes-30": partial(classes, seed=7, models=(30, 30)),
    "classes-30-paired": partial(classes, seed=8, models=(30, 30), paired=True),
    "classes-10-and-5": partial(classes, seed=9, models=(10, 5)),
    "classes-3-and-1": partial(classes, seed=10, models=(3, 1)),
    "classes-5-unchanged": partial(classes, seed=11, models=(5, 5), paired=True, flips=0.0),
    "classes-5-many": partial(
        classes, seed=12, models=(5, 5), n=400, names=[f"c{k:02d}" for k in range(24)], groups=SEX
    ),
    "classes-5-passed": partial(
        classes, seed=15, models=(5, 5), n=3000, paired=True, flips=0.002, groups=SEX
    ),
    "classes-5-no-groups": partial(classes, seed=13, models=(5, 5), groups={}),
    "classes-10-rare": partial(classes, seed=14, models=(10, 10), n=60, harm=0.3),
    # A positive class: Clarify and fairness.
    "positive-1": partial(classes, seed=20, models=(1, 1), n=240, **CLARIFY),
    "positive-5": partial(classes, seed=21, models=(5, 5), n=240, rules=LEVELS, **CLARIFY),
    "positive-10-paired": partial(
        classes, seed=22, models=(10, 10), n=240, paired=True, rules=[*RATES, *LEVELS], **CLARIFY
    ),
    "positive-30": partial(classes, seed=23, models=(30, 30), n=240, rules=RATES, **CLARIFY),
    # Clusters.
    "clusters-1": partial(classes, seed=30, models=(1, 1), clusters=True),
    "clusters-5-paired": partial(
        classes, seed=31, models=(5, 5), clusters=True, paired=True, names=TWO, label=POSITIVE
    ),
    "clusters-10": partial(
        classes, seed=32, models=(10, 10), clusters=True, names=TWO, label=POSITIVE, rules=LEVELS
    ),
    # Missing answers.
    "silent-1-paired": partial(classes, seed=40, models=(1, 1), paired=True, silent=0.03),
    "silent-5": partial(classes, seed=41, models=(5, 5), silent=0.03, clusters=True),
    # No labels.
    "unlabelled-1-paired": partial(classes, seed=50, models=(1, 1), paired=True, **NO_LABELS),
    "unlabelled-5": partial(classes, seed=51, models=(5, 5), **NO_LABELS),
    "unlabelled-10-clusters": partial(
        classes, seed=52, models=(10, 10), paired=True, clusters=True, **NO_LABELS
    ),
    # Numbers.
    "scores-1": partial(scores, seed=60, models=1, measure="absolute_error"),
    "scores-5": partial(scores, seed=61, models=5, lower=False, rules=MEANS),
    "scores-10-paired": partial(
        scores, seed=62, models=10, measure="squared_error", paired=True, clusters=True
    ),
    # Several labels.
    "labels-1-paired": partial(labels, seed=70, models=1, paired=True),
    "labels-5": partial(labels, seed=71, models=5),
    # Boxes.
    "boxes-1": partial(boxes, seed=80, models=1),
    "boxes-5": partial(boxes, seed=81, models=5, images=60),
    # Corrupted pictures.
    "robustness-1-paired": partial(
        classes, seed=90, models=(1, 1), paired=True, worse=True, groups=SEX, rules=WORSE
    ),
    "robustness-5": partial(
        classes, seed=91, models=(5, 5), worse=True, groups=SEX, names=TWO, label=POSITIVE,
        rules=WORSE, robustness={"hard_sets": ["int8"]},
    ),
    "robustness-10-clusters": partial(
        classes, seed=92, models=(10, 10), worse=True, groups=SEX, clusters=True, paired=True
    ),
    "robustness-1-scored": partial(scored_pictures, seed=93, models=1),
    "robustness-5-scored": partial(scored_pictures, seed=94, models=5, rules=SURE),
    # The audit before.
    "previous-1-paired": partial(previous, seed=100, models=1, paired=True),
    "previous-5": partial(previous, seed=101, models=5),
    # Comparisons.
    "compare-questions": partial(questions, reruns=1),
    "compare-reruns": partial(questions, reruns=3),
    "compare-texts": texts,
    "compare-tables": partial(tables, seed=110, positive=False),
    "compare-positive": partial(tables, seed=111, positive=True),
    "compare-boxes": detectors,
    # Commands on tables.
    "slices-error": partial(searched, seed=120, options=ERRORS),
    "slices-paired": partial(searched, seed=121, options=(*AGAINST, "--paired"), clusters=True),
    "slices-mean": partial(
        searched, seed=122, options=("--outcome", "loss", "--metric", "mean"), clusters=True
    ),
    "slices-fpr": partial(
        searched, seed=123, options=(*AGAINST, "--positive", "cat", "--metric", "fpr")
    ),
    "bias-one": partial(table_of_answers, seed=125, models=1, options=("--strata", "site")),
    "bias-paired": partial(
        table_of_answers, seed=126, clusters=True,
        options=("--baseline", "dense_*", "--paired", "--feature", "income"),
    ),
    "techniques": partial(runs_of_techniques, seed=130),
}  # fmt: skip

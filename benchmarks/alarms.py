"""How often does a gate fail what is harmless, and find what is not? Truth planted, in five ways.

    python benchmarks/alarms.py audits        # 200 audits of 10 and of 30 members
    python benchmarks/alarms.py years         # 40 years of 12 audits
    python benchmarks/alarms.py parts         # 200 audits without harm, 200 with
    python benchmarks/alarms.py parts --kind boxes
    python benchmarks/alarms.py scores        # 200 audits of each kind, three worlds
    python benchmarks/alarms.py detectors     # 200 pairs of detectors of each kind

`audits` are drawn (`scotoma.power.planted_audit`), measured by the steps of the pipeline and judged
by three gates: the default one; the same with the rule about slices; and one without any margin,
under which a harmless variant lies at every limit, so that only the level of the tests protects it.
Nine groups: all, both sexes, both ages, the four intersections. In an audit of harm the rate of one
intersection is raised by what `scotoma.power` promises to find in 80% of audits.

`years`: twelve monthly audits of one project. Each month has models and examples of its own and is
judged by the default gate with the rule that nothing is worse than in the audit before. In one
month of each year, which moves from year to year, the rates of one intersection are raised as much.

`parts`: 800 photographs with 4 labels each, 6 models a side. Errors on labels of a photograph hang
together, and so do those of one model. Where harm is planted, errors on umbrellas rise by what
`scotoma audit --plan` prints for that group. A box is found or missed, its class is the group; a
token has one of three classes, the language of its sentence is the group. Flagged is an audit
without harm that the default gate fails, found is harm whose interval of the relative change of the
group's error lies above 0.

`scores`: each world draws test examples and models. Nothing is planted in the first row; the second
plants in one group the smallest worsening that `scotoma audit --plan` prints for it. The third
plants the gate's margin of 5%, the fourth exceeds the margin by as much as the plan prints. Counted
are audits in which any group is shown to get worse, and in which the gate fails; and how often the
95% intervals of mean, median and 90% quantile of a group hold what was planted.

`detectors`: two detectors of one seed differ by noise alone, or one also misses more of a class's
small boxes. Counted is how often a group is named as losing after Holm's correction and, with
`--precision`, how often the interval of the change of AP leaves out 0.
"""

from __future__ import annotations

import datetime
import json
import runpy
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from cases import run
from scipy import stats
from scipy.stats import norm

from scotoma.audit import Audit, GateFile, read_audit
from scotoma.audit.gate import Margins
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.comparison.boxes import jackknife
from scotoma.comparison.means import affected, group_effects, score_table
from scotoma.comparison.quantiles import quantile_change, smallest_worsening
from scotoma.config import Config, parse_config
from scotoma.config.gate import GateRules, default_rules, parse_rules
from scotoma.config.gate_changes import SincePreviousRule
from scotoma.datasets import AuditedExamples
from scotoma.datasets.label_pairs import label_pairs
from scotoma.datasets.select_examples import examples_from_source
from scotoma.detection.average_precision import detection_scores, image_groups
from scotoma.detection.matching import outcomes
from scotoma.detection.table import box_table
from scotoma.power.forecast import forecast
from scotoma.power.model import Design, Probit
from scotoma.power.simulate import PlantedGroup, planted_audit
from scotoma.predictions import Predictions
from scotoma.readers.boxes import read_detections, read_ground_truth
from scotoma.run import Run, write_json
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from scotoma.steps.import_predictions import precision_file
from scotoma.steps.judging.assemble import assemble
from scotoma.steps.slices import slices
from scotoma.steps.verdict import verdict
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import Rise
from scotoma.verdict.gate import judge
from scotoma.verdict.gate_test import rise_test

Cell = tuple[str, str]  # sex and age
HARMED: Cell = ("male", "old")
CONFIG = """\
project: planted
source: {{kind: predictions, files: none, examples: none}}
label: {{column: label, positive: "yes"}}
groups: {{sex: {{column: sex}}, age: {{column: age}}, intersections: [[sex, age]]}}
variants: [dense, {{predictions: [int8]}}]
population: {{models: {members}}}
"""


def planted_run(
    folder: Path, cells: dict[Cell, tuple[int, float]], members: int, relative: float, seed: int
) -> Run:
    """A run whose divergence and bias are measured.

    Args:
        folder: Empty.
        cells: Examples and error rate of each intersection.
        members: Of both populations.
        relative: By how much the harmed cell's rate rises, as a fraction; 0 for no harm anywhere.
        seed: Decides all that is drawn.
    """
    run = Run.create(folder / "run", parse_config(CONFIG.format(members=members), "planted"))
    groups = [
        PlantedGroup(name=" & ".join(c), n=n, rate=rate, relative=relative * (c == HARMED))
        for c, (n, rate) in cells.items()
    ]
    # Harmless compression makes the same examples difficult.
    errors = Probit() if relative else Probit(correlation=1)
    drawn = planted_audit(groups, members=members, errors=errors, seed=seed)
    where = drawn.groups.argmax(axis=0)
    ids = [f"{seed}-{row}" for row in range(len(where))]
    sex, age = (np.array([cell[i] for cell in cells])[where] for i in range(2))
    table = pl.DataFrame(
        {
            "example_id": ids,
            "split": "test",
            "label": np.where(drawn.labels == 1, "yes", "no"),
            "sex": sex,
            "age": age,
        }
    )
    AuditedExamples(table, ("no", "yes"), ("sex", "age"), (("sex", "age"),)).write(run.examples)
    run.path("predictions").mkdir()
    for name, predicted in (("dense", drawn.dense), ("int8", drawn.compressed)):
        Predictions(
            variant=name, example_ids=tuple(ids), members=tuple(range(members)),
            classes=("no", "yes"), predicted=predicted.astype(np.uint8),
        ).write(run.predictions(name))  # fmt: skip
    divergence(run)
    bias(run)
    return run


CELLS = {  # sex & age: examples, error
    ("male", "old"): (600, 0.10),
    ("male", "young"): (170, 0.08),
    ("female", "old"): (1300, 0.06),
    ("female", "young"): (2400, 0.05),
}
SLICES = "rules: [{id: slices, metric: slices_hurt, margin: 0.01}]"
BARE = """\
rules:
  - {id: fpr, metric: fpr, over: groups, max_increase: {relative: 0}}
  - {id: fnr, metric: fnr, over: groups, max_increase: {relative: 0}}
  - {id: cie, metric: cie_share_excess, max: 0}
  - {id: classes, metric: classes_hurt, margin: 0}
  - {id: slices, metric: slices_hurt, margin: 0}
"""
TODAY = datetime.date(2027, 3, 1)
TESTS = 24  # of the default gate: FPR and FNR of nine groups, CIEs, two classes, some slices


def judged_audits(seeds: range, members: int, relative: float) -> Iterator[dict[str, GateFile]]:
    """Verdicts of the gates on each of some audits, by the name of the gate."""
    default = default_rules(positive=True)
    slices = parse_rules(SLICES, "slices").rules
    gates: dict[str, GateRules] = {
        "default": default,
        "with slices": default.model_copy(update={"rules": [*default.rules, *slices]}),
        "without margins": parse_rules(BARE, "bare"),
    }
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(Path(folder), members, relative, seed)
        yield {name: judge(found, rules, TODAY) for name, rules in gates.items()}


def measured(folder: Path, members: int, relative: float, seed: int) -> Audit:
    """One drawn audit."""
    run = planted_run(folder, CELLS, members, relative, seed)
    slices(run)
    content, *_ = verdict(run)
    return read_audit(content)


def report(kind: str, found: list[dict[str, GateFile]]) -> None:
    """Verdicts by gate; findings whose interval says something else than their verdict."""
    print(f"\n{kind}, {len(found)} audits")
    for name in found[0]:
        gates = [one[name] for one in found]
        verdicts = Counter(gate.verdict for gate in gates)
        rules = Counter(
            rule
            for gate in gates
            for rule in {f.rule for f in gate.variants[0].tests if f.verdict == "FAIL"}
        )
        hit = sum(
            any(f.verdict == "FAIL" and f.group == "sex=male,age=old"
                for f in gate.variants[0].tests)
            for gate in gates
        )  # fmt: skip
        apart = sum(disagreements(gate) for gate in gates)
        print(
            f"  {name:<16} FAIL {verdicts['FAIL']}, UNSURE {verdicts['UNSURE']}, PASS "
            f"{verdicts['PASS']}; found in the group {hit}; failed rules {dict(rules)}; "
            f"pictures that disagree {apart}",
            flush=True,
        )


def disagreements(gate: GateFile) -> int:
    """Tests whose drawn interval lies elsewhere than the verdict says."""
    wrong = 0
    for finding in gate.variants[0].tests:
        if finding.decided_by is None:
            continue
        low, high = finding.decided_by.interval.low, finding.decided_by.interval.high
        bound = finding.decided_by.margin
        place = "FAIL" if low >= bound else "PASS" if high <= bound else "UNSURE"
        wrong += place != finding.verdict
    return wrong


def audits(audits: int = 200, members: tuple[int, ...] = (10, 30), first: int = 0) -> None:
    """Whole audits, judged by three gates; a fifth as many with harm."""
    for k in members:
        began = time.process_time()
        seeds = range(first, first + audits)
        report(f"no harm, {k} members", list(judged_audits(seeds, k, 0.0)))
        least = promised(CELLS, k, TESTS)
        planted = list(judged_audits(seeds[: max(1, audits // 5)], k, least))
        report(f"{100 * least:+.0f}% planted, {k} members", planted)
        print(f"took {time.process_time() - began:.0f} s of CPU", flush=True)


def promised(cells: dict[Cell, tuple[int, float]], members: int, tests: int) -> float:
    """The rise of the harmed cell's rate, as a fraction of it, that is found in 80% of audits."""
    n, rate = cells[HARMED]
    design = Design(
        group_n=n // 2, rate=rate, members=members, level=1 - 0.05 / tests, limit=0.2, min_events=10
    )
    return forecast(design).value


YEAR_CELLS = {  # sex & age: examples, error
    ("male", "old"): (600, 0.10),
    ("male", "young"): (300, 0.08),
    ("female", "old"): (900, 0.06),
    ("female", "young"): (1200, 0.05),
}
YEAR_TESTS = (
    40  # FPR and FNR of nine groups against dense and against the previous audit, CIEs, two classes
)
MONTHS, TODAY = 12, datetime.date(2027, 3, 1)


def months(
    members: int, drift: int, relative: float, seed: int, count: int = MONTHS
) -> Iterator[GateFile]:
    """The verdicts of a year of audits, each beside the one before it."""
    chosen = default_rules(positive=True)
    rules = chosen.model_copy(
        update={
            "rules": [
                *chosen.rules,
                SincePreviousRule(id="since_previous", metric="since_previous", margin=0.01),
            ]
        }
    )
    previous = PreviousAudit(audit=None, reason="the first audit")
    for month in range(count):
        with tempfile.TemporaryDirectory() as folder:
            audit = measured_month(
                Path(folder), members, relative * (month == drift), MONTHS * seed + month
            )
        yield judge(audit, rules, TODAY, previous)
        previous = PreviousAudit(audit=Comparable.of(audit), of=f"month {month}")


def measured_month(folder: Path, members: int, relative: float, seed: int) -> Audit:
    """One drawn audit; slices are not searched."""
    run = planted_run(folder, YEAR_CELLS, members, relative, seed)
    run.section("slices").write_text("{}", encoding="utf-8")
    return assemble(run, AuditedExamples.read(run.examples))


def share(count: int, total: int) -> str:
    """A share with its exact interval (Clopper and Pearson)."""
    if not total:
        return "none"
    interval = stats.binomtest(count, total).proportion_ci(0.95)
    return f"{count} of {total} = {count / total:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def years(years: int = 40, members: int = 10) -> None:
    """Twelve monthly audits of a project, in one of which a group is hurt: only that one found?"""
    began = time.process_time()
    least = promised(YEAR_CELLS, members, YEAR_TESTS)
    verdicts: dict[str, Counter[str]] = {"harmed": Counter(), "calm": Counter(), "after": Counter()}
    since: Counter[str] = Counter()
    false_alarms = 0
    for year in range(years):
        drift = 1 + year % (MONTHS - 1)  # the first month has none before it
        gates = list(months(members, drift, least, year))
        for month, gate in enumerate(gates):
            kind = "harmed" if month == drift else "after" if month == drift + 1 else "calm"
            verdicts[kind][gate.verdict] += 1
            since[kind] += any(
                finding.verdict == "FAIL" and finding.metric == "since_previous"
                for finding in gate.variants[0].tests
            )
        false_alarms += any(
            gate.verdict == "FAIL" for month, gate in enumerate(gates) if month != drift
        )
    print(f"{years} years of {MONTHS} audits, {members} members, "
          f"{100 * least:+.0f}% planted in {' & '.join(HARMED)} in one month")  # fmt: skip
    for kind, counted in verdicts.items():
        total = counted.total()
        print(f"{kind}: {dict(counted)}; FAIL {share(counted['FAIL'], total)}; "
              f"since the previous audit {share(since[kind], total)}")  # fmt: skip
    print(f"years with a false FAIL: {share(false_alarms, years)}")
    print(f"took {time.process_time() - began:.0f} s of CPU", flush=True)


LABELS = ("bicycle", "dog", "handbag", "umbrella")
UMBRELLAS = len(LABELS) - 1
PHOTOGRAPHS, MODELS, RATE = 800, 6, 0.09
HARD, TOGETHER, RUN = 1.5, 0.3, 0.1  # sd of difficulty, share of the photograph, sd of a run
CORRELATION = 0.95  # of difficulties before and after compression, where it harms; else 1
LABELS_CONFIG = f"""\
project: planted
source: {{kind: predictions, files: none, examples: none}}
label: {{columns: [{", ".join(LABELS)}]}}
groups: {{sex: {{column: sex}}}}
variants: [dense, {{predictions: [int8]}}]
population: {{models: {MODELS}}}
"""
PARTS = """\
project: planted
source: {kind: KIND, files: none, examples: none}
label: {column: label}
cluster: {column: whole}
groups: {part: {column: part}}
variants: [dense, {predictions: [int8]}]
population: {models: 6}
"""
CONFIGS = {
    "labels": LABELS_CONFIG,
    "boxes": PARTS.replace("KIND", "detections"),
    "tokens": PARTS.replace("KIND", "generic"),
}


def harmed_clusters(tested: AuditedExamples, kind: str) -> int:
    """Count the clusters of the group that is harmed."""
    name, value = harmed_group(kind)
    inside = (tested.table[name] == value).to_numpy()
    assert tested.clusters is not None
    return len(np.unique(tested.clusters[inside]))


def harmed_group(kind: str) -> tuple[str, str]:
    """Attribute and value of the group that is harmed."""
    return ("label_name", LABELS[UMBRELLAS]) if kind == "labels" else ("part", LABELS[UMBRELLAS])


def is_flagged(seed: int, kind: str) -> bool:
    """Whether the default gate fails an audit without harm."""
    with tempfile.TemporaryDirectory() as folder:
        run = drawn_parts(Path(folder), 0.0, seed, kind)
        for step in (divergence, bias, slices):
            step(run)
        audit = read_audit(verdict(run)[0])
    rules = default_rules(positive=kind == "labels")
    return judge(audit, rules, TODAY).verdict == "FAIL"


def is_found(seed: int, relative: float, kind: str) -> bool:
    """Whether the rise of the group's error is shown."""
    with tempfile.TemporaryDirectory() as folder:
        run = drawn_parts(Path(folder), relative, seed, kind)
        section = json.loads(bias(run)[0].read_text())
    address = ("error", "=".join(harmed_group(kind)), "relative")
    (row,) = (
        row
        for row in section["rows"]["rates"]
        if (row["metric"], row["group"], row["what"]) == address
    )
    low = row["number"]["low"]
    return low is not None and low > 0


def drawn_parts(folder: Path, relative: float, seed: int, kind: str) -> Run:
    """A run with its examples and predictions.

    Args:
        folder: Empty.
        relative: By how much errors on the harmed label rise, a fraction; 0 for no harm anywhere.
        seed: Decides all that is drawn.
        kind: What the examples are.
    """
    rng = np.random.default_rng(seed)
    config = parse_config(CONFIGS[kind], "planted")
    shape = (PHOTOGRAPHS, len(LABELS))
    if kind == "labels":
        examples, right, harmed = labelled(rng, seed, config)
    else:
        examples, right, harmed = boxes_or_tokens(rng, kind, config)
    run = Run.create(folder / "run", config)
    examples.write(run.examples)
    if kind == "boxes":
        write_json(precision_file(run.root), {})  # no detections lie behind what is drawn
    run.path("predictions").mkdir()
    before, other = difficulty(rng), difficulty(rng)
    kept = CORRELATION if relative else 1.0
    after = kept * before + np.sqrt(1 - kept**2) * other
    for name, hard, rates in (
        ("dense", before, np.full(shape, RATE)),
        ("int8", after, RATE * (1 + relative * harmed)),
    ):
        cut = norm.ppf(rates)[..., None] * np.sqrt(1 + HARD**2 + RUN**2)
        tried = hard[..., None] + RUN * rng.normal(size=MODELS) + rng.normal(size=(*shape, MODELS))
        wrong = (tried < cut).reshape(-1, MODELS)
        predicted = (right[:, None] + wrong) % len(examples.classes)
        Predictions(
            variant=name, example_ids=tuple(examples.ids), members=tuple(range(MODELS)),
            classes=examples.classes, predicted=predicted.astype(np.uint8),
        ).write(run.predictions(name))  # fmt: skip
    return run


def boxes_or_tokens(
    rng: np.random.Generator, kind: str, config: Config
) -> tuple[AuditedExamples, np.ndarray, np.ndarray]:
    """Boxes of images or tokens of sentences, their class ids, and which are harmed, (N, L)."""
    shape = (PHOTOGRAPHS, len(LABELS))
    own = rng.integers(0, len(LABELS), shape)
    own = own if kind == "boxes" else np.repeat(own[:, :1], len(LABELS), axis=1)
    classes = ["found"] if kind == "boxes" else ["name", "other", "verb"]
    table = pl.DataFrame(
        {
            "example_id": [str(row) for row in range(own.size)],
            "split": "test",
            "whole": np.repeat([f"w{row}" for row in range(PHOTOGRAPHS)], len(LABELS)),
            "part": np.array(LABELS)[own.ravel()],
            "label": np.array(classes)[rng.integers(0, len(classes), own.size)],
        }
    )
    examples = examples_from_source(table, config, "drawn")
    return examples, examples.labels, own == UMBRELLAS


def labelled(
    rng: np.random.Generator, seed: int, config: Config
) -> tuple[AuditedExamples, np.ndarray, np.ndarray]:
    """Photographs of several labels, a row a label, and which are harmed, shape (N, L)."""
    present = rng.random((PHOTOGRAPHS, len(LABELS))) < 0.3
    table = pl.DataFrame(
        {
            "example_id": [f"{seed}-{row}" for row in range(PHOTOGRAPHS)],
            "split": "test",
            "sex": rng.choice(["female", "male"], PHOTOGRAPHS, p=[0.4, 0.6]),
            **{name: present[:, k].astype(int) for k, name in enumerate(LABELS)},
        }
    )
    examples = examples_from_source(label_pairs(table, config.label, "drawn"), config, "drawn")
    return (
        examples,
        examples.labels,
        np.broadcast_to(np.arange(len(LABELS)) == UMBRELLAS, present.shape),
    )


def difficulty(rng: np.random.Generator) -> np.ndarray:
    """How hard each label of each photograph is, shape (N, L)."""
    own = np.sqrt(1 - TOGETHER) * rng.normal(size=(PHOTOGRAPHS, len(LABELS)))
    return HARD * (own + np.sqrt(TOGETHER) * rng.normal(size=(PHOTOGRAPHS, 1)))


def parts(audits: int = 200, kind: str = "labels") -> None:
    """Audits of labels of photographs, boxes of images or tokens of sentences (`--kind`)."""
    with tempfile.TemporaryDirectory() as folder:  # of one cluster examples count once
        tested = AuditedExamples.read(
            drawn_parts(Path(folder), 0.0, 0, kind).examples, split="test"
        )
        number = harmed_clusters(tested, kind)
    least = forecast(Design(group_n=number, rate=RATE, members=MODELS)).value
    began = time.process_time()
    flagged = sum(is_flagged(seed, kind) for seed in range(audits))
    print(f"no harm: {flagged} of {audits} audits flagged", flush=True)
    hits = sum(is_found(seed, least, kind) for seed in range(audits))
    print(f"{least:+.0%} planted: found in {hits} of {audits} audits")
    print(f"took {time.process_time() - began:.0f} s of CPU")


MARGIN = 0.05
NAMES = ("all", "a", "b", "c", "d", "a & x", "b & x", "c & x", "d & x")
WORSE = 1
Floats = np.ndarray


@dataclass(frozen=True)
class World:
    """One way in which scores come about.

    Attributes:
        rows: Test examples.
        clusters: Clusters that they lie in; 0 for none.
        models: Of each population.
        score: Positive scores of rows from difficulties, a scale for each row and a noise.
    """

    rows: int
    clusters: int
    models: int
    score: Callable[[Floats, Floats, Floats], Floats]


def absolute(off: Floats, scale: Floats, noise: Floats) -> Floats:
    """Errors of a regression: what both models miss, and what each misses on its own."""
    return np.abs(off * scale + 0.15 * noise * scale)


def skewed(off: Floats, scale: Floats, noise: Floats) -> Floats:
    """Losses with a long tail."""
    return np.exp(off + 0.2 * noise) * scale


WORLDS = {
    "errors": World(1_500, 0, 1, absolute),
    "populations": World(1_500, 0, 8, absolute),
    "clusters": World(2_400, 400, 1, skewed),
}


def drawn_scores(
    world: World, seed: int, planted: float
) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Scores before and after, membership in each group, and clusters."""
    rng = np.random.default_rng(seed)
    n = world.rows
    clusters = rng.integers(0, world.clusters, n) if world.clusters else None
    group = rng.integers(0, 4, n)
    off = rng.normal(0, 1, n)
    if clusters is not None:  # of one cluster, rows are of one group and alike
        group = rng.integers(0, 4, world.clusters)[clusters]
        off = 0.7 * rng.normal(0, 1, world.clusters)[clusters] + 0.7 * off
    other = rng.random(n) < 0.5
    masks = [np.ones(n, np.bool_), *(group == g for g in range(4))]
    masks += [(group == g) & other for g in range(4)]
    sides = []
    for side in range(2):
        scale = np.ones((n, world.models))
        if world.models > 1:  # runs differ, and differ by group
            run = rng.normal(0, 0.02, world.models) + rng.normal(0, 0.02, (4, world.models))[group]
            scale = np.exp(run)
        if side:
            scale = scale * np.where(masks[WORSE], 1 + planted, 1.0)[:, None]
        noise = rng.normal(0, 1, (n, world.models))
        sides.append(world.score(off[:, None], scale, noise))
    return sides[0], sides[1], np.stack(masks), clusters


def smallest(world: World, seed: int) -> float:
    """What `check` prints for the planted group, where nothing is planted."""
    before, after, masks, clusters = drawn_scores(world, seed, 0.0)
    worse = smallest_worsening(score_table(before, after, clusters), masks[WORSE], len(masks))
    assert worse is not None
    return worse


def audited_scores(world: World, seed: int, planted: float) -> tuple[bool, bool, bool, Floats]:
    """Whether any group, or the planted one, is shown; the gate's answer; intervals that hold."""
    before, after, masks, clusters = drawn_scores(world, seed, planted)
    table = score_table(before, after, clusters)
    effects = group_effects(table, dict(zip(NAMES, masks, strict=True)))
    named = [one.group for one in affected(effects, higher_is_better=False)]
    rules = default_rules(positive=False, scored=True)
    margins = Margins(relative=MARGIN, absolute=None, clearing=None)
    questions = []
    for one in effects[1:]:
        score = one.score
        assert score.variance is not None
        assert score.log_variance is not None
        change = Rise(
            score.change, score.worsening(lower_is_better=True), score.before, score.after,
            score.variance, score.log_variance,
        )  # fmt: skip
        questions.append(
            rise_test("mean", "mean_score", one.group, change, margins, group=one.group)
        )
    failed = any(finding.verdict == "FAIL" for finding in decide(questions, rules))
    worse = effects[WORSE].score.worsening(lower_is_better=True)
    held = [worse.low <= 100 * planted <= worse.high]
    for share in (0.5, 0.9):
        found = quantile_change(table, share, masks[WORSE])
        truth = planted * found.before.value  # both sides scale as their scores do
        held.append(found.change.low <= truth <= found.change.high)
    return bool(named), NAMES[WORSE] in named, failed, np.array(held, float)


def scores(audits: int = 200, worlds: tuple[str, ...] = tuple(WORLDS)) -> None:
    """Audits of scores, and what `check` promises for them."""
    for name in worlds:
        world = WORLDS[name]
        effect = float(np.median([smallest(world, seed) for seed in range(audits)]))
        beyond = (1 + MARGIN) * (1 + effect) - 1
        print(f"{name}: check prints {100 * effect:.2f}% for the planted group")
        for planted in (0.0, effect, MARGIN, beyond):
            found = [audited_scores(world, 10_000 + seed, planted) for seed in range(audits)]
            shown, right, failed, held = (sum(part) for part in zip(*found, strict=True))
            print(
                f"  planted {100 * planted:.2f}%: shown in {shown} of {audits}, of the "
                f"planted group in {right}; gate fails {failed}; intervals hold "
                f"{', '.join(f'{one:.0f}' for one in held)} (mean, median, 90%)",
                flush=True,
            )


EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "detections.py"
IMAGES = 250


def simulated(seed: int, harm: float, *, precision: bool) -> tuple[str, bool, float]:
    """Groups that are named, whether AP is said to change, and the planted group's change."""
    example = runpy.run_path(str(EXAMPLE))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = example["write_truth"](folder, images=IMAGES, seed=seed)
        for place, own in enumerate((0.0, harm)):
            example["write_detections"](
                folder / f"{place}.json", truth, harm=own, seed=seed, noise_seed=1_000 + 2 * seed
                + place,
            )  # fmt: skip
        boxes = read_ground_truth(folder / "instances.json", apart=False)
        both = [read_detections(folder / f"{n}.json", boxes, apart=False) for n in range(2)]
    before, after = (outcomes(boxes, one) for one in both)
    table = box_table(boxes)
    planted = ((table["class"] == "person") & (table["area"] == "small")).to_numpy()
    masks = {"person and small": planted}
    for column in ("class", "area"):
        for value in sorted(table[column].unique()):
            masks[value] = (table[column] == value).to_numpy()
    scores = score_table(before.found, after.found, boxes.image[boxes.examples])
    effects = group_effects(scores, masks)
    named = json.dumps([one.group for one in affected(effects)])
    loss = float(after.found[planted].mean() - before.found[planted].mean())
    named = "" if named == "[]" else named
    if not precision:
        return named, False, loss
    groups = image_groups(boxes.images)
    ap = [detection_scores(boxes, one, groups=groups) for one in both]
    change = jackknife(
        ap[1].value["AP"] - ap[0].value["AP"], ap[1].without["AP"] - ap[0].without["AP"],
        images=boxes.images,
    )  # fmt: skip
    return named, not change.low <= 0 <= change.high, loss


def detectors(
    pairs: int = 200, harm: tuple[float, ...] = (0.0, 0.1, 0.2), precision: bool = False
) -> None:
    """Comparisons of detectors; of AP, too (`--precision`), it takes ten times as long."""
    for planted in harm:
        found = [simulated(seed, planted, precision=precision) for seed in range(pairs)]
        named = sum(bool(groups) for groups, _, _ in found)
        right = sum("person" in groups for groups, _, _ in found)
        outside = sum(left_out for _, left_out, _ in found)
        points = 100 * float(np.mean([change for _, _, change in found]))
        ap = f"; the interval of AP leaves out 0 in {outside}" if precision else ""
        print(
            f"harm {planted:g}: {points:+.1f} points of small persons; a group is named in {named} "
            f"of {pairs}, person or small person in {right}{ap}",
            flush=True,
        )


if __name__ == "__main__":
    run(__doc__, audits, years, parts, scores, detectors)

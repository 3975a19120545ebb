"""The tables of Clarify, the fixed-seed study and AutoSlicer, held to the papers' own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.audit import Audit, Quantity
from scotoma.audit.base import Row
from scotoma.bias.clarify import METRICS
from scotoma.bias.member_fairness import MemberFairness
from scotoma.config import load_config
from scotoma.datasets import AuditedExamples
from scotoma.document import Interval, Section
from scotoma.document.jsonable import jsonable
from scotoma.papers import autoslicer, clarify, variance, variance_costs
from scotoma.papers.table import CANNOT, specification
from scotoma.published import fairness_values, load
from scotoma.run import Run
from scotoma.runs import RunFinding, compare_runs
from scotoma.runs.effects import bare
from scotoma.runs.techniques import costs_of
from scotoma.steps.measures.clarify import ClarifyMetrics
from scotoma.steps.measures.harms import FairnessOfRuns
from scotoma.steps.table import STEPS, skipped_steps
from tests.helpers.audits import whole
from tests.helpers.commands import scotoma
from tests.helpers.external_predictions import CONFIG, said, write
from tests.slices.searching import find_slices

pytestmark = pytest.mark.slow


def missing(section: Section) -> str:
    """Why the run cannot give a table; empty where it can."""
    said = section.answer[0]
    return said.removeprefix(CANNOT).removesuffix(".") if said.startswith(CANNOT) else ""


def body(section: Section, at: int = 0) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Cells of the run's table, or of one of the paper, by the names of their rows."""
    table: Any = section.parts[at]
    rows = [
        tuple(None if isinstance(cell, Interval) else cell for cell in row.values())
        for row in table.rows
    ]
    return {row[: table.stub]: row[table.stub :] for row in rows}


# --- clarify --------------------------------------------------------------------------------------


def test_every_metric_of_clarify_stands_in_the_question_of_its_stage() -> None:
    questions = {name: one["metrics"] for name, one in specification("clarify").items()}
    names = [name for own in questions.values() for name in own]
    assert sorted(names) == sorted(METRICS)
    for question, own in questions.items():
        stage = "pre-training" if question.startswith("Pre") else "post-training"
        assert {METRICS[name].stage for name in own} == {stage}


def adult() -> tuple[AuditedExamples, np.ndarray]:
    """The confusion matrices of the worked example, one row an example."""
    cells = {  # sex, label, predicted
        ("f", 1, 1): 433, ("f", 0, 1): 10, ("f", 1, 0): 679, ("f", 0, 0): 8660,
        ("m", 1, 1): 2718, ("m", 0, 1): 84, ("m", 1, 0): 3678, ("m", 0, 0): 13900,
    }  # fmt: skip
    sex, y, p = (np.repeat([key[at] for key in cells], list(cells.values())) for at in range(3))
    labels = pl.Series(np.where(y == 1, "rich", "poor"))
    table = pl.DataFrame({"label": labels, "sex": sex})
    return AuditedExamples(table, ("poor", "rich"), ("sex",), ()), p.astype(np.uint8)[:, None]


def test_the_worked_example_in_the_tables_has_the_printed_values() -> None:
    examples, predicted = adult()
    metrics = ClarifyMetrics(examples, predicted, 1, seed=0, training=examples)
    compressed = metrics.of_compressed(predicted, paired=True)
    rows = [*metrics.of_data(), *({"variant": "int8"} | row for row in compressed)]
    audit = whole({"variants": [{"name": "dense"}, {"name": "int8"}],
                   "rows": {"clarify": jsonable(rows)}})  # fmt: skip
    finished: Any = SimpleNamespace(audit=audit)
    own: dict[str, float] = {}
    for table in clarify.tables(finished):
        if not missing(table):
            own |= {str(name): cells[0] for (name, _), cells in body(table).items()}
    printed = load("clarify").metrics
    # Rounded inputs in the paper, and signs of another formula; see its notes.
    slips = {"SD": -1, "DRR": 1, "DCR": 1, "TE": 1, "CI": 1, "AD": 1, "DI": 1}
    for name, value in printed.items():
        sign = slips.get(name, 1)
        assert abs(own[name]) == pytest.approx(abs(value), abs=0.0016), name
        if name not in ("SD", "DRR", "DCR"):
            assert own[name] * sign == pytest.approx(value, abs=0.0016), name


# --- variance: the study's raw runs through the rows of an audit ----------------------------------


def audit_of(
    rows: list[Row], accuracy: dict[str, Sequence[float]], **parts: Any
) -> SimpleNamespace:
    """What tables ask of an audit of models of such accuracy that has rows of fairness."""
    top1 = [
        Row(variant=name, what="top1", number=Quantity.of(bare(float(np.mean(own)), len(own))),
            models=tuple(own))
        for name, own in accuracy.items()
    ]  # fmt: skip
    audit = SimpleNamespace(rows={"fairness": rows, "accuracy": top1}, **parts)
    for name in ("numbers", "at", "accuracies"):
        setattr(audit, name, MethodType(getattr(Audit, name), audit))
    return audit


def of_study(base: str, techniques: list[str]) -> Any:
    """The study as an audit: the baseline is dense, its techniques are variants."""
    accuracy = load("fairness_variance_runs").accuracy
    rows: list[dict[str, Any]] = []
    classes = tuple(f"class {i}" for i in range(20))
    measure: Any = FairnessOfRuns(SimpleNamespace(classes=classes, several=()), None, None)  # type: ignore[arg-type]
    for technique in (base, *techniques):
        values = {metric: fairness_values(technique, metric) for metric in variance.NAMES}
        pairs = {m: (fairness_values(base, m)[:, -1], own[:, -1]) for m, own in values.items()}
        compared = compare_runs(pairs)
        rows += [
            {"variant": technique} | row
            for metric, own in values.items()
            for row in measure.rows(
                ("group", metric),
                MemberFairness(own[:, -1], own[:, :-1], np.zeros(len(own))),
                None if technique == base else compared[metric],
            )
        ]
    names = (base, *techniques)
    variants = [SimpleNamespace(name=name, members=16, paired=False) for name in names]
    audit = audit_of(
        [Row.model_validate(row) for row in jsonable(rows)],
        variants=variants, compressed=variants[1:], dense=variants[0],
        accuracy={name: accuracy[name] for name in names},
        examples=SimpleNamespace(positive=None),
    )  # fmt: skip
    config = SimpleNamespace(population=SimpleNamespace(identical=True))
    return SimpleNamespace(
        audit=audit, compressed=tuple(techniques), run=SimpleNamespace(config=config)
    )


TESTS = load("fairness_variance").tests
PRINTED = ("overall_maxdiff", "overall_std", "perclass_maxdiff", "perclass_std")
STUDY = {
    base: list(dict.fromkeys(test.technique for test in TESTS if test.base == base))
    for base in dict.fromkeys(test.base for test in TESTS)
}


def printed_digits(cells: tuple[float, ...]) -> list[float]:
    """One decimal of four significant digits, as the artefact prints per cent."""
    return [round(float(f"{cell:.4g}"), 1) for cell in cells]


@pytest.mark.parametrize("base", STUDY)
def test_the_studys_own_runs_give_its_printed_tables(base: str) -> None:
    finished = of_study(base, STUDY[base])
    spreads, worked, di, *figures, costs = variance.tables(finished)
    printed = load("fairness_variance")
    for technique, table in printed.table2.items():
        for (level, value), key in zip(variance.SPREADS, PRINTED, strict=True):
            if technique in STUDY[base]:
                own = body(spreads)["group", technique, f"{level} {value}"]
                assert printed_digits(own) == list(table.rows[key])
    for technique, cells in printed.table4.rows.items():
        if technique in (base, *STUDY[base]):
            assert printed_digits(body(di)["group", technique]) == list(cells)
    assert printed_digits(body(worked)["computed",]) == list(body(worked, 1)["printed",])
    for figure in figures:  # 77 tests and the accuracies behind them, all signs and sizes
        for technique in STUDY[base]:
            assert body(figure)[technique,] == body(figure, 1)[technique,]
    assert body(costs)["this run",][0] == 7 * len(STUDY[base])


def test_costs_are_counted_as_the_study_says() -> None:
    """By hand on three pairs: one free, one that pays twice, one that does not lower bias."""
    rng = np.random.default_rng(4)

    def runs(mean: float, sd: float) -> np.ndarray:
        return mean + sd * rng.standard_normal(16)

    base, even = runs(0.3, 0.01), runs(0.9, 0.01)
    cells, accuracy = [], {}
    for name, bias, right in (
        ("a", runs(0.1, 0.01), even + 1e-4), ("b", runs(0.1, 0.2), runs(0.7, 0.01)),
        ("c", base + 1e-4, runs(0.7, 0.2)),
    ):  # fmt: skip
        accuracy[name] = RunFinding(name, "accuracy", compare_runs({"": (even, right)})[""])
        cell = RunFinding(name, "DP", compare_runs({"": (base, bias)})[""])
        cells.append(replace(cell, costs=costs_of(cell, accuracy[name])))
    assert [cell.costs for cell in cells] == [(), ("accuracy down", "bias spread up"), ()]
    assert variance_costs._Pairs(cells, accuracy).counts == (3, 2, 1, 1, 0, 1, 0)
    assert variance_costs._Pairs([], {}).counts == (0, 0, 0, 0, 0, 0, 0)


# --- autoslicer -----------------------------------------------------------------------------------


def planted(n: int = 1500) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(5)
    table = pl.DataFrame({name: rng.integers(0, 9, n) for name in "abcd"})
    bad = ((table["a"] == 3) & (table["b"] > 5)).to_numpy()
    return table, rng.random((n, 2)) < np.where(bad, 0.5, 0.1)[:, None]


def test_searches_are_those_of_the_paper_and_count_what_they_computed() -> None:
    table, errors = planted()
    searches = autoslicer.search_as_published(table, errors)
    batch, iterative = searches.strategies["batch"], searches.strategies["iterative"]
    rows = np.stack([table[name].to_numpy() for name in "abcd"], axis=1)
    occupied = sum(
        len(np.unique(rows[:, list(chosen)], axis=0))
        for chosen in [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3),
                       (0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    )  # fmt: skip
    assert batch.hits.nonempty == occupied
    assert batch.hits.proposed == 4 * 9 + 6 * 81 + 4 * 729
    assert iterative.hits.nonempty < batch.hits.nonempty
    assert iterative.slice_count == batch.slice_count  # under shared draws
    assert batch.null.permutations == autoslicer.SHUFFLES
    for name, one in [*searches.strategies.items(), *searches.orders.items()]:
        assert name in searches.seconds
        if one.iterations:
            assert sum(past.nonempty for past in one.iterations) == one.hits.nonempty
            assert sum(past.candidates for past in one.iterations) == one.hits.proposed
            assert one.iterations[-1].significant == one.slice_count
    assert searches.orders["p-value"].hits.nonempty != searches.orders["random"].hits.nonempty
    first = searches.strategies["priority 4"]
    again = find_slices(
        table, errors, protocol="published", mode="priority", permutations=0,
        budget=round(0.6 * batch.hits.nonempty / 5), limit=1,
    )  # fmt: skip
    assert (first.slice_count, first.hits.nonempty) == (again.slice_count, again.hits.nonempty)


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = write(tmp_path_factory.mktemp("studies"), models=3)
    table = pl.read_csv(home / "examples.csv")
    age = pl.Series("age", np.random.default_rng(0).integers(18, 80, len(table)))
    table.with_columns(age).write_csv(home / "examples.csv")
    more = "clarify: {features: [age]}\nslices: {features: [sex, age], max_cross: 2}\n"
    (home / "audit.yaml").write_text(CONFIG + more)
    run = Run.create(home / "run", load_config(home / "audit.yaml").completed())
    for step in STEPS.values():
        if step.name not in {*skipped_steps(run.config), "report", "log"}:
            step.function(run)
    return run


@pytest.mark.parametrize("paper", ["clarify", "variance", "autoslicer"])
def test_a_run_gets_every_table_with_the_papers_own_and_a_sound_conclusion(
    paper: str, finished: Run
) -> None:
    code, out, err = scotoma("show", finished.root, f"paper:{paper}")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "Sound protocol: " in out
    assert "Paper, " in out
    flat = " ".join(out.split())
    assert {"clarify": "FT sex=m", "variance": "int8", "autoslicer": "features: `sex`, `age`."}[
        paper
    ] in flat
    code, csv, _ = scotoma("show", finished.root, f"paper:{paper}", "--csv")
    assert code == 0
    assert pl.read_csv(csv.encode(), infer_schema_length=None).height > 50


def test_shares_of_the_favourable_outcome_are_those_that_a_count_of_the_files_gives(
    finished: Run,
) -> None:
    home = finished.root.parent
    sex = pl.read_csv(home / "examples.csv")["sex"].fill_null("(missing)").to_numpy()
    rows = pl.read_csv(
        scotoma("show", finished.root, "paper:clarify", "--csv")[1].encode(),
        infer_schema_length=None,
    ).filter(table="Posttraining 1", row="DPPL, sex=m")
    for column, variant in (("dense", "fp32"), ("int8", "int8")):
        cats = np.array([[one == "cat" for one in said(home, variant, m)] for m in range(3)])
        expected = cats[:, sex != "m"].mean() - cats[:, sex == "m"].mean()
        assert rows.filter(column=column)["number"].item() == pytest.approx(expected)


def test_what_a_run_lacks_is_named_with_the_way_to_get_it(finished: Run) -> None:
    out = " ".join(scotoma("show", finished.root, "paper:clarify")[1].split())
    assert "CDDL needs a second attribute; add it to groups and audit again." in out
    assert "source.training names a table of them" in out
    audit = audit_of([], {"dense": (0.9,)}, compressed=(), dense=SimpleNamespace(name="dense"))
    empty: Any = SimpleNamespace(audit=audit, compressed=())
    spreads, worked, di, *others = variance.tables(empty)
    assert not missing(worked)  # the paper's example, whatever the run
    assert {missing(spreads), missing(di)} == {variance.NO_GROUPS}
    assert {missing(table) for table in others} == {variance_costs.NO_TESTS}

"""The tables of papers from a run: the paper's own figures, the run's, and what is missing."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from scotoma.audit import read_audit
from scotoma.config import load_config
from scotoma.datasets import AuditedExamples
from scotoma.document import Document
from scotoma.document.text import document_text, markdown_table, markdown_text, text_table
from scotoma.papers.table import grid, long_table, paper_table, printed
from scotoma.predictions import Predictions
from scotoma.published import load
from scotoma.run import Run
from scotoma.steps.table import STEPS, skipped_steps
from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow


def test_a_published_table_keeps_every_printed_figure():
    table = load("pie").table2
    made = printed("paper", table, "sparsity")
    assert [row["c0"] for row in made.rows] == list(table.rows)
    for cells, shown in zip(table.rows.values(), made.cells(), strict=True):
        assert [one.value for one in shown[1:]] == [
            "\N{EN DASH}" if c is None else f"{c:,}".replace("-", "\N{MINUS SIGN}") for c in cells
        ]


def test_a_wide_table_goes_on_below_itself_within_80_cells():
    columns = ("variant", *(f"quite a long heading {i}" for i in range(20)))
    lines = text_table(grid("wide", columns, [("prune-0.9", *(float(i) for i in range(20)))]))
    assert max(map(len, lines)) <= 80
    flat = " ".join(" ".join(lines).split())
    assert all(f"heading {i} {i}.00" in flat for i in range(4, 20))


def test_names_of_others_are_no_markup():
    text = markdown_table(grid("c", ("variant", "class"), [("a|b", "<i>")]))
    assert "| `a\\|b` | `<i>` |" in text.splitlines()


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_no_number_has_its_reason(nothing: float | None):
    rows = (("prune-0.9", nothing), ("dense", 1.0))
    with pytest.raises(ValueError, match="must say why it has no number"):
        grid("c", ("variant", "x"), rows)
    columns = ("variant", "x")
    table = paper_table("variance", "Figure 3", rows, columns=columns, absent="no x")
    document = Document("", sections=[table])
    assert document_text(document).splitlines()[-3:] == [
        "prune-0.9     \N{EN DASH}",
        "dense      1.00",
        "\N{EN DASH}: no x.",
    ]
    assert markdown_text(document).splitlines()[-1] == "\N{EN DASH}: no x."
    written = pl.read_csv(long_table("pie", [table]).csv().encode())
    assert written.select("number", "reason").rows() == [(None, "no x"), (1.0, None)]


def test_what_holds_a_table_is_there():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "papers.md").read_text().partition("## What holds each table")[2]
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 13
    for cells in rows:
        named = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)[ \w]*`", cells[4])
        assert named, cells
        assert all((root / name).is_file() for name in named), named


# --- a run of twelve classes, from tables of predictions, beside a slow version of each paper -----

CLASSES = [f"class {i}" for i in range(12)]
MODELS = 4
CONFIG = """\
project: twelve
source:
  kind: predictions
  files: preds/{variant}/{model}.parquet
  examples: examples.csv
  training: training.csv
label: {column: label, positive: class 3}
groups:
  sex: {column: sex}
  age: {column: age}
  intersections: [[sex, age]]
over_index: all
tracking: {uri: "off"}
"""


@dataclass(frozen=True)
class Made:
    """A finished run and what it was made from.

    Attributes:
        run: Its folder.
        examples: Test examples: label, sex, age.
        training: Training examples.
        top5: Names that each model of a variant gives, best first, shape (N, K, 5).
    """

    run: Path
    examples: pl.DataFrame
    training: pl.DataFrame
    top5: dict[str, NDArray[np.str_]]

    def cells(self, paper: str) -> dict[tuple[str, str, str], float | str]:
        """What the command prints as CSV: by table and caption's first words, row and column."""
        code, out, err = scotoma("show", self.run, f"paper:{paper}", "--csv")
        assert code == 0, err
        rows = pl.read_csv(out.encode(), infer_schema_length=None).filter(
            pl.col("of").str.starts_with("This run")
        )
        return {
            (f"{row['table']} {row['of'].partition('top ')[2]}".strip(), row["row"], row["column"]):
            row["number"] if row["number"] is not None else row["text"]
            for row in rows.iter_rows(named=True)
        }  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("twelve")
    rng = np.random.default_rng(3)

    def table(n: int) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "example_id": [f"e{i}" for i in range(n)],
                "label": rng.choice(CLASSES, n),
                "sex": rng.choice(["f", "m"], n, p=[0.3, 0.7]),
                "age": rng.choice(["old", "young"], n),
                "hat": rng.choice([-1, 1], n, p=[0.8, 0.2]),
                "height": rng.integers(150, 200, n),
            }
        )

    examples, training = table(500), table(300)
    examples.write_csv(home / "examples.csv")
    training.drop("example_id").write_csv(home / "training.csv")
    truth = np.array([CLASSES.index(label) for label in examples["label"]])
    hard = rng.random((500, 1)) * 3
    hit = (truth < 2)[:, None]  # classes that compression hits
    top5 = {}
    for variant, blur in {"dense": 0.6, "prune-0.9": 0.8}.items():
        (home / "preds" / variant).mkdir(parents=True)
        best = []
        for model in range(MODELS):
            noise = (blur + 3 * hit * (blur > 0.6)) * hard * rng.gumbel(size=(500, 12))
            order = np.argsort(-(2 * (np.arange(12) == truth[:, None]) + noise))[:, :5]
            names = np.array(CLASSES)[order]
            best.append(names)
            pl.DataFrame(
                {
                    "example_id": examples["example_id"],
                    "predicted": names[:, 0],
                    "predicted_top5": names.tolist(),
                }
            ).sample(fraction=1, shuffle=True, seed=model).write_parquet(
                home / "preds" / variant / f"m{model}.parquet"
            )
        top5[variant] = np.stack(best, axis=1)
    (home / "audit.yaml").write_text(CONFIG)
    run = Run.create(home / "run", load_config(home / "audit.yaml").completed())
    for step in STEPS.values():
        if step.name not in {*skipped_steps(run.config), "report", "log"}:
            step.function(run)
    return Made(run.root, examples, training, top5)


def test_the_tables_of_pie_are_those_of_a_slow_version(made: Made) -> None:
    cells, labels = made.cells("pie"), made.examples["label"].to_list()
    says = {variant: best[:, :, 0] for variant, best in made.top5.items()}
    modal = {
        variant: [
            min(count, key=lambda name: (-count[name], CLASSES.index(name)))
            for count in map(Counter, votes.tolist())
        ]
        for variant, votes in says.items()
    }
    pie = [
        dense != pruned for dense, pruned in zip(modal["dense"], modal["prune-0.9"], strict=True)
    ]
    right1 = {v: np.array([[n == y for n in row] for row, y in zip(votes, labels, strict=True)])
              for v, votes in says.items()}  # fmt: skip
    right5 = {v: (best == np.array(labels)[:, None, None]).any(axis=2)
              for v, best in made.top5.items()}  # fmt: skip
    where = np.array(pie)
    for variant in says:
        assert cells["Tables 2 and 3", variant, "top 1"] == pytest.approx(
            100 * right1[variant].mean()
        )
        assert cells["Tables 2 and 3", variant, "top 5"] == pytest.approx(
            100 * right5[variant].mean()
        )
    assert cells["Tables 2 and 3", "prune-0.9", "PIEs"] == sum(pie) > 10
    for top, right in ((1, right1), (5, right5)):
        for models, variant in (("dense", "dense"), ("compr.", "prune-0.9")):
            for subset, rows in (("PIE", where), ("non-PIE", ~where), ("all", where | ~where)):
                assert cells[
                    f"Figures 5 and 11 {top}", "prune-0.9", f"{models} {subset}"
                ] == pytest.approx(100 * right[variant][rows].mean())

    shifted, recall = {}, {}
    for variant, right in right1.items():
        per_class = {c: right[np.array(labels) == c].mean(axis=0) for c in CLASSES}
        recall[variant] = per_class
        shifted[variant] = {c: r - right.mean(axis=0) for c, r in per_class.items()}
    norms, absolutes = {}, {}
    for c in CLASSES:
        test = stats.ttest_ind(shifted["prune-0.9"][c], shifted["dense"][c], equal_var=False)
        if test.pvalue <= 0.05:
            norms[c] = 100 * (shifted["prune-0.9"][c].mean() - shifted["dense"][c].mean())
            absolutes[c] = 100 * (recall["prune-0.9"][c].mean() - recall["dense"][c].mean())
    row = {column: value for (table, _, column), value in cells.items() if table.endswith("and 4")}
    assert row["signif. incr."] == sum(norm > 0 for norm in norms.values())
    assert row["signif. decr."] == sum(norm < 0 for norm in norms.values())
    assert len(norms) == cells["Tables 2 and 3", "prune-0.9", "signif. classes"] >= 2
    for word, pick, sign in (("incr.", max, 1), ("decr.", min, -1)):
        c = pick(norms, key=lambda name: norms[name])
        if sign * norms[c] > 0:
            assert row[f"largest {word}"] == c
            assert row[f"{word} norm"] == pytest.approx(norms[c])
            assert row[f"{word} abs"] == pytest.approx(absolutes[c])


def test_every_binary_column_is_over_indexed_and_makes_no_group(made: Made) -> None:
    audit = read_audit(made.run / "audit.json")
    rows = {row.attribute: row for row in audit.divergence["prune-0.9"].over_index}
    assert set(rows) - {group.key for group in audit.groups} == {"hat=1"}
    cie = pl.read_parquet(made.run / "divergence.parquet")["cie"]
    hat = made.examples["hat"] == 1
    assert (rows["hat=1"].n, rows["hat=1"].n_flagged) == (hat.sum(), (hat & cie).sum())
    assert rows["hat=1"].share_in_training == (made.training["hat"] == 1).mean()


def test_the_tables_of_cie_are_those_of_a_slow_version(made: Made) -> None:
    cells, labels = made.cells("cie"), made.examples["label"].to_numpy()
    dense, pruned = (made.top5[variant][:, :, 0] for variant in ("dense", "prune-0.9"))
    distance = np.array(
        [
            sum(abs((b == name).sum() - (v == name).sum()) for name in CLASSES)
            for b, v in zip(dense, pruned, strict=True)
        ]
    )
    right = {"dense": (dense == labels[:, None]), "compressed": (pruned == labels[:, None])}

    # Ties at random: the mean over many draws, each of which the paper could have made.
    rng, draws = np.random.default_rng(0), 4000
    for percentile in (20, 80, 90, 95):
        size = round(500 * (100 - percentile) / 100)
        order = np.argsort(-(distance + rng.random((draws, 500)) / 2), axis=1)[:, :size]
        for models, hits in right.items():
            mean = 100 * hits.mean(axis=1)[order].mean()
            cell = cells["Figure 4", f"prune-0.9, {models}", f"{percentile}th"]
            assert cell == pytest.approx(mean, abs=0.1)
            if percentile in (90, 95) and models == "compressed":
                assert cells["Table 2", "prune-0.9", f"{percentile}th"] == cell
        if percentile == 80:
            for name, column, value in (("f", "sex", "f"), ("hat=1", "hat", 1)):
                mask = (made.examples[column] == value).to_numpy()
                mean = mask[order].mean() / mask.mean()
                assert cells["Figure 2", name, "prune-0.9"] == pytest.approx(mean, abs=0.005)
                share = 100 * (made.training[column] == value).mean()
                assert cells["Figure 2", name, "% of training"] == pytest.approx(share)

    group = {"aggregate": np.full(500, True)}
    for sex in ("f", "m"):
        group[sex] = (made.examples["sex"] == sex).to_numpy()
        for age in ("old", "young"):
            both = group[sex] & (made.examples["age"] == age).to_numpy()
            group[f"{sex} & {age}"] = both
    positive = labels == "class 3"
    for name, mask in group.items():
        rates = {}
        for models, votes in (("dense", dense), ("prune-0.9", pruned)):
            said = votes == "class 3"
            wrong = said != positive[:, None]  # of more than two classes: this one or another
            rates[models] = {
                "error": 100 * wrong[mask].mean(),
                "FPR": 100 * said[mask & ~positive].mean(),
                "FNR": 100 * (~said[mask & positive]).mean(),
            }
            for rate, value in rates[models].items():
                assert cells["Table 5", f"{models}, {rate}", name] == pytest.approx(value), name
        for rate, before in rates["dense"].items():
            cell = cells["Tables 3 and 4", f"prune-0.9, {rate}", name]
            if before > 0:
                after = rates["prune-0.9"][rate]
                assert cell == pytest.approx(100 * (after - before) / before), (name, rate)

    for split, table in (("training", made.training), ("test", made.examples)):
        rows = table.filter(label="class 3", sex="f", age="old")
        assert cells["Figure 1", "class 3, f & old", split] == rows.height
        share = 100 * rows.height / table.height
        assert cells["Figure 1", "class 3, f & old", f"% of {split}"] == pytest.approx(share)


@pytest.mark.parametrize("paper", ["pie", "cie"])
def test_every_line_fits_a_terminal_and_every_table_ends_with_the_sound_protocol(
    made: Made, paper: str
) -> None:
    code, out, err = scotoma("show", made.run, f"paper:{paper}")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    titles = re.findall(r"^(?:Table|Figure)s? \d", out, re.M)
    missing = out.count("\nThis run cannot give it")
    assert out.count("\nSound protocol: ") == len(titles) - missing >= 4


def test_what_a_run_cannot_give_is_named_in_a_sentence(made: Made, tmp_path: Path) -> None:
    copy = shutil.copytree(made.run, tmp_path / "run")
    (copy / "checksums.json").unlink(missing_ok=True)
    for path in (copy / "predictions").iterdir():
        bare = Predictions.read(path)
        path.unlink()
        bare.write(path)
    code, out, _ = scotoma("show", copy, "paper:pie")
    flat = " ".join(out.split())
    assert code == 0
    assert flat.count(
        "predictions of dense, prune-0.9 hold no predicted_top5; add the column to source.files "
        "and audit again."
    ) == 2  # fmt: skip
    assert scotoma("show", copy, "paper:pies") == (
        2, "", "scotoma: paper must be one of pie, cie, clarify, variance, autoslicer, got "
        "'pies'; did you mean 'pie'?\n",
    )  # fmt: skip

    audit = json.loads((copy / "audit.json").read_text())
    audit["groups"] = audit["groups"][:1]
    audit["rows"] = {
        question: [
            row
            for row in rows
            if row.get("group", "all") == "all" and "disadvantaged" not in row.get("facts", {})
        ]
        for question, rows in audit["rows"].items()
    }
    audit["variants"][1]["members"] = 1
    (copy / "audit.json").write_text(json.dumps(audit))
    bare = AuditedExamples.read(copy / "examples.parquet", images=False)
    replace(bare, attributes=(), intersections=(), over_indexed=()).write(copy / "examples.parquet")
    flat = " ".join(scotoma("show", copy, "paper:cie")[1].split())
    groups = (
        "cannot give it: the audit has no groups; name attributes under groups in the "
        "configuration and audit again"
    )
    assert flat.count(f"{groups}.") == 3
    assert flat.count(f"{groups}, or set over_index: all.") == 1
    flat = " ".join(scotoma("show", copy, "paper:pie")[1].split())
    assert flat.count(
        "Welch's test compares models with models and needs 2 of each variant, got 1; raise "
        "population.models, or add predictions of more models."
    ) == 2  # fmt: skip

    (copy / "audit.json").unlink()
    code, _, err = scotoma("show", copy, "paper:cie")
    assert (code, err) == (
        4, f"scotoma: {copy / 'audit.json'} is not there; finish its audit first\n"
    )  # fmt: skip

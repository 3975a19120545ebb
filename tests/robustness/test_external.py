"""Predictions on corrupted pictures that were made outside: read, measured, refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.audit import Audit, read_audit
from scotoma.audit.base import At, Row, cells_at
from scotoma.audit.findings import Findings
from scotoma.config import parse_config
from scotoma.config.gate import parse_rules
from scotoma.errors import ConfigError
from scotoma.robustness.section import robustness_section
from scotoma.tracking.records import audit_records
from scotoma.verdict.gate import judge
from tests.helpers.commands import scotoma
from tests.helpers.sections import table
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
source: {kind: predictions, files: 'said/*.parquet', examples: examples.csv}
label: {column: label, positive: cat}
groups: {side: {column: side}}
tracking: {uri: "off"}
"""
ROBUST = "robustness: {files: 'worse/{variant}.csv'}\n"
HARD = "robustness: {hard_sets: [int8]}\n"  # no picture is needed
N, SHOWN, MODELS = 240, 160, ("a", "b", "c", "d", "e")
CONDITIONS = [(kind, severity) for kind in ("gaussian_noise", "fog") for severity in (2, 4)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """A folder of predictions on clean and corrupted pictures, and the latter in one table."""
    home = tmp_path_factory.mktemp("external")
    rng = np.random.default_rng(1)
    ids = [f"x{row}" for row in range(N)]
    labels = rng.choice(["cat", "dog"], N)
    table = {"example_id": ids, "label": labels, "side": rng.choice(["left", "right"], N)}
    pl.DataFrame(table).write_csv(home / "examples.csv")

    def rows(accuracy: float, upto: int) -> dict[str, list[str]]:
        wrong = np.where(labels == "cat", "dog", "cat")
        said = np.where(rng.random(N) < accuracy, labels, wrong)
        order = rng.permutation(upto)
        return {"example_id": [ids[r] for r in order], "predicted": said[order].tolist()}

    (home / "said").mkdir()
    (home / "worse").mkdir()
    worse = []
    for variant, lost in (("dense", 0.1), ("int8", 0.2)):
        clean = []
        for model in MODELS:
            names = {"variant": variant, "model": model}
            clean.append(pl.DataFrame(rows(0.9, N)).with_columns(**_texts(names)))
            for kind, severity in CONDITIONS:
                own = names | {"corruption": kind, "severity": str(severity)}
                frame = pl.DataFrame(rows(0.9 - lost, SHOWN)).with_columns(**_texts(own))
                worse.append(frame)
        pl.concat(clean).write_parquet(home / "said" / f"{variant}.parquet")
    return home, pl.concat(worse)


def _texts(values: dict[str, str]) -> dict[str, pl.Expr]:
    return {name: pl.lit(value) for name, value in values.items()}


def write(home: Path, worse: pl.DataFrame) -> Path:
    for (variant,), frame in worse.partition_by("variant", as_dict=True).items():
        frame.drop("variant").write_csv(home / "worse" / f"{variant}.csv")
    (home / "audit.yaml").write_text(CONFIG + ROBUST)
    return home / "audit.yaml"


def test_their_losses_are_those_of_the_tables(
    answers: tuple[Path, pl.DataFrame], tmp_path: Path
) -> None:
    """Accuracies counted by a join, and the section that a finished audit gains."""
    home, worse = answers
    config = write(home, worse)
    config.write_text(CONFIG)
    out = tmp_path / "run"
    with steps_in_this_process(tmp_path):
        assert scotoma("audit", config, "--out", out)[0] == 0
        write(home, worse)
        code, _, err = scotoma("audit", config, "--out", out)
    assert code == 0, err
    audit = read_audit(out / "audit.json")
    report = audit.robustness
    assert report is not None
    assert (report.profile, report.examples, report.test) == ("predictions", SHOWN, N)
    assert (report.severities, report.left_out) == ((2, 4), {})
    assert not audit.at("robustness", part="distortion.")
    assert [one.kind for one in report.corruptions] == ["gaussian_noise", "fog"]
    labels = pl.read_csv(home / "examples.csv")
    right = worse.join(labels, on="example_id").with_columns(
        right=pl.col("predicted") == pl.col("label")
    )
    for row in accuracies(audit):
        own = right.filter(variant=row.variant)
        if row.fact("kind") != "all":
            own = own.filter(corruption=row.fact("kind"))
        assert row.number.value == pytest.approx(own["right"].mean(), abs=1e-9)
    losses = audit.at("robustness", "int8", "losses.")
    assert {at["absolute"].group for at in losses} == {"all", "side=left", "side=right"}
    page = (out / "report.html").read_text()
    assert "Corrupted pictures" in page
    assert "data:image/webp" not in page
    made = robustness_section(Findings(audit))
    assert made is not None
    (row,) = (
        row
        for row in table(made, "corrupted-groups").rows
        if (row["group"], row["family"]) == ("right", "noise")
    )
    fnr = loss(audit, "side=right", "noise", "fnr")["absolute"].number
    rate = pl.col("label") == "cat", pl.col("side") == "right"
    said = pl.read_parquet(home / "said" / "*.parquet").join(labels, on="example_id")
    shown = said.filter(pl.col("example_id").is_in(worse["example_id"].unique().implode()))
    missed = {}
    for variant in ("dense", "int8"):
        of_worse = right.filter(*rate, variant=variant, corruption="gaussian_noise")
        of_clean = shown.filter(*rate, variant=variant)
        missed[variant] = (of_clean["predicted"] == "cat").mean() - of_worse["right"].mean()
    assert fnr.value == pytest.approx(missed["int8"] - missed["dense"])
    assert row["fnr"] == fnr


def test_clean_predictions_may_have_reruns(
    answers: tuple[Path, pl.DataFrame], tmp_path: Path
) -> None:
    """Every rerun stands beside the one run on corrupted pictures; examples count once."""
    home, worse = answers
    config = write(home, worse)
    for path in (home / "said").iterdir():
        clean = pl.read_parquet(path)
        again = [clean.with_columns(rerun=pl.lit(str(rerun))) for rerun in range(2)]
        (home / "again").mkdir(exist_ok=True)
        pl.concat(again).write_parquet(home / "again" / path.name)
    config.write_text((CONFIG + ROBUST).replace("said/*", "again/*"))
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", tmp_path / "run")
    assert code == 0, err
    audit = read_audit(tmp_path / "run" / "audit.json")
    labels = pl.read_csv(home / "examples.csv")
    right = worse.join(labels, on="example_id").with_columns(
        right=pl.col("predicted") == pl.col("label")
    )
    for row in accuracies(audit):
        if row.fact("kind") != "all":
            own = right.filter(variant=row.variant, corruption=row.fact("kind"))
            assert row.number.value == pytest.approx(own["right"].mean(), abs=1e-9)
            assert row.number.n == SHOWN


def test_a_hard_set_is_chosen_by_one_half_of_the_models_and_judges_the_other(
    answers: tuple[Path, pl.DataFrame], tmp_path: Path
) -> None:
    """CIEs by two models each, counted by hand; accuracy there of the three others."""
    home, worse = answers
    config, out = write(home, worse), tmp_path / "run"
    config.write_text(CONFIG + HARD)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", out)
    assert code == 0, err
    audit = read_audit(out / "audit.json")
    report = audit.robustness
    assert report is not None
    labels = pl.read_csv(home / "examples.csv")
    said = {}
    for variant in ("dense", "int8"):
        table = pl.read_parquet(home / "said" / f"{variant}.parquet")
        wide = table.pivot("model", index="example_id", values="predicted")
        said[variant] = (
            labels.join(wide, on="example_id", maintain_order="left").select(MODELS).to_numpy()
        )
    # Two votes: a tie goes to the first class, the cat.
    modes = {name: np.where((own[:, :2] == "cat").any(axis=1), 0, 1) for name, own in said.items()}
    hard = modes["dense"] != modes["int8"]
    truth = labels["label"].to_numpy()[hard, None]
    right = {name: (own[hard, 2:] == truth).mean() for name, own in said.items()}
    (found,) = report.sets
    assert (found.name, found.n) == ("CIEs of int8", int(hard.sum()))
    assert found.n > 5
    dense, _ = (row.number for row in audit.numbers("robustness") if row.variant is None)
    assert dense.value == pytest.approx(right["dense"])
    (at,) = audit.at("robustness", part="sets.rows.")
    assert at["accuracy"].number.value == pytest.approx(right["int8"])
    assert at["difference"].number.value == pytest.approx(right["int8"] - right["dense"])
    assert set(at) == {"accuracy", "difference"}
    assert "2 models of dense and 2 of int8 chose these" in " ".join(
        (out / "report.html").read_text().split()
    )


@pytest.mark.parametrize(
    ("hard", "sentence"),
    [
        ("[int9]", "robustness.hard_sets must name compressed variants of this audit, got 'int9'; "
         "did you mean 'int8'?; they are int8"),
        ("[dense]", "got 'dense'"),
        ("[int8, int8]", "robustness.hard_sets names int8 twice; keep one of each"),
        ("[int8], members: 3", "robustness.hard_sets needs 4 models of dense, half of which choose "
         "and half are judged, got 3; train more, or leave it out"),
    ],
)  # fmt: skip
def test_hard_sets_that_cannot_be_judged_are_refused(
    answers: tuple[Path, pl.DataFrame], tmp_path: Path, hard: str, sentence: str
) -> None:
    home, worse = answers
    config = write(home, worse)
    config.write_text(CONFIG + HARD.replace("[int8]", hard))
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", tmp_path / "run")
    assert code == 2
    assert sentence in err


def accuracies(audit: Audit, what: str = "accuracy") -> list[Row]:
    """Accuracy of every variant under every corruption."""
    rows = [row for row in audit.numbers("robustness") if row.what == f"by_corruption.{what}"]
    assert rows
    return rows


def loss(audit: Audit, group: str, family: str, metric: str) -> At:
    """What int8 loses beyond dense."""
    (found,) = (
        at
        for at in audit.at("robustness", "int8", "losses.")
        if (at["absolute"].group, at["absolute"].metric) == (group, metric)
        and at["absolute"].fact("family") == family
    )
    return found


def _among(answers: pl.DataFrame, truth: pl.DataFrame) -> float:
    """Share of the answers whose label is among five classes, counted by Polars."""
    own = answers.join(truth, on="example_id")
    return float(own.select(pl.col("label").is_in(pl.col("predicted_top5"))).to_series().mean())


def test_scores_and_top5_of_twelve_classes_are_those_of_the_tables(tmp_path: Path) -> None:
    """One model a variant; `check` lists what is there before anything is imported."""
    rng = np.random.default_rng(4)
    classes = [f"c{number:02d}" for number in range(12)]
    ids = [f"x{row}" for row in range(N)]
    labels = rng.choice(classes, N)
    sides = rng.choice(["left", "right"], N)
    examples = {"example_id": ids, "label": labels, "side": sides}
    pl.DataFrame(examples).write_csv(tmp_path / "examples.csv")

    def said() -> pl.DataFrame:
        best = []
        for label in labels:
            others = rng.permutation([name for name in classes if name != label])[:5]
            front = [label] if rng.random() < 0.6 else []
            best.append([*front, *others][:5])
        table = {
            "example_id": ids,
            "predicted": [row[0] for row in best],
            "score": rng.uniform(0.2, 1, N),
        }
        return pl.DataFrame(table | {"predicted_top5": best})

    (tmp_path / "said").mkdir()
    (tmp_path / "worse").mkdir()
    worse = {}
    for variant in ("dense", "int8"):
        named = _texts({"variant": variant, "model": "a"})
        said().with_columns(**named).write_parquet(tmp_path / "said" / f"{variant}.parquet")
        worse[variant] = pl.concat(
            said().with_columns(**named, corruption=pl.lit("fog"), severity=pl.lit(severity))
            for severity in (2, 4)
        )
        worse[variant].write_parquet(tmp_path / "worse" / f"{variant}.parquet")
    config = tmp_path / "audit.yaml"
    config.write_text(
        CONFIG.replace(", positive: cat", "") + "keep_scores: true\n"
        "robustness: {files: 'worse/{variant}.parquet', confidence: true}\n"
    )
    code, printed, err = scotoma("audit", "--plan", config)
    assert code == 0, err
    assert "240 pictures under 2 conditions, 2 models each: 960 predictions that are read" in (
        " ".join(printed.split())
    )
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", tmp_path / "run")
    assert code == 0, err
    audit = read_audit(tmp_path / "run" / "audit.json")
    truth = pl.DataFrame({"example_id": ids, "label": labels})
    for row in accuracies(audit, "top5_accuracy"):
        assert row.number.value == pytest.approx(_among(worse[row.variant or ""], truth))
    made = robustness_section(Findings(audit))
    assert made is not None
    (mean,) = (
        row.number
        for row in accuracies(audit, "top5_accuracy")
        if row.variant == "int8" and row.fact("kind") == "all"
    )
    rows = [row for row in table(made, "corrupted").rows if "top5_accuracy" in row]
    assert [row["top5_accuracy"] for row in rows] == [mean]
    shares = {variant: _among(worse[variant], truth) for variant in worse}
    clean = {v: _among(pl.read_parquet(tmp_path / "said" / f"{v}.parquet"), truth) for v in worse}
    top5 = cells_at(loss(audit, "all", "weather", "top5"))
    lost = {variant: clean[variant] - shares[variant] for variant in worse}
    assert top5["absolute"].value == pytest.approx(lost["int8"] - lost["dense"])
    int8, _ = audit_records(audit, None, "2027-03", {})[1]
    logged = {name: value for name, value, *_ in int8.metrics}
    by_corruption = "detail/robustness/by_corruption/fog/top5_accuracy"
    assert logged[by_corruption] == pytest.approx(shares["int8"])
    rise = logged["detail/all/robustness/losses/weather/top5/rise"]
    assert rise == pytest.approx(top5["absolute"].value)
    rule = "{id: r, metric: robustness_loss, top: 5, over: all, max_increase: {points: 90}}"
    gate = judge(audit, parse_rules(f"rules: [{rule}]", "g"), datetime.date(2027, 1, 1))
    (finding,) = gate.variants[0].tests
    assert finding.where == "top-5 relative robustness lost under weather by all"
    assert finding.absolute.value == pytest.approx(top5["relative"].value)
    gaps = {
        row.variant: row.number.value
        for row in audit.numbers("robustness")
        if (row.what, row.group, row.facts) == ("confidence.rows.gap", "all", {"family": "weather"})
    }
    assert set(gaps) == set(worse)
    for variant, value in gaps.items():
        own = worse[variant or ""].join(truth, on="example_id")
        gap = own["score"].mean() - (own["predicted"] == own["label"]).mean()
        assert value == pytest.approx(gap, abs=1e-3)  # kept in 16 bits
    detection = audit.at("robustness", part="confidence.detection.")
    assert {at["auroc"].fact("measure") for at in detection} == {"confidence"}
    code, printed, _ = scotoma("show", tmp_path / "run", "paper:pie", "--csv")
    assert code == 0
    assert "top 5 relative" in printed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda t: t.filter((pl.col("model") != "b") | (pl.col("corruption") != "fog")),
            "lacks dense under fog at severity 2, model b; dense under fog at severity 4, model b; "
            "int8 under fog at severity 2, model b; int8 under fog at severity 4, model b; add "
            "them, or leave the corruption or severity out for all",
        ),
        (
            lambda t: t.filter(
                (pl.col("example_id") != "x7")
                | (pl.col("variant") != "int8")
                | (pl.col("severity") != "4")
            ),
            "of 'int8 under gaussian_noise at severity 4' has no prediction for 1 of 160 examples, "
            "the first is 'x7'",
        ),
        (
            lambda t: t.with_columns(pl.col("corruption").replace("fog", "fogg")),
            "got 'fogg'; did you mean 'fog'?",
        ),
        (
            lambda t: t.with_columns(pl.col("severity").replace("4", "6")),
            "severity in robustness.files must be 1, 2, 3, 4, 5, got '6' of fog",
        ),
        (
            lambda t: t.with_columns(pl.col("severity").replace("2", "0")),
            "got '0' of fog; predictions on clean pictures belong in source.files",
        ),
        (
            lambda t: t.with_columns(pl.col("corruption").replace("fog", None)),
            "must name corruptions of Scotoma, got ''",
        ),
        (lambda t: t.drop("corruption"), "must have the column 'corruption'"),
        (
            lambda t: pl.concat([t, t.head(1).with_columns(example_id=pl.lit("x999"))]),
            "must be for examples of source.examples",
        ),
    ],
)
def test_cells_that_are_missing_or_wrong_are_named(
    answers: tuple[Path, pl.DataFrame],
    change: Callable[[pl.DataFrame], pl.DataFrame],
    sentence: str,
    tmp_path: Path,
) -> None:
    home, worse = answers
    config = write(home, change(worse))
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", tmp_path / "run")
    assert code == 4, err
    assert sentence in err


def test_alexnet_stands_below_the_published_files_alone(
    answers: tuple[Path, pl.DataFrame], tmp_path: Path
) -> None:
    home, worse = answers
    config = write(home, worse)
    config.write_text(CONFIG + ROBUST.replace("}\n", ", published: imagenet-c}\n"))
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", tmp_path / "run")
    assert code == 4, err
    assert "compares with means over severities 1 to 5, got 2, 4; add the others" in err


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ("{profile: scaled}", "name predictions on corrupted pictures in robustness.files"),
        ("{files: 'w.csv', profile: scaled}", "robustness.profile is for pictures that are"),
        ("{files: 'w.csv', sets: [{name: a, folder: a}]}", "robustness.sets is for pictures"),
        ("{files: 'w.csv', kinds: [noise]}", "robustness.kinds is for pictures that are"),
    ],
)
def test_a_section_for_pictures_that_are_corrupted_here_is_refused(
    section: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(f"{CONFIG}robustness: {section}", "a.yaml")
    assert sentence in str(refused.value)

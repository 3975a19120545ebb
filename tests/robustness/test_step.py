"""The step on real models: added to a finished run, resumed, refused; the same bytes each time."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.audit import read_audit
from scotoma.config import Robustness, parse_config
from scotoma.config.robustness import OtherTestSet
from scotoma.corruptions import corrupt, profile
from scotoma.datasets import Examples, decode_images, load_examples
from scotoma.datasets.stratified import stratified
from scotoma.errors import ConfigError, DataError
from scotoma.inference import predict_members
from scotoma.predictions import Predictions
from scotoma.report import render
from scotoma.run import Run
from scotoma.stages.external.models import network_of
from scotoma.stages.other_sets import set_pictures
from scotoma.stages.robustness_plan import plan_of, suite_of
from scotoma.tracking.records import variant_records
from tests.commands import scotoma
from tests.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
source: {kind: digits-s, recipe: {steps: 30}}
label: {column: digit}
groups: {style: {column: style}}
cluster: {column: source_id}
variants: [dense, {prune: [0.9]}, {int8: [static]}]
population: {models: 2}
keep_scores: true
tracking: {uri: "off"}
"""
ROBUST = """\
robustness:
  profile: scaled
  severities: [1, 5]
  examples: 150
  kinds: [noise, fog]
  corruption_seeds: 2
  confidence: true
  matched: {prune-0.9: int8-static}
  sets:
  - {name: own, folder: own}
  - {name: two, folder: two, classes: two.csv, mask: true, selected_against: resnet50}
"""
SETS = {"own": range(10), "two": (3, 7)}  # classes of each set


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """A finished run to which robustness was added, and when its members were written."""
    folder = tmp_path_factory.mktemp("robustness")
    config, out = folder / "audit.yaml", folder / "run"
    _write_sets(folder)
    with steps_in_this_process(folder):
        config.write_text(CONFIG)
        assert scotoma("audit", config, "--out", out)[0] == 0
        assert "robustness" not in (out / "audit.json").read_text()
        trained = {p.name: p.stat().st_mtime_ns for p in out.glob("populations/*/*")}
        config.write_text(CONFIG + ROBUST)
        code, printed, _ = scotoma("audit", config, "--out", out, "--step", "robustness")
        assert (code, printed) == (0, "robustness/strip.webp\nsections/robustness.json\n")
        assert scotoma("audit", config, "--out", out)[0] == 0
    return out, trained


def _write_sets(folder: Path) -> None:
    """Some of the audit's own test pictures, in folders: what is predicted of them is known."""
    table = load_examples(parse_config(CONFIG, "a")).split("test").table
    for name, classes in SETS.items():
        for digit in classes:
            home = folder / name / (f"n{digit}" if name == "two" else str(digit))
            home.mkdir(parents=True)
            own = table.filter(label=str(digit)).head(12)
            for row in own.iter_rows(named=True):
                (home / f"{row['example_id']}.png").write_bytes(row["image"]["bytes"])
    (folder / "two.csv").write_text("folder,class\nn3,3\nn7,7\nn8,8\n")


def test_robustness_joins_a_finished_run_and_trains_nothing(
    added: tuple[Path, dict[str, float]],
) -> None:
    out, trained = added
    assert {p.name: p.stat().st_mtime_ns for p in out.glob("populations/*/*")} == trained
    report = read_audit(out / "audit.json").robustness
    assert report is not None
    assert [c.kind for c in report.corruptions] == [
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "fog",
    ]
    assert (report.examples, report.test) == (150, 1798)
    assert report.members == {"dense": 2, "prune-0.9": 2, "int8-static": 2}
    assert "motion_blur" in report.left_out
    assert {row.group for row in report.losses["prune-0.9"]} == {
        "all",
        "style=plain",
        "style=styled",
    }
    conditions = [path for path in out.glob("robustness/*.parquet") if path.stem[:3] != "set"]
    assert len(conditions) == 16  # predictions; no picture is kept
    whole = next(row for row in report.losses["prune-0.9"] if row.group == "all")
    assert 0 < whole.draw_variance < whole.absolute_variance.examples  # two draws of noise
    assert whole.one_pair is None or whole.one_pair.pairs == 4
    ours, others = (
        next(row for row in report.losses[name] if (row.group, row.family) == ("all", "noise"))
        for name in ("prune-0.9", "int8-static")
    )
    match = next(row for row in report.matched if row.family == "noise")
    assert match.absolute.value == pytest.approx(ours.absolute.value - others.absolute.value)
    assert match.matched_clean == others.compressed_clean
    assert "data:image/webp" in (out / "report.html").read_text()  # but for a public one


def test_predictions_are_those_of_each_member_on_each_corrupted_picture(
    added: tuple[Path, dict[str, float]],
) -> None:
    """One member, one condition, put together again from the parts."""
    run = Run.open(added[0])
    table = pl.read_parquet(run.path("robustness", "shot_noise-5.parquet"))
    examples = Examples.read(run.examples, only=table["example_id"].to_list()[::-1])
    clean = decode_images(examples)
    worse = corrupt(
        np.ascontiguousarray(clean.transpose(0, 2, 3, 1)), examples.ids, "shot_noise", 5,
        profile("scaled", 8), seed=0,
    ).transpose(0, 3, 1, 2)  # fmt: skip
    network = network_of(run.config, len(examples.classes))
    (answers,) = predict_members([run.member("int8-static", 1)], worse, network, workers=0)
    assert answers.predicted.tolist() == table["predicted"].to_numpy()[::-1, 5].tolist()
    change = np.abs(clean.astype(int) - worse).mean(axis=(1, 2, 3))
    assert table["change"].to_numpy()[::-1] == pytest.approx(change, rel=1e-5)


def test_only_conditions_that_have_not_ended_are_run_again(
    added: tuple[Path, dict[str, float]],
) -> None:
    out, _ = added
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.glob("robustness/*")
    }
    section = (out / "sections/robustness.json").read_bytes()
    (out / "steps/robustness-fog-5.json").unlink()  # killed while it was being made
    (out / "robustness/fog-5.parquet").unlink()
    with steps_in_this_process(out):
        code, _, err = scotoma("audit", "--resume", "--out", out, "--step", "robustness")
    assert code == 0, err
    for path, (content, written) in before.items():
        assert path.read_bytes() == content
        assert (path.stat().st_mtime_ns == written) is (path.name != "fog-5.parquet")
    assert (out / "sections/robustness.json").read_bytes() == section


def test_confidence_is_that_of_the_scores(added: tuple[Path, dict[str, float]]) -> None:
    """The clean scores, joined by example; and that of one condition from its file."""
    run = Run.open(added[0])
    report = read_audit(added[0] / "audit.json").robustness
    assert report is not None
    assert report.confidence is not None
    rows = {(row.variant, row.group, row.family): row for row in report.confidence.rows}
    fog = [pl.read_parquet(run.path("robustness", f"fog-{s}.parquet")) for s in ("1", "5", "1-1")]
    assert all(frame["score"].to_numpy().shape == (150, 6) for frame in fog)
    clean = Predictions.read(run.predictions("prune-0.9"))
    places = {example: place for place, example in enumerate(clean.example_ids)}
    kept = [places[example] for example in fog[0]["example_id"]]
    examples = Examples.read(run.examples, images=False, split="test")
    right = clean.predicted[kept] == examples.labels[kept][:, None]
    assert clean.scores is not None
    scores = clean.scores[kept].astype(float)
    row = rows["prune-0.9", "all", "clean"]
    assert row.gap.value == pytest.approx(scores.mean() - right.mean(), abs=1e-6)
    assert row.coverage.value == pytest.approx((scores >= report.confidence.threshold).mean())
    assert rows["dense", "all", "clean"].coverage.value == pytest.approx(0.9, abs=0.01)
    assert rows["dense", "all", "clean"].gap_change is None
    assert row.calibration_excess is not None
    assert rows["prune-0.9", "style=plain", "noise"].calibration_excess is None
    assert "How sure the models are" in (added[0] / "report.html").read_text()


def test_another_set_is_predicted_as_the_test_set_is(added: tuple[Path, dict[str, float]]) -> None:
    """Its pictures are the audit's own, so that the clean predictions say what must come out."""
    run = Run.open(added[0])
    report = read_audit(added[0] / "audit.json").robustness
    assert report is not None
    own, two = report.sets
    names = [variant.name for variant in run.config.resolved_variants]
    clean = {name: Predictions.read(run.predictions(name)) for name in names}
    places = {example: row for row, example in enumerate(clean["dense"].example_ids)}
    table = pl.read_parquet(run.path("robustness", "set-own.parquet"))
    rows = [places[Path(name).stem] for name in table["example_id"]]
    together = np.concatenate([of.predicted[rows] for of in clean.values()], axis=1)
    assert np.array_equal(table["predicted"].to_numpy(), together)
    right = {name: (table["label"].to_numpy() == p.predicted[rows].T) for name, p in clean.items()}
    assert own.dense.value == pytest.approx(right["dense"].mean())
    assert (own.n, own.classes, own.masked, two.n, two.classes) == (120, 10, False, 24, 2)
    for row in own.rows:
        gained = right[row.variant].mean() - right["dense"].mean()
        assert row.difference.value == pytest.approx(gained)

    table = pl.read_parquet(run.path("robustness", "set-two.parquet"))
    assert set(np.unique(table["predicted"].to_numpy())) <= {3, 7}
    assert set(table["label"]) == {3, 7}
    assert {row.absolute for row in two.rows} == {None}  # at a floor: nothing but differences
    page = (added[0] / "report.html").read_text()
    assert "because resnet50 fails on them" in re.sub("<[^>]*>", "", page)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"folder": "nowhere"}, "nowhere is not a folder"),
        ({"folder": "empty"}, "must hold images in a folder for each class, got none"),
        ({"classes": None}, "got 'n3', 'n7'"),
        ({"classes": "wrong.csv"}, "got 'n7'; did you mean '7'?"),
        ({"classes": "bare.csv"}, "must have the columns folder and class, got a; add folder"),
    ],
)
def test_folders_that_are_no_classes_are_listed(
    change: dict[str, str | None], sentence: str, tmp_path: Path
) -> None:
    _write_sets(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong.csv").write_text("folder,class\nn3,3\nn7,77\n")
    (tmp_path / "bare.csv").write_text("a\n1\n")
    asked = {"folder": "two", "classes": "two.csv"} | change
    places = {key: value and str(tmp_path / value) for key, value in asked.items()}
    with pytest.raises(DataError) as refused:
        set_pictures(OtherTestSet(name="two", **places), [str(digit) for digit in range(10)])
    assert sentence in str(refused.value)


def test_the_step_needs_its_section(tmp_path: Path) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(CONFIG)
    code, _, err = scotoma("audit", config, "--out", tmp_path / "run", "--step", "robustness")
    assert code == 2
    assert "add, for example, `robustness: {profile: scaled}`" in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{profile: cifar-d}", "robustness.profile should be 'cifar-c'"),
        ("{profile: scaled, severities: [0]}", "robustness.severities.0 must be at least 1, got 0"),
        ("{profile: scaled, severities: [6]}", "robustness.severities.0 must be at most 5, got 6"),
        ("{profile: scaled, severities: [1, 1]}", "must differ, got [1, 1]"),
        ("{profile: scaled, example: 3}", "did you mean"),
        ("{severities: [1]}", "robustness.profile is missing"),
        ("{profile: scaled, sets: [{name: a, folder: a}, {name: a, folder: b}]}", "names a twice"),
    ],
)
def test_a_wrong_section_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:9") as refused:
        parse_config(CONFIG + f"robustness: {text}", "a.yaml")
    assert sentence in str(refused.value)


def test_confidence_needs_scores_of_clean_pictures() -> None:
    text = CONFIG.replace("keep_scores: true\n", "")
    with pytest.raises(ConfigError, match="needs keep_scores: true; set it"):
        parse_config(text + "robustness: {profile: scaled, confidence: true}", "a.yaml")


def test_a_set_that_was_chosen_by_the_models_it_judges_is_refused() -> None:
    text = "robustness: {profile: scaled, sets: [{name: a, folder: a, selected_against: dense}]}"
    with pytest.raises(ConfigError) as refused:
        parse_config(CONFIG + text, "a.yaml")
    assert "'a' was selected against 'dense', which this audit would judge by" in str(refused.value)


@pytest.mark.parametrize(
    ("config", "size", "sentence"),
    [
        (Robustness(profile="cifar-c"), 8, "cifar-c is for images of 32 pixels, got 8; set scaled"),
        (Robustness(profile="cifar-c", kinds=["blurr"]), 32, "did you mean 'blur'"),
        (Robustness(profile="scaled", kinds=["motion_blur"]), 8, "motion_blur cannot be made"),
        (Robustness(profile="cifar-c", kinds=["frost"]), 32, "it needs photographs of frost"),
    ],
)
def test_corruptions_that_cannot_be_made_are_refused(
    config: Robustness, size: int, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        suite_of(config, size)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("matched", "sentence"),
    [
        ({"prune-0.8": "int8-static"}, "'prune-0.8', which is no variant of this audit; did you"),
        ({"prune-0.9": "prune-0.9"}, "got 'prune-0.9' and 'prune-0.9'"),
    ],
)
def test_matches_that_are_none_are_refused(
    added: tuple[Path, dict[str, float]], matched: dict[str, str], sentence: str
) -> None:
    run = Run.open(added[0])
    asked = run.config.robustness
    assert asked is not None
    robust = {"robustness": asked.model_copy(update={"matched": matched})}
    run = replace(run, config=run.config.model_copy(update=robust))
    with pytest.raises(ConfigError) as refused:
        plan_of(run)
    assert sentence in str(refused.value)


def test_predictions_alone_cannot_be_corrupted() -> None:
    source = "source: {kind: predictions, files: p.parquet, examples: e.parquet}\n"
    with pytest.raises(ConfigError, match=r"source\.kind predictions has none"):
        parse_config(source + "label: {column: y}\n" + ROBUST, "a")


def test_every_group_and_class_keeps_its_share() -> None:
    from scotoma.config import default_config

    test = load_examples(default_config()).split("test")
    rows = stratified(test, 600, seed=1)
    assert len(set(rows)) == 600
    shuffled = test.keep(np.ones(len(test.ids), bool))
    strata = test.table.select("label", *test.attributes).with_row_index()
    whole = strata.group_by("label", *test.attributes).len()
    kept = strata[rows].group_by("label", *test.attributes).len()
    both = whole.join(kept, on=["label", *test.attributes], how="left").fill_null(0)
    assert (both["len"] * 600 / 1798 - both["len_right"]).abs().max() < 1
    turned = shuffled.table.reverse()
    other = stratified(Examples(turned, test.classes, test.attributes, ()), 600, seed=1)
    assert {test.ids[row] for row in rows} == {turned["example_id"][int(row)] for row in other}
    assert set(stratified(test, 600, seed=2)) != set(rows)


def test_the_page_and_mlflow_show_it(added: tuple[Path, dict[str, float]]) -> None:
    audit = read_audit(added[0] / "audit.json")
    page = render(audit, {})
    section = page[page.index('<h2 id="robustness">') :]
    assert 'href="#robustness"' in page
    assert "not comparable with published tables" in section
    assert "Loss on corrupted pictures beyond that of dense" in section
    dense, *_, pruned = variant_records(audit, {})[::-1][:3]
    metrics = {name for name, *_ in pruned.metrics} | set(pruned.tags)
    assert {"7_robust/mce", "7_robust/loss_points/noise", "7_robust/accuracy/fog"} <= {
        name.removeprefix("undefined/") for name in metrics
    }
    assert "7_robust/accuracy/fog" in {name for name, *_ in dense.metrics}
    assert "7_robust/mce" not in {name for name, *_ in dense.metrics}
    bare = audit.model_copy(update={"robustness": None})
    assert '<h2 id="robustness">' not in render(bare, {})


def test_table_5_of_the_pie_paper_is_filled(added: tuple[Path, dict[str, float]]) -> None:
    code, out, _ = scotoma("tables", added[0], "--paper", "pie", "--csv")
    assert code == 0
    cells = pl.read_csv(io.StringIO(out)).filter(
        pl.col("of").str.starts_with("This run"), table="Table 5"
    )
    printed = {(row["row"], row["column"]): row["number"] for row in cells.iter_rows(named=True)}
    report = read_audit(added[0] / "audit.json").robustness
    assert report is not None
    assert len(printed) == 2 * len(report.by_corruption) > 20
    for row in report.by_corruption:
        name = f"{row.kind.replace('_', ' ')}, {row.variant}"
        assert printed[name, "top 1"] == row.accuracy.value
        assert printed[name, "top 1 relative"] == row.relative_robustness

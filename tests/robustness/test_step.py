"""The step on real models: added to a finished run, resumed, refused; the same bytes each time."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.audit import read_audit
from scotoma.config import Robustness, parse_config
from scotoma.corruptions import corrupt, profile
from scotoma.datasets import Examples, decode_images, load_examples
from scotoma.datasets.stratified import stratified
from scotoma.errors import ConfigError
from scotoma.inference import predict_members
from scotoma.report import render
from scotoma.run import Run
from scotoma.stages.external.models import network_of
from scotoma.stages.robustness import suite_of
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
tracking: {uri: "off"}
"""
ROBUST = "robustness: {profile: scaled, severities: [1, 5], examples: 150, kinds: [noise, fog]}\n"


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """A finished run to which robustness was added, and when its members were written."""
    folder = tmp_path_factory.mktemp("robustness")
    config, out = folder / "audit.yaml", folder / "run"
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
    assert len(list(out.glob("robustness/*.parquet"))) == 8  # predictions; no picture is kept
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
    ],
)
def test_a_wrong_section_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:8") as refused:
        parse_config(CONFIG + f"robustness: {text}", "a.yaml")
    assert sentence in str(refused.value)


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

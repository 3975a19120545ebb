"""The step on real models: added to a finished run, resumed, refused; the same bytes each time."""

from __future__ import annotations

import io
import re
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from scotoma.audit import Audit, read_audit
from scotoma.audit.base import At, cells_at
from scotoma.audit.rows import audit_rows
from scotoma.config import parse_config
from scotoma.config.robustness import OtherTestSet
from scotoma.corruptions import corrupt, profile
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.errors import ConfigError, DataError
from scotoma.inference import predict_members
from scotoma.inference.members import network_of
from scotoma.predictions import Predictions
from scotoma.report import audit_document, render
from scotoma.robustness.predict import plan_of, set_pictures
from scotoma.run import Run
from scotoma.sources.reading import load_examples
from scotoma.tracking.records import audit_records
from scotoma.training.checkpoints import checkpoint_name, checkpoint_steps
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process
from tests.report.reading import Page
from tests.robustness.configuration import CONFIG, ROBUST

pytestmark = pytest.mark.slow

FOREIGN = "  - {name: foreign, folder: foreign, foreign: true}\n"
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
        config.write_text(CONFIG + ROBUST + FOREIGN)
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
    pixels = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), np.uint8)
    (folder / "foreign").mkdir()
    for place, one in enumerate(pixels):
        Image.fromarray(one).save(folder / "foreign" / f"{place}.png")


def losses(audit: Audit, variant: str) -> dict[tuple[str, str], At]:
    """What a variant loses, by group and family."""
    ats = audit.at("robustness", variant, "losses.")
    return {(at["absolute"].group, at["absolute"].fact("family")): at for at in ats}


def test_robustness_joins_a_finished_run_and_trains_nothing(
    added: tuple[Path, dict[str, float]],
) -> None:
    out, trained = added
    assert {p.name: p.stat().st_mtime_ns for p in out.glob("populations/*/*")} == trained
    audit = read_audit(out / "audit.json")
    report = audit.robustness
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
    pruned, int8 = (losses(audit, name) for name in ("prune-0.9", "int8-static"))
    assert {key[0] for key in pruned} == {"all", "style=plain", "style=styled"}
    conditions = [path for path in out.glob("robustness/*.parquet") if path.stem[-1].isdigit()]
    assert len(conditions) == 16  # predictions; no picture is kept
    whole = pruned["all", "all"]
    draws = whole["draw_variance"].number.value
    assert 0 < draws < whole["absolute"].spread.examples  # two draws of noise
    assert "misled" not in whole or whole["misled"].number.n == 4
    ours, others = (of["all", "noise"] for of in (pruned, int8))
    (match,) = (
        at for at in audit.at("robustness", "prune-0.9", "matched.")
        if at["clean"].fact("family") == "noise"
    )  # fmt: skip
    apart = ours["absolute"].number.value - others["absolute"].number.value
    assert match["absolute"].number.value == pytest.approx(apart)
    assert match["matched_clean"].number == others["compressed_clean"].number
    assert "data:image/webp" in (out / "report.html").read_text()  # but for a public one


def test_predictions_are_those_of_each_member_on_each_corrupted_picture(
    added: tuple[Path, dict[str, float]],
) -> None:
    """One member, one condition, put together again from the parts."""
    run = Run.open(added[0])
    table = pl.read_parquet(run.path("robustness", "shot_noise-5.parquet"))
    examples = AuditedExamples.read(run.examples, only=table["example_id"].to_list()[::-1])
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
    audit = read_audit(added[0] / "audit.json")
    rows = {
        (at["gap"].variant, at["gap"].group, at["gap"].fact("family")): at
        for at in audit.at("robustness", part="confidence.rows.")
    }
    fog = [pl.read_parquet(run.path("robustness", f"fog-{s}.parquet")) for s in ("1", "5", "1-1")]
    assert all(frame["score"].to_numpy().shape == (150, 6) for frame in fog)
    clean = Predictions.read(run.predictions("prune-0.9"))
    places = {example: place for place, example in enumerate(clean.example_ids)}
    kept = [places[example] for example in fog[0]["example_id"]]
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    right = clean.predicted[kept] == examples.labels[kept][:, None]
    assert clean.scores is not None
    scores = clean.scores[kept].astype(float)
    row = rows["prune-0.9", "all", "clean"]
    assert row["gap"].number.value == pytest.approx(scores.mean() - right.mean(), abs=1e-6)
    assert "gap_change" not in rows["dense", "all", "clean"]
    truth = examples.labels[kept][:, None]
    hazy = rows["prune-0.9", "all", "weather"]["gap"].number.value
    fog.append(pl.read_parquet(run.path("robustness", "fog-5-1.parquet")))
    each = [f["score"].to_numpy() - (f["predicted"].to_numpy() == truth) for f in fog]
    assert hazy == pytest.approx(np.mean([one[:, 2:4] for one in each]), abs=1e-6)
    assert "Do models still know when they are wrong?" in (added[0] / "report.html").read_text()


def test_pictures_that_differ_are_counted_from_the_files(
    added: tuple[Path, dict[str, float]],
) -> None:
    """Labels of every pair of models, and the most frequent ones, under each condition."""
    run = Run.open(added[0])
    audit = read_audit(added[0] / "audit.json")
    for variant, first in (("prune-0.9", 2), ("int8-static", 4)):
        row = next(
            cells_at(at) for at in audit.at("robustness", variant, "disagreement.")
            if at["flips"].fact("severity") == 5
        )  # fmt: skip
        flips, cies, taxicab = [], [], []
        for path in [
            *run.path("robustness").glob("*-5.parquet"),
            *run.path("robustness").glob("*-5-1.parquet"),
        ]:
            said = pl.read_parquet(path)["predicted"].to_numpy()
            for labels in said.tolist():
                dense, own = labels[:2], labels[first : first + 2]
                pairs = zip(dense, own, strict=True) if first == 4 else product(dense, own)
                flips.append(np.mean([a != b for a, b in pairs]))
                modes = [
                    min(one, key=lambda k, one=one: (-one.count(k), k)) for one in (dense, own)
                ]
                cies.append(modes[0] != modes[1])
                taxicab.append(sum(abs(dense.count(k) - own.count(k)) for k in range(10)) / 4)
        assert row["flips"].value == pytest.approx(np.mean(flips))
        assert row["cie_share"].value == pytest.approx(np.mean(cies))
        assert row["taxicab"].value == pytest.approx(np.mean(taxicab))


def test_energies_are_those_of_every_score(added: tuple[Path, dict[str, float]]) -> None:
    """All scores of one member on clean pictures, and the areas beside foreign ones."""
    run = Run.open(added[0])
    fog = pl.read_parquet(run.path("robustness", "fog-5.parquet"))
    clean = pl.read_parquet(run.path("robustness", "clean.parquet"))
    examples = AuditedExamples.read(run.examples, only=fog["example_id"].to_list())
    network = network_of(run.config, len(examples.classes))
    member = run.member("int8-static", 1)
    pixels = decode_images(examples)
    (answers,) = predict_members([member], pixels, network, keep_scores="full", workers=0)
    scores = answers.every_score
    assert scores is not None
    assert clean["energy"].to_numpy()[:, 5] == pytest.approx(logsumexp(scores, axis=1), rel=1e-5)
    audit = read_audit(added[0] / "audit.json")
    others = [
        row for row in audit.numbers("robustness")
        if row.what == "confidence.detection.auroc" and row.fact("name")
    ]  # fmt: skip
    assert {row.fact("name") for row in others} == {"own", "two", "foreign"}
    (found,) = (
        row
        for row in others
        if row.variant == "prune-0.9" and row.facts == {"name": "foreign", "measure": "energy"}
    )
    foreign = pl.read_parquet(run.path("robustness", "set-foreign.parquet"))
    areas = [
        roc_auc_score(
            np.repeat([1, 0], [len(clean), len(foreign)]),
            np.concatenate([of["energy"].to_numpy()[:, place] for of in (clean, foreign)]),
        )
        for place in (2, 3)
    ]
    assert found.number.value == pytest.approx(np.mean(areas))
    page = (added[0] / "report.html").read_text()
    assert "Do models notice other pictures?" in page


def test_another_set_is_predicted_as_the_test_set_is(added: tuple[Path, dict[str, float]]) -> None:
    """Its pictures are the audit's own, so that the clean predictions say what must come out."""
    run = Run.open(added[0])
    audit = read_audit(added[0] / "audit.json")
    report = audit.robustness
    assert report is not None
    own, two = report.sets
    dense, _ = audit.at("robustness", part="sets.dense")
    ats = audit.at("robustness", part="sets.rows.")
    names = [variant.name for variant in run.config.resolved_variants]
    clean = {name: Predictions.read(run.predictions(name)) for name in names}
    places = {example: row for row, example in enumerate(clean["dense"].example_ids)}
    table = pl.read_parquet(run.path("robustness", "set-own.parquet"))
    rows = [places[Path(name).stem] for name in table["example_id"]]
    together = np.concatenate([of.predicted[rows] for of in clean.values()], axis=1)
    assert np.array_equal(table["predicted"].to_numpy(), together)
    right = {name: (table["label"].to_numpy() == p.predicted[rows].T) for name, p in clean.items()}
    assert dense[""].number.value == pytest.approx(right["dense"].mean())
    assert (own.n, own.classes, own.masked, two.n, two.classes) == (120, 10, False, 24, 2)
    gains = {
        at["difference"].variant: at["difference"].number.value
        for at in ats
        if at["difference"].fact("name") == "own"
    }
    assert set(gains) == {"prune-0.9", "int8-static"}
    for name, gained in gains.items():
        assert gained == pytest.approx(right[name].mean() - right["dense"].mean())

    table = pl.read_parquet(run.path("robustness", "set-two.parquet"))
    assert set(np.unique(table["predicted"].to_numpy())) <= {3, 7}
    assert set(table["label"]) == {3, 7}
    of_two = [at for at in ats if at["difference"].fact("name") == "two"]
    assert len(of_two) == 2
    assert not any("absolute" in at for at in of_two)  # at a floor: nothing but differences
    page = (added[0] / "report.html").read_text()
    assert "because resnet50 fails on them" in re.sub("<[^>]*>", "", page)


def test_other_sets_alone_corrupt_nothing(
    added: tuple[Path, dict[str, float]], tmp_path: Path
) -> None:
    """Without a profile: the rows of the sets are those beside corrupted pictures, to the digit."""
    config, out = tmp_path / "audit.yaml", tmp_path / "run"
    shutil.copytree(added[0], out)
    sets = ROBUST[ROBUST.index("  sets:") :].replace("folder: ", f"folder: {added[0].parent}/")
    sets = sets.replace("classes: ", f"classes: {added[0].parent}/")
    sets += FOREIGN.replace("folder: ", f"folder: {added[0].parent}/")
    config.write_text(f"{CONFIG}robustness:\n  confidence: true\n  examples: 150\n{sets}")
    with steps_in_this_process(tmp_path):
        assert scotoma("audit", config, "--out", out)[0] == 0
    audits = [read_audit(folder / "audit.json") for folder in (added[0], out)]
    before, after = (audit.robustness for audit in audits)
    assert before is not None
    assert after is not None
    assert after.sets == before.sets
    with_sets, alone = (audit.numbers("robustness") for audit in audits)
    of_sets = [row for row in with_sets if "name" in row.facts]
    assert of_sets
    assert [row for row in alone if "name" in row.facts] == of_sets
    assert [row.facts for row in alone if "name" not in row.facts] == [{"family": "clean"}] * 15
    assert (after.profile, after.corruptions, after.examples) == (None, (), 0)
    page = (out / "report.html").read_text()
    assert '<h2 id="robustness"><bdi>Other test sets' in page
    assert "Accuracy under corruption" not in page
    assert "Do models notice other pictures?" in page
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "rules: [{id: r, metric: robustness_loss, scale: relative, over: all, "
        "max_increase: {points: 2}}]"
    )
    judged = scotoma("gate", out, "--rules", rules)
    assert "the audit ran no model on corrupted pictures" in " ".join(judged[1].split())
    assert scotoma("show", out, "paper:pie")[0] == 0
    code, printed, _ = scotoma("audit", "--plan", config, "--no-trial")
    assert code == 0
    assert "own: 120 pictures, two: 24 pictures, foreign: 60 pictures; 6 models" in " ".join(
        printed.split()
    )


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


def test_variants_stand_beside_the_nearest_checkpoint(
    added: tuple[Path, dict[str, float]], tmp_path: Path
) -> None:
    """Of three states on the way, the pruned models themselves and two that know nothing."""
    config, out = tmp_path / "audit.yaml", tmp_path / "run"
    shutil.copytree(added[0], out)
    asked = {
        "kinds: [noise, fog]": "kinds: [fog]",
        "confidence: true": "confidence: true\n  checkpoints: 3",
    }
    asked["examples: 150"] = "examples: 600"  # of 150, pruned and dense ones tell as many
    robust = ROBUST[: ROBUST.index("  sets:")]
    left_out = "corruption_seeds: 2", "matched: {prune-0.9: int8-static}"
    for old, new in (asked | {f"  {line}\n": "" for line in left_out}).items():
        robust = robust.replace(old, new)
    config.write_text(CONFIG + robust)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", out, "--step", "robustness")
        assert code == 2, err
        assert "were trained without dense-step-13; leave checkpoints out, or choose" in err
        for step in checkpoint_steps(30, 3):
            home = out / "populations" / checkpoint_name(step)
            shutil.copytree(out / "populations/prune-0.9", home)
            for path in home.glob("*.safetensors") if step != 28 else ():
                save_file({n: 0 * v for n, v in load_file(path).items()}, path)
        assert scotoma("audit", config, "--out", out, "--step", "robustness")[0] == 0
        assert scotoma("audit", config, "--out", out)[0] == 0
    audit = read_audit(out / "audit.json")
    ats = audit.at("robustness", part="matched.")
    rows = {at["clean"].variant: at for at in ats if at["clean"].fact("family") == "weather"}
    assert rows["prune-0.9"]["clean"].fact("matched") == "dense-step-28"
    assert rows["int8-static"]["clean"].fact("matched") == "dense"
    same, whole = cells_at(rows["prune-0.9"]), losses(audit, "int8-static")["all", "weather"]
    assert same["clean"].value == same["matched_clean"].value
    assert (same["absolute"].value, same["log_odds"].value) == (0, 0)
    assert rows["int8-static"]["absolute"].number.value == whole["absolute"].number.value
    held = audit_rows(audit).filter(question="robustness")
    assert {"prune-0.9", "int8-static"} <= set(held["variant"])
    matched = held.filter(
        what="matched.absolute", condition="family=weather, matched=dense-step-28"
    )
    assert set(matched["variant"]) == {"prune-0.9"}
    curves = held.filter(what="curves.accuracy")
    assert set(curves["variant"]) == {"dense", "prune-0.9", "int8-static"}


def test_the_page_and_mlflow_show_it(added: tuple[Path, dict[str, float]]) -> None:
    audit = read_audit(added[0] / "audit.json")
    page = render(audit_document(audit))
    section = page[page.index('<h2 id="robustness">') :]
    assert 'href="#robustness"' in page
    assert "not comparable with published tables" in section
    assert "Loss on corrupted pictures beyond that of dense" in section
    caption = "Labels that differ between dense and compressed models"
    (rows,) = (rows for name, rows in Page(page).tables.items() if name.startswith(caption))
    flips = audit.at("robustness", "prune-0.9", "disagreement.")[0]["flips"].number
    shown = [" ".join(row) for row in rows if row[0] == "prune-0.9"]
    assert any(f"{100 * flips.value:.2f}%" in row for row in shown)
    held = audit_rows(audit).filter(question="robustness", variant="prune-0.9")
    assert {
        ("confidence.rows.gap", "family=noise"),
        ("confidence.detection.auroc", "measure=energy, name=foreign"),
        ("sets.rows.accuracy", "name=own"),
        ("by_corruption.ce", "kind=all"),
        ("by_corruption.accuracy", "kind=fog"),
        ("losses.absolute", "family=noise"),
    } <= set(held.select("what", "condition").iter_rows())
    dense, *_ = audit_records(audit, None, "2027-03", {})[1][::-1][:3]
    assert "detail/robustness/by_corruption/fog/accuracy" in {name for name, *_ in dense.metrics}
    assert "detail/robustness/by_corruption/all/ce" not in {name for name, *_ in dense.metrics}
    others = {name: rows for name, rows in audit.rows.items() if name != "robustness"}
    bare = audit.model_copy(update={"robustness": None, "rows": others})
    assert '<h2 id="robustness">' not in render(audit_document(bare))


def test_table_5_of_the_pie_paper_is_filled(added: tuple[Path, dict[str, float]]) -> None:
    code, out, _ = scotoma("show", added[0], "paper:pie", "--csv")
    assert code == 0
    cells = pl.read_csv(io.StringIO(out)).filter(
        pl.col("of").str.starts_with("This run"), table="Table 5"
    )
    printed = {(row["row"], row["column"]): row["number"] for row in cells.iter_rows(named=True)}
    ats = read_audit(added[0] / "audit.json").at("robustness", part="by_corruption.")
    assert len(printed) == 2 * len(ats) > 20
    for at in ats:
        name = f"{at['accuracy'].fact('kind').replace('_', ' ')}, {at['accuracy'].variant}"
        assert printed[name, "top 1"] == at["accuracy"].number.value
        assert printed[name, "top 1 relative"] == at["relative_robustness"].number.value

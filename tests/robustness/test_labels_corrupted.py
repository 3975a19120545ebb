"""Corrupted pictures of several labels: a row of each label, whoever ran the models."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.audit import Audit, read_audit
from scotoma.run import Run
from tests.helpers.commands import measured, scotoma
from tests.helpers.photographs import COMMON, EXAMPLE, LABELS, TABLE

pytestmark = pytest.mark.slow

PHOTOGRAPHS, MODELS = 600, 4
PLANTED = f"""\
project: planted
source: {{kind: predictions, files: "said/{{variant}}/{{model}}.parquet", examples: table.csv}}
label: {{columns: [{", ".join(LABELS)}]}}
groups: {{sex: {{column: sex}}, intersections: [[label_name, sex]]}}
keep_scores: true
robustness: {{files: "worse/{{variant}}/{{model}}.parquet", confidence: true}}
tracking: {{uri: "off"}}
"""
CONDITIONS = [(kind, severity) for kind in ("gaussian_noise", "fog") for severity in (2, 4)]
COSTS = {"clean": 0.0, "gaussian_noise": 0.8, "fog": 0.8}
HARM = 1.5  # by which scores of women's umbrellas fall under noise, once quantized
HIDDEN = "label_name=umbrella,sex=female"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    """An audit of int8 models that miss umbrellas of women under noise, and of harmless ones."""
    home, rng = tmp_path_factory.mktemp("corrupted"), np.random.default_rng(3)
    present = rng.random((PHOTOGRAPHS, len(LABELS))) < 0.35
    woman = rng.random(PHOTOGRAPHS) < 0.4
    ids = [f"{row}.jpg" for row in range(PHOTOGRAPHS)]
    bits = dict(zip(LABELS, present.astype(int).T, strict=True))
    sexes = np.where(woman, "female", "male")
    pl.DataFrame({"example_id": ids, "sex": sexes, **bits}).write_csv(home / "table.csv")
    hidden = present & woman[:, None] & (np.array(LABELS) == "umbrella")
    hard = {one: 0.7 * rng.normal(size=present.shape) for one in ("clean", *CONDITIONS)}
    for variant, harm in (("dense", 0.0), ("harmed", HARM), ("harmless", 0.0)):
        for model in range(MODELS):
            own, parts = 0.4 * rng.normal(size=present.shape), []
            for condition, shared in hard.items():
                kind, severity = condition if isinstance(condition, tuple) else (condition, 0)
                logit = (4.0 - COSTS[kind] * severity / 2) * (present - 0.5) + shared + own
                logit += 0.1 * rng.normal(size=present.shape) - (severity / 4) * harm * hidden * (
                    kind == "gaussian_noise"
                )
                chances = dict(zip(LABELS, (1 / (1 + np.exp(-logit))).T, strict=True))
                table = pl.DataFrame({"example_id": ids, **chances})
                if kind == "clean":
                    place = home / "said" / variant / f"{model}.parquet"
                    place.parent.mkdir(parents=True, exist_ok=True)
                    table.write_parquet(place)
                else:
                    parts.append(
                        table.with_columns(corruption=pl.lit(kind), severity=pl.lit(f"{severity}"))
                    )
            place = home / "worse" / variant / f"{model}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            pl.concat(parts).write_parquet(place)
    (home / "audit.yaml").write_text(PLANTED)
    code, _, err = scotoma("audit", home / "audit.yaml", "--out", home / "run", "--quiet")
    assert code == 0, err
    return home, read_audit(home / "run" / "audit.json")


def test_losses_are_those_of_the_tables_label_by_label(planted: tuple[Path, Audit]) -> None:
    home, audit = planted
    report = audit.robustness
    assert report is not None
    assert (report.examples, report.test) == (PHOTOGRAPHS, PHOTOGRAPHS)
    truth = pl.read_csv(home / "table.csv")
    umbrella, woman = truth["umbrella"].to_numpy() == 1, truth["sex"].to_numpy() == "female"

    def right(folder: str, variant: str, **only: str) -> np.ndarray:
        """Whether models are right on umbrellas of women's photographs, mean over conditions."""
        each = [
            pl.read_parquet(home / folder / variant / f"{model}.parquet").filter(**only)
            for model in range(MODELS)
        ]
        said = [one["umbrella"].to_numpy().reshape(-1, PHOTOGRAPHS) >= 0.5 for one in each]
        return np.mean([own == umbrella for own in said], axis=(0, 1))[woman]

    lost = {
        variant: (right("said", variant) - np.mean(
            [right("worse", variant, corruption="gaussian_noise")], axis=0)).mean()
        for variant in ("dense", "harmed")
    }  # fmt: skip
    for at in audit.at("robustness", "harmed", "losses."):
        row = at["absolute"]
        if (row.group, row.metric, row.fact("family")) == (HIDDEN, "error", "noise"):
            assert row.number.value == pytest.approx(lost["harmed"] - lost["dense"])
            assert row.number.n == woman.sum()
            break
    else:
        pytest.fail("no such row")


def test_planted_harm_to_a_label_of_a_group_is_found_and_nothing_else(
    planted: tuple[Path, Audit],
) -> None:
    _, audit = planted
    shown = {
        (variant, at["p_adjusted"].group, at["p_adjusted"].fact("family"))
        for variant in ("harmed", "harmless")
        for at in audit.at("robustness", variant, "losses.")
        if "p_adjusted" in at and at["contrast"].number.low > 0
        and at["p_adjusted"].number.value <= 0.05
    }  # fmt: skip
    assert ("harmed", HIDDEN, "noise") in shown
    of_them = {"label_name=umbrella", "sex=female", HIDDEN}
    assert all(who == "harmed" and group in of_them and family == "noise"
               for who, group, family in shown)  # fmt: skip


def test_the_page_and_the_rules_speak_of_them(planted: tuple[Path, Audit]) -> None:
    home, _ = planted
    assert "Corrupted pictures" in (home / "run" / "report.html").read_text()
    rule = "{id: robust, metric: robustness_loss, kinds: [noise], over: groups, max_increase: " \
           "{points: 2.0}}"  # fmt: skip
    (home / "rules.yaml").write_text(f"rules:\n  - {rule}\n")
    code, out, err = scotoma("gate", home / "run", "--rules", home / "rules.yaml")
    assert code == 1, err
    assert "umbrella" in out


def test_members_are_shown_corrupted_photographs_of_several_labels(tmp_path: Path) -> None:
    """Trained here, then the same ONNX files as models from outside: the same answers."""
    import onnxruntime

    from scotoma.corruptions import corrupt, profile

    EXAMPLE["write"](tmp_path, train=60, test=50)
    robust = "robustness: {profile: scaled, kinds: [gaussian_noise], severities: [3], " \
             "confidence: true}\n"  # fmt: skip
    (tmp_path / "audit.yaml").write_text(TABLE + robust)
    own = tmp_path / "own"
    code, _, err = scotoma("audit", tmp_path / "audit.yaml", "--out", own, "--quiet")
    assert code == 0, err
    for name in ("dense", "small"):
        (tmp_path / "models" / name).mkdir(parents=True)
        for model in (0, 1):
            file = Run.open(own).member("int8-static", model)
            shutil.copy(file, tmp_path / "models" / name / f"{model}.onnx")
    external = """\
source:
  kind: onnx
  models: models
  images: photographs
  attributes: photographs/labels.csv
  split: {column: split, train: train, test: test}
  preprocessing: {mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
""" + COMMON.replace("GENDER", "sex").replace("{prune: [0.9]}, {int8: [static]}", "{onnx: [small]}")
    (tmp_path / "external.yaml").write_text(external + robust)
    code, _, err = scotoma(
        "audit", tmp_path / "external.yaml", "--out", tmp_path / "ext", "--quiet"
    )
    assert code == 0, err
    table = pl.read_csv(tmp_path / "photographs" / "labels.csv").filter(split="test")
    shown = np.stack(
        [np.asarray(Image.open(tmp_path / "photographs" / name)) for name in table["image"]]
    )
    worse = corrupt(
        shown, table["image"].to_list(), "gaussian_noise", 3, profile("scaled", 16), seed=0
    ).transpose(0, 3, 1, 2)
    exact = onnxruntime.SessionOptions()
    exact.add_session_config_entry("session.x64quantprecision", "1")
    said = {name: pl.read_parquet(home / "robustness" / "gaussian_noise-3.parquet")
            for name, home in (("own", own), ("ext", tmp_path / "ext"))}  # fmt: skip
    assert said["own"]["example_id"][:2].to_list() == [
        "test/00000.png#bicycle", "test/00000.png#dog",
    ]  # fmt: skip
    cut = np.array([0.5, 0.3, 0.5, 0.5])
    for member in (0, 1):
        session = onnxruntime.InferenceSession(
            tmp_path / "models" / "small" / f"{member}.onnx", exact
        )
        (scores,) = session.run(None, {"images": worse.astype(np.float32) / 127.5 - 1})
        chance = 1 / (1 + np.exp(-scores.astype(np.float64)))
        sure = (abs(chance - cut) > 1e-4).ravel()
        for name, place in (("own", 4 + member), ("ext", 2 + member)):
            columns = {what: said[name][what].to_numpy()[:, place]
                       for what in ("predicted", "score", "energy")}  # fmt: skip
            expected = (chance >= cut).ravel()
            assert (columns["predicted"] == expected)[sure].all()
            beside = np.where(expected, chance.ravel(), 1 - chance.ravel())
            assert columns["score"][sure] == pytest.approx(beside[sure], abs=2e-3)
            assert columns["energy"] == pytest.approx(np.log1p(np.exp(scores.ravel())), abs=1e-3)
    change = said["own"]["change"].to_numpy().reshape(-1, len(LABELS))
    apart = abs(worse.astype(int) - shown.transpose(0, 3, 1, 2)).mean(axis=(1, 2, 3))
    assert change == pytest.approx(np.repeat(apart[:, None], len(LABELS), axis=1), abs=1e-3)
    plan = measured("audit", "--plan", tmp_path / "audit.yaml", "--quiet", "--no-trial")
    assert plan["robustness"]["examples"] == 50

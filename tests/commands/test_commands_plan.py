"""Check before an audit: what joins, what can be found, what is printed and how it ends."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma import storage
from scotoma.config import Config, default_config
from scotoma.costs.measure import NetworkCost, look_at_images
from scotoma.datasets import decode_images
from scotoma.document import show
from scotoma.sources.reading import load_examples, survey_examples
from scotoma.steps import plan
from scotoma.steps.table import STEPS
from tests.conftest import Storage
from tests.helpers.commands import scotoma
from tests.helpers.external_models import EXTERNAL, external_model
from tests.helpers.network_cost import NETWORK

pytestmark = pytest.mark.slow

FOLDER = """\
version: 1
project: own images
source:
  kind: image_folder
  images: pictures
  attributes: table.csv
  split: {column: part, train: train, test: test}
  recipe: {steps: 100, batch_size: 32}
label: {column: face, positive: "yes"}
groups:
  sex: {column: sex}
cluster: {column: person}
variants: [dense, {prune: [0.5]}, {int8: [dynamic]}]
population: {models: 10}
tracking: {uri: "off"}
"""
HOSTILE = "\x1b[31mred\u202e"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A measurement that always has the same result, and what it was asked for."""
    requests: list[dict[str, Any]] = []

    def training(config: Config, classes: int, rows: int, shape: Any, *, seconds: float) -> Any:
        requests.append({"classes": classes, "shape": shape, "rows": rows, "seconds": seconds})
        if not seconds:
            return replace(NETWORK, step_s=None, peak_bytes=None, image_s={})
        return NETWORK

    def models(network: Any, shape: Any, files: dict[str, Path], *, seconds: float) -> Any:
        requests.append({"files": files, "shape": shape})
        return NetworkCost(image_s=dict.fromkeys(files, 1e-4))

    monkeypatch.setattr(plan, "measure_training", training)
    monkeypatch.setattr(plan, "measure_models", models)
    monkeypatch.setattr(plan, "available_memory", lambda: 8_000_000_000)
    monkeypatch.setattr(plan, "relative_speed", lambda: 1.0)
    return requests


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """100 rows of 50 people, and their pictures of 12x8 pixels; 12 of 60 test rows are women."""
    (tmp_path / "pictures").mkdir()
    lines = ["image,part,face,sex,person"]
    for index in range(100):
        split, sex = "test" if index < 60 else "train", "f" if index % 5 == 0 else "m"
        lines.append(f"{index}.png,{split},{'yes' if index % 3 else 'no'},{sex},{index // 2}")
        Image.new("RGB", (12, 8), (index, 0, 0)).save(tmp_path / "pictures" / f"{index}.png")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "own.yaml").write_text(FOLDER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


# --- what is printed ------------------------------------------------------------------------------

OWN = """\
own images: 40 training and 60 test examples (30 clusters), 2 classes, 10
members a variant; assumes an error of 20%

What the audit will see
join: 100 rows, 100 images; no row without image; no image without row
images: 12x8 pixels, STORED stored; decoded 11.5 kB training and 17.3 kB test

What it can find
group  test  clusters  positive  training  errors  detects  paired
all      60        30        40        40      12   +61.1%  +49.1%
f        12        12         8         8     2.4     none    none
    expect no interval and no verdict
m        48        30        32        32     9.6   +61.1%  +49.1%
Errors: expected of one member that errs on 20% of the examples. That is an
assumption (--assumed-error): there are no predictions yet. Detects: the
smallest relative rise of the error that 80% of audits with 10 members a variant
find; none: no rise is found. Paired: the same for variants made of the dense
members. Expect no interval and no verdict: fewer than 5 examples carry the
error. Collect more of the group, or leave it out.

What it will cost
step         time    disk
prepare            STORED  read and check every image
train         5 s  2.0 MB  train the dense members
prune         5 s  2.0 MB  train the pruned members
quantize           489 kB  compress trained members
predict     < 1 s  3.6 kB  run members on test examples
gather             3.6 kB  put predictions together
divergence                 score every example
bias                       measure classes and groups
slices                     search for slices nobody named
verdict                    write audit.json, judge it
report                     write the page
log                        nothing to do

audit: about 10 s to train and predict, which may be wrong by a factor of 1.5;
  4.5 MB of images, models and predictions on disk; 1.0 GB of memory (8.0 GB are
  free); 17.3 kB of decoded images in the temporary folder
trial: 10 ms a step of 64 images on one core, 5 members as one; other programs
  on this machine make it longer
measure: about 4.1 s of one core to measure, judge and report, 578 MB of
  memory, 489 kB of audit.json; each may be wrong by a factor of 1.5
"""


def test_check_says_what_joins_what_can_be_found_and_what_it_costs(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    code, out, err = scotoma("audit", "--plan", "own.yaml", "--assumed-error", "0.2")
    assert (code, err) == (0, "")
    held = sum(path.stat().st_size for path in (own / "pictures").iterdir())
    stored = show(held, "bytes").value
    assert out == OWN.replace("STORED", stored)
    assert measured[0]["shape"] == (8, 12)
    assert (measured[0]["classes"], measured[0]["rows"], measured[0]["seconds"]) == (2, 40, 5.0)


def test_rows_without_image_are_counted_named_and_refused_after_all_else_is_said(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    for name in ("3.png", "7.png"):
        (own / "pictures" / name).unlink()
    Image.new("RGB", (12, 8)).save(own / "pictures" / f"{HOSTILE}.png")
    code, out, err = scotoma("audit", "--plan", "own.yaml")
    assert code == 4
    assert err.startswith("scotoma: 2 of 100 rows of ")
    assert err.count("\n") == 1
    text = " ".join(out.split())
    assert "2 rows without image (3.png, 7.png)" in text
    assert "1 image without row ( [31mred .png)" in text
    assert "group" in out
    assert "step  " not in out
    assert measured == []


def test_data_that_cannot_be_audited_end_with_4_and_one_sentence(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    (own / "own.yaml").write_text(FOLDER.replace("{column: face,", "{column: fase,"))
    code, out, err = scotoma("audit", "--plan", "own.yaml")
    assert (code, out) == (4, "")
    assert "label column 'fase' is not in" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--assumed-error", "0"),
            "--assumed-error must be greater than 0.0, got 0",
        ),
        (("--assumed-error", "nan"), "--assumed-error should be a finite number, got"),
        (("--data", "d"), "--data replaces source.data, and"),
        (("none.yaml",), "configuration none.yaml cannot be read"),
    ],
)
def test_wrong_options_end_with_2(
    own: Path, measured: list[dict[str, Any]], arguments: tuple[str, ...], sentence: str
) -> None:
    name = () if arguments[0].endswith(".yaml") else ("own.yaml",)
    code, out, err = scotoma("audit", "--plan", *name, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_json_has_every_number_and_nothing_is_written(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    before = files(own)
    code, out, _ = scotoma("audit", "--plan", "own.yaml", "--json", "--quiet")
    printed = json.loads(out)
    assert code == 0
    assert (printed["examples"]["test"], printed["examples"]["clusters"]) == (60, 30)
    assert printed["join"]["matched"] == 100
    assert printed["images"]["shape"] == [8, 12]
    assert printed["images"]["decoded_bytes"] == 100 * 3 * 96
    assert printed["assumed"] == {"error": 0.05, "power": 0.8, "members": 10}
    women = printed["groups"][1]
    assert (women["name"], women["n"], women["train"], women["positives"]) == ("f", 12, 8, 8)
    assert women["errors"] == pytest.approx(0.6)
    assert not women["estimable"]
    assert printed["total"]["disk_bytes"] == sum(step["disk_bytes"] for step in printed["steps"])
    scotoma("audit", "own.yaml", "--plan", "--out", str(own / "runs"))
    assert files(own) == before


def test_a_plan_names_the_steps_of_the_pipeline_in_order(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    code, out, err = scotoma("audit", "own.yaml", "--plan", "--seed", "3", "--models", "7")
    assert (code, err) == (0, "")
    assert "7 members a variant" in " ".join(out.split())
    table = out.partition("What it will cost\n")[2].partition("\n\n")[0].splitlines()
    unasked = {"robustness", "import_models"}
    asked = [name for name in STEPS if name not in unasked]
    assert [line.split()[0] for line in table[1:]] == asked
    assert (
        "audit: about 10 s to train and predict, which may be wrong by a factor of 1.5"
        in " ".join(out.split())
    )
    assert "10 ms a step of 64 images on one core" in out


def test_without_a_trial_no_time_is_given_and_sizes_are(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    _, out, _ = scotoma("audit", "--plan", "own.yaml", "--no-trial")
    assert measured[0]["seconds"] == 0
    assert "trial: left out (--no-trial); times are not known" in out
    assert "2.0 MB" in out
    assert "audit: about" not in out


def test_every_line_fits_80_columns_and_names_are_harmless(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    text = (own / "table.csv").read_text().replace(",f,", f",{HOSTILE + 'long ' * 30},")
    (own / "table.csv").write_text(text)
    _, out, _ = scotoma("audit", "--plan", "own.yaml")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "\u202e" not in out


# --- every kind of source -------------------------------------------------------------------------


def parquet(path: Path, rows: int, seed: int) -> bytes:
    """A file as the hub has it: noise of 32x32 pixels, labels and an attribute."""
    rng = np.random.default_rng(seed)
    encoded = []
    for _ in range(rows):
        buffer = io.BytesIO()
        pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(buffer, "png")
        encoded.append({"bytes": buffer.getvalue(), "path": None})
    pl.DataFrame(
        {
            "img": encoded,
            "label": [row % 10 for row in range(rows)],
            "side": ["left" if row % 3 else "right" for row in range(rows)],
        }
    ).write_parquet(path)
    return path.read_bytes()


DATA = """\
source: {{kind: {kind}, data: "{data}", recipe: {{steps: 50}}}}
label: {{column: label}}
groups: {{{group}: {{column: {group}}}}}
variants: [dense, {{int8: [static]}}]
population: {{models: 3}}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    parquet(folder / "train.parquet", 60, 0)
    parquet(folder / "test.parquet", 40, 1)
    (folder / "train.txt").write_text("no image is in here")
    return folder


@pytest.mark.parametrize(
    ("kind", "group", "test"),
    [("parquet", "side", 40), ("cifar10", "side", 40), ("cifar10s", "style", 80)],
)
@pytest.mark.parametrize("remote", [False, True], ids=["local", "s3"])
def test_parquet_is_looked_at_here_and_in_object_storage(
    hub: Path,
    s3: Storage,
    tmp_path: Path,
    measured: list[dict[str, Any]],
    kind: str,
    group: str,
    test: int,
    remote: bool,
) -> None:
    size = {path.name: path.stat().st_size for path in hub.glob("*.parquet")}
    place = str(hub)
    if remote:
        for name in size:
            s3.put(f"set/{name}", (hub / name).read_bytes())
        place = s3.uri("set")
    (tmp_path / "a.yaml").write_text(DATA.format(kind=kind, group=group, data=place))
    code, out, err = scotoma(
        "audit", "--plan", tmp_path / "a.yaml", "--json", "--assumed-error", "0.3"
    )
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert printed["join"] is None
    assert printed["examples"]["test"] == test
    assert printed["images"]["shape"] == [32, 32]
    assert printed["images"]["encoded_bytes"] == sum(size.values())
    assert printed["groups"][0]["paired"] > 0
    assert printed["groups"][0]["independent"] is None


def test_a_folder_in_object_storage_is_joined_without_reading_its_images(
    own: Path, s3: Storage, measured: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (own / "pictures").iterdir():
        s3.put(f"pictures/{path.name}", path.read_bytes())
    s3.put("table.csv", (own / "table.csv").read_bytes())
    text = FOLDER.replace(" pictures", f" {s3.uri('pictures')}")
    (own / "own.yaml").write_text(text.replace(" table.csv", f" {s3.uri('table.csv')}"))
    read: list[str] = []
    original = storage.read_bytes

    def noted(uri: str, **more: bool) -> bytes:
        read.append(uri)
        return original(uri, **more)

    monkeypatch.setattr(storage, "read_bytes", noted)
    code, out, _ = scotoma("audit", "--plan", "own.yaml")
    assert code == 0
    assert "100 rows, 100 images; no row without image" in out
    assert read == [s3.uri("pictures/0.png")]


def test_the_embedded_digits_are_looked_at_exactly() -> None:
    config = default_config()
    facts = look_at_images(config, survey_examples(config))
    examples = load_examples(config)
    assert facts.decoded_bytes(examples.table.height) == decode_images(examples).nbytes
    assert facts.encoded_bytes == sum(
        len(image["bytes"]) for image in examples.table["image"].to_list()
    )


@pytest.fixture
def external(own: Path) -> Path:
    """External models: two dense ones and two small ones, for two classes."""
    for variant in ("dense", "small"):
        for member in range(2):
            external_model(own / "models" / variant / f"{member}.onnx")
    (own / "own.yaml").write_text(EXTERNAL)
    return own


def test_external_models_are_counted_and_the_first_of_each_is_tried(
    external: Path, measured: list[dict[str, Any]]
) -> None:
    code, out, err = scotoma("audit", "--plan", "own.yaml", "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    sizes = [path.stat().st_size for path in (external / "models" / "dense").iterdir()]
    assert printed["steps"][1]["disk_bytes"] == 2 * sum(sizes)
    assert [Path(path).parts[-2:] for path in measured[0]["files"].values()] == [
        ("dense", "0.onnx"),
        ("small", "0.onnx"),
    ]


def test_models_of_the_wrong_number_end_with_4(
    external: Path, measured: list[dict[str, Any]]
) -> None:
    (external / "models" / "small" / "1.onnx").unlink()
    code, out, err = scotoma("audit", "--plan", "own.yaml")
    assert (code, out) == (4, "")
    assert "must hold population.models = 2 models, got 1" in err


def test_groups_too_small_for_an_interval_are_marked_by_the_rule_of_the_measures(
    own: Path, measured: list[dict[str, Any]]
) -> None:
    lines = (own / "table.csv").read_text().splitlines()
    lines[1] = lines[1].replace(",f,", ",x,")
    (own / "table.csv").write_text("\n".join(lines) + "\n")
    _, out, _ = scotoma("audit", "--plan", "own.yaml", "--assumed-error", "0.2")
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert rows["x"].endswith("none    none")
    assert "\n    expect no interval and no verdict\n" in out
    single = json.loads(scotoma("audit", "--plan", "own.yaml", "--json")[1])["groups"][3]
    assert (single["name"], single["reason"]) == ("x", "it has 1 test example")


# --- without the extra that trains ----------------------------------------------------------------


def test_without_torch_the_extra_is_named_and_the_rest_is_printed(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = scotoma("audit", "--plan", "own.yaml")
    assert (code, err) == (0, "")
    assert "needs torch; pip install 'scotoma[train]'" in " ".join(out.split())
    assert "100 rows, 100 images" in out
    assert "detects" in out
    assert "dense" in out

"""Every way in which bytes from outside enter: what reads them, and what they may stumble over."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.answers.values import read_values
from scotoma.audit.reading import LoggedAudit
from scotoma.config import load_config, parse_config
from scotoma.config.gate import load_rules
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.datasets.cifar_binary import binary_files, load_binary
from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.image_decoding import decode_rows
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.select_examples import examples_from_source
from scotoma.datasets.thumbnails import blurred, shrunk
from scotoma.detection.matching import outcomes
from scotoma.document.html import html_page
from scotoma.inference import Network, Preprocessing
from scotoma.inference.engines import TorchEngine
from scotoma.inference.external import read_model
from scotoma.inference.trials import Trial, trials
from scotoma.mitigation.decide import read_rule
from scotoma.predictions import Predictions
from scotoma.predictions.external import PredictionRequest, read_external
from scotoma.predictions.patterns import find_tables
from scotoma.predictions.tables import KEY, models_by_variant
from scotoma.readers.boxes import read_detections, read_ground_truth
from scotoma.readers.columns import numbers, widened
from scotoma.readers.logs import attributes_of, read_logs
from scotoma.readers.summaries import read_summaries
from scotoma.readers.tables import read_table
from scotoma.run import portable, read_record
from scotoma.run.checksums import compare_checksums
from scotoma.run.mirror import Mirror, cache_folder
from scotoma.runs.table import bias_and_accuracy, read_runs
from scotoma.sources.celeba import CelebaSource
from scotoma.sources.folder import FolderSource, Split
from scotoma.sources.parquet import load_parquet
from scotoma.sources.predictions import PredictionsSource
from scotoma.steps.external_models import facts_of_model
from scotoma.steps.judging.previous import read_previous
from scotoma.steps.verdict import give_verdict
from scotoma.storage import is_remote, join, split_uri
from scotoma.storage.credentials import masked
from scotoma.study.answers import read_submissions
from scotoma.study.plan import KeyEntry, Orders, StudyKey, StudyPlan
from scotoma.tracking.trend import trend_document
from tests.fuzz.words import CELLS, JSON, ONNX, PIXELS, PLACES, TENSORS, YAML
from tests.helpers.bombs import (
    constant_of_gigabytes,
    csv_of_empty_cells,
    endless_on_batches,
    image_of_gigabytes,
    parquet_of_gigabytes,
)

__all__ = ["CORPUS", "TARGETS", "Target", "bombs_of", "seeds"]

CORPUS = Path(__file__).parent / "corpus"
TODAY = datetime.date(2027, 3, 1)
IDS, CLASSES = [f"e{row}" for row in range(6)], ("cat", "dog")
PARSED = """\
source: {kind: predictions, files: preds, examples: examples.csv}
label: {column: label}
groups: {sex: {column: sex}}
"""


@dataclass(frozen=True)
class Target:
    """A reader of bytes.

    Attributes:
        read: Takes the bytes and an empty folder of its own; what it returns is a result.
        corpus: Folder of the corpus that holds inputs for it.
        words: What is spliced into them.
        quick: Inputs that the tests try.
        bombs: Writers of small files that take gigabytes, or for ever; each is tried first.
    """

    read: Callable[[bytes, Path], object]
    corpus: str
    words: tuple[bytes, ...] = ()
    quick: int = 40
    bombs: tuple[Callable[[Path], object], ...] = ()


def seeds(target: Target) -> list[bytes]:
    """The corpus of a target, in the order of its names."""
    return [path.read_bytes() for path in sorted((CORPUS / target.corpus).iterdir())]


def bombs_of(target: Target, folder: Path) -> list[bytes]:
    """The bombs of a target, made in a folder that is there."""
    made = []
    for write in target.bombs:
        write(folder / "bomb")
        made.append((folder / "bomb").read_bytes())
    return made


def file(data: bytes, folder: Path, name: str) -> Path:
    """The bytes as a file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def text(data: bytes) -> str:
    """The bytes as an argument of a command: what is no UTF-8 is half a character there."""
    return data.decode("utf-8", "surrogateescape")


# --- what people write ---------------------------------------------------------------------------


def config(data: bytes, folder: Path) -> object:
    return load_config(file(data, folder, "audit.yaml")).digest()


def gate(data: bytes, folder: Path) -> object:
    return load_rules(file(data, folder, "gate.yaml"))


def place(data: bytes, folder: Path) -> object:
    """An address: read as a place, and as what a message shows."""
    uri = text(data)
    shown = masked(uri)
    assert ":s3cr3t@" not in shown.partition("://")[2], shown
    if not is_remote(uri):
        return shown
    bucket, key = split_uri(uri)
    assert not {"", ".", ".."} & {bucket}
    assert cache_folder(uri).parent == cache_folder("s3://bucket/x").parent
    return join(uri, "audit.json"), key


def path(data: bytes, folder: Path) -> object:
    """A path of this machine, in turn of each thing that a command takes; below the folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        given = text(data)
        if "://" in given:  # of those, `place` asks
            return given
        given = given.replace("..", "_.")  # what lies above is none of ours, and never the same
        given = f".{given}" if given.startswith("/") else given
        load = (
            lambda: load_config(Path(given)),
            lambda: load_rules(Path(given)),
            lambda: read_table(Path(given)),
            lambda: PredictionsSource.model_construct(examples=given).examples_table({}),
            lambda: find_tables(given),
            lambda: load_parquet(given, "label"),
        )
        return load[len(data) % len(load)]()
    finally:
        os.chdir(before)


# --- tables --------------------------------------------------------------------------------------


def examples(name: str) -> Callable[[bytes, Path], object]:
    def read(data: bytes, folder: Path) -> object:
        given = str(file(data, folder, name))
        source = PredictionsSource(kind="predictions", files="preds", examples=given)
        found = examples_from_source(
            source.examples_table({}), parse_config(PARSED, "a.yaml"), given
        )
        return found.labels, found.partition(), found.clusters

    return read


def predictions(
    name: str, key: str | None = KEY, columns: Mapping[str, Sequence[str]] | None = None
) -> Callable[[bytes, Path], object]:
    def read(data: bytes, folder: Path) -> object:
        file(data, folder, name)
        tables = find_tables(str(folder / f"*{Path(name).suffix}"), key, columns)
        models = models_by_variant(tables)
        asked = {"dense": models.get("dense", ["0"])}
        return read_external(
            tables,
            PredictionRequest(asked, IDS, CLASSES, scores=not columns and len(data) % 2 == 0),
        )

    return read


def command(name: str) -> Callable[[bytes, Path], object]:
    """A table of `scotoma compare`, `slices` and `variance`."""

    def read(data: bytes, folder: Path) -> object:
        table = read_table(file(data, folder, name)).frame
        if len(data) % 2:
            return numbers(table, table.columns[-1])
        return [read_values(table[name]) for name in table.columns]

    return read


def long(data: bytes, folder: Path) -> object:
    """Predictions of many models in one table, as `scotoma compare --examples` takes them."""
    known = pl.DataFrame({"example_id": IDS, "label": [*CLASSES] * 3, "sex": ["m", "f"] * 3})
    return widened(read_table(file(data, folder, "t.csv")).frame, known, ["int8"], ["fp32"])


def logs(data: bytes, folder: Path) -> object:
    """A log of an evaluation tool, whose name says what its first bytes do."""
    begins = {
        b"PK": "a.eval", b"PAR1": "a.parquet", b'{"columns"': "a.json", b'{"version"': "a.json",
        b"{": "a.jsonl", b'[{"instance': "a.json", b"[": "a.jsonl",
    }  # fmt: skip
    name = next((one for first, one in begins.items() if data.startswith(first)), "a.csv")
    given = file(data, folder, name)
    (folder / "text").mkdir()
    attributes_of([given])
    return read_logs([given], folder / "text", reruns=len(data) % 2 == 0)


def averages(data: bytes, folder: Path) -> object:
    """Results that keep no samples."""
    begins = {b"PK": "a.eval", b'[{"name"': "stats.json"}
    name = next((one for first, one in begins.items() if data.startswith(first)), "a.json")
    return read_summaries([file(data, folder, name)])


PLAN = StudyPlan(
    project="p", audit_sha256="", variant="v", group="", changed=9, per_arm=2, matched=False,
    draws=25, kept=9, seed=0, classes=4, labels="pooled", define_on="all", still_cie=None,
    questions=("q1", "q2"), primary=("q1", "A-C"), level=0.95, annotators=1, repeats=0, practice=1,
    guesses=1, consistency_screen=0.7, time_screen_s=1.0, analysis="", leak={}, imbalance=0.0,
    leaky=False, contact="", purpose="", keep="", faces="", blurred=False,
)  # fmt: skip
ITEMS = dict(zip("abcdef", "AABBCC", strict=True))
KEY = StudyKey(
    items={
        item: KeyEntry(
            example_id=item, arm=arm, class_name="0", group="", agreement=0.5, weight=None,
            label_rule="votes",
        )
        for item, arm in ITEMS.items()
    },
    orders=(Orders(practice=("p",), main=tuple("abcdef"), guess=("a",)),),
)  # fmt: skip


def answered(data: bytes, folder: Path) -> object:
    """Answers that the page of a study downloaded, as they were stamped, or Label Studio's."""
    given = data.replace(b"PLAN", PLAN.sha256.encode())
    if data[:1] != b"[":
        text = given.decode(errors="replace")
        stamp = hashlib.sha256(text.encode()).hexdigest()
        outer = {"format": "scotoma study answers", "version": 1, "content": text, "sha256": stamp}
        given = json.dumps(outer).encode()
    return read_submissions([file(given, folder, "answers.json")], PLAN, KEY)


def boxes(data: bytes, folder: Path) -> object:
    """A ground truth or detections, in COCO's form or YOLO's, the other of the two whole."""
    whole = {one.name: one.read_bytes() for one in (CORPUS / "boxes").iterdir()}
    given = dict(whole)
    if data[:1].isdigit():
        scored = len(data.split(b"\n")[0].split()) % 2 == 0
        given["found.txt" if scored else "labels.txt"] = data
    elif data.startswith(b"path"):
        given["data.yaml"] = data
    else:
        given["instances.json" if b'"images"' in data[:20] else "results.json"] = data
    if given["results.json"] != whole["results.json"] or data.startswith(b"PK"):
        name = "found.npz" if data.startswith(b"PK") else "results.json"
        found = file(data, folder, name)
        truth = file(given["instances.json"], folder, "instances.json")
    elif given["instances.json"] != whole["instances.json"]:
        truth = file(data, folder, "instances.json")
        found = file(whole["results.json"], folder, "results.json")
    else:
        for name in "ab":
            file((CORPUS / "image" / "rgb.png").read_bytes(), folder, f"images/{name}.png")
        file(b"./images/a.png", folder, "val.txt")
        file(given["labels.txt"], folder, "labels/a.txt")
        truth = file(given["data.yaml"], folder, "data.yaml")
        found = file(given["found.txt"], folder, "found/a.txt").parent
    boxes_of = read_ground_truth(truth)
    return outcomes(boxes_of, read_detections(found, boxes_of))


def raw(data: bytes, folder: Path) -> object:
    """Values of training runs, as `scotoma compare --techniques --raw` takes them."""
    kinds = {b"PK": "npz", b"technique": "csv"}
    kind = next((one for first, one in kinds.items() if data.startswith(first)), "yaml")
    return bias_and_accuracy(read_runs([file(data, folder, f"raw/S-Base.{kind}").parent]))


def shards(data: bytes, folder: Path) -> object:
    """A data set in Parquet, whose images are then decoded."""
    file(data, folder, "train.parquet")
    file(data, folder, "test.parquet")
    table = load_parquet(str(folder), "label")
    return decode_rows(table, ImageSize(8, 8), limits=LIMITS)


def scored(data: bytes, folder: Path) -> object:
    """Predictions of ours on a disk of others."""
    given = file(data, folder, "dense.parquet")
    return Predictions.read(given), list(Predictions.parts(given, top5=True))


def ours(data: bytes, folder: Path) -> object:
    """Examples of ours on a disk of others."""
    found = AuditedExamples.read(file(data, folder, "examples.parquet"))
    return found.labels, found.partition()


def attributes(data: bytes, folder: Path) -> object:
    """A folder of images and its table."""
    given = file(data, folder, "attributes.csv")
    for name in ("a.png", "b.png"):
        file((CORPUS / "image" / "rgb.png").read_bytes(), folder, f"images/{name}")
    source = FolderSource(
        kind="image_folder", images=str(folder / "images"), attributes=str(given),
        split=Split(column="split", train="0", test="1"),
    )  # fmt: skip
    return source.read()


def celeba(data: bytes, folder: Path) -> object:
    """One of its lists, the others whole."""
    names = ("list_attr_celeba.txt", "list_eval_partition.txt", "identity_CelebA.txt")
    for name in names:
        file((CORPUS / "celeba" / name).read_bytes(), folder, name)
    file(data, folder, names[0] if b"Blond" in data else names[len(data) % 3])
    for row in (1, 2):
        image = (CORPUS / "image" / "rgb.png").read_bytes()
        file(image, folder, f"img_align_celeba/00000{row}.jpg")
    return CelebaSource(kind="celeba", data=str(folder)).read(("identity", "Blond_Hair"))


# --- images --------------------------------------------------------------------------------------


def image(data: bytes, folder: Path) -> object:
    table = pl.DataFrame({"example_id": ["a"], "image": [{"bytes": data, "path": "a.png"}]})
    return decode_rows(table, ImageSize(8, 8) if len(data) % 2 else None, limits=LIMITS)


def thumbnail(data: bytes, folder: Path) -> object:
    return shrunk(data), blurred(data)


def cifar(data: bytes, folder: Path) -> object:
    """The names of the classes, or records of which a label and three pixels are given."""
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    for name in names:
        file(data[:1] + data[1:].ljust(3072, b"\1") if data[3:] else data, folder, name)
    file(data, folder, "batches.meta.txt") if b"cat" in data else None
    return load_binary(str(folder), binary_files(str(folder), names), CLASSES)


# --- models --------------------------------------------------------------------------------------

NETWORK = Network("onnx", 4, Preprocessing(255.0), limits=ReaderLimits(reader_seconds=5))


def onnx(data: bytes, folder: Path) -> object:
    given = file(data, folder, "dense/a.onnx")
    return facts_of_model(read_model(given, NETWORK, (8, 8)), NETWORK, "abcd")


def runtime(data: bytes, folder: Path) -> object:
    """A model that reads well is run, in a process that it may take down."""
    given = file(data, folder, "dense/a.onnx")
    read_model(given, NETWORK, (8, 8))
    _trial()[1](given, NETWORK, np.zeros((2, 3, 8, 8), np.uint8))
    return given


@cache
def _trial() -> tuple[ExitStack, Trial]:
    """For all models; the stack is kept, whose end would be theirs."""
    stack = ExitStack()
    return stack, stack.enter_context(trials())


def weights(data: bytes, folder: Path) -> object:
    return TorchEngine(file(data, folder, "a.safetensors"), Network("tiny-convnet", 2))


# --- what audits leave, on a disk of others ------------------------------------------------------


def audit(data: bytes, folder: Path) -> object:
    """Judged, which is what `scotoma gate` does to a folder that holds audit.json alone."""
    file(data, folder, "audit.json")
    return give_verdict(Mirror(folder), None, TODAY)


def previous(data: bytes, folder: Path) -> object:
    file(data, folder, "previous.json")
    return read_previous(Mirror(folder))


def record(data: bytes, folder: Path) -> object:
    return read_record(file(data, folder, "step.json"))


def sealed(data: bytes, folder: Path) -> object:
    file(data, folder, "checksums.json")
    return compare_checksums(Mirror(folder))


def trend(data: bytes, folder: Path) -> object:
    """What MLflow holds of an audit: bytes of any kind."""
    at = datetime.datetime(2027, 3, 1, 6, tzinfo=datetime.UTC)
    audit, gate = ((CORPUS / name / "whole.json").read_bytes() for name in ("audit", "gated"))
    pairs = ((data, gate), (audit, data))
    return html_page(
        trend_document("p", [LoggedAudit(at, "finished", "r").with_files(*pair) for pair in pairs])
    )


def rule(data: bytes, folder: Path) -> object:
    """A rule of deciding that mitigation has fitted, and what it makes of scores."""
    found = read_rule(data)
    scores = np.linspace(-1, 1, 24).reshape(6, 4)[:, : 2 + len(data) % 3]
    with np.errstate(all="ignore"):
        return found(scores, np.arange(6) % 2)


def configured(data: bytes, folder: Path) -> object:
    """The config.yaml of a run, taken up again and made portable."""
    given = file(data, folder / "run", "config.yaml")
    load_config(given)
    return portable(given.read_text(encoding="utf-8"))


WIDE = {"dense": ["pred_fp32"], "int8": ["pred_int8"]}
EMPTY_CELLS = partial(csv_of_empty_cells, header="example_id,label,sex")
EQUAL_ROWS = partial(
    parquet_of_gigabytes, values={"example_id": "e0", "label": "cat", "sex": "m"}, rows=25_000_000
)
CONSTANT = partial(constant_of_gigabytes, width=8, classes=4)
ENDLESS = partial(endless_on_batches, width=8, classes=4)
TARGETS = {
    "config": Target(config, "config", YAML, quick=30),
    "config of a run": Target(configured, "config", YAML, quick=15),
    "gate rules": Target(gate, "gate", YAML),
    "address": Target(place, "place", PLACES),
    "path": Target(path, "place", PLACES),
    "examples, CSV": Target(
        examples("examples.csv"), "examples-csv", CELLS, bombs=(EMPTY_CELLS,)
    ),
    "examples, Parquet": Target(
        examples("examples.parquet"), "examples-parquet", CELLS, bombs=(EQUAL_ROWS,)
    ),
    "predictions, CSV": Target(predictions("p.csv"), "predictions-csv", CELLS),
    "predictions, Parquet": Target(predictions("p.parquet"), "predictions-parquet", CELLS),
    "predictions, arrays": Target(predictions("p.npz"), "arrays", CELLS),
    "wide predictions, CSV": Target(predictions("p.csv", columns=WIDE), "wide", CELLS),
    "wide predictions, arrays": Target(
        predictions("p.npz", columns={"dense": ["members_0"]}), "arrays", CELLS
    ),
    "long table, CSV": Target(long, "long", CELLS),
    "evaluation log": Target(logs, "logs", (*JSON, *CELLS)),
    "averages without samples": Target(averages, "averages", JSON),
    "answers to a study": Target(answered, "answers", JSON),
    "boxes": Target(boxes, "boxes", (*JSON, *YAML, *CELLS)),
    "values of runs": Target(raw, "raw", (*CELLS, *YAML)),
    "rule of deciding": Target(rule, "rule", JSON),
    "command's table, arrays": Target(command("t.npz"), "arrays", CELLS),
    "command's table, CSV": Target(command("t.csv"), "examples-csv", CELLS),
    "command's table, Parquet": Target(command("t.parquet"), "examples-parquet", CELLS),
    "image folder's table": Target(attributes, "attributes", CELLS),
    "CelebA's lists": Target(celeba, "celeba", CELLS),
    "CIFAR-10, binary": Target(cifar, "cifar", CELLS),
    "data set, Parquet": Target(shards, "shards", CELLS),
    "image": Target(image, "image", PIXELS, bombs=(image_of_gigabytes,)),
    "thumbnail": Target(thumbnail, "image", PIXELS, bombs=(image_of_gigabytes,)),
    "ONNX": Target(onnx, "onnx", ONNX),
    "ONNX Runtime": Target(
        runtime, "onnx", ONNX, quick=0, bombs=(CONSTANT, ENDLESS)
    ),
    "safetensors": Target(weights, "safetensors", TENSORS),
    "predictions of a run": Target(scored, "scored", CELLS),
    "examples of a run": Target(ours, "ours", CELLS),
    "audit.json": Target(audit, "audit", JSON),
    "previous.json": Target(previous, "previous", JSON),
    "record of a step": Target(record, "record", JSON),
    "checksums.json": Target(sealed, "record", JSON),
    "trend": Target(trend, "gated", JSON, quick=6),
}  # fmt: skip

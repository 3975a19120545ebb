"""How long does what people wait for take: logs, boxes, a page, a tracking server, a study?

    python benchmarks/speed.py logs                  # 100,000 examples x 2 models, 1 GB
    python benchmarks/speed.py logs --examples 3000
    python benchmarks/speed.py boxes                 # 5,000 images, 36,000 boxes, 80 classes
    python benchmarks/speed.py page --members 30
    python benchmarks/speed.py mlflow --members 300
    python benchmarks/speed.py study

`logs` writes two logs in the form of lm-evaluation-harness 0.4.13, reads them with an attribute,
and pairs them, beside json.loads and pandas. Peak memory is that of this process and of the one
that reads, together. Then the whole command compares them: report, tables and examples included.

`boxes` writes a ground truth of the size of COCO's val2017 and two detectors' results as JSON, with
20 false alarms an image, and runs `scotoma compare` on them.

`page` draws the report of a CelebA-sized audit, and says what its bytes are made of: 20,000 test
examples, 9 variants, 240 thumbnails. The predictions are made up, all else is what an audit does.
`--keep FILE` leaves the page there.

`mlflow` starts a PostgreSQL, an S3 service and MLflow's server with passwords on this machine, and
logs a made-up audit of three variants.

`study` plans a study with the real command, opens a page of it in Chromium, and simulates studies
whose true difference is known: what do its intervals cover?
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from cases import run

from scotoma.audit import read_audit
from scotoma.config import Config
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.processes.machine import hardware, versions
from scotoma.readers.logs import read_logs
from scotoma.readers.pairing import pair
from scotoma.run import Run
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from scotoma.steps.report import draw, report
from scotoma.steps.slices import slices
from scotoma.steps.verdict import verdict
from scotoma.study.effects import difference
from scotoma.study.plan import StudyFolder

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for what the tests made


MODELS = ("bf16", "w4a16")
LINE_BYTES = 5_000
PANDAS = """
import sys
import pandas as pd

before, after = (pd.read_json(path, lines=True) for path in sys.argv[1:])
both = before.merge(after, on="doc_hash", suffixes=("", "_after"))
both["group"] = both["doc"].map(lambda doc: doc["group"])
both["change"] = both["acc_after"] - both["acc"]
print(both.groupby("group")[["acc", "acc_after", "change"]].mean())
"""


def write_log(folder: Path, examples: int, model: str) -> Path:
    """Write a log whose lines have 5,000 bytes each."""
    folder.mkdir()
    path = folder / "samples_sums_2026-01-01T00-00-00.000000.jsonl"
    shots = "Question: What is 1 + 1?\nAnswer: 2\n\n" * 60
    with path.open("w", encoding="utf-8") as file:
        for n in range(examples):
            right = float((n * 7919) % 100 >= (20 if model == "bf16" else 23))
            row = {
                "doc_id": n,
                "doc": {"question": f"What is {n} + {n}?", "group": n % 9},
                "target": str(2 * n),
                "arguments": {
                    "gen_args_0": {
                        "arg_0": f"{shots}Question: What is {n} + {n}?\nAnswer:",
                        "arg_1": {"until": ["Question:"]},
                    }
                },
                "resps": [[f"Step {n}. " * 120 + f"So it is {2 * n + 1 - int(right)}."]],
                "filtered_resps": [str(2 * n + 1 - int(right))],
                "filter": "strict",
                "metrics": ["acc"],
                "doc_hash": f"{n:064x}",
                "prompt_hash": f"{n:064x}",
                "target_hash": f"{n:064x}",
                "acc": right,
            }
            line = json.dumps(row)
            row["padding"] = "x" * (LINE_BYTES - len(line) - 16)
            file.write(json.dumps(row) + "\n")
    return path


def children_s() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_gib() -> float:
    """The peak of this process and those that it has started."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = Path("/proc/self/task").glob("*/children")
    peaks = [
        int(line.split()[1])
        for child in " ".join(one.read_text() for one in children).split()
        for line in Path(f"/proc/{child}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return (own + sum(peaks)) / 2**20


def logs(examples: int = 100_000) -> None:
    """Write, read, pair and compare evaluation logs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [write_log(folder / model, examples, model) for model in MODELS]
        size = sum(path.stat().st_size for path in paths)
        print(f"{examples:,} examples x 2 models, {size / 1e9:.2f} GB of JSONL")
        began = time.perf_counter()
        for path in paths:
            with path.open("rb") as file:
                for line in file:
                    json.loads(line)
        print(f"json.loads of every line: {time.perf_counter() - began:.1f} s")
        began, cpu = time.perf_counter(), children_s()
        subprocess.run([sys.executable, "-c", PANDAS, *map(str, paths)], check=True)
        print(
            f"what a script in pandas takes for the change of each group, without intervals: "
            f"{time.perf_counter() - began:.1f} s, {children_s() - cpu:.1f} s of CPU"
        )
        began = time.perf_counter()
        read = []
        for model in MODELS:
            (folder / f"{model}-texts").mkdir()
            one = read_logs([folder / model], folder / f"{model}-texts", attributes=["doc.group"])
            read.append(one["sums"])
        read_s = time.perf_counter() - began
        pairs = pair(*read)
        flips = (pairs.baseline["score.acc"] != pairs.compressed["score.acc"]).sum()
        print(f"read_logs: {read_s:.1f} s, pair: {time.perf_counter() - began - read_s:.1f} s")
        print(f"{pairs.examples:,} pairs, {flips:,} flips")
        # The process that reads ends with this one, so its peak is read from the system.
        print(f"peak memory: {peak_gib():.2f} GiB")
        began, cpu = time.perf_counter(), children_s()
        command = ["compare", *MODELS, "--group", "doc.group", "--out", "run", "--quiet"]
        subprocess.run([sys.executable, "-m", "scotoma", *command], cwd=folder, check=True)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(
            f"scotoma compare --group --out: {time.perf_counter() - began:.1f} s, "
            f"{children_s() - cpu:.1f} s of CPU"
        )
        print(f"its largest process: {largest:.2f} GiB")


BOXES_PER_IMAGE, CLASSES = 7.2, 80
FRAME = (640, 480)


def write_truth(path: Path, images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write a ground truth; return image, class and box of each object."""
    rng, boxes = np.random.default_rng(0), round(BOXES_PER_IMAGE * images)
    image = np.sort(rng.integers(0, images, boxes))
    share = 1 / np.arange(1, CLASSES + 1) ** 0.8
    category = rng.choice(CLASSES, boxes, p=share / share.sum())
    size = np.exp(rng.normal(4.0, 1.0, (boxes, 1)) + rng.normal(0, 0.3, (boxes, 2)))
    size = np.minimum(size, np.array(FRAME) - 1)
    box = np.concatenate([rng.random((boxes, 2)) * (np.array(FRAME) - size), size], axis=1)
    content = {
        "images": [
            {"id": i, "file_name": f"{i:012}.jpg", "width": FRAME[0], "height": FRAME[1]}
            for i in range(images)
        ],
        "categories": [{"id": c + 1, "name": f"class {c + 1}"} for c in range(CLASSES)],
        "annotations": [
            {"id": n + 1, "image_id": int(image[n]), "category_id": int(category[n]) + 1,
             "bbox": box[n].round(2).tolist(), "area": float(box[n, 2] * box[n, 3]), "iscrowd": 0}
            for n in range(boxes)
        ],
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return image, category, box


def write_detections(
    path: Path,
    image: np.ndarray,
    category: np.ndarray,
    box: np.ndarray,
    false_alarms: int,
    seed: int,
) -> int:
    """Write a detector's results; return how many."""
    rng, boxes = np.random.default_rng(1), len(box)
    noise = rng.normal(0, 0.12, (boxes, 4)) * np.tile(box[:, 2:], 2)
    score = 1 / (1 + np.exp(-rng.normal(0.5, 1.5, boxes)))
    own = np.random.default_rng(seed + 10)
    hit = box + noise * (1 + 0.2 * own.random((boxes, 1)))
    score = np.clip(score + own.normal(0, 0.03, boxes), 0.001, 1)
    size = np.exp(rng.normal(4.0, 1.0, (false_alarms, 2)))
    alarm = np.concatenate([rng.random((false_alarms, 2)) * FRAME, size], axis=1)
    every = np.concatenate([hit, alarm])
    every[:, 2:] = np.maximum(every[:, 2:], 1)
    images = np.concatenate([image, rng.integers(0, image.max() + 1, false_alarms)])
    classes = np.concatenate([category, rng.integers(0, CLASSES, false_alarms)]) + 1
    scores = np.concatenate([score, rng.beta(0.6, 4, false_alarms)])
    rows = [
        {"image_id": int(i), "category_id": int(c), "bbox": b, "score": s}
        for i, c, b, s in zip(
            images, classes, every.round(2).tolist(), scores.round(5).tolist(), strict=True
        )
    ]
    path.write_text(json.dumps(rows))
    return len(rows)


def boxes(false_alarms: int = 20, images: int = 5_000) -> None:
    """Compare two detectors; `--false-alarms` of each image, on average."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = folder / "instances.json"
        placed = write_truth(truth, images)
        sides = [folder / "fp32.json", folder / "int8.json"]
        for seed, path in enumerate(sides):
            rows = write_detections(path, *placed, false_alarms * images, seed)
            print(f"{path.name}: {rows:,} detections, {path.stat().st_size / 1e6:.0f} MB")
        for options in ([], ["--group", "class,area"]):
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "scotoma", "compare", *map(str, sides), "--truth", truth,
                 *options, "--quiet"],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            shown = " ".join(options) or "without --group"
            print(f"scotoma compare, {shown}: {time.perf_counter() - began:.1f} s")


EXAMPLES, IMAGES, SIDES = 20_000, 64, (178, 218)
SPARSITIES = (0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
PARTS = {
    "scripts": r"<script>.*?</script>",
    "figures, drawn": r'<div class="still">.*?</div>',
    "figures, as tables": r'<details class="as-table">.*?</details>',
    "images": r"data:image/[^\"]*",
    "styles": r"<style>.*?</style>",
}


def parts(text: str) -> dict[str, int]:
    """Bytes by part, none counted twice; the rest are tables, cards and prose."""
    found = {}
    for name, pattern in PARTS.items():
        pieces = re.findall(pattern, text, re.DOTALL)
        found[name] = sum(len(piece.encode()) for piece in pieces)
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return found | {"tables, cards and prose": len(text.encode())}


def made_up(folder: Path, members: int) -> Run:
    """A run whose models miss old men more the more they are compressed."""
    from tests.helpers.networks import write_network_predictions

    rng = np.random.default_rng(0)
    male, old = rng.random(EXAMPLES) < 0.4, rng.random(EXAMPLES) < 0.25
    blond = rng.random(EXAMPLES) < np.where(male, 0.02, 0.24)
    variants = ["dense", {"prune": list(SPARSITIES)}, {"int8": ["dynamic", "static"]}]
    config = Config.model_validate_json(
        json.dumps(
            {
                "project": "celeba-sized",
                "label": {"column": "label", "positive": "blond"},
                "groups": {
                    "sex": {"column": "sex"},
                    "age": {"column": "age"},
                    "intersections": [["sex", "age"]],
                },
                "variants": variants,
                "population": {"models": members},
            }
        )
    )
    run = Run.create(folder, config)
    faces = [face(rng) for _ in range(IMAGES)]
    table = pl.DataFrame(
        {
            "example_id": [f"{i:06d}.jpg" for i in range(EXAMPLES)],
            "split": ["test"] * EXAMPLES,
            "label": np.where(blond, "blond", "dark"),
            "sex": np.where(male, "male", "female"),
            "age": np.where(old, "old", "young"),
            "image": [{"bytes": faces[i % IMAGES], "path": None} for i in range(EXAMPLES)],
        }
    )
    train = table.head(9).with_columns(
        pl.lit("train").alias("split"), ("seen " + pl.col("example_id")).alias("example_id")
    )
    AuditedExamples(
        pl.concat([table, train]), ("dark", "blond"), ("sex", "age"), (("sex", "age"),)
    ).write(run.examples)
    run.path("predictions").mkdir()
    difficulty = rng.normal(size=(EXAMPLES, 1))
    dense = None
    for variant in config.resolved_variants:
        harm = (variant.sparsity > 0) * (0.5 + 1.5 * variant.sparsity**4) * (male & old)
        wrong = difficulty + 0.5 * rng.normal(size=(EXAMPLES, members)) > 1.7 - harm[:, None]
        predicted = (blond[:, None] ^ wrong).astype(np.uint16)
        if variant.paired and dense is not None:
            unlucky = rng.random((EXAMPLES, 1)) < 0.003
            flipped = unlucky & (rng.random(dense.shape) < 0.9)
            predicted = dense ^ flipped.astype(np.uint16)
        dense = predicted if dense is None else dense
        population = Predictions(
            variant=variant.name,
            example_ids=tuple(table["example_id"]),
            members=tuple(range(members)),
            classes=("dark", "blond"),
            predicted=predicted,
        )
        population.write(run.predictions(variant.name))
        if variant.name == "dense":  # of which int8 was exported
            write_network_predictions(run, population)
    return run


def face(rng: np.random.Generator) -> bytes:
    """A JPEG of CelebA's size with as much detail as a photograph."""
    from PIL import Image

    coarse = rng.integers(0, 256, (28, 23, 3), dtype=np.uint8)
    large = np.asarray(Image.fromarray(coarse).resize(SIDES, Image.Resampling.BICUBIC), float)
    noisy = np.clip(large + rng.normal(0, 6, large.shape), 0, 255).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(noisy).save(content, "JPEG", quality=90)
    return content.getvalue()


def page(members: int = 30, keep: Path | None = None) -> None:
    """Draw the page of a large audit; prints one JSON object."""
    with tempfile.TemporaryDirectory() as temporary:
        run = made_up(Path(temporary, "run"), members)
        for step in (divergence, bias, slices, verdict):
            step(run)
        began = time.perf_counter()
        report(run)
        first = time.perf_counter() - began
        began, worked = time.perf_counter(), time.process_time()
        text = draw(run).read_text(encoding="utf-8")
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
        audit_bytes = run.path("audit.json").stat().st_size
        pairs = sum(map(len, read_audit(run.path("audit.json")).gallery.values()))
    if keep:
        keep.write_text(text, encoding="utf-8")
    found = {
        "members": members,
        "pairs": pairs,
        "audit_json_bytes": audit_bytes,
        "first_time_s": round(first, 1),
        "time_s": round(seconds, 1),
        "cpu_s": round(cpu, 1),
        "bytes": len(text.encode()),
        "bytes_by_part": parts(text),
        "load": round(os.getloadavg()[0], 1),
        "hardware": hardware(),
    }
    print(json.dumps(found, indent=1))


def mlflow(members: int = 300) -> None:
    """Log that many members, a third of them of each variant; prints one JSON object."""
    import boto3
    from moto.server import ThreadedMotoServer

    from tests.tracking.conftest import _audit_of, _folder
    from tests.tracking.crowd import crowd
    from tests.tracking.servers import ADMIN, PASSWORD, Mlflow, postgres, postgres_programs
    from tests.tracking.typed import log_audit

    programs = postgres_programs()
    assert programs is not None, "needs PostgreSQL: apt-get install postgresql"
    os.environ |= {"MLFLOW_TRACKING_USERNAME": ADMIN, "MLFLOW_TRACKING_PASSWORD": PASSWORD}
    s3 = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    s3.start()
    host, port = s3.get_host_and_port()
    environment = {
        "MLFLOW_S3_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as temporary, postgres(programs) as database:
        boto3.session.Session("AKIATEST", "s3cret", region_name="us-east-1").client(
            "s3", endpoint_url=environment["MLFLOW_S3_ENDPOINT_URL"]
        ).create_bucket(Bucket="mlflow-artifacts")
        server = Mlflow(database, "s3://mlflow-artifacts/team", environment, Path(temporary))
        server.start()
        try:
            run = _folder(Path(temporary, "run"), "crowd")
            audit = crowd(run, _audit_of(run), members // 3)
            os.environ["MLFLOW_TRACKING_URI"] = server.address  # which alone gets the password
            began = time.perf_counter()
            tracked = log_audit(run, audit, server.address)
            seconds = time.perf_counter() - began
        finally:
            server.kill()
            s3.stop()
    assert not tracked.reason, tracked.reason
    found = {
        "members": 3 * (members // 3),
        "time_s": round(seconds, 1),
        "ms_per_run": round(1000 * seconds / (3 * (members // 3) + 3), 1),
        "load": os.getloadavg()[0],
        "hardware": hardware(),
        "mlflow": versions()["mlflow"],
    }
    print(json.dumps(found, indent=1))


def opened(file: Path) -> float | None:
    """Milliseconds until the page of one who came back shows its image; None without a browser."""
    browser = shutil.which("chromium")
    if browser is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        window = playwright.chromium.launch(executable_path=browser, args=options)
        page = window.new_page()
        page.goto(file.as_uri())
        page.keyboard.press("Enter")
        taken = []
        for _ in range(5):
            started = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_function("document.querySelector('.look img')?.complete")
            taken.append(1000 * (time.perf_counter() - started))
        window.close()
    return round(float(np.median(taken)), 0)


def covered(studies: int, annotators: int, effect: float, sd: float) -> dict[str, float]:
    """Share of studies of 100 images an arm whose 95% interval holds the true difference."""
    from tests.study.test_statistics import simulated

    rng = np.random.default_rng(annotators)
    found = [difference(*simulated(rng, 100, annotators, effect, sd)[:2]) for _ in range(studies)]
    held = [(one.low or 0) <= effect <= (one.high or 0) for one in found]
    return {
        "annotators": annotators, "effect": effect, "sd_of_annotators": sd, "studies": studies,
        "coverage": round(float(np.mean(held)), 3),
    }  # fmt: skip


def study(per_arm: int = 100, studies: int = 500) -> None:
    """Plan a study, open a page, simulate; prints one JSON object."""
    from tests.helpers.commands import scotoma
    from tests.study.conftest import VARIANT, make_run

    with tempfile.TemporaryDirectory() as temporary:
        run = make_run(Path(temporary, "run"), examples=40 * per_arm)
        folder = StudyFolder(Path(temporary, "study"))
        arms = ("--per-arm", str(per_arm), "--variant", VARIANT, "--allow-imbalance")
        started = time.perf_counter()
        code, _, err = scotoma(
            "study", "new", run.root, *arms, "--leaky", "--out", folder.root, "--json"
        )
        assert code == 0, err
        planned_s = time.perf_counter() - started
        file = folder.send / "annotator-1.html"
        found = {
            "machine": hardware(),
            "images": 3 * per_arm,
            "new_s": round(planned_s, 2),
            "page_megabytes": round(file.stat().st_size / 1e6, 1),
            "page_ms": opened(file),
            "coverage": [
                covered(studies, annotators, effect, sd)
                for annotators in (3, 5, 10)
                for effect in (0.0, 0.12)
                for sd in (0.0, 0.02)
            ],
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    run(__doc__, logs, boxes, page, mlflow, study)

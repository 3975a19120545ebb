"""How long does it take to compare two detectors on a set of the size of COCO's val2017?

    python benchmarks/detection.py                   # 5,000 images, 36,000 boxes, 80 classes
    python benchmarks/detection.py --false-alarms 60 # of each image
    python benchmarks/detection.py --images 50       # a glance

Writes a ground truth and two detectors' results as JSON, and runs `scotoma compare` on them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BOXES_PER_IMAGE, CLASSES = 7.2, 80
SIDES = (640, 480)


def main() -> None:
    """Write, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--false-alarms", type=int, default=20, help="Of each image, on average.")
    parser.add_argument("--images", type=int, default=5_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = folder / "instances.json"
        boxes = write_truth(truth, asked.images)
        sides = [folder / "fp32.json", folder / "int8.json"]
        for seed, path in enumerate(sides):
            rows = write_detections(path, *boxes, asked.false_alarms * asked.images, seed)
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


def write_truth(path: Path, images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write a ground truth; return image, class and box of each object."""
    rng, boxes = np.random.default_rng(0), round(BOXES_PER_IMAGE * images)
    image = np.sort(rng.integers(0, images, boxes))
    share = 1 / np.arange(1, CLASSES + 1) ** 0.8
    category = rng.choice(CLASSES, boxes, p=share / share.sum())
    size = np.exp(rng.normal(4.0, 1.0, (boxes, 1)) + rng.normal(0, 0.3, (boxes, 2)))
    size = np.minimum(size, np.array(SIDES) - 1)
    box = np.concatenate([rng.random((boxes, 2)) * (np.array(SIDES) - size), size], axis=1)
    content = {
        "images": [
            {"id": i, "file_name": f"{i:012}.jpg", "width": SIDES[0], "height": SIDES[1]}
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
    alarm = np.concatenate([rng.random((false_alarms, 2)) * SIDES, size], axis=1)
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


if __name__ == "__main__":
    main()

"""Random ground truths and detections, with all that makes matching hard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.answers.boxes import Detections, GroundTruth
from scotoma.readers.boxes import read_detections, read_ground_truth

Set = tuple[dict[str, Any], list[dict[str, Any]]]


def random_set(seed: int) -> Set:
    """A ground truth and results as COCO's JSON: crowds, ties, many detections, empty images."""
    rng = np.random.default_rng(seed)
    images = [
        {"id": int(i), "width": 200, "height": 200, "file_name": f"{i}.jpg"}
        for i in rng.permutation(100)[: rng.integers(1, 12)] + 1
    ]
    categories = [
        {"id": int(c), "name": f"c{c}"} for c in rng.permutation(50)[: rng.integers(1, 5)] + 1
    ]
    ids = [one["id"] for one in categories]
    on_grid = rng.random() < 0.5  # then overlaps tie
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for image in images:
        for _ in range(rng.integers(0, 8)):
            box = rng.random(4) * [150, 150, 60, 60] + [0, 0, 2, 2]
            box[2:] *= 4 if rng.random() < 0.2 else 1
            if on_grid:
                box = np.round(box / 8) * 8
                box[2:] = np.maximum(box[2:], 8)
            category = int(rng.choice(ids))
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": image["id"], "category_id": category,
                    "bbox": box.tolist(), "area": float(box[2] * box[3] * rng.choice([1, 0.7])),
                    "iscrowd": int(rng.random() < 0.15),
                }
            )  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                found = box + rng.normal(0, rng.choice([1, 4, 10]), 4)
                if on_grid:
                    found = box + 8 * rng.integers(-1, 2, 4)
                found[2:] = np.maximum(found[2:], 1)
                score = float(np.round(rng.random(), rng.choice([1, 2, 6])))
                own = category if rng.random() < 0.9 else ids[0]
                results.append(_result(image["id"], own, found, score))
        for _ in range(rng.integers(0, 4)):
            found = rng.random(4) * [150, 150, 60, 60]
            results.append(_result(image["id"], int(rng.choice(ids)), found, rng.random()))
    if seed % 20 == 0:  # more than count
        for _ in range(150):
            found = rng.random(4) * [150, 150, 60, 60]
            score = float(np.round(rng.random(), 2))
            results.append(_result(images[0]["id"], ids[0], found, score))
    results.append(_result(images[0]["id"], ids[0], np.array([0.0, 0, 5, 5]), 0.5))
    truth = {"images": images, "categories": categories, "annotations": annotations}
    return truth, [results[i] for i in rng.permutation(len(results))]


def _result(image: int, category: int, box: np.ndarray, score: float) -> dict[str, Any]:
    sides = [float(side) for side in box]
    return {"image_id": image, "category_id": category, "bbox": sides, "score": float(score)}


def read(one: Set, folder: Path) -> tuple[GroundTruth, Detections]:
    """Write a set and read it."""
    (folder / "truth.json").write_text(json.dumps(one[0]))
    (folder / "found.json").write_text(json.dumps(one[1]))
    truth = read_ground_truth(folder / "truth.json", apart=False)
    return truth, read_detections(folder / "found.json", truth, apart=False)

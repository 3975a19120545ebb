"""Write a ground truth and two detectors' results to compare, as COCO does.

    python examples/detections.py

writes instances.json, weather.csv, fp32.json and int8.json, and found/VARIANT/MODEL.json of five
detectors each. The quantized ones miss small persons.
"""

import csv
import json
from pathlib import Path

import numpy as np

IMAGES = 600
CLASSES = ("person", "bicycle", "car", "dog")
PLANTED = "person"  # of this class the quantized detector misses small boxes
SMALL = 32**2
SIDES = (640, 480)
MODELS = 5


def main() -> None:
    """Write all files into the current folder."""
    truth = write_truth(Path())
    write_detections(Path("fp32.json"), truth, seed=1)
    write_detections(Path("int8.json"), truth, harm=0.35, seed=1, noise_seed=2)
    for model in range(MODELS):
        for variant, harm in (("fp32", 0.0), ("int8", 0.35)):
            path = Path("found", variant, f"{model}.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_detections(path, truth, harm=harm, seed=10 + model, noise_seed=100 + model)


def write_truth(folder: Path, *, images: int = IMAGES, seed: int = 0) -> dict:
    """Write instances.json and weather.csv, a table of the images; return the ground truth."""
    rng = np.random.default_rng(seed)
    annotations = []
    for image in range(1, images + 1):
        for _ in range(rng.poisson(6)):
            size = np.exp(rng.normal(3.8, 0.8)) * np.exp(rng.normal(0, 0.2, 2))
            size = np.minimum(size, np.array(SIDES) - 1)
            corner = rng.random(2) * (np.array(SIDES) - size)
            box = [round(float(side), 2) for side in (*corner, *size)]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": int(rng.choice(4, p=(0.4, 0.1, 0.35, 0.15))) + 1,
                    "bbox": box,
                    "area": round(box[2] * box[3], 2),
                    "iscrowd": int(rng.random() < 0.01),
                }
            )
    truth = {
        "images": [
            {"id": i, "file_name": f"{i:06}.jpg", "width": SIDES[0], "height": SIDES[1]}
            for i in range(1, images + 1)
        ],
        "categories": [{"id": n, "name": name} for n, name in enumerate(CLASSES, 1)],
        "annotations": annotations,
    }
    Path(folder, "instances.json").write_text(json.dumps(truth), encoding="utf-8")
    with Path(folder, "weather.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "weather"])
        weather = rng.choice(["clear", "rain", "fog"], images)
        rows.writerows([f"{i:06}.jpg", weather[i - 1]] for i in range(1, images + 1))
    return truth


def write_detections(
    path: Path, truth: dict, *, harm: float = 0.0, seed: int = 0, noise_seed: int = 0
) -> None:
    """Write a detector's results.

    Args:
        path: The file.
        truth: From `write_truth`.
        harm: Share of the small boxes of `PLANTED` that it misses more.
        seed: Of the detector: two of one seed find nearly the same.
        noise_seed: Of what quantization changes.
    """
    rng, noise = np.random.default_rng(seed), np.random.default_rng(noise_seed)
    results = []
    for one in truth["annotations"]:
        box = np.array(one["bbox"])
        shift = rng.normal(0, 0.07, 4) + noise.normal(0, 0.01, 4)
        score = 1 / (1 + np.exp(-rng.normal(1.0, 1.5) - noise.normal(0, 0.1)))
        planted = CLASSES[one["category_id"] - 1] == PLANTED and one["area"] < SMALL
        if noise.random() < harm and planted:
            score *= 0.2
        found = box + shift * np.tile(box[2:], 2)
        results.append(_result(one["image_id"], one["category_id"], found, score))
    for image in truth["images"]:
        for _ in range(rng.poisson(3)):
            box = np.concatenate([rng.random(2) * SIDES, np.exp(rng.normal(4, 0.8, 2))])
            results.append(_result(image["id"], int(rng.integers(1, 5)), box, rng.beta(1, 5)))
    path.write_text(json.dumps(results), encoding="utf-8")


def _result(image: int, category: int, box: np.ndarray, score: float) -> dict:
    sides = [round(float(side), 2) for side in box]
    sides[2:] = [max(side, 1.0) for side in sides[2:]]
    return {
        "image_id": image,
        "category_id": category,
        "bbox": sides,
        "score": round(float(score), 5),
    }


if __name__ == "__main__":
    main()

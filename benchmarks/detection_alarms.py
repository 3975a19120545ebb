"""How often does a comparison of detectors cry wolf, and how often does it find planted harm?

    python benchmarks/detection_alarms.py            # 200 pairs of detectors of each kind
    python benchmarks/detection_alarms.py --harm 0 --pairs 20 --precision

Two detectors of one seed differ by noise alone, or one also misses more of a class's small boxes.
Counted is how often a group is named as losing after Holm's correction and, with `--precision`, how
often the interval of the change of AP leaves out 0.
"""

from __future__ import annotations

import argparse
import json
import runpy
import tempfile
from pathlib import Path

import numpy as np

from scotoma.comparison.boxes import jackknife
from scotoma.comparison.means import affected, group_effects, score_table
from scotoma.detection.average_precision import detection_scores, image_groups
from scotoma.detection.matching import outcomes
from scotoma.detection.table import box_table
from scotoma.readers.boxes import read_detections, read_ground_truth

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "detections.py"
IMAGES = 250


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--harm", type=float, nargs="*", default=[0.0, 0.1, 0.2])
    parser.add_argument("--precision", action="store_true", help="Of AP, too: ten times as long.")
    asked = parser.parse_args()
    for harm in asked.harm:
        found = [simulated(seed, harm, precision=asked.precision) for seed in range(asked.pairs)]
        named = sum(bool(groups) for groups, _, _ in found)
        right = sum("person" in groups for groups, _, _ in found)
        outside = sum(left_out for _, left_out, _ in found)
        points = 100 * float(np.mean([change for _, _, change in found]))
        ap = f"; the interval of AP leaves out 0 in {outside}" if asked.precision else ""
        print(
            f"harm {harm:g}: {points:+.1f} points of small persons; a group is named in {named} of "
            f"{asked.pairs}, person or small person in {right}{ap}",
            flush=True,
        )


def simulated(seed: int, harm: float, *, precision: bool) -> tuple[str, bool, float]:
    """Groups that are named, whether AP is said to change, and the planted group's change."""
    example = runpy.run_path(str(EXAMPLE))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = example["write_truth"](folder, images=IMAGES, seed=seed)
        for place, own in enumerate((0.0, harm)):
            example["write_detections"](
                folder / f"{place}.json", truth, harm=own, seed=seed, noise_seed=1_000 + 2 * seed
                + place,
            )  # fmt: skip
        boxes = read_ground_truth(folder / "instances.json", apart=False)
        both = [read_detections(folder / f"{n}.json", boxes, apart=False) for n in range(2)]
    before, after = (outcomes(boxes, one) for one in both)
    table = box_table(boxes)
    planted = ((table["class"] == "person") & (table["area"] == "small")).to_numpy()
    masks = {"person and small": planted}
    for column in ("class", "area"):
        for value in sorted(table[column].unique()):
            masks[value] = (table[column] == value).to_numpy()
    scores = score_table(before.found, after.found, boxes.image[boxes.examples])
    effects = group_effects(scores, masks)
    named = json.dumps([one.group for one in affected(effects)])
    loss = float(after.found[planted].mean() - before.found[planted].mean())
    named = "" if named == "[]" else named
    if not precision:
        return named, False, loss
    groups = image_groups(boxes.images)
    ap = [detection_scores(boxes, one, groups=groups) for one in both]
    change = jackknife(
        ap[1].value["AP"] - ap[0].value["AP"], ap[1].without["AP"] - ap[0].without["AP"],
        images=boxes.images,
    )  # fmt: skip
    return named, not change.low <= 0 <= change.high, loss


if __name__ == "__main__":
    main()

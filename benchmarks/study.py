"""How fast a study is planned and its page opens, and what its intervals cover.

    python benchmarks/study.py [--per-arm N] [--studies N]

Plans a study with the real command, opens a page of it in Chromium, and simulates studies whose
true difference is known. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scotoma.processes.machine import hardware  # noqa: E402  after the path
from scotoma.study.effects import difference  # noqa: E402
from scotoma.study.plan import StudyFolder  # noqa: E402
from tests.helpers.commands import scotoma  # noqa: E402
from tests.study.conftest import VARIANT, make_run  # noqa: E402
from tests.study.test_statistics import simulated  # noqa: E402


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--per-arm", type=int, default=100)
    parser.add_argument("--studies", type=int, default=500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = make_run(Path(temporary, "run"), examples=40 * asked.per_arm)
        folder = StudyFolder(Path(temporary, "study"))
        arms = ("--per-arm", str(asked.per_arm), "--variant", VARIANT, "--allow-imbalance")
        started = time.perf_counter()
        code, _, err = scotoma(
            "study", "new", run.root, *arms, "--leaky", "--out", folder.root, "--json"
        )
        assert code == 0, err
        planned_s = time.perf_counter() - started
        file = folder.send / "annotator-1.html"
        found = {
            "machine": hardware(),
            "images": 3 * asked.per_arm,
            "new_s": round(planned_s, 2),
            "page_megabytes": round(file.stat().st_size / 1e6, 1),
            "page_ms": opened(file),
            "coverage": [
                covered(asked.studies, annotators, effect, sd)
                for annotators in (3, 5, 10)
                for effect in (0.0, 0.12)
                for sd in (0.0, 0.02)
            ],
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
    rng = np.random.default_rng(annotators)
    found = [difference(*simulated(rng, 100, annotators, effect, sd)[:2]) for _ in range(studies)]
    held = [(one.low or 0) <= effect <= (one.high or 0) for one in found]
    return {
        "annotators": annotators, "effect": effect, "sd_of_annotators": sd, "studies": studies,
        "coverage": round(float(np.mean(held)), 3),
    }  # fmt: skip


if __name__ == "__main__":
    main()

"""How fast a study saves answers and is built, and what its intervals cover.

    python benchmarks/study.py [--annotators N] [--answers N] [--paces S ...] [--per-arm N]
                               [--studies N]

Serves a study with the real command and lets annotators answer at once, each on a connection of
their own: at a pace that nobody keeps up, and near the server's limits; builds the single file of
a study; opens its page in Chromium; and simulates studies whose true difference is known. Prints
one JSON object.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scotoma.machine import hardware  # noqa: E402  after the path
from scotoma.study.effects import difference  # noqa: E402
from scotoma.study.plan import StudyFolder  # noqa: E402
from tests.commands import scotoma  # noqa: E402
from tests.study.conftest import VARIANT, make_run  # noqa: E402
from tests.study.serving import Client, invite, serving  # noqa: E402
from tests.study.test_statistics import simulated  # noqa: E402


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--annotators", type=int, default=20)
    parser.add_argument("--answers", type=int, default=50, help="of each annotator")
    parser.add_argument(
        "--paces", type=float, nargs="+", default=[0.5, 0.06], help="mean seconds between answers"
    )
    parser.add_argument("--per-arm", type=int, default=100)
    parser.add_argument("--studies", type=int, default=500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = make_run(Path(temporary, "run"), examples=40 * asked.per_arm)
        folder = Path(temporary, "study")
        arms = ("--per-arm", str(asked.per_arm), "--variant", VARIANT, "--allow-imbalance")
        started = time.perf_counter()
        code, _, err = scotoma(
            "study", "new", run.root, *arms, "--leaky", "--out", folder, "--json"
        )
        assert code == 0, err
        planned_s = time.perf_counter() - started
        found = {
            "machine": hardware(),
            "images": 3 * asked.per_arm,
            "new_s": round(planned_s, 2),
            "single_file": bundled(folder),
            "saved_ms": [
                saved(folder, asked.annotators, asked.answers, pace) for pace in asked.paces
            ],
            "page_ms": opened(folder),
            "coverage": [
                covered(asked.studies, annotators, effect, sd)
                for annotators in (3, 5, 10)
                for effect in (0.0, 0.12)
                for sd in (0.0, 0.02)
            ],
        }
    print(json.dumps(found, indent=1))


def bundled(folder: Path) -> dict[str, Any]:
    """Seconds to write the single file of one annotator, and its size."""
    started = time.perf_counter()
    options = ("--single-file", "--annotator", "1", "--json")
    code, out, err = scotoma("study", "export", folder, *options)
    assert code == 0, err
    files = json.loads(out)["files"]
    return {
        "s": round(time.perf_counter() - started, 2),
        "files": len(files),
        "megabytes": round(sum(file["bytes"] for file in files) / 1e6, 1),
    }


def saved(folder: Path, annotators: int, answers: int, pace: float) -> dict[str, float]:
    """Milliseconds from sending an answer to the reply that it is on the disk."""
    tokens: dict[str, str] = {}
    for number in range(1, annotators + 1):
        tokens |= invite(folder, "--annotator", str(number))
    with serving("study", "serve", folder) as (address, _), ThreadPoolExecutor(annotators) as pool:
        cookies = {}
        for number, token in tokens.items():
            client = Client(address)
            assert client.enter(token).status == 200
            cookies[int(number)] = client.cookie

        def one(number: int) -> list[float]:
            return answered(address, cookies[number], StudyFolder(folder), number, answers, pace)

        taken = np.concatenate(list(pool.map(one, cookies)))
    p50, p99 = np.percentile(taken, [50, 99])
    return {
        "annotators": annotators, "pace_s": pace, "answers": len(taken),
        "p50": round(float(p50), 1), "p99": round(float(p99), 1),
        "most": round(float(taken.max()), 1),
    }  # fmt: skip


def answered(
    address: str, cookie: str, folder: StudyFolder, annotator: int, answers: int, pace: float
) -> list[float]:
    """Milliseconds of each answer of one annotator, on one connection."""
    main = folder.orders(annotator).main
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    headers = {"Content-Type": "application/json", "Origin": address, "Cookie": cookie}
    taken = []
    rng = np.random.default_rng(annotator)
    for number in range(answers):
        time.sleep(rng.uniform(0, 2 * pace))
        place = number // 6 % len(main)
        event = {
            "key": secrets.token_hex(16), "place": f"m{place}", "item": main[place],
            "question": f"q{number % 6 + 1}", "value": "yes", "shown_ms": 900,
        }  # fmt: skip
        started = time.perf_counter()
        connection.request("POST", "/answer", json.dumps(event), headers)
        reply = connection.getresponse()
        reply.read()
        taken.append(1000 * (time.perf_counter() - started))
        assert reply.status == 200, reply.status
    connection.close()
    return taken


def opened(folder: Path) -> float | None:
    """Milliseconds until the page of one who came back shows its image; None without a browser."""
    browser = shutil.which("chromium")
    if browser is None:
        return None
    from playwright.sync_api import sync_playwright

    token = invite(folder, "--annotator", "1")["1"]
    with serving("study", "serve", folder) as (address, _), sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        window = playwright.chromium.launch(executable_path=browser, args=options)
        page = window.new_page(bypass_csp=True)
        page.goto(f"{address}/#{token}")
        page.wait_for_function("document.querySelector('.look img')?.complete")
        taken = []
        for _ in range(5):
            started = time.perf_counter()
            page.goto(address)
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

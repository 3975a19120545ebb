"""What stays when an audit has ended: one audit after the other in one process, and what it holds.

    python benchmarks/soak.py [AUDITS]

Prints a line an audit: memory, descriptors, threads and children of this process, temporary files,
and the largest process that the audits have begun. Ends with 1 where one of them grows.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.faults.made import predictions_made_elsewhere  # noqa: E402  after the path

SETTLED = 3  # audits after which nothing may grow
GROWTH_MIB = 8.0  # that the memory may still grow from there to the end
PAGE = resource.getpagesize()


def audited(config: Path, out: Path) -> float:
    """Run one audit in this process, as the command does; its wall time in seconds."""
    from scotoma.config import load_config
    from scotoma.run.judging import Judging
    from scotoma.steps.audit import run_audit

    began = time.perf_counter()
    run_audit(load_config(config), str(out), Judging(None, datetime.date.today()), quiet=True)
    return time.perf_counter() - began


def held(temporary: Path) -> dict[str, float]:
    """What this process holds now."""
    me = Path("/proc/self")
    resident = int((me / "statm").read_text().split()[1]) * PAGE
    children = (me / "task" / str(os.getpid()) / "children").read_text().split()
    return {
        "memory_mib": round(resident / 2**20, 1),
        "descriptors": len(list((me / "fd").iterdir())) - 1,  # one of them looks
        "threads": len(list((me / "task").iterdir())),
        "children": len(children),
        "temporary_files": len(list(temporary.rglob("*"))),
        "largest_child_mib": round(
            resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10, 1
        ),
    }


def soak(audits: int) -> list[dict[str, float]]:
    """What is held after each audit."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, _temporary() as temporary:
        config = predictions_made_elsewhere(Path(folder))
        for number in range(audits):
            took = audited(config, Path(folder, f"run-{number:02d}"))
            rows.append({"audit": number + 1, **held(temporary), "took_s": round(took, 1)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A folder of our own for temporary files, so that all that is left can be counted."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        before, os.environ["TMPDIR"] = tempfile.tempdir, folder
        tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before


def grown(rows: Sequence[dict[str, float]]) -> list[str]:
    """What is more at the end than when the first audits had ended."""
    early, last = rows[min(SETTLED, len(rows)) - 1], rows[-1]
    counts = ("descriptors", "threads", "children", "temporary_files")
    found = [name for name in counts if last[name] > early[name]]
    return found + ["memory_mib"] * (last["memory_mib"] > early["memory_mib"] + GROWTH_MIB)


def main() -> None:
    """Soak and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("audits", type=int, nargs="?", default=12)
    asked = parser.parse_args()
    rows = soak(asked.audits)
    more = grown(rows)
    print(f"grows: {', '.join(more) or 'nothing'}")
    sys.exit(bool(more))


if __name__ == "__main__":
    main()

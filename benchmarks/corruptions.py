"""How long do corruptions take, beside the maintained fork of imagecorruptions in the same run?

python benchmarks/corruptions.py --fork VENV/bin/python [--size 224 --images 20] [--frost TABLE]

VENV holds imagecorruptions-imaug 1.1.5 (pip install imagecorruptions-imaug==1.1.5) and nothing of
Scotoma. CPU seconds per 1,000 images on one thread, mean of severities 1, 3 and 5. The fork knows
only the severities of ImageNet-C; ours are those of the size.

--frost TABLE measures instead how far `frost` with the fork's photographs and `frost_like` move the
pictures of a Parquet file (a column of encoded images), by severity.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402  after the number of threads is set
from PIL import Image  # noqa: E402

SEVERITIES = (1, 3, 5)
VALIDATION = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
PROFILES = {32: "cifar-c", 64: "tiny-imagenet-c", 224: "imagenet-c"}
WHERE_FORK_IS = "import imagecorruptions; print(imagecorruptions.__path__[0])"


def photographs(count: int, size: int) -> list[np.ndarray]:
    """Smooth shapes with grain: as compressible as photographs are."""
    random = np.random.default_rng(0)
    images = []
    for _ in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (9, 9, 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC)).astype(float)
        grainy = smooth + random.normal(0, 5, smooth.shape)
        images.append(np.clip(grainy, 0, 255).astype(np.uint8))
    return images


def seconds(work: Callable[[], object], images: int) -> float:
    """CPU seconds per 1,000 images."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000 / images


def time_fork(size: int, count: int) -> dict[str, float]:
    """Seconds of each corruption, in the interpreter of the fork."""
    fork = importlib.import_module("imagecorruptions")
    importlib.import_module("cv2").setNumThreads(1)
    images = photographs(count, size)
    times = {}
    for kind in fork.get_corruption_names("all"):
        fork.corrupt(images[0], 1, kind)  # numba compiles
        times[kind] = float(
            np.mean(
                [
                    seconds(lambda s=s, k=kind: [fork.corrupt(i, s, k) for i in images], count)
                    for s in SEVERITIES
                ]
            )
        )
    return times


def time_ours(size: int, count: int, frost: Path) -> dict[str, float]:
    """Seconds of each corruption, the tables that a process builds once left out."""
    from scotoma.corruptions import STANDARD, corrupt, profile

    images, ids = np.stack(photographs(count, size)), [str(number) for number in range(count)]
    chosen = profile(PROFILES[size], size, frost=frost)
    times = {}
    for kind in (*STANDARD, *VALIDATION):
        of_each = []
        for severity in SEVERITIES:
            corrupt(images[:1], ids[:1], kind, severity, chosen, seed=0)  # tables are built once
            of_each.append(
                seconds(
                    lambda s=severity, k=kind: corrupt(images, ids, k, s, chosen, seed=0), count
                )
            )
        times[kind] = float(np.mean(of_each))
    return times


def compare(fork: str, size: int, count: int) -> None:
    """Time both, one after the other, and print them side by side."""
    command = [fork, __file__, "--of-fork", "--size", str(size), "--images", str(count)]
    theirs = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    folder = subprocess.run([fork, "-c", WHERE_FORK_IS], capture_output=True, check=True, text=True)
    ours = time_ours(size, count, Path(folder.stdout.strip()) / "frost")
    print(f"\n{size} pixels, {count} images: CPU seconds per 1,000 images, one thread")
    print(f"{'corruption':20}{'ours':>9}{'fork':>9}{'times':>8}")
    for kind, time_of in ours.items():
        print(f"{kind:20}{time_of:9.3f}{theirs[kind]:9.3f}{theirs[kind] / time_of:8.1f}")
    for title, left_out in (
        ("all 19", ()),
        ("without spatter", ("spatter",)),
        ("without frost", ("frost",)),
        ("the 15 of mCE", VALIDATION),
        ("these without frost", (*VALIDATION, "frost")),
    ):
        sums = [sum(v for k, v in times.items() if k not in left_out) for times in (ours, theirs)]
        print(f"{title:20}{sums[0]:9.3f}{sums[1]:9.3f}{sums[1] / sums[0]:8.1f}")


def compare_frost(fork: str, size: int, count: int, table: Path) -> None:
    """Print how far frost and drawn frost move pictures: levels of 255, root mean square."""
    import polars as pl

    from scotoma.corruptions import corrupt, profile

    encoded = pl.read_parquet(table).head(count).to_series(0).to_list()
    images = np.stack([
        np.asarray(
            Image.open(io.BytesIO(one["bytes"] if isinstance(one, dict) else one))
            .convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
        )
        for one in encoded
    ])  # fmt: skip
    folder = subprocess.run([fork, "-c", WHERE_FORK_IS], capture_output=True, check=True, text=True)
    chosen = profile(PROFILES[size], size, frost=Path(folder.stdout.strip()) / "frost")
    ids = [str(number) for number in range(len(images))]
    print(f"\n{size} pixels, {len(images)} images: change in levels, root mean square")
    print(f"{'severity':10}{'frost':>8}{'frost_like':>12}{'ratio':>8}")
    for severity in range(1, 6):
        photographs_move, drawn_move = (
            np.mean([
                np.sqrt(np.mean((after.astype(float) - before) ** 2))
                for after, before in zip(
                    corrupt(images, ids, kind, severity, chosen, seed=0), images, strict=True
                )
            ])
            for kind in ("frost", "frost_like")
        )  # fmt: skip
        ratio = drawn_move / photographs_move
        print(f"{severity:<10}{photographs_move:8.1f}{drawn_move:12.1f}{ratio:8.2f}")


def main() -> None:
    """Compare, or be the fork's half."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fork", help="Python with imagecorruptions-imaug 1.1.5.")
    parser.add_argument("--of-fork", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=32, choices=PROFILES)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--frost", type=Path, help="Parquet file of pictures to move.")
    options = parser.parse_args()
    if options.of_fork:
        sys.stdout.write(json.dumps(time_fork(options.size, options.images)))
    elif options.frost:
        compare_frost(options.fork, options.size, options.images, options.frost)
    else:
        compare(options.fork, options.size, options.images)


if __name__ == "__main__":
    main()

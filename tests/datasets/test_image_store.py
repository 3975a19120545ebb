"""Images that are decoded each time are those that were decoded once, in little memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from PIL import Image

from scotoma.datasets import AuditedExamples, decode_images, looking_ahead, store_images
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.image_store import Ahead, StoredImages
from scotoma.errors import DataError

pytestmark = pytest.mark.slow

SIDE = 48
TRAIN = 60  # images
PIXELS = TRAIN * 3 * SIDE * SIDE  # bytes


def jpeg(rng: np.random.Generator, side: int) -> bytes:
    """A smooth picture, which takes fewer bytes than its pixels."""
    few = Image.fromarray(rng.integers(0, 256, (3, 3, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    few.resize((side, side), Image.Resampling.BILINEAR).save(buffer, "JPEG")
    return buffer.getvalue()


def write(path: Path, *, size: int | None = None) -> AuditedExamples:
    """90 examples, two of three in training."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "example_id": [f"e{index}" for index in range(90)],
            "split": ["test" if index % 3 == 0 else "train" for index in range(90)],
            "label": [str(index % 2) for index in range(90)],
            "image": [{"bytes": jpeg(rng, SIDE), "path": ""} for _ in range(90)],
        }
    )
    resized = None if size is None else ImageSize(size, size)
    examples = AuditedExamples(table, ("0", "1"), (), (), size=resized)
    examples.write(path)
    return examples


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    write(tmp_path / "examples.parquet")
    return tmp_path / "examples.parquet"


@pytest.fixture
def streamed(parquet: Path, tmp_path: Path) -> StoredImages:
    found = store_images(parquet, "train", tmp_path, room=PIXELS - 1).open()
    assert isinstance(found, StoredImages)
    return found


@pytest.mark.parametrize(("size", "room"), [(None, PIXELS - 1), (None, None), (40, 200_000)])
def test_rows_are_those_of_the_decoded_array(
    tmp_path: Path, size: int | None, room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotoma.datasets.image_store.PART", 7)
    examples = write(tmp_path / "examples.parquet", size=size)
    expected = decode_images(examples.split("train"))
    stored = store_images(tmp_path / "examples.parquet", "train", tmp_path, room=room)
    assert (stored.ends is not None) is (room is not None)
    images = stored.open()
    assert images.shape == expected.shape
    assert len(images) == len(expected)
    rows = np.random.default_rng(1).integers(0, len(expected), 17)
    np.testing.assert_array_equal(images[rows], expected[rows])
    np.testing.assert_array_equal(images[:5], expected[:5])


def test_pixels_are_stored_as_soon_as_they_fit(parquet: Path, tmp_path: Path) -> None:
    assert store_images(parquet, "train", tmp_path, room=PIXELS).ends is None
    assert store_images(parquet, "train", tmp_path, room=PIXELS - 1).ends is not None


def test_images_that_fit_in_no_form_are_refused(parquet: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"more than the 1,000 bytes that are free at .*TMPDIR"):
        store_images(parquet, "train", tmp_path, room=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["examples.parquet"]


def test_batches_are_decoded_ahead_and_in_any_order(
    streamed: StoredImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    plan = [rng.integers(0, TRAIN, 8) for _ in range(20)]
    expected = [streamed[rows] for rows in plan]
    decoded: list[NDArray[np.int64]] = []
    plain = StoredImages.__getitem__

    def counted(self: StoredImages, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        decoded.append(rows)
        return plain(self, rows)

    monkeypatch.setattr(StoredImages, "__getitem__", counted)
    with looking_ahead(streamed, iter(plan)) as images:
        assert isinstance(images, Ahead)
        for index, (rows, pixels) in enumerate(zip(plan, expected, strict=True)):
            if index == 7:
                np.testing.assert_array_equal(images[plan[0]], expected[0])  # out of order
            np.testing.assert_array_equal(images[rows], pixels)
    assert len(decoded) == 21  # each batch once, and one more


def test_array_is_left_alone() -> None:
    array = np.zeros((4, 3, 2, 2), np.uint8)

    def never() -> None:
        raise AssertionError

    with looking_ahead(array, (never() for _ in range(1))) as images:  # type: ignore[misc]
        assert images is array


def test_fault_in_a_decoding_thread_is_raised_where_the_batch_is_asked_for(
    streamed: StoredImages, tmp_path: Path
) -> None:
    rows = np.arange(3)
    with (tmp_path / "images.encoded").open("rb+") as file:
        assert streamed.ends is not None
        file.seek(int(streamed.ends[1]))
        file.write(bytes(10))
    with (
        looking_ahead(streamed, iter([rows])) as images,
        pytest.raises(DataError, match="image of example 'row 2' cannot be decoded"),
    ):
        images[rows]


# --- memory ---------------------------------------------------------------------------------------

# Reads many batches, and says how much the most memory has grown, what is mapped included.
READ = r"""
import json, re, sys
from pathlib import Path
import numpy as np
from scotoma.datasets import looking_ahead, store_images

def peak():
    # getrusage would count the parent, of which this was a copy before it became another program.
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

parquet, folder = map(Path, sys.argv[1:])
rng = np.random.default_rng(0)
small = store_images(parquet.with_name("small.parquet"), "train", folder, room=10**6).open()
small[:1]
before = peak()
stored = store_images(parquet, "train", folder, room=30_000_000)
images = stored.open()
plan = [rng.integers(0, len(images), 32) for _ in range(200)]
total = 0
with looking_ahead(images, iter(plan)) as ahead:
    for rows in plan:
        total += int(ahead[rows].sum())
print(json.dumps({"grown": peak() - before, "pixels": int(np.prod(images.shape)), "total": total,
                  "streamed": stored.ends is not None}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc elsewhere")
def test_memory_does_not_grow_with_the_images(tmp_path: Path) -> None:
    """200 megabytes of pixels through a batch at a time, in a process of its own."""
    rng = np.random.default_rng(0)
    some = [jpeg(rng, 144) for _ in range(40)]
    for name, n in (("small.parquet", 8), ("examples.parquet", 3200)):
        table = pl.DataFrame(
            {
                "example_id": [f"e{index}" for index in range(n)],
                "split": ["train"] * n,
                "label": ["0"] * n,
                "image": [{"bytes": some[index % 40], "path": ""} for index in range(n)],
            }
        )
        AuditedExamples(table, ("0", "1"), (), ()).write(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", READ, tmp_path / "examples.parquet", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["streamed"]
    assert found["pixels"] > 190e6
    assert 0 < found["grown"] < 0.25 * found["pixels"]


# Prepares a run from files of images, and says how much the most memory has grown.
PREPARE = r"""
import re, sys
from pathlib import Path
from scotoma.config import load_config
from scotoma.run import Run
from scotoma.steps.prepare import prepare

def peak():
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

home = Path(sys.argv[1])
prepare(Run.create(home / "small", load_config(home / "small.yaml")))
before = peak()
run = Run.create(home / "run", load_config(home / "audit.yaml"))
prepare(run)
print(peak() - before, run.examples.stat().st_size)
"""
CONFIG = """\
source:
  kind: image_folder
  images: images
  attributes: TABLE.csv
  split: {column: part, train: a, test: b}
  size: 8
label: {column: label}
variants: [dense, {prune: [0.5]}]
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc elsewhere")
def test_prepare_holds_a_part_of_the_images(tmp_path: Path) -> None:
    """480 megabytes of files, of which a part is 8 and a row group 15."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(buffer, "PNG")
    names = [f"{index}.png" for index in range(8000)]
    for index, name in enumerate(names):
        # What comes after a whole image is not looked at.
        padding = rng.bytes(60_000) if index >= 40 else b""
        (tmp_path / "images" / name).write_bytes(buffer.getvalue() + padding)
    for table, n in (("small", 40), ("audit", 8000)):
        rows = [f"{name},{'ab'[k % 2]},{k // 2 % 2}" for k, name in enumerate(names[:n])]
        (tmp_path / f"{table}.csv").write_text("\n".join(["image,part,label", *rows]) + "\n")
        (tmp_path / f"{table}.yaml").write_text(CONFIG.replace("TABLE", table))
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, tmp_path], capture_output=True, text=True, check=True
    )
    grown, size = map(int, done.stdout.split())
    assert size > 470e6
    assert 0 < grown < 0.5 * size

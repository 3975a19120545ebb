"""CIFAR-10's binary version, byte by byte as its authors describe it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from scotoma.config import Config, parse_config
from scotoma.costs.measure import look_at_images
from scotoma.datasets import decode_images
from scotoma.errors import DataError
from scotoma.sources.cifar10 import CLASSES
from scotoma.sources.reading import load_examples, survey_examples
from tests.conftest import Storage

PER_FILE = 20
NAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
CONFIG = """\
source: {kind: KIND, data: DATA}
label: {column: label}
GROUPS
variants: [dense, {prune: [0.5]}]
"""


def config(place: object, kind: str = "cifar10") -> Config:
    groups = "groups: {style: {column: style}}" if kind == "cifar10s" else ""
    text = CONFIG.replace("DATA", str(place)).replace("KIND", kind).replace("GROUPS", groups)
    return parse_config(text, "audit.yaml")


@pytest.fixture
def pixels() -> NDArray[np.uint8]:
    """Of all files, in their order: shape (6, 20, 3, 32, 32)."""
    return np.random.default_rng(0).integers(0, 256, (6, PER_FILE, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path, pixels: NDArray[np.uint8]) -> Path:
    """<1 x label><3072 x pixel>, the pixels all red, all green, all blue, each row by row."""
    place = tmp_path / "cifar"
    place.mkdir()
    for name, images in zip(NAMES, pixels, strict=True):
        content = b""
        for index, image in enumerate(images):
            planes = [bytes(plane.ravel()) for plane in image]
            content += bytes([index % 10]) + b"".join(planes)
        (place / name).write_bytes(content)
    (place / "batches.meta.txt").write_text("\n".join(CLASSES) + "\n\n")
    return place


def refused(place: object) -> str:
    with pytest.raises(DataError) as caught:
        load_examples(config(place))
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(place), "PLACE")


def test_every_pixel_and_label_is_read(folder: Path, pixels: NDArray[np.uint8]) -> None:
    found = load_examples(config(folder))
    assert found.table["label"].to_list() == [CLASSES[index % 10] for index in range(6 * PER_FILE)]
    assert found.ids[:2] == ["train-00000", "train-00001"]
    assert found.split("test").ids[-1] == "test-00019"
    np.testing.assert_array_equal(decode_images(found), pixels.reshape(-1, 3, 32, 32))


def test_archive_is_read_as_it_is_unpacked(folder: Path) -> None:
    before = load_examples(config(folder)).table.drop("image")
    (folder / "inner").mkdir()
    for path in list(folder.glob("*.*")):
        path.rename(folder / "inner" / path.name)
    (folder / "inner").rename(folder / "cifar-10-batches-bin")
    assert load_examples(config(folder)).table.drop("image").equals(before)


def test_object_storage_gives_the_same_examples(folder: Path, s3: Storage) -> None:
    for path in folder.iterdir():
        s3.put(f"cifar/{path.name}", path.read_bytes())
    here, there = (load_examples(config(place)).table for place in (folder, s3.uri("cifar")))
    assert there.equals(here)


def test_cifar10s_is_made_of_it(folder: Path) -> None:
    found = load_examples(config(folder, "cifar10s"))
    assert found.split("test").table.height == 2 * PER_FILE
    assert set(found.table["style"]) == {"colour", "grey"}


def test_costs_are_told_without_reading_images(folder: Path) -> None:
    facts = look_at_images(config(folder), survey_examples(config(folder)))
    assert facts.shape == (32, 32)
    assert facts.encoded_bytes == 6 * PER_FILE * 3073


@pytest.mark.parametrize(
    ("meddle", "sentence"),
    [
        (
            lambda folder: (folder / "data_batch_3.bin").unlink(),
            "source.data PLACE lacks data_batch_3.bin of CIFAR-10's binary version; unpack",
        ),
        (
            lambda folder: (folder / "test_batch.bin").write_bytes(bytes(3072)),
            "PLACE/test_batch.bin must hold whole records of 3,073 bytes, got 3,072 bytes",
        ),
        (
            lambda folder: (folder / "test_batch.bin").write_bytes(b""),
            "must hold whole records of 3,073 bytes, got 0 bytes",
        ),
        (
            lambda folder: (folder / "test_batch.bin").write_bytes(bytes(3073) + b"\x0a" * 3073),
            "PLACE/test_batch.bin must hold labels 0 to 9, got 10 in record 1, counted from 0;",
        ),
        (
            lambda folder: (folder / "batches.meta.txt").write_text("apple\nbear\n"),
            "got apple, bear; use kind parquet for other data",
        ),
    ],
)
def test_what_is_not_whole_is_told_in_one_sentence(
    folder: Path, meddle: Callable[[Path], None], sentence: str
) -> None:
    meddle(folder)
    assert sentence in refused(folder)


class Trap:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return Path.touch, (Path("was-run"),)  # type: ignore[return-value]


def test_pickled_version_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "cifar-10-batches-py"
    place.mkdir()
    for name in ("data_batch_1", "test_batch", "batches.meta"):
        (place / name).write_bytes(pickle.dumps(Trap()))
    expected = (
        "is a pickle, which can run any code, so Scotoma does not load it; use the binary version "
        "(cifar-10-binary.tar.gz) or Parquet files"
    )
    assert refused(place).endswith(expected)
    assert refused(tmp_path).startswith("PLACE/cifar-10-batches-py/batches.meta is a pickle")
    assert not (tmp_path / "was-run").exists()

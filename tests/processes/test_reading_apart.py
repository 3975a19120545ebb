"""Files are read in another process, which stays in the folder where it was started."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from scotoma.config.limits import LIMITS
from scotoma.errors import DataError
from scotoma.processes.untrusted import read_apart, table_apart
from scotoma.readers.coco import truth_table

pytestmark = pytest.mark.slow


def text_of(path: Path) -> str:
    return path.read_text()


def test_a_relative_path_is_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = (
        '{"images": [{"id": 1, "width": 9, "height": 9}], "categories": [{"id": 1, "name": "a"}], '
        '"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], '
        '"area": 16, "iscrowd": 0}]}'
    )
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("own.txt").write_text(name)
        Path("truth.json").write_text(truth + " " * 2**20)
        assert read_apart(text_of, Path("own.txt"), path=Path("own.txt"), called="own.txt") == name
        table = table_apart(
            truth_table, Path("truth.json"), "truth", path=Path("truth.json"), called="truth"
        )
        assert len(table) > 0


def read_nowhere(path: Path) -> int:
    return ctypes.string_at(0)[0]


def test_a_library_that_crashes_may_have_lacked_memory(tmp_path: Path) -> None:
    """Without memory one library says so and another ends in an error of its own."""
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    for limits, way in ((None, "make it smaller"), (LIMITS, "raise limits.reader_memory_gib")):
        with pytest.raises(DataError, match=f"a.csv crashed, perhaps for want of memory; .*{way}"):
            read_apart(read_nowhere, path, path=path, called="a.csv", limits=limits)

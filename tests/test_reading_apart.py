"""Files are read in another process, which stays in the folder where it was started."""

from __future__ import annotations

from pathlib import Path

import pytest

from scotoma.readers.coco import truth_table
from scotoma.untrusted import read_apart, table_apart

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

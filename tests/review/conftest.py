"""The small audit with images that studies are made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from scotoma.run import Run, checksums
from tests.study.conftest import make_run


@pytest.fixture
def reviewed_run(tmp_path: Path) -> Run:
    run = make_run(tmp_path / "run", examples=160)
    checksums.seal(run.mirror)
    return run

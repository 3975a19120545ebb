"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the papers' tables and raw data that stands beside some checkouts."""
    folder = Path(os.environ.get("SCOTOMA_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no published tables and raw data at {folder}")
    return folder

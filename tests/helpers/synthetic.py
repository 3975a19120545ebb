"""The script of examples/ that writes a set in the shape of CelebA, as a module."""

from __future__ import annotations

import importlib.util

from tests.conftest import ROOT

_spec = importlib.util.spec_from_file_location(
    "synthetic_celeba", ROOT / "examples" / "synthetic_celeba.py"
)
assert _spec is not None
assert _spec.loader is not None
celeba = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(celeba)

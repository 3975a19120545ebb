"""The committed JavaScript is what its packages give, and each package's licence is beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import scotoma.report

pytestmark = pytest.mark.thorough

VENDOR = Path(scotoma.report.__file__).parent / "vendor"


def test_bundle_and_licences_are_what_the_locked_packages_give(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm on the path")
    subprocess.run(
        ["bash", str(VENDOR / "build.sh"), str(tmp_path)], check=True, capture_output=True
    )
    for name in ("vega.js", "LICENSES.md"):
        assert (tmp_path / name).read_bytes() == (VENDOR / name).read_bytes(), name


def test_every_package_is_locked_by_its_hash() -> None:
    locked = json.loads((VENDOR / "package-lock.json").read_text())["packages"]
    wanted = json.loads((VENDOR / "package.json").read_text())
    for name, version in (wanted["dependencies"] | wanted["devDependencies"]).items():
        assert locked[f"node_modules/{name}"]["version"] == version
    for path, package in locked.items():
        assert path == "" or package["integrity"].startswith("sha512-"), path


def test_bundle_asks_for_nothing_and_evaluates_nothing() -> None:
    code = (VENDOR / "vega.js").read_text(encoding="ascii")
    assert "</script" not in code.lower()
    assert "<!--" not in code
    assert "sourceMappingURL" not in code
    assert code.startswith("/* Vega and what it needs; licences: LICENSES.md")

"""What a plain `pip install` outside a checkout gives: the whole house, typed, with its command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as the wheel holds it, built from a copy of the sources."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "runs", "tests")
    shutil.copytree(ROOT, source, ignore=ignore)
    target = work / "site"
    done = python(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--target", str(target), str(source)),
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    return target


def test_components_pipelines_templates_and_types_are_in_the_wheel(installed: Path) -> None:
    package = installed / "scotoma"
    for name in ("py.typed", "cli.py", "report/page.html", "report/page.css"):
        assert (package / name).exists(), name
    for top in ("scotoma", "components", "pipelines"):
        home = package if top == "scotoma" else package / top
        for path in (ROOT / top).rglob("*.py"):
            assert (home / path.relative_to(ROOT / top)).exists(), path
    assert (installed / "bin" / "scotoma").exists()


def test_the_installed_package_is_the_one_that_runs(installed: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r});"
        "import scotoma.cli, scotoma.pipelines, scotoma.components;"
        "print(scotoma.__file__, scotoma.components.__file__, scotoma.pipelines.__file__)"
    )
    done = python("-c", code, cwd=installed)
    assert done.returncode == 0, done.stderr
    assert all(Path(path).is_relative_to(installed) for path in done.stdout.split())


def test_the_public_api_is_typed_strictly(installed: Path) -> None:
    done = python(
        *("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "scotoma"),
        cwd=installed,
    )
    assert done.returncode == 0, done.stdout + done.stderr

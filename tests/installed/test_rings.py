"""What the core installation does, and the one sentence that names each extra it lacks.

The packages of all extras are hidden from the processes here, as if pip had not installed them;
tests/installed/test_wheel.py does the same in an environment that really lacks them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tests.helpers.external_predictions import write

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# An extra, and a command that needs it.
LACKING = [
    ("train", "audit"),
    ("kubeflow", "kubeflow submit audit.yaml --dry-run pipeline.yaml"),
    ("s3", "show s3://bucket/run"),
    ("s3", "audit audit.yaml --out s3://bucket/run"),
    ("tracking", "show trend elsewhere"),
    ("study", "review elsewhere"),
]
# Python imports a module of this name before any other.
HIDING = """
import sys
from importlib.machinery import PathFinder
HIDDEN = set({hidden!r})
class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in HIDDEN:
            return super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Core
"""


def closure(requirements: list[str], seen: set[str]) -> set[str]:
    """Names of the distributions that requirements bring on this machine."""
    for requirement in map(Requirement, requirements):
        name = canonicalize_name(requirement.name)
        environments = [{"extra": extra} for extra in (*requirement.extras, "")]
        if requirement.marker and not any(map(requirement.marker.evaluate, environments)):
            continue
        if name not in seen:
            seen.add(name)
            try:
                closure(distribution(name).requires or [], seen)
            except PackageNotFoundError:
                continue  # for another system
    return seen


def outside_the_core() -> list[str]:
    """Top-level modules that the core's requirements do not bring."""
    core = closure(PROJECT["dependencies"], {"scotoma", "pip", "setuptools"})
    return sorted(
        module
        for module, homes in packages_distributions().items()
        if module.isidentifier() and not {canonicalize_name(home) for home in homes} & core
    )


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a process that sees the core's packages alone."""
    hidden = outside_the_core()
    assert {"torch", "onnx", "kfp", "boto3", "mlflow", "sklearn", "apache_beam"} <= set(hidden)
    folder = tmp_path_factory.mktemp("hiding")
    (folder / "sitecustomize.py").write_text(HIDING.format(hidden=hidden))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return kept | {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def run(core: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit of predictions."""
    home = write(tmp_path_factory.mktemp("audited"), n=120)
    config = home / "audit.yaml"
    config.write_text(config.read_text().replace('tracking: {uri: "off"}\n', ""))
    done = scotoma("audit", "audit.yaml", "--out", "run", cwd=home, env=core)
    assert done.returncode in (0, 1), done.stderr
    sentence = "mlflow  not logged: tracking needs mlflow; pip install 'scotoma[tracking]'"
    assert sentence in done.stderr
    return home / "run"


def scotoma(
    *arguments: str | Path, cwd: Path, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scotoma", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_the_core_measures_a_table(core: dict[str, str], tmp_path: Path) -> None:
    rows = ["label,predicted,sex", *["1,1,f", "1,0,f", "0,0,f", "1,1,m", "0,0,m"] * 10]
    (tmp_path / "table.csv").write_text("\n".join(rows))
    options = ("--label", "label", "--predicted", "predicted", "--group", "sex", "--json")
    done = scotoma("compare", "table.csv", *options, cwd=tmp_path, env=core)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["subgroups"]


@pytest.mark.parametrize("command", ["gate", "show"])
def test_the_core_judges_and_reports_a_run(command: str, core: dict[str, str], run: Path) -> None:
    done = scotoma(command, run, cwd=run.parent, env=core)
    assert done.returncode in (0, 1, 3), done.stderr
    assert "pip install" not in done.stderr
    assert "elsewhere" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("extra", "command"), LACKING)
def test_a_missing_extra_is_one_sentence_with_its_command(
    extra: str, command: str, core: dict[str, str], tmp_path: Path
) -> None:
    before = sorted(write(tmp_path, n=20).rglob("*"))
    done = scotoma(*command.split(), cwd=tmp_path, env=core)
    assert (done.returncode, done.stdout) == (2, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("scotoma: ")
    assert sentence.endswith(f"pip install 'scotoma[{extra}]'")
    assert sorted(tmp_path.rglob("*")) == before


def test_every_extra_that_a_message_names_is_there() -> None:
    extras = PROJECT["optional-dependencies"]
    combined = Requirement(extras["all"][0]).extras
    assert combined == {"train", "kubeflow", "tracking", "s3"} <= extras.keys()

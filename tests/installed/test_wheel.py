"""What a plain `pip install` outside a checkout gives: the whole house, typed, with its command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from scotoma.run import code_digest
from tests.helpers.external_predictions import write
from tests.installed.test_rings import LACKING

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CORE_MB = 510  # without bytecode; measured 483, of which 84 are vl-convert, which draws the figures


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "tests")
    shutil.copytree(ROOT, source, ignore=ignore)
    done = python(
        *("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", str(work), str(source)),
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    (built,) = work.glob("scotoma-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder with the package as the wheel holds it."""
    target = wheel.parent / "site"
    done = python(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)),
        cwd=wheel.parent,
    )
    assert done.returncode == 0, done.stderr
    return target


def test_components_pipelines_templates_and_types_are_in_the_wheel(installed: Path) -> None:
    package = installed / "scotoma"
    drawn = ("page/page.html", "page/page.css", "page/gallery.js", "page/charts/rates.vl.json")
    pages = [
        path.relative_to(ROOT / "scotoma").as_posix()
        for room in ("review", "study")
        for path in (ROOT / "scotoma" / room / "page").iterdir()
    ]
    assert {Path(page).parts[0] for page in pages} == {"review", "study"}
    for name in ("py.typed", "cli.py", *drawn, *pages):
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


def test_the_same_code_has_the_same_digest_wherever_it_lies(installed: Path) -> None:
    """A step's image compares it with that of the checkout."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from scotoma.storage import files; assert files.__file__.startswith(sys.argv[1]);"
        "print(files.code_digest(), files.code_digest('training'))"
    )
    there, here = str(installed), str(ROOT)
    digests = [python("-I", "-c", code, path, cwd=installed) for path in (there, here)]
    assert digests[0].stdout == digests[1].stdout, digests
    whole, part = digests[0].stdout.split()
    assert whole == code_digest() != part == code_digest("training")
    module = installed / "scotoma" / "pipelines" / "placing.py"
    text = module.read_text()
    module.write_text(text + "# changed\n")  # what compiles a pipeline is code, too
    changed = python("-I", "-c", code, there, cwd=installed).stdout.split()
    module.write_text(text)
    assert changed[0] != whole


# --- an environment of its own --------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel and what pip brings with it.

    Attributes:
        home: Its folder.
        outside: A folder from which commands are run, far from any checkout.
    """

    home: Path
    outside: Path

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment; of the variables only those of no package stay."""
        foreign = ("PYTHON", "VIRTUAL_ENV", "MLFLOW_", "SCOTOMA_", "COVERAGE", "PYTEST_")
        inherited = {name: v for name, v in os.environ.items() if not name.startswith(foreign)}
        return subprocess.run(
            [self.home / "bin" / command, *arguments],
            cwd=self.outside,
            env=inherited,
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, code: str) -> str:
        """What a line of Python prints."""
        done = self.run("python", "-W", "error", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def paths_of_the_checkout(self) -> list[str]:
        """Where Python looks for modules in this checkout: nowhere, or it is not the wheel.

        The packages of the environment that runs the tests may stand below the checkout.
        """
        code = "import json, os, sys; print(json.dumps([os.path.realpath(p) for p in sys.path]))"
        packages = Path(sysconfig.get_paths()["purelib"]).resolve()
        paths = [Path(path) for path in json.loads(self.ask(code))]
        return [str(path) for path in paths if path.is_relative_to(ROOT) and path != packages]


# As on a user's machine: pip goes by the machine's own settings, nothing is pinned.
NEWEST = "pip install --quiet --no-compile"
OLDEST = "uv pip install --quiet --resolution lowest-direct"  # that pyproject.toml allows


@contextmanager
def environment(
    home: Path, wheel: Path, extra: str = "", *, install: str = NEWEST
) -> Iterator[Environment]:
    """Install the wheel and what it needs; take it all away again."""
    made = Environment(home / "environment", home / "outside")
    made.outside.mkdir()
    try:
        done = python("-m", "venv", str(made.home), cwd=home)
        assert done.returncode == 0, done.stderr
        if install == OLDEST:
            made.run("python", *f"-m {NEWEST} uv".split())
        done = made.run("python", "-m", *install.split(), f"{wheel}{extra}")
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        shutil.rmtree(made.home)


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """The wheel without extras."""
    with environment(tmp_path_factory.mktemp("core"), wheel) as made:
        yield made


@pytest.mark.thorough
def test_the_core_runs_from_its_environment_alone(core: Environment) -> None:
    assert core.paths_of_the_checkout() == []
    where = core.ask("import scotoma; print(scotoma.__file__)")
    assert Path(where).is_relative_to(core.home)
    assert core.run("scotoma", "--version").stdout.startswith("scotoma 0.")


@pytest.mark.thorough
def test_the_core_measures_without_torch_and_mlflow(core: Environment) -> None:
    modules = "numbers power divergence impact bias runs predictions report"
    names = ", ".join(f"scotoma.{name}" for name in modules.split())
    absent = "[n for n in ('torch', 'kfp', 'boto3', 'mlflow', 'sklearn', 'onnx') if find_spec(n)]"
    code = f"from importlib.util import find_spec; import {names}; print({absent})"
    assert core.ask(code) == "[]"


@pytest.mark.thorough
def test_the_core_measures_a_table(core: Environment) -> None:
    rows = ["label,predicted,sex"]
    rows += ["1,1,f", "1,0,f", "0,0,f", "0,0,f", "1,1,m", "1,1,m", "0,0,m", "0,0,m"] * 10
    (core.outside / "table.csv").write_text("\n".join(rows))
    options = ("--label", "label", "--predicted", "predicted", "--group", "sex", "--json")
    done = core.run("scotoma", "compare", "table.csv", *options)
    assert done.returncode == 0, done.stderr
    found = {
        row["group"]: row["predicted"]["value"]
        for row in json.loads(done.stdout)["subgroups"]
        if row["metric"] == "error" and row["class"] is None
    }
    assert found == {"all": 0.125, "sex=f": 0.25, "sex=m": 0.0}


@pytest.mark.thorough
@pytest.mark.parametrize(("extra", "command"), LACKING)
def test_the_core_names_the_extra_it_lacks_and_leaves_nothing_behind(
    extra: str, command: str, core: Environment
) -> None:
    if not (core.outside / "audit.yaml").exists():
        write(core.outside, n=20)
    before = sorted(core.outside.rglob("*"))
    done = core.run("scotoma", *command.split())
    assert (done.returncode, done.stdout) == (2, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("scotoma: ")
    assert sentence.endswith(f"pip install 'scotoma[{extra}]'")
    assert sorted(core.outside.rglob("*")) == before


@pytest.mark.thorough
def test_the_core_is_small(core: Environment) -> None:
    (site,) = core.home.glob("lib/python3*/site-packages")
    installers = ("pip", "setuptools", "_distutils", "pkg_resources")
    size = sum(
        path.stat().st_size
        for path in site.rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and not path.relative_to(site).parts[0].startswith(installers)
    )
    assert 100e6 < size < CORE_MB * 1e6, f"{size / 1e6:.0f} MB"


@contextmanager
def beside_these_packages(folder: Path, wheel: Path) -> Iterator[Environment]:
    """An environment that holds the wheel, and sees the packages of this one but no checkout."""
    home, outside = folder / "environment", folder / "outside"
    outside.mkdir()
    assert python("-m", "venv", str(home), cwd=folder).returncode == 0
    (site,) = home.glob("lib/python3*/site-packages")
    # Of a folder in a .pth file the .pth files are not read: an editable install stays unseen.
    (site / "these.pth").write_text(sysconfig.get_paths()["purelib"])
    made = Environment(home, outside)
    done = made.run("python", "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
    assert done.returncode == 0, done.stderr
    yield made


def audit_small(made: Environment) -> None:
    """Run the small configuration of the documents, logged to MLflow."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    small = re.search(r"^# small\.yaml\n.*?^```", page, re.M | re.S)
    assert small
    assert made.paths_of_the_checkout() == []
    (made.outside / "small.yaml").write_text(small[0].removesuffix("```"))
    done = made.run("scotoma", "audit", "small.yaml", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("small: 1,798 test examples")
    run = made.outside / "run"
    assert "small: what compression changed" in (run / "report.html").read_text()
    assert json.loads((run / "tracking.json").read_text())["reason"] == ""


@pytest.mark.thorough
def test_the_wheel_beside_these_packages_passes_an_audit(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with beside_these_packages(tmp_path_factory.mktemp("beside"), wheel) as made:
        audit_small(made)


@pytest.mark.thorough
@pytest.mark.parametrize("install", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_the_newest_and_the_oldest_releases_of_everything_pass_an_audit(
    install: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with environment(tmp_path_factory.mktemp("all"), wheel, "[all]", install=install) as made:
        audit_small(made)

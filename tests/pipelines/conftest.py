"""A stand-in for Kubeflow, and an environment that leads nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import Config
from scotoma.pipelines import audit, faults
from scotoma.pipelines import wait as pipeline_wait
from tests.kfp_server.contract import Contract
from tests.kfp_server.server import KfpServer


@pytest.fixture(scope="session")
def contract() -> Contract:
    """What requests and answers are held against."""
    return Contract()


@pytest.fixture(scope="session")
def _compiled_once() -> Iterator[None]:
    """One pipeline for equal configurations: to compile it takes most of a test's time."""
    whole, made = audit.compile_pipeline, dict[str, bytes]()

    def compile_once(config: Config, path: Path, **settings: Any) -> None:
        made_of = repr((config, sorted(settings.items(), key=str)))
        if made_of not in made:
            whole(config, path, **settings)
            made[made_of] = path.read_bytes()
        path.write_bytes(made[made_of])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "compile_pipeline", compile_once)
        yield


@pytest.fixture
def kfp(
    contract: Contract, _compiled_once: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KfpServer]:
    """A server; at the end, no request and no answer may have broken the description."""
    for name in [name for name in os.environ if name.startswith(("KF_", "KUBE", "SCOTOMA_KFP"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # KFP's SDK keeps a context below it
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(faults, "PAUSE_S", 0.005)
    monkeypatch.setattr(pipeline_wait, "POLL_S", 0.005)
    server = KfpServer(contract)
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", server.address)
    yield server
    server.close()
    assert server.violations == []

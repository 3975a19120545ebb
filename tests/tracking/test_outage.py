"""Storage and MLflow that do not answer for a while, as when they are restarted under an audit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scotoma.errors import DataError
from scotoma.pipelines.placing import PATIENCE
from scotoma.run import write_json
from scotoma.run.mirror import Mirror
from scotoma.tracking.audits import log_failure
from tests.faults.faulty import faulty
from tests.tracking.test_resumed import Cluster, cluster, logged, whole

__all__ = ["cluster", "whole"]

OUTAGE_S = 5.0  # longer than a laptop waits for MLflow


@contextmanager
def outage(service: str) -> Iterator[str]:
    """A service that refuses every request for a while; yields its address."""
    end = time.monotonic() + OUTAGE_S
    with faulty(service, 0) as (address, mood):
        mood.fault = lambda *_, **__: "503" if time.monotonic() < end else ""  # type: ignore[method-assign]
        yield address


def on_a_cluster(patch: pytest.MonkeyPatch) -> None:
    patch.delenv("AWS_MAX_ATTEMPTS", raising=False)  # which no pod has
    for name, value in PATIENCE.items():
        patch.setenv(name, value)


@pytest.mark.parametrize("where", ["laptop", pytest.param("cluster", marks=pytest.mark.thorough)])
def test_a_step_on_a_cluster_waits_for_storage(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Many requests wait at a time, which botocore's quota of retries would not let them."""
    files = [tmp_path / f"{index}.json" for index in range(40)]
    for file in files:
        write_json(file, file.name)
    if where == "cluster":
        on_a_cluster(monkeypatch)
    with outage(s3.endpoint) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        mirror = Mirror(tmp_path, s3.uri("run"))
        if where == "cluster":
            mirror.publish(files)
            assert len(s3.names()) == len(files)
        else:
            with pytest.raises(DataError, match="the service answers"):
                mirror.publish(files)


@pytest.mark.thorough
def test_a_step_on_a_cluster_waits_for_mlflow(
    cluster: Cluster, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_cluster(monkeypatch)
    with outage(server) as address:
        assert log_failure(cluster.run, "no images", address) == ""
    assert logged(server, cluster) == {"failed": "FAILED"}

"""A secret in the configuration and the environment is in nothing that MLflow keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.run import Run
from tests.tracking.typed import log_audit

CANARY = b"c4n4ry-s3cret"


def test_the_database_of_mlflow_holds_no_secret(
    mlflow: Any,
    monkeypatch: pytest.MonkeyPatch,
    folder: Callable[..., Run],
    audit_of: Callable[[Run], Any],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY.decode())
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", CANARY.decode())
    tracking = f"tracking: {{uri: 'http://u:{CANARY.decode()}@127.0.0.1:9'}}"
    run = folder(tmp_path / "runs" / "run", "canaries", tracking)
    tracked = log_audit(run, audit_of(run), f"sqlite:///{tmp_path}/mlflow.db")
    assert tracked.reason == ""
    left = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [name for name in left if name.endswith("config.yaml")]
    database = [content for name, content in left.items() if "/mlflow.db" in name]
    assert any(b"canaries" in content for content in database)
    assert [name for name, content in left.items() if CANARY in content] == []

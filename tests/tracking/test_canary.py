"""A secret in the configuration and the environment is in nothing that MLflow keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit import GateResult
from scotoma.numbers import undefined
from scotoma.run import Run
from scotoma.tracking.kubeflow import scalar_metrics
from tests.helpers.audits import filled, whole
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


# The numbers by which Kubeflow compares audits: named for MLflow too, undefined ones left out.


def test_every_variant_has_its_numbers_and_the_undefined_are_left_out(
    folder: Callable[..., Run], audit_of: Callable[[Run], dict[str, Any]], tmp_path: Path
) -> None:
    content = audit_of(folder(tmp_path / "run", "scalars"))
    content["divergence"]["int8-static"]["cie"]["excess"] = undefined(
        "no floor", n=500, members=2
    ).as_dict()
    for part in ("accuracy", "divergence", "subgroups"):
        content[part] = {name.replace("e-0.9", "e-0.9+x"): v for name, v in content[part].items()}
    for row in content["rows"]["gaps"]:
        row["variant"] = row["variant"].replace("e-0.9", "e-0.9+x")
    content["variants"][1]["name"] = "prune-0.9+x"
    judged = [{"name": "prune-0.9+x", "verdict": "FAIL"}, {"name": "int8-static"}]
    gate = {"verdict": "FAIL", "variants": judged}
    audit, verdict = whole(content), GateResult.model_validate(filled(GateResult, gate))
    metrics = scalar_metrics(audit, verdict)
    assert metrics["verdict"] == metrics["prune-0.9 plus x/verdict"] == 2
    assert metrics["int8-static/verdict"] == 0
    assert metrics["dense/top1"] == 0.9
    assert metrics["prune-0.9 plus x/cie_excess_points"] == 6.0
    assert "int8-static/cie_excess_points" not in metrics
    # The relative change of 770% is of a class; the highest lower end among groups counts.
    assert metrics["int8-static/worst_group_points"] == 100 * 71.0 / 1000
    everyone = (None, audit.groups[0].key)
    rows = {key: [row for row in own if row.group in everyone] for key, own in audit.rows.items()}
    alone = audit.model_copy(update={"groups": audit.groups[:1], "rows": rows})  # none is worst
    assert not [name for name in scalar_metrics(alone, verdict) if "worst_group" in name]

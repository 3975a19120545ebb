"""How long it takes to log 300 members to a team's server: PostgreSQL, passwords, artifacts in S3.

    python benchmarks/tracking.py [MEMBERS]

Starts a PostgreSQL, an S3 service and MLflow's server on this machine, logs a made-up audit of
three variants, and prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scotoma.processes.machine import hardware, versions  # noqa: E402  after the path
from tests.tracking.conftest import _audit_of, _folder  # noqa: E402
from tests.tracking.crowd import crowd  # noqa: E402
from tests.tracking.servers import (  # noqa: E402
    ADMIN,
    PASSWORD,
    Mlflow,
    postgres,
    postgres_programs,
)
from tests.tracking.typed import log_audit  # noqa: E402


def measure(members: int) -> dict[str, object]:
    """Seconds to log that many members, a third of them of each variant, and the variants."""
    from moto.server import ThreadedMotoServer

    programs = postgres_programs()
    assert programs is not None, "needs PostgreSQL: apt-get install postgresql"
    os.environ |= {"MLFLOW_TRACKING_USERNAME": ADMIN, "MLFLOW_TRACKING_PASSWORD": PASSWORD}
    s3 = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    s3.start()
    host, port = s3.get_host_and_port()
    environment = {
        "MLFLOW_S3_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as temporary, postgres(programs) as database:
        import boto3

        boto3.session.Session("AKIATEST", "s3cret", region_name="us-east-1").client(
            "s3", endpoint_url=environment["MLFLOW_S3_ENDPOINT_URL"]
        ).create_bucket(Bucket="mlflow-artifacts")
        server = Mlflow(database, "s3://mlflow-artifacts/team", environment, Path(temporary))
        server.start()
        try:
            run = _folder(Path(temporary, "run"), "crowd")
            audit = crowd(run, _audit_of(run), members // 3)
            os.environ["MLFLOW_TRACKING_URI"] = server.address  # which alone gets the password
            began = time.perf_counter()
            tracked = log_audit(run, audit, server.address)
            seconds = time.perf_counter() - began
        finally:
            server.kill()
            s3.stop()
    assert not tracked.reason, tracked.reason
    return {
        "members": 3 * (members // 3),
        "time_s": round(seconds, 1),
        "ms_per_run": round(1000 * seconds / (3 * (members // 3) + 3), 1),
        "load": os.getloadavg()[0],
        "hardware": hardware(),
        "mlflow": versions()["mlflow"],
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 300), indent=1))

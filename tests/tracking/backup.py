"""The back-up of docs/operating.md by its own commands, and the loss that it is made for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg2

from tests.tracking.servers import Mlflow, postgres_programs

__all__ = ["contents", "follow", "lose"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
DATABASES = ("runs", "passwords")

# The page uses AWS's own program, which no Python package of the tests brings.
AWS = f"""\
#!{sys.executable}
import os, sys
from pathlib import Path
import boto3
s3 = boto3.client("s3", endpoint_url=os.environ["MLFLOW_S3_ENDPOINT_URL"])
first, second, source, target = sys.argv[1:]
assert (first, second) == ("s3", "sync")
down = source.startswith("s3://")
bucket, _, prefix = (source if down else target).removeprefix("s3://").partition("/")
if down:
    for entry in s3.list_objects_v2(Bucket=bucket, Prefix=prefix + "/")["Contents"]:
        file = Path(target, entry["Key"].removeprefix(prefix + "/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, entry["Key"], str(file))
else:
    for file in filter(Path.is_file, Path(source).rglob("*")):
        s3.upload_file(str(file), bucket, f"{{prefix}}/{{file.relative_to(source)}}")
"""


def follow(heading: str, program: str, team: Mlflow, folder: Path) -> None:
    """Run the commands below a heading of the page that use a program, in a folder."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    blocks = re.findall(r"^```text\n(.*?)^```", section.partition("\n## ")[0], re.M | re.S)
    (script,) = (block for block in blocks if program in block)
    tools = folder / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "aws").write_text(AWS)
    (tools / "aws").chmod(0o755)
    address = _address(team)
    environment = {
        "PATH": f"{tools}:{postgres_programs()}:{os.environ['PATH']}",
        "PGPASSWORD": "nobody asks",
        "SERVER": f"{address}/postgres",
        "RUNS": f"{address}/runs",
        "PASSWORDS": f"{address}/passwords",
    }
    done = subprocess.run(
        ["bash", "-euc", script.replace("s3://audits/mlflow", team.artifacts)],
        cwd=folder, env=os.environ | team.environment | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def contents(team: Mlflow, s3_client: Any) -> dict[str, Any]:
    """Every row of every table, and every file."""
    found: dict[str, Any] = {}
    for name in DATABASES:
        with psycopg2.connect(f"{_address(team)}/{name}") as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            for (table,) in cursor.fetchall():
                cursor.execute(f'SELECT * FROM "{table}"')
                found[f"{name}.{table}"] = sorted(map(repr, cursor.fetchall()))
        connection.close()
    for key in _files(team, s3_client):
        kept = s3_client.get_object(Bucket=_bucket(team), Key=key)
        found[key] = kept["Body"].read()
    return found


def lose(team: Mlflow, s3_client: Any) -> None:
    """The server, both databases and all files are gone."""
    team.kill()
    connection = psycopg2.connect(f"{_address(team)}/postgres")
    connection.autocommit = True
    for name in DATABASES:
        connection.cursor().execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.close()
    objects = [{"Key": key} for key in _files(team, s3_client)]
    s3_client.delete_objects(Bucket=_bucket(team), Delete={"Objects": objects})
    assert _files(team, s3_client) == []


def _address(team: Mlflow) -> str:
    """PostgreSQL's, as its own programs take it."""
    return team.database.replace("+psycopg2", "")


def _bucket(team: Mlflow) -> str:
    return team.artifacts.split("/")[2]


def _files(team: Mlflow, s3_client: Any) -> list[str]:
    listed = s3_client.list_objects_v2(Bucket=_bucket(team))
    return [entry["Key"] for entry in listed.get("Contents", [])]

"""Do the same data from a folder and from object storage give the same audit?

    python benchmarks/sources.py --data CIFAR10_FOLDER

Trains one ResNet-8 for one epoch of CIFAR-10 from a folder, then from s3:// (moto's server on this
machine), both with --deterministic, and compares every file of predictions byte by byte. moto is
among the packages that `make test` installs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

CONFIG = """
version: 1
project: sources
source:
  kind: cifar10
  data: {data}
  model: resnet8
  recipe: {{steps: 390, batch_size: 128, learning_rate: 0.1}}
label: {{column: label}}
variants: [dense, {{int8: [static]}}]
population: {{models: 1}}
tracking: {{uri: "off"}}
"""


def main() -> None:
    """Run both audits and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="train.parquet, test.parquet")
    data = parser.parse_args().data.resolve()
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    client = boto3.client("s3")
    client.create_bucket(Bucket="data")
    for path in data.glob("*.parquet"):
        client.upload_file(str(path), "data", f"cifar10/{path.name}")
    with tempfile.TemporaryDirectory() as folder:
        found = [
            audit(Path(folder, name), place)
            for name, place in (("local", str(data)), ("remote", "s3://data/cifar10"))
        ]
    server.stop()
    (first, seconds), (second, others) = found
    print(f"folder {seconds:.0f} s, object storage {others:.0f} s")
    for name in first:
        print(f"{name}: {'equal' if first[name] == second[name] else 'DIFFERENT'}")
    sys.exit(first != second)


def audit(folder: Path, data: str) -> tuple[dict[str, bytes], float]:
    """The bytes of every file of predictions, and how long the audit took."""
    folder.mkdir()
    config, out = folder / "audit.yaml", folder / "run"
    config.write_text(CONFIG.format(data=data))
    command = [sys.executable, "-m", "scotoma", "audit", str(config), "--out", str(out)]
    began = time.perf_counter()
    subprocess.run([*command, "--deterministic", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    files = {path.name: path.read_bytes() for path in sorted((out / "predictions").iterdir())}
    return files | {"audit.json": (out / "audit.json").read_bytes()}, time.perf_counter() - began


if __name__ == "__main__":
    main()

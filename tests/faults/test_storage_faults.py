"""Object storage on a bad day: the right result, or a stop that can be gone on from."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scotoma.config import default_config
from scotoma.errors import DataError
from scotoma.run import Run, checksums
from scotoma.run.mirror import Mirror
from scotoma.storage import client
from scotoma.storage.files import written
from tests.faults.faulty import FAULTS, Faulty, faulty

TRIES = 60  # until a run of four steps must be through


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between attempts, without the waiting."""
    seen: list[float] = []
    monkeypatch.setattr(time, "sleep", seen.append)
    return seen


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients that take silence for an answer sooner."""
    monkeypatch.setattr(client, "READ_TIMEOUT_S", 0.2)
    client._client_of_process.cache_clear()
    yield
    client._client_of_process.cache_clear()


def work(place: str, names: str = "abcd") -> None:
    """Steps, each of which reads what the one before it has left."""
    run = Run.create(place, default_config())
    before: list[Path] = []
    for name in names:
        output = run.path("out", name)
        with run.step(name, [output], before) as due:
            if due:
                content = b"".join(path.read_bytes()[:1000] for path in before)
                with written(output) as temporary:
                    temporary.write_bytes(content + name.encode() * 3000)
        before = [output]
    checksums.seal(run.mirror)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_bad_day_ends_in_the_right_result_or_in_a_stop(
    seed: int,
    s3: Any,
    tmp_path: Path,
    pauses: list[float],
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    work(s3.uri("calm"))
    place, stops = s3.uri("stormy"), []
    with faulty(s3.endpoint, seed) as (address, mood), caplog.at_level(logging.WARNING):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for attempt in range(TRIES):
            monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / str(attempt % 3)))  # machines
            mood.share = 0.3
            try:
                work(place)
            except DataError as stop:
                stops.append(str(stop))
            else:
                break
        else:
            pytest.fail(f"not through after {TRIES} attempts: {stops}")
        mood.share = 0.0
        shutil.rmtree(tmp_path)
        found = checksums.compare_checksums(Mirror(tmp_path / "fresh", place))
    print(f"seed {seed}: {len(stops)} stops, {dict(mood.counts)}")
    assert found.intact
    assert found.files == 9
    for name in "abcd":
        right, got = (
            s3.client.get_object(Bucket=s3.bucket, Key=f"{run}/out/{name}")["Body"].read()
            for run in ("calm", "stormy")
        )
        assert got == right
    for stop in stops:
        assert "repeat" in stop or "check the network" in stop or "upload it again" in stop, stop
        assert "\n" not in stop
    assert sum(mood.counts.values()) >= 5
    assert "failed in attempt" in caplog.text or "broke off in attempt" in caplog.text
    assert max(pauses) <= 20, "bounded"
    assert len({round(pause, 6) for pause in pauses}) > len(pauses) / 2, "jittered"


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_is_survived_or_named(
    fault: str,
    s3: Any,
    tmp_path: Path,
    pauses: list[float],
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mood_of_seed = np.random.default_rng(5)

    def only(self: Faulty, method: str, path: str, *, body: bool) -> str:
        fits = {
            "half": method == "GET",
            "flipped": method == "GET" and "list-type" not in path,
            "stale": method in ("GET", "HEAD") and path in self.written,
            "flipped on its way": method == "PUT" and body,
        }.get(fault, True)
        met = fits and mood_of_seed.random() < 0.3
        self.counts[fault] += met
        return fault if met else ""

    monkeypatch.setattr(Faulty, "fault", only)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    with faulty(s3.endpoint, 0) as (address, mood):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for machine in ("one", "another"):  # which reads what the first has written
            monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / machine))
            for _ in range(TRIES):
                try:
                    work(s3.uri("run"), "ab")
                except DataError:
                    continue
                break
            else:
                pytest.fail(f"not through after {TRIES} attempts")
    assert mood.counts[fault]
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    assert checksums.compare_checksums(Mirror(tmp_path / "fresh", s3.uri("run"))).intact

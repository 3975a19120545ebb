"""How busy was the machine while a step worked, over time? Under the names that MLflow gives it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scotoma.processes.gpu import gpu_readings

MOST = 120  # samples that are kept; of more, every second one goes and the pause doubles
PAUSE_S = 1.0
MEGABYTE = 10**6
Sample = dict[str, float]


@contextmanager
def machine_sampled() -> Iterator[list[Sample]]:
    """Read processors, memory and GPUs while a block runs: at its begin, at its end, and between.

    Yields:
        The samples, `time` in seconds since 1970; none where the system has no /proc.
    """
    samples: list[Sample] = []
    over = threading.Event()
    thread = threading.Thread(target=_sample, args=(samples, over), daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _sample(samples: list[Sample], over: threading.Event) -> None:
    pause, last = PAUSE_S, False
    with suppress(OSError, ValueError):
        before = _processor_ticks()
        while True:
            last = over.wait(min(pause, 0.1) if not samples else pause)
            ticks = _processor_ticks()
            idle, total = (now - then for now, then in zip(ticks, before, strict=True))
            if total > 0:
                busy = {"cpu_utilization_percentage": 100 * (1 - idle / total)}
                samples.append({"time": time.time(), **busy, **_memory(), **gpu_readings()})
                before = ticks
            if last:
                return
            if len(samples) >= MOST:
                del samples[1::2]
                pause *= 2


def _processor_ticks() -> tuple[float, float]:
    """Ticks in which the processors waited, and all of them, since the machine began."""
    ticks = [float(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def _memory() -> Sample:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    sizes = {words[0]: 1024 * float(words[1]) for words in lines}
    used = sizes["MemTotal:"] - sizes["MemAvailable:"]
    return {
        "system_memory_usage_megabytes": used / MEGABYTE,
        "system_memory_usage_percentage": 100 * used / sizes["MemTotal:"],
    }

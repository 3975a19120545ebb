"""What is the machine that numbers and weights are made on, with which GPU, and how busy is it?"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scotoma._version import __version__
from scotoma.errors import ConfigError
from scotoma.extras import needs

PACKAGES = ("mlflow", "numpy", "onnx", "onnxruntime", "polars", "scipy", "torch")


def versions() -> dict[str, str]:
    """Versions of this package and of those that decide its numbers."""
    return {"scotoma": __version__} | {name: _installed(name) for name in PACKAGES}


@cache  # a lookup takes milliseconds, and every member's record asks for all
def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def cores() -> int:
    """Cores that this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX-512 BF16, AMX or ARM's BF16)."""
    table = Path("/proc/cpuinfo")
    words = set(table.read_text(encoding="utf-8").split()) if table.exists() else set()
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def has_gpu_driver() -> bool:
    """Whether the driver of a GPU that torch knows is there: NVIDIA's, WSL's or AMD's."""
    return any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg", "kfd"))


def hardware() -> dict[str, str | int]:
    """Processor, cores, system and Python version."""
    return {
        "cpu": _processor(),
        "cores": cores(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    if table.exists():
        for line in table.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


GPUS_VARIABLE = "SCOTOMA_GPUS"  # how many GPUs a pod asked for; set where a step asks for some
EVERY_MS = 250  # between two readings


def gpu_at_hand() -> bool:
    """Whether torch can use a GPU; torch is not imported to ask where there is no driver."""
    if not has_gpu_driver():
        return False
    torch = needs("torch", "train", "prediction")
    return bool(torch.cuda.is_available())


def free_gpu_bytes() -> int:
    """Memory of the first GPU that nobody uses; 0 without one."""
    torch = needs("torch", "train", "prediction")
    return int(torch.cuda.mem_get_info(0)[0]) if torch.cuda.is_available() else 0


def refuse_without_gpus(step: str) -> None:
    """Refuse to begin a step in a pod that asked for a GPU and sees none, and name what it sees.

    On processors alone the step would take hours, in a pod that is charged for a GPU.

    Args:
        step: Name of the step.

    Raises:
        ConfigError: torch sees fewer GPUs than `SCOTOMA_GPUS` says.
    """
    asked = int(os.environ.get(GPUS_VARIABLE) or 0)
    if not asked:
        return
    if fault := missing_gpus(asked):
        raise ConfigError(f"the step {step} asked for a GPU, and {fault}")
    print(f"GPU: {', '.join(f'{key} {value}' for key, value in gpu_facts().items())}", flush=True)


def missing_gpus(asked: int) -> str:
    """Say why fewer GPUs are seen than were asked for; empty if all are.

    Args:
        asked: How many.
    """
    torch = needs("torch", "train", "training on a GPU")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count >= asked:
        return ""
    driver = _driver() or "none"
    return (
        f"torch sees {count} of {asked}; the node's driver ({driver}) must serve the image's CUDA "
        f"({torch.version.cuda or 'none'}): mend the node, or leave out kubeflow.training.gpu"
    )


def gpu_facts() -> dict[str, str]:
    """Name the GPU that torch sees first, and the versions that decide what it does."""
    torch = needs("torch", "train", "training on a GPU")
    if not gpu_at_hand():
        return {}
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "memory": f"{properties.total_memory / 2**30:.1f} GiB",
        "driver": _driver() or "unknown",
        "CUDA": str(torch.version.cuda or torch.version.hip),
        "cuDNN": str(torch.backends.cudnn.version()),
        "torch": str(torch.__version__),
    }


@dataclass
class GpuUse:
    """How busy a GPU was in a block.

    Attributes:
        busy: Mean share of the time in which a kernel ran, by nvidia-smi; None with `reason`.
        memory_bytes: The most that was in use, of all processes; None with `reason`.
        seconds: How long the block took.
        readings: How many readings there were.
        reason: Why there is no share.
    """

    busy: float | None = None
    memory_bytes: int | None = None
    seconds: float = 0.0
    readings: int = 0
    reason: str = "nvidia-smi gave no reading"

    def record(self) -> dict[str, Any]:
        """What measurements.json has of it."""
        if self.busy is None:
            return {"busy": None, "reason": self.reason}
        return {
            "busy": round(self.busy, 3),
            "readings": self.readings,
            "memory_bytes": self.memory_bytes,
        }

    def __str__(self) -> str:
        """Say it in a step's log."""
        if self.busy is None:
            return f"how busy it was is not known ({self.reason})"
        gib = (self.memory_bytes or 0) / 2**30
        return f"busy {100 * self.busy:.0f}% of {self.seconds:.1f} s, at most {gib:.1f} GiB in use"


@contextmanager
def gpu_watched(*, wanted: bool = True) -> Iterator[GpuUse]:
    """Watch the first GPU while a block runs; its readings are there when the block has ended.

    Args:
        wanted: Whether there is one to watch.
    """
    use, began = GpuUse(), time.perf_counter()
    if not wanted:
        yield use
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    command = [*_command("utilization.gpu,memory.used"), "-i", visible, "-lms", str(EVERY_MS)]
    with tempfile.TemporaryFile("w+") as readings:  # a pipe would be full after some minutes
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=readings, stderr=subprocess.DEVNULL
            )  # fmt: skip
        except OSError:
            process, use.reason = None, "nvidia-smi is not there"
        try:
            yield use
        finally:
            use.seconds = time.perf_counter() - began
            if process is not None:
                process.terminate()
                process.wait()
                readings.seek(0)
                _read(use, readings.read())


def _read(use: GpuUse, text: str) -> None:
    r"""Read what nvidia-smi has printed: a line a reading, share in percent and MiB.

    >>> use = GpuUse()
    >>> _read(use, "50, 1024\n100, 2048\n[N/A], [N/A]\n10")
    >>> use.busy, use.memory_bytes, use.readings
    (0.75, 2147483648, 2)
    """
    if readings := list(_numbers(text, 2)):
        use.busy = sum(share for share, _ in readings) / 100 / len(readings)
        use.memory_bytes = int(max(mebibytes for _, mebibytes in readings) * 2**20)
        use.readings = len(readings)


def _command(fields: str) -> list[str]:
    return ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]


def _asked(fields: str) -> str:
    """What nvidia-smi says of each GPU, a line each; empty where it says nothing."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            _command(fields), capture_output=True, text=True, timeout=30, check=True
        ).stdout
    return ""


def _numbers(text: str, count: int) -> Iterator[list[float]]:
    """The lines of so many numbers; one that is cut, or says that it does not know, is none."""
    for line in text.splitlines():
        with suppress(ValueError):
            if len(numbers := [float(part) for part in line.split(",")]) == count:
                yield numbers


def gpu_readings() -> dict[str, float]:
    """How busy each GPU is now, and its memory, under MLflow's names; empty without a driver."""
    if not has_gpu_driver():
        return {}
    return _readings(_asked("index,utilization.gpu,memory.used,memory.total"))


def _readings(text: str) -> dict[str, float]:
    r"""Read what nvidia-smi prints of each GPU: index, percent, used and all memory in MiB.

    >>> list(_readings("0, 50, 1024, 4096\n1, [N/A], 0, 4096").values())
    [50.0, 1073.741824, 25.0]
    """
    values: dict[str, float] = {}
    for index, busy, used, total in _numbers(text, 4):
        values[f"gpu_{index:g}_utilization_percentage"] = busy
        values[f"gpu_{index:g}_memory_usage_megabytes"] = used * 2**20 / 10**6
        values[f"gpu_{index:g}_memory_usage_percentage"] = 100 * used / total
    return values


def _driver() -> str:
    """The version of NVIDIA's driver; empty where nvidia-smi does not say."""
    return _asked("driver_version").partition("\n")[0].strip()


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


@dataclass(frozen=True)
class Effort:
    """What a task cost.

    Attributes:
        seconds: From its begin to its end.
        work_s: Of these, those in which its processor or its GPU worked for it.
        gpu_bytes: The most that its process took of a GPU's memory.
        free_bytes: What was left there.
    """

    seconds: float
    work_s: float
    gpu_bytes: int = 0
    free_bytes: int = 0


@dataclass
class Kind:
    """The processes that run the members of one kind.

    Attributes:
        runs: What they run the members on, as a step's log says it.
        workers: How many; 0 is the step's own process.
        why: Why so many.
        members: How many members they run.
        efforts: Of the tasks that have ended.
        began: When the first task was given to them, and
        ended: when the last had ended; seconds of one clock.
        gpu: What nvidia-smi saw of a GPU that they use; None where they use none, or where
            `efforts` say it.
    """

    runs: str
    workers: int = 0
    why: str = ""
    members: int = 0
    efforts: list[Effort] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    gpu: GpuUse | None = None

    @property
    def seconds(self) -> float:
        """How long they had work."""
        return max(0.0, self.ended - self.began)

    @property
    def busy(self) -> float | None:
        """Share of that time in which the GPU, or the workers' cores, worked; None if unknown."""
        if self.gpu is not None:
            return self.gpu.busy
        units = 1 if self._on_gpu else max(1, self.workers)
        worked = sum(effort.work_s for effort in self.efforts)
        return min(1.0, worked / (units * self.seconds)) if self.seconds else None

    @property
    def _on_gpu(self) -> bool:
        return self.gpu is not None or any(effort.gpu_bytes for effort in self.efforts)

    def record(self) -> dict[str, Any]:
        """What measurements.json has of them."""
        peak = max((effort.gpu_bytes for effort in self.efforts), default=0)
        busy = self.busy
        return {
            "runs": self.runs,
            "workers": self.workers,
            "why": self.why,
            "members": self.members,
            "seconds": round(self.seconds, 3),
            "busy": None if busy is None else round(busy, 3),
            **({"gpu_bytes_per_worker": peak} if peak else {}),
            **({"gpu": self.gpu.record()} if self.gpu is not None else {}),
        }

    def __str__(self) -> str:
        """Say it in a step's log."""
        who = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        what = "GPU" if self._on_gpu else "cores" if self.workers > 1 else "core"
        busy = "not known" if self.busy is None else f"{100 * self.busy:.0f}%"
        return (
            f"{who if self.workers else 'this process'} for {self.members} "
            f"{'member' if self.members == 1 else 'members'} on {self.runs}: {self.why}; "
            f"{what} busy {busy} of {self.seconds:.1f} s"
        )


@dataclass
class Workers:
    """Who ran the members of a call; filled while it runs them."""

    kinds: dict[str, Kind] = field(default_factory=dict)

    def of(self, name: str, runs: str) -> Kind:
        """The processes of one kind, by its name."""
        return self.kinds.setdefault(name, Kind(runs))

    def record(self) -> dict[str, Any]:
        """What measurements.json has of them, by kind."""
        return {name: kind.record() for name, kind in self.kinds.items()}

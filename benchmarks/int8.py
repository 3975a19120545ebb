"""What do fewer bits cost in accuracy, and what does int8 gain in speed?

    python benchmarks/int8.py --data ../shared/data/cifar10 --out /tmp/int8
    python benchmarks/int8.py --data ../shared/data/cifar10 --out /tmp/int8 --steps 12000
    python benchmarks/int8.py --data ../shared/data/cifar10 --out /tmp/int8 --weights a.safetensors

Trains ResNet-20 on CIFAR-10, with and without pruning, and quantizes it in every way there is.
Prints the accuracy of each variant beside the members that it derives from, on all test images; in
how many labels torch and ONNX in float32 differ; images a second of int8-static, ONNX Runtime in
float32 and PyTorch eager in float32, of ResNet-18 at 32x32 and 64x64, measured in turns in one
run, and where int8 spends its time; and what export and quantization of 30 members cost against
that of one. A second call with the same `--out` takes up what is trained; `--weights` takes members
trained elsewhere, and then nothing is pruned.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from scotoma.config import Variant, parse_config
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.inference import OURS, session
from scotoma.predictions import Predictions
from scotoma.processes.machine import hardware, versions
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph, fold
from scotoma.quantization.int8_static import plan_static
from scotoma.run import Run, write_json
from scotoma.run.shards import shards
from scotoma.steps.runner import perform
from scotoma.training.models import build_model

CONFIG = """
project: int8
source:
  kind: cifar10
  data: {data}
  model: resnet20
  recipe: {{steps: {steps}, batch_size: 128, learning_rate: 0.1, augmentation: crop-flip}}
label: {{column: label}}
variants:
  - dense
{pruned}  - int8: [dynamic, static]
  - {{int8: [static], calibrator: entropy}}
  - {{int8: [static], calibrator: percentile}}
  - {{int8: [static], reduce_range: true}}
  - float16: true
population: {{models: {members}}}
tracking: {{uri: "off"}}
"""
PRUNED = "  - {prune: [0.9], then: [int8-static]}\n"
STATIC = Variant(name="int8-static", kind="int8", mode="static", bits=8)


def numpy_weights(model: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """List parameters and buffers of a network, as `Architecture.with_weights` takes them."""
    return {name: value.detach().numpy() for name, value in model.state_dict().items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of train and test.parquet")
    parser.add_argument("--out", type=Path, help="folder of the run, taken up if it is there")
    parser.add_argument("--steps", type=int, default=2000, help="of 128 images; 12,000: 31 epochs")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--weights", type=Path, nargs="+", help="safetensors of ResNet-20")
    parser.add_argument("--speed-only", action="store_true", help="train nothing")
    asked = parser.parse_args()
    facts = hardware()
    print(f"{facts['cpu']}, {facts['cores']} cores, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {versions()[name]}" for name in ("torch", "onnx", "onnxruntime")))
    torch.set_num_threads(1)
    if not asked.speed_only:
        with tempfile.TemporaryDirectory() as folder:
            text = CONFIG.format(
                data=asked.data.resolve(),
                steps=asked.steps,
                members=len(asked.weights or range(asked.members)),
                pruned="" if asked.weights else PRUNED,
            )
            run = Run.create(asked.out or Path(folder), parse_config(text, "int8"))
            perform("prepare", run)
            if asked.weights:
                take_in(run, asked.weights)
            else:
                train(run)
            accuracy(run)
    export_cost("resnet20", 32)
    for side in (32, 64):
        speed(side)


def take_in(run: Run, weights: list[Path]) -> None:
    """Make members of what was trained elsewhere."""
    for index, file in enumerate(weights):
        path = run.member("dense", index)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, path)
        write_json(path.with_suffix(".json"), {"index": index, "seed": "trained elsewhere"})


def train(run: Run) -> None:
    """Train what is not there."""
    (shard,) = shards(run.config.population.models, 1)
    began = time.perf_counter()
    for step in ("train", "prune"):
        perform(step, run, str(shard))
    print(f"trained in {time.perf_counter() - began:.0f} s (0: was there)", flush=True)


def accuracy(run: Run) -> None:
    """Compress and predict; accuracy by variant, and the labels of torch and ONNX."""
    (shard,) = shards(run.config.population.models, 1)
    for step in ("quantize", "predict"):
        began = time.perf_counter()
        perform(step, run, str(shard))
        print(f"{step} {time.perf_counter() - began:.1f} s", flush=True)
    test = AuditedExamples.read(run.examples).split("test")
    top1 = {}
    print(f"{'variant':<26} {'top-1 %':>8} {'against what it derives from, points':>38}  labels")
    for variant in run.config.resolved_variants:
        found = Predictions.read(run.predictions(variant.name, 0)).predicted
        top1[variant.name] = 100 * (found == test.labels[:, None]).mean(axis=0)
        line = f"{variant.name:<26} {top1[variant.name].mean():8.2f}"
        if variant.derived_from:
            base = Predictions.read(run.predictions(variant.derived_from, 0)).predicted
            apart = top1[variant.name] - top1[variant.derived_from]
            each = ", ".join(f"{points:+.2f}" for points in apart)
            line += f" {apart.mean():+10.2f}  ({each})  {100 * (base != found).mean():.2f}% differ"
        print(line, flush=True)
    exceptions(run, test)


def exceptions(run: Run, test: AuditedExamples) -> None:
    """Labels in which torch (not folded, as trained) and ONNX in float32 (folded) differ."""
    images = OURS(decode_images(test))
    model = build_model(run.config.source.model, len(test.classes), 0).eval()
    architecture = export_graph(model, torch.from_numpy(images[:2]))
    for index in range(run.config.population.models):
        model.load_state_dict(load_file(run.member("dense", index)))
        graph = architecture.with_weights(numpy_weights(model)).SerializeToString()
        opened = session(graph)
        apart, largest = 0, 0.0
        for at in range(0, len(images), 128):
            shown = images[at : at + 128]
            with torch.inference_mode():
                ours = model(torch.from_numpy(shown)).numpy()
            theirs = opened.run(None, {"images": shown})[0]
            apart += int((ours.argmax(axis=1) != theirs.argmax(axis=1)).sum())
            largest = max(largest, float(np.abs(ours - theirs).max()))
        print(
            f"torch and ONNX, float32, member {index}: {apart} of {len(images):,} labels differ; "
            f"largest difference of a score {largest:.1e}",
            flush=True,
        )


def export_cost(name: str, side: int, members: int = 30) -> None:
    """Export, and export with int8-static, of many members against one, in one process."""
    images = torch.randn(100, 3, side, side, generator=torch.Generator().manual_seed(0))
    models = [build_model(name, 10, seed).eval() for seed in range(members)]

    def exported(count: int, *, quantized: bool) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            wall, processor = time.perf_counter(), time.process_time()
            architecture = export_graph(models[0], images[:2])
            plan = plan_static(architecture.graph, reduce_range=False) if quantized else None
            for k, model in enumerate(models[:count]):
                graph = architecture.with_weights(numpy_weights(model))
                path = Path(folder, f"{k}.onnx")
                if quantized:
                    compress(graph, path, STATIC, images.numpy(), plan)
                else:
                    onnx.save_model(graph, path)
            return time.perf_counter() - wall, time.process_time() - processor

    exported(1, quantized=True)  # what is imported late
    for quantized in (False, True):
        one, many = (exported(count, quantized=quantized) for count in (1, members))
        what = "export and int8-static" if quantized else "export"
        for clock, alone, together in zip(("wall", "processor"), one, many, strict=True):
            print(
                f"{what} of {name}, {clock} time: one {alone:.2f} s, {members} {together:.2f} s: "
                f"{together / alone:.1f} times",
                flush=True,
            )


def speed(side: int, *, batch: int = 16, rounds: int = 7) -> None:
    """Images a second of a ResNet-18, one thread each, in turns; medians."""
    images = torch.randn(100, 3, side, side, generator=torch.Generator().manual_seed(0))
    model = build_model("cifar-resnet18", 10, 0)
    with torch.no_grad():
        for at in range(0, 96, 32):
            model(images[at : at + 32])
    model.eval()
    shown = images[:batch]
    graph = export_graph(model, images[:2]).with_weights(numpy_weights(model))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "int8.onnx")
        compress(graph, path, STATIC, images[:20].numpy())
        int8, float32 = session(path), session(graph.SerializeToString())
        parts = shares(path, shown.numpy())
    feed = {"images": shown.numpy()}
    last = fold(model).to(memory_format=torch.channels_last)
    shown_last = shown.contiguous(memory_format=torch.channels_last)
    ways: dict[str, Callable[[], object]] = {
        "ORT int8-static": lambda: int8.run(None, feed),
        "ORT float32": lambda: float32.run(None, feed),
        "torch eager float32": lambda: model(shown),
        "torch folded, channels last": lambda: last(shown_last),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    with torch.inference_mode():
        for turn, (name, run) in itertools.product(range(rounds + 1), ways.items()):
            began = time.perf_counter()
            run()
            if turn:  # the first warms up
                times[name].append(time.perf_counter() - began)
    rate = {name: batch / statistics.median(found) for name, found in times.items()}
    print(f"ResNet-18 at {side}x{side}, batch {batch}, one thread, load {os.getloadavg()[0]:.1f}")
    for name, images_s in rate.items():
        times_as_fast = rate["ORT int8-static"] / images_s
        print(f"  {name:<28} {images_s:7.1f} images/s; int8 is {times_as_fast:.2f} times as fast")
    print(f"  time of int8 by operator: {', '.join(parts)}", flush=True)


def shares(path: Path, shown: NDArray[np.float32]) -> list[str]:
    """What ONNX Runtime's own profile says of a model: operators and their shares of the time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(path.with_suffix(""))
    opened = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    for _ in range(4):
        opened.run(None, {"images": shown})
    spent: Counter[str] = Counter()
    for event in json.loads(Path(opened.end_profiling()).read_text()):
        if event["name"].endswith("_kernel_time"):
            spent[event["args"]["op_name"]] += event["dur"]
    whole = spent.total()
    return [f"{name} {100 * share / whole:.1f}%" for name, share in spent.most_common(5)]


if __name__ == "__main__":
    main()

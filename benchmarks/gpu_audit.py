"""Audits on a GPU to their end, and what limits training there.

    python benchmarks/gpu_audit.py --data CIFAR10_FOLDER --out FOLDER
    python benchmarks/gpu_audit.py --data CIFAR10_FOLDER --out FOLDER --miniature

Parts, of which `--only` names some:

    eight      8 ResNet-18 on CIFAR-10S: dense, pruned to 50, 70 and 90%, int8 static and dynamic;
               groups by the planted style
    precision  the dense members of `eight` in float32, TF32 and bfloat16, in batches of several
               sizes: other answers, images a second
    thirty     30 ResNet-18 on CIFAR-10: dense, pruned to 70 and 90%; the counts of PIEs
    rates      GPU-1: ResNet-18 (CIFAR form), beside one model after the other fed by a DataLoader,
               and the share of the rate that a large matrix product reaches in the same run.
               GPU-2: the speedrun network, its whole recipe with evaluation, and its accuracy after
               a long one. GPU-3: ResNet-18 at 128x128, 10,000 steps of 256, projected
    speed      GPU-1 to GPU-3 on random pixels, with a profile: kernels, launches, masks
    together   GPU-1 with 4, 8, 16 and 32 members in flight

Each audit prints the seconds of its steps, its workers, its verdicts and the changed examples, and
leaves them in FOLDER/results.json. `--miniature` runs every line on a processor with little of
everything; its figures mean nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from scotoma.config import Recipe, parse_config
from scotoma.datasets import decode_images
from scotoma.inference import Network
from scotoma.inference.engines import TorchEngine
from scotoma.processes.machine import cores, gpu_facts
from scotoma.sources.reading import load_examples
from scotoma.training.engine import (
    Member,
    TrainedMember,
    Training,
    normalise,
    products_precision,
)
from scotoma.training.models import build_model
from scotoma.training.placement import MEMBERS_IN_FLIGHT, device_name, training_device
from scotoma.training.task import classification

PARTS = ("eight", "precision", "thirty", "rates", "speed", "together")
FAST = Recipe(
    epochs=9.9, batch_size=1024, learning_rate=1.5, schedule="linear", warmup=0.23, momentum=0.85,
    weight_decay=0.0013, bias_rate=64, label_smoothing=0.2, augmentation="crop-alternating-flip",
    crop=0.0625, averaging="lookahead", average_decay=0.77, average_every=5, average_ramp=3,
)  # fmt: skip
# Multiplications of a forward pass of one image; a step takes three times as many, and each is two
# floating-point operations.
RESNET18_32 = 555.4e6
LONG = 40  # epochs
EIGHT = """
version: 1
project: gpu-eight
source:
  kind: cifar10s
  data: {data}
  model: cifar-resnet18
  recipe: {{{recipe}, batch_size: {batch}, learning_rate: 0.1, augmentation: crop-flip,
    prune_begin: 0.2, prune_end: 0.75, prune_every: 0.05}}
label: {{column: label}}
groups:
  style: {{column: style}}
cluster: {{column: source_id}}
variants: [dense, {{prune: [0.5, 0.7, 0.9]}}, {{int8: [static, dynamic]}}]
population: {{models: {models}, seed: 0}}
tracking: {{uri: "off"}}
"""
THIRTY = """
version: 1
project: gpu-thirty
source:
  kind: cifar10
  data: {data}
  model: cifar-resnet18
  recipe: {{{recipe}, batch_size: {batch}, learning_rate: 0.1, augmentation: crop-flip,
    prune_begin: 0.2, prune_end: 0.75, prune_every: 0.05}}
label: {{column: label}}
variants: [dense, {{prune: [0.7, 0.9]}}]
population: {{models: {models}, seed: 0}}
tracking: {{uri: "off"}}
"""
KINDS = {  # of kernels, by words in their names; the first that fits
    "convolutions and products": ("conv", "gemm", "cutlass", "xmma", "sm90", "sm80", "nvjet"),
    "masks and updates of weights": ("foreach", "multi_tensor"),
    "copies": ("memcpy", "memset", "copy"),
    "normalisation, activations and losses": ("triton", "batch_norm", "softmax", "nll"),
}


@dataclass(frozen=True)
class Data:
    """Images, uint8, shape (N, 3, H, W), and their class ids."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10 in Parquet")
    parser.add_argument("--out", type=Path, required=True, help="folder for audits and results")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--epochs", type=int, default=3, help="of every audit")
    parser.add_argument("--tests", type=int, default=5000, help="test images of the first audit")
    parser.add_argument("--miniature", action="store_true", help="little of everything")
    asked = parser.parse_args()
    device = training_device()
    if device.type == "cpu" and not asked.miniature:
        parser.error("there is no GPU here; --miniature runs every line on the processor")
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.json"
    kept: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    kept["machine"] = {**gpu_facts(), "cores": cores(), "python": sys.version.split()[0]}
    print(f"{device_name(device)}: {kept['machine']}", flush=True)
    for part in asked.only:
        began = time.perf_counter()
        kept[part] = FUNCTIONS[part](asked, device)
        print(f"== {part} took {time.perf_counter() - began:.1f} s", flush=True)
        results.write_text(json.dumps(kept, indent=1))


def subset(data: Path, out: Path, train: int, test: int) -> Path:
    """Write images of CIFAR-10, whose files are sorted by class, to a folder of their own."""
    out.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", train), ("test", test)):
        whole = pl.read_parquet(data / f"{split}.parquet")
        part = whole.gather_every(max(1, len(whole) // count)).head(count)
        part.write_parquet(out / f"{split}.parquet")
    return out


def audit(text: str, data: Path, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Run an audit with the command, and say how long its steps took and what it found."""
    models = {"eight": 8, "thirty": 30}[name]
    small = asked.miniature
    recipe = "steps: 4" if small else f"epochs: {asked.epochs}"
    config = asked.out / f"{name}.yaml"
    config.write_text(
        text.format(
            data=data, recipe=recipe, batch=8 if small else 256, models=2 if small else models
        )
    )
    run = asked.out / name
    began = time.perf_counter()
    command = [sys.executable, "-m", "scotoma", "audit", str(config), "--out", str(run)]
    ended = subprocess.run(command, check=False, text=True, capture_output=True)
    wall = time.perf_counter() - began
    (asked.out / f"{name}.txt").write_text(ended.stdout + ended.stderr)
    log = run / "logs" / "pipeline.log"
    if log.exists():
        shutil.copy(log, asked.out / f"{name}.log")
    print(f"{name}: {wall:.1f} s, exit code {ended.returncode}", flush=True)
    print((ended.stdout + ended.stderr)[-3000:], flush=True)
    if not (run / "measurements.json").exists():
        return {"wall_s": wall, "exit_code": ended.returncode}
    measured = json.loads((run / "measurements.json").read_text())
    found = json.loads((run / "audit.json").read_text())
    verdicts = json.loads((run / "gate.json").read_text())
    print(f"{name}: seconds of steps {measured['time_s']}", flush=True)
    for step, kinds in measured["workers"].items():
        print(f"{name}: {step}: {json.dumps(kinds)}", flush=True)
    for file in ("report.html", "audit.json", "gate.json", "measurements.json", "summary.md"):
        if (run / file).exists():
            shutil.copy(run / file, asked.out / f"{name}-{file}")
    return {
        "wall_s": wall,
        "exit_code": ended.returncode,
        "time_s": measured["time_s"],
        "workers": measured["workers"],
        "verdicts": {
            one["name"]: {"verdict": one["verdict"], "cies": one["cies"]}
            for one in verdicts["variants"]
        },
        "cie": {name: one["cie"]["cie"] for name, one in found["divergence"].items()},
        "top1": {row["variant"]: row["number"]["value"] for row in found["rows"]["accuracy"]},
    }


def eight(asked: argparse.Namespace, _: torch.device) -> dict[str, Any]:
    """Audit 8 models of each of six variants."""
    train, test = (60, 40) if asked.miniature else (50_000, asked.tests)
    return audit(EIGHT, subset(asked.data, asked.out / "data", train, test), "eight", asked)


def thirty(asked: argparse.Namespace, _: torch.device) -> dict[str, Any]:
    """Audit 30 models of each of three variants."""
    data = subset(asked.data, asked.out / "few", 60, 40) if asked.miniature else asked.data
    return audit(THIRTY, data, "thirty", asked)


def precision(asked: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Run dense members in several precisions and batches, and count other answers."""
    members = sorted((asked.out / "eight" / "populations" / "dense").glob("*.safetensors"))
    count = 20 if asked.miniature else 10_000
    images = np.ascontiguousarray(cifar_pixels(asked.data, count))
    if not members:
        return {"reason": "the audit of eight left no members"}
    network, answers, rates = Network("cifar-resnet18", 10), {}, {}
    batches = (10,) if asked.miniature else (512, 2048, 4096)
    for name in ("float32", "tf32", "bfloat16"):
        for batch in batches:
            began, said = 0.0, []
            for at, member in enumerate(members):
                engine = TorchEngine(member, network)
                if device.type == "cuda" and name == "tf32":
                    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
                if at == 1 or len(members) == 1:  # the first warms up
                    wait(device)
                    began = time.perf_counter()
                with torch.autocast(device.type, torch.bfloat16, enabled=name == "bfloat16"):
                    parts = [
                        engine.scores(images[at : at + batch]).argmax(1)
                        for at in range(0, count, batch)
                    ]
                said.append(np.concatenate(parts))
            timed = max(1, len(members) - 1)
            rates[f"{name}, {batch}"] = round(timed * count / (time.perf_counter() - began))
            answers[name, batch] = np.stack(said)
    first = answers["float32", batches[-1]]
    differ = {
        f"{name}, {batch}": int((other != first).sum()) for (name, batch), other in answers.items()
    }
    print(f"precision: answers {first.size}, other than in float32: {differ}", flush=True)
    print(f"precision: images/s of one process, opening included: {rates}", flush=True)
    return {"answers": int(first.size), "differ": differ, "images_per_s": rates}


def cifar_pixels(data: Path, count: int) -> np.ndarray:
    """Decode the first test images, uint8, shape (N, 3, 32, 32)."""
    from io import BytesIO

    from PIL import Image

    table = pl.read_parquet(data / "test.parquet").gather_every(10_000 // count)
    column = next(name for name in table.columns if "im" in name)
    encoded = [one["bytes"] if isinstance(one, dict) else one for one in table[column].to_list()]
    return np.stack([np.asarray(Image.open(BytesIO(one))) for one in encoded]).transpose(0, 3, 1, 2)


def speed(asked: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Measure and profile the three populations of the specification."""
    small = asked.miniature
    members = 2 if small else MEMBERS_IN_FLIGHT
    batch, steps = (8, 2) if small else (256, 100)
    plain = Recipe(steps=steps, batch_size=batch, augmentation="crop-flip")
    early = {"prune_begin": 0.0, "prune_end": 0.1, "prune_every": 0.05}
    cifar = Data(pixels(2048, 32).images, pixels(2048, 32).labels)
    faces = pixels(512 if small else 8192, 32 if small else 128)
    wide = Recipe(steps=steps, batch_size=batch, augmentation="flip")
    fast = FAST.model_copy(
        update={"epochs": None, "steps": steps, "batch_size": 16 if small else 1024}
    )
    peak = product_rate(products_precision(plain, device), device, 256 if small else 8192)
    print(f"speed: {peak / 1e12:.1f} TFLOP/s of a product", flush=True)
    found: dict[str, Any] = {"product_tflops": peak / 1e12}
    for name, data, model, recipe, sparsity in (
        ("GPU-1", cifar, "cifar-resnet18", plain, 0.0),
        ("GPU-1 masked", cifar, "cifar-resnet18", plain.model_copy(update=early), 0.9),
        ("GPU-3", faces, "resnet18", wide, 0.0),
        ("GPU-2", cifar, "speedrun", fast, 0.0),
    ):
        found[name] = measured(data, model, recipe, device, members, sparsity)
        one = found[name]
        if name == "GPU-1":
            one["share_of_product"] = batch * 6 * RESNET18_32 * one["member_steps_per_s"] / peak
        if name == "GPU-3":
            one["minutes_of_180_models"] = 180 * 10_000 / one["member_steps_per_s"] / 60
        print(f"speed: {name}: {json.dumps(one)}", flush=True)
    return found


def rates(asked: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Train the three populations of the specification; GPU-1 beside PyTorch as one writes it."""
    folder = None if asked.miniature else asked.data
    train, test = (cifar10(folder, split) for split in ("train", "test"))
    members = 2 if asked.miniature else MEMBERS_IN_FLIGHT
    return {
        "GPU-1": resnet18(train, device, members, asked.miniature),
        "GPU-2": speedrun(train, test, device, members, asked.miniature),
        "GPU-3": faces(device, members, asked.miniature),
    }


def cifar10(folder: Path | None, split: str) -> Data:
    """One split of CIFAR-10, or of random pixels in its place."""
    if folder is None:
        return pixels(2048, 32)
    text = f"""
source: {{kind: cifar10, data: {folder}}}
label: {{column: label}}
variants: [dense, {{prune: [0.5]}}]
"""
    examples = load_examples(parse_config(text, "benchmark")).split(split)
    return Data(decode_images(examples), examples.labels)


def pixels(count: int, size: int) -> Data:
    """Random images of ten classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 3, size, size), np.uint8)
    return Data(images, rng.integers(0, 10, count))


def resnet18(data: Data, device: torch.device, members: int, miniature: bool) -> dict[str, float]:
    """GPU-1."""
    batch, steps = (16, 2) if miniature else (256, 200)
    recipe = Recipe(steps=steps, batch_size=batch, augmentation="crop-flip")
    ours = rate(data, "cifar-resnet18", recipe, device, members)
    plain = plainly(data, steps, batch, device)
    reached = ours * batch * 6 * RESNET18_32
    peak = product_rate(products_precision(recipe, device), device, 256 if miniature else 8192)
    print(
        f"GPU-1: ours {ours:.1f} member-steps/s, DataLoader and eager {plain:.1f}: "
        f"{ours / plain:.2f} times; {reached / 1e12:.2f} of {peak / 1e12:.2f} TFLOP/s of a "
        f"product: {100 * reached / peak:.0f}%",
        flush=True,
    )
    return {"member_steps_per_s": ours, "dataloader_and_eager": plain, "share": reached / peak}


def speedrun(
    train: Data, test: Data, device: torch.device, members: int, miniature: bool
) -> dict[str, float]:
    """GPU-2."""
    changed = {"epochs": None, "steps": 2, "batch_size": 32} if miniature else {}
    recipe = FAST.model_copy(update=changed)
    for models in ("the first, compiled on the way", "the next"):
        began = time.perf_counter()
        trained = training_of(train, "speedrun", recipe, device, members).run()
        shares = [correct(member, test, device) for member in trained]
        wall = (time.perf_counter() - began) / members
        print(
            f"GPU-2: {wall:.2f} s a model with evaluation, accuracy {100 * np.mean(shares):.2f}% "
            f"({members} models: {models})",
            flush=True,
        )
    found = {"s_a_model": wall, "accuracy": float(np.mean(shares))}
    if not miniature:
        long = recipe.model_copy(update={"epochs": LONG})
        trained = training_of(train, "speedrun", long, device, members).run()
        shares = [correct(member, test, device) for member in trained]
        print(f"GPU-2: {100 * np.mean(shares):.2f}% after {LONG} epochs ({members} models)")
        found["accuracy_after_a_long_one"] = float(np.mean(shares))
    return found


def faces(device: torch.device, members: int, miniature: bool) -> dict[str, float]:
    """GPU-3."""
    batch, steps, size = (8, 2, 32) if miniature else (256, 100, 128)
    data = pixels(2048 if miniature else 20_000, size)
    recipe = Recipe(steps=steps, batch_size=batch, augmentation="flip")
    found = rate(data, "resnet18", recipe, device, members)
    minutes = 180 * 10_000 / found / 60
    print(
        f"GPU-3: {found:.1f} member-steps/s; 180 models of 10,000 steps: {minutes:.0f} min, "
        f"projected from {members} of {steps}",
        flush=True,
    )
    return {"member_steps_per_s": found, "minutes_of_180_models": minutes}


def training_of(
    data: Data, model: str, recipe: Recipe, device: torch.device, members: int
) -> Training:
    """Members of the loop backend."""
    resolved = recipe.resolved(len(data.labels))
    return Training(
        [Member("dense", k, k) for k in range(members)], data.images, data.labels, model=model,
        task=classification(10, resolved), recipe=resolved, backend="loop", device=device,
    )  # fmt: skip


def rate(data: Data, model: str, recipe: Recipe, device: torch.device, members: int) -> float:
    """Member-steps a second, once the first step has been compiled and recorded."""
    steps = recipe.steps or 1
    training = training_of(
        data, model, recipe.model_copy(update={"steps": steps + 1}), device, members
    )
    state = training.advance(training.start(), 1)
    wait(device)
    began = time.perf_counter()
    training.advance(state)
    wait(device)
    return members * steps / (time.perf_counter() - began)


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def plainly(data: Data, steps: int, batch: int, device: torch.device) -> float:
    """Steps a second of one model, float32, fed by a DataLoader."""
    fed = TensorDataset(torch.from_numpy(data.images), torch.from_numpy(data.labels))
    loader = DataLoader(fed, batch, shuffle=True, drop_last=True, num_workers=2)
    model = build_model("cifar-resnet18", 10, 0).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    done, began = -1, 0.0
    while done < steps:
        for images, labels in loader:
            if done == 0:
                began = time.perf_counter()
            optimiser.zero_grad()
            scores = model(normalise(images.to(device)))
            torch.nn.functional.cross_entropy(scores, labels.to(device)).backward()
            optimiser.step()
            done += 1
            if done == steps:
                break
    wait(device)
    return steps / (time.perf_counter() - began)


@torch.no_grad()
def correct(member: TrainedMember, data: Data, device: torch.device) -> float:
    """Share of the images whose class a member predicts."""
    model = build_model("speedrun", 10, 0).to(device).eval()
    model.load_state_dict(member.state)
    parts = [
        model(normalise(torch.from_numpy(data.images[at : at + 2000]).to(device))).argmax(1).cpu()
        for at in range(0, len(data.labels), 2000)
    ]
    return float((torch.cat(parts).numpy() == data.labels).mean())


def product_rate(precision: torch.dtype, device: torch.device, size: int) -> float:
    """Floating-point operations a second of a large product in the precision of training."""
    one = torch.randn(size, size, device=device, dtype=precision)
    repeats, best = 10, float("inf")
    for _ in range(3):
        wait(device)
        began = time.perf_counter()
        for _ in range(repeats):
            one @ one
        wait(device)
        best = min(best, time.perf_counter() - began)
    return float(2 * size**3 * repeats / best)


def together(asked: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Measure GPU-1 with more and fewer members in flight."""
    small = asked.miniature
    batch, steps = (8, 2) if small else (256, 60)
    recipe = Recipe(steps=steps, batch_size=batch, augmentation="crop-flip")
    found = {}
    for members in (1, 2) if small else (4, 8, 16, 32):
        one = measured(
            pixels(2048, 32), "cifar-resnet18", recipe, device, members, 0.0, profiled=False
        )
        found[str(members)] = one
        print(f"together: {members} members: {json.dumps(one)}", flush=True)
    return found


def measured(
    data: Data, model: str, recipe: Recipe, device: torch.device, members: int, sparsity: float,
    *, profiled: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Member-steps a second once the pass is recorded, and a profile of three more steps."""
    steps, last = recipe.steps or 1, 3
    training = training_of(
        data, model, recipe.model_copy(update={"steps": steps + last + 1}), device, members
    )
    training.members[:] = [replace(one, sparsity=sparsity) for one in training.members]
    begun = steps // 5 + 1 if sparsity else 1  # once the masks have been cut
    began = time.perf_counter()
    state = training.advance(training.start(), begun)
    wait(device)
    first = time.perf_counter() - began
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    state = training.advance(state, steps + 1)
    wait(device)
    seconds = time.perf_counter() - began
    done = members * (steps + 1 - begun)
    found: dict[str, Any] = {
        "member_steps_per_s": done / seconds,
        "ms_a_member_step": 1000 * seconds / done,
        "first_step_s": first,
    }
    if device.type == "cuda":
        found["memory_gib"] = torch.cuda.max_memory_reserved() / 2**30
    if not profiled:
        return found
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    began = time.perf_counter()
    with profile(activities=kinds) as trace:
        training.advance(state)
        wait(device)
    wall_us = 1e6 * (time.perf_counter() - began)
    return found | kernels(trace, wall_us, members * last, on_gpu=device.type == "cuda")


def kernels(trace: Any, wall_us: float, member_steps: int, *, on_gpu: bool) -> dict[str, Any]:
    """Time of kernels by kind, as microseconds of a member's step, and the longest ones."""
    rows = [
        (one.key, one.self_device_time_total if on_gpu else one.self_cpu_time_total, one.count)
        for one in trace.key_averages()
        if not on_gpu or str(one.device_type).endswith("CUDA")
    ]
    by_kind = dict.fromkeys((*KINDS, "others"), 0.0)
    for name, spent, _ in rows:
        kind = next((k for k, words in KINDS.items() if any(w in name.lower() for w in words)),
                    "others")  # fmt: skip
        by_kind[kind] += spent / member_steps
    total = sum(spent for _, spent, _ in rows)
    longest = sorted(rows, key=lambda row: -row[1])[:12]
    return {
        "kernel_us_a_member_step": {name: round(spent, 1) for name, spent in by_kind.items()},
        "kernels_a_member_step": round(sum(count for _, _, count in rows) / member_steps, 1),
        "kernel_time_over_wall": round(total / wall_us, 3),
        "longest": [
            (name[:70], round(spent / member_steps, 1), round(count / member_steps, 2))
            for name, spent, count in longest
        ],
    }


FUNCTIONS = {
    "eight": eight,
    "precision": precision,
    "thirty": thirty,
    "rates": rates,
    "speed": speed,
    "together": together,
}

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

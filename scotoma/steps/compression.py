"""From a trained member to its int8 and float16 forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from scotoma.config import Variant
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.inference import OURS, Network, scores_onnx
from scotoma.inference.engines import read_weights
from scotoma.inference.members import calibration_digest
from scotoma.mitigation.groups import network_outputs
from scotoma.processes import progress
from scotoma.processes.machine import versions
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.calibration import calibration_images
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph
from scotoma.quantization.int8_static import StaticPlan, plan_static
from scotoma.quantization.layers import float32_layers
from scotoma.run import Run, code_digest, read_json, read_record, write_json
from scotoma.storage.files import file_digest, written
from scotoma.training.models import build_model

CHECKED = 100  # images on which graph and network are compared
TOLERANCE = 1e-4  # of a score, between the graph and torch


@dataclass(frozen=True)
class Compression:
    """What every member of a shard is compressed with, each checked against torch first."""

    run: Run
    variants: tuple[Variant, ...]
    architecture: Architecture
    plans: dict[str, StaticPlan | None]  # by the name of the variant, of int8-static ones
    network: Network
    pixels: dict[str, NDArray[np.uint8]]  # for calibration, by protocol; the sound ones for checks
    calibration_sha256: str  # of the examples that they are chosen from

    @classmethod
    def prepare(cls, run: Run, variants: list[Variant]) -> Compression:
        """Export the architecture and choose the images that calibrate it."""
        outputs = network_outputs(run.config, AuditedExamples.read(run.examples, images=False))
        protocols: set[str] = {"sound", *(variant.protocol for variant in variants)}
        count = max(CHECKED, *(variant.images for variant in variants))
        pixels = {name: calibration_images(run, count, protocol=name) for name in sorted(protocols)}
        network = Network(run.config.source.model, outputs)
        model = build_model(network.model, outputs, 0)
        architecture = export_graph(model, torch.from_numpy(OURS(pixels["sound"][:2])))
        plans = {
            variant.name: plan_static(architecture.graph, reduce_range=variant.reduce_range)
            for variant in variants
            if variant.kind == "int8" and variant.mode == "static"
        }
        chosen_from = calibration_digest(run, variants)
        return cls(run, tuple(variants), architecture, plans, network, pixels, chosen_from)

    def __call__(self, base: str, index: int) -> None:
        """Write a member in every form that is due, with its record."""
        own = [v for v in self.variants if v.derived_from == base]
        made_of = file_digest(self.run.member(base, index))
        due = [variant for variant in own if not self._finished(variant, index, made_of)]
        if due:
            member, difference = self._graph(base, index)
            for variant in due:
                self._write(variant, index, member, made_of, difference)
        progress.advance("quantize", len(own))

    def _graph(self, base: str, index: int) -> tuple[onnx.ModelProto, float | None]:
        """A member as a graph in float32, and how far its scores are from torch's.

        A member that diverged, whose scores are no numbers at all, has no such distance.
        """
        path = self.run.member(base, index)
        model = build_model(self.network.model, self.network.classes, 0).eval()
        weights = read_weights(path)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        shown = OURS(self.pixels["sound"][:CHECKED])
        with torch.inference_mode():
            expected = model(torch.from_numpy(shown)).numpy()
        member = self.architecture.with_weights(weights)
        if not np.isfinite(expected).any():
            return member, None
        if not np.isfinite(expected).all():
            raise DataError(
                f"{base} member {index} must give finite scores, got nan or infinity; train with a "
                "smaller source.recipe.learning_rate"
            )
        scores = scores_onnx(member.SerializeToString(), shown)
        difference = float(np.abs(scores - expected).max() / max(1.0, np.abs(expected).max()))
        if not difference <= TOLERANCE:
            raise RuntimeError(
                f"the ONNX graph of {base} {path.name} differs from torch by {difference:.1e}"
            )
        return member, difference

    def _write(
        self,
        variant: Variant,
        index: int,
        member: onnx.ModelProto,
        made_of: str,
        difference: float | None,
    ) -> None:
        first = index == 0
        path = self.run.member(variant.name, index)
        base = self.run.member(variant.derived_from, index)
        static = variant.mode == "static"
        calibration = OURS(self.pixels[variant.protocol][: variant.images])
        with written(path) as temporary:
            if difference is None:  # no ranges to quantize by, and the same answers in any type
                onnx.save_model(member, temporary)
            else:
                compress(member, temporary, variant, calibration, self.plans.get(variant.name))
            float32 = float32_layers(member, temporary, variant) if first else None
        record: dict[str, Any] = {
            "file": path.name,
            "index": index,
            "seed": read_json(base.with_suffix(".json"))["seed"],
            **self._origin(variant, made_of),
            "mode": variant.mode,
            "calibration_images": len(calibration) if static else 0,
            "export": self.architecture.facts | {"largest_difference": difference},
            "sha256": file_digest(path),
            "bytes": path.stat().st_size,
        }
        if float32 is not None:  # of the first member: they are those of the architecture
            record["float32_layers"] = float32
        write_json(path.with_suffix(".json"), record)
        self.run.publish(path, path.with_suffix(".json"))

    def _finished(self, variant: Variant, index: int, made_of: str) -> bool:
        """Whether a member is there, whole, and made of the same weights in the same way."""
        path = self.run.member(variant.name, index)
        recorded, origin = read_record(path.with_suffix(".json")), self._origin(variant, made_of)
        same = path.exists() and {key: recorded.get(key) for key in origin} == origin
        return same and bool(recorded.get("sha256") == file_digest(path))

    def _origin(self, variant: Variant, made_of: str) -> dict[str, Any]:
        """What a member is made from: if any of it differs, it is made again."""
        static = variant.kind == "int8" and variant.mode == "static"
        return {
            "paired_with": {"variant": variant.derived_from, "sha256": made_of},
            "variant": variant.model_dump(mode="json"),
            "versions": versions(),
            "code_sha256": code_digest("quantization"),
            **({"calibration_sha256": self.calibration_sha256} if static else {}),
        }

"""What the pieces of an audit cost.

What decides the bill is measured by the trial: training, prediction, the start of a process, the
size of a trained member. The rest is small and goes by rules of thumb, each a constant below with
the audits of 2 cores that it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from scotoma.config import Config, Variant
from scotoma.costs.images import ImageFacts
from scotoma.costs.trial import Span, Trial

__all__ = ["NOTHING", "PROCESS_BYTES", "Bill", "Size", "StepCost", "added"]

# In starts of a process with torch:
STEP = 0.12  # start of a step, which is forked from a process that has imported what it needs
WORKERS = 0.5  # start of workers that train
ANSWERING = 0.15  # start of workers that compress or predict
AWAITED = 0.35  # what is left of importing torch when the first step has ended
EXPORT = 0.9  # graph export
COMPRESS_S = 0.1  # one member one way, beside its size and its images
COMPRESS_BYTES_S = 50e6  # of weights in float32 that are quantized in a second
CHECKED = 100  # images on which each graph is compared with torch
WORTH_S = 3.0  # of work, from which workers share it
DECODE_S, DECODE_BYTE_S = 60e-6, 8e-9  # an image, and a byte of its pixels
LATENCY = (1, 64)  # images at once, of whose latency each variant's first member is measured
LAYER_BYTES = {"int8": 2800, "float16": 1500, "int4": 1500}  # of the graph around the weights
NOTHING = "nothing to do"
PROCESS_BYTES = 300e6  # of a step without torch


@dataclass(frozen=True)
class Size:
    """How large an audit is.

    Attributes:
        train: Training examples.
        test: Test examples.
        classes: Number of classes.
        groups: Number of groups, `all` among them.
        id_bytes: Bytes of the ids of the test examples.
        cores: Processes that train side by side.
        models_bytes: Of models made elsewhere, the files of each variant.
    """

    train: int
    test: int
    classes: int
    groups: int
    id_bytes: int
    cores: int
    models_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StepCost:
    """One step of the pipeline.

    Attributes:
        step: Its name.
        does: What it does, for people.
        time: None where there was no trial.
        disk_bytes: What it leaves in the run's folder; None where that cannot be told.
        memory_bytes: At its peak, over all its processes; None where that cannot be told.
        temporary_bytes: Decoded images that it maps from the temporary folder.
    """

    step: str
    does: str
    time: Span | None
    disk_bytes: int | None
    memory_bytes: int | None
    temporary_bytes: int | None = 0


class Bill:
    """What the pieces of an audit cost."""

    def __init__(self, config: Config, size: Size, images: ImageFacts, trial: Trial) -> None:
        self.config, self.size, self.images, self.trial = config, size, images, trial
        self.models = config.population.models
        self.names = [variant.name for variant in config.resolved_variants]

    def thumb(self, seconds: float, starts: float = 0.0) -> Span | None:
        """What is not measured: so many seconds, and starts of a process with torch."""
        start = self.trial.start_s
        if start is None or self.trial.image is None:
            return None
        own = start if self.size.models_bytes else STEP * start
        whole = seconds + starts * start + own
        return Span(whole, whole, whole, 0)

    def decoding(self, images: int) -> float:
        """Seconds of one thread."""
        pixels = self.images.decoded_bytes(1) or 0
        return images * (DECODE_S + DECODE_BYTE_S * pixels)

    def prepare(self) -> Span | None:
        """Read and decode everything once, write it."""
        awaited = 0.0 if self.size.models_bytes else AWAITED
        return self.thumb(2.5 + 2 * self.decoding(self.size.train + self.size.test), awaited)

    def trained(self, variants: int, *, forked: bool) -> Span | None:
        """The steps of all members of so many variants, over the cores."""
        if self.trial.step is None:
            return None
        together = self.trial.together
        chunks = variants * math.ceil(self.models / together)
        rounds = math.ceil(chunks / self.size.cores)
        recipe = self.config.source.recipe.resolved(self.size.train)
        steps = recipe.total_steps - (recipe.mask_updates[0] if forked else 0)
        return self.trial.step.scaled(rounds * together * steps)

    def training(self, step: str, does: str, variants: list[Variant]) -> StepCost:
        """The step that trains some variants."""
        member = self.trial.member_bytes
        members = len(variants) * self.models
        disk = None if member is None else members * member
        if not variants:
            idle = round(PROCESS_BYTES)
            return StepCost(step, NOTHING, self.thumb(0.0), 0, idle)
        starts = self.thumb(self.decoding(self.size.train), WORKERS)
        return StepCost(
            step,
            does,
            added([starts, self.trained(len(variants), forked=variants[0].forked)]),
            disk,
            self.workers(self.images.encoded_bytes),
            self.images.decoded_bytes(self.size.train),
        )

    def taking_in(self, variants: Iterable[Variant]) -> StepCost:
        """The step that checks models made elsewhere, each in a process of its own."""
        models = self.models * len(list(variants))
        return StepCost(
            "train",
            "take in models made elsewhere",
            self.thumb(0.0, float(models)),
            sum(self.size.models_bytes.values()),
            round(2 * PROCESS_BYTES + max(self.size.models_bytes.values()) / self.models),
        )

    def made(self, variant: Variant) -> Span | None:
        """Training or compressing one variant; models made elsewhere are there."""
        if self.size.models_bytes:
            return added([])
        if variant.derived_from:
            return self.dealt(self.compressed([variant]))
        return self.trained(1, forked=variant.forked)

    def compressed(self, variants: list[Variant]) -> Span | None:
        """Every member of some derived variants, by one process."""
        image, weights = self.trial.image, self.trial.weights
        if image is None or weights is None:
            return None
        shown = sum(v.images for v in variants if v.mode == "static")
        shown += 2 * CHECKED * len({v.derived_from for v in variants})
        rest = len(variants) * (COMPRESS_S + 4 * weights / COMPRESS_BYTES_S)
        return image.scaled(self.models * shown, self.models * rest)

    def compressing(self, variants: list[Variant]) -> Span | None:
        """The step that compresses."""
        if not variants:
            return self.thumb(0.0)
        start = ANSWERING * (self.trial.start_s or 0.0)
        return added([self.thumb(0.0, EXPORT), self.dealt(self.compressed(variants), start)])

    def predicted(self, variants: Iterable[Variant]) -> Span | None:
        """Every member of some variants on the test examples, by one process."""
        found = []
        for variant in variants:
            alone = variant.kind == "int8" and variant.mode == "dynamic"
            one = self.trial.alone if alone else self.trial.image
            one = self.trial.images.get(variant.name, one)
            found.append(None if one is None else one.scaled(self.models * self.size.test))
        return added(found)

    def predicting(self, variants: Iterable[Variant]) -> Span | None:
        """The step that predicts, and measures each variant's latency."""
        variants = list(variants)
        if (image := self.trial.image) is None:
            return None
        runs = [size * image.middle for size in LATENCY]
        latency = sum(max(7 * run, min(102 * run, 2 + 2 * run)) for run in runs)
        fixed = self.thumb(self.decoding(self.size.test) + len(variants) * latency)
        start = ANSWERING * (self.trial.start_s or 0.0)
        return added([fixed, self.dealt(self.predicted(variants), start)])

    def dealt(self, work: Span | None, start: float = 0.0) -> Span | None:
        """Work that is dealt to workers, which take a while to start, if there is enough of it."""
        if work is None or work.middle < WORTH_S or self.size.cores == 1:
            return work
        return work.scaled(1 / self.size.cores, start)

    def weights(self, variant: Variant) -> int | None:
        """Files of all members of a variant: exact if they are trained, else about."""
        trial = self.trial
        if self.size.models_bytes:
            return self.size.models_bytes[variant.name]
        if not variant.derived_from:
            return None if trial.member_bytes is None else self.models * trial.member_bytes
        if trial.weights is None or trial.parameters is None or trial.layers is None:
            return None
        # Normalisation is folded into the layer before it: of it nothing is left.
        scales = 4 * trial.weights / variant.block if variant.kind == "int4" else 0.0
        graph = LAYER_BYTES[variant.kind] * trial.layers
        return round(self.models * (trial.weights * variant.bits / 8 + scales + graph))

    def predictions(self, variant: Variant) -> int:
        """At most, in both places where they are kept: a shard's, and all together."""
        wide = 1 if self.size.classes <= 2**8 else 2
        wide += 2 if self.config.keep_scores else 0
        return 2 * (self.size.test * (4 + self.models * wide) + self.size.id_bytes)

    def process(self, encoded: int | None) -> int | None:
        """A process that holds a network, and the table of examples that it reads."""
        if encoded is None:
            return None
        if self.size.models_bytes:
            model = max(self.size.models_bytes.values()) / self.models
            return round(PROCESS_BYTES + 2 * model) + encoded
        return None if self.trial.worker_bytes is None else self.trial.worker_bytes + encoded

    def workers(self, encoded: int | None) -> int | None:
        """As many processes as cores, and the one that deals out work to them."""
        one = self.process(encoded)
        if one is None or encoded is None:
            return None
        return one + self.size.cores * (one - encoded)


def added(spans: list[Span | None]) -> Span | None:
    """The sum, as uncertain as all of them together: machines are slow as a whole."""
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    return Span(
        sum(span.middle for span in known),
        sum(span.low for span in known),
        sum(span.high for span in known),
        min((span.n for span in known if span.n), default=0),
    )

"""What do corrupted pictures cost each variant, and whom?"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.config import Robustness
from scotoma.corruptions import EXTENDED, FAMILIES, STANDARD, Profile, family_of, profile
from scotoma.datasets import Examples, decode_images_to
from scotoma.datasets.parts import part_digest
from scotoma.datasets.stratified import stratified
from scotoma.errors import ConfigError
from scotoma.extras import needs
from scotoma.machine import versions
from scotoma.printable import nearest
from scotoma.run import Run, write_json
from scotoma.stages.corrupted import Condition, Conditioned, Suite, predict_corrupted
from scotoma.stages.members import graph_files
from scotoma.stages.shards import shards
from scotoma.storage.files import written

__all__ = ["Plan", "corrupted_file", "plan_of", "robustness", "suite_of"]

FLOWER = 24  # pixels from which a flower can be told
SHOWN = 112  # pixels of an image of the strip


@dataclass(frozen=True)
class Plan:
    """What is run: conditions, examples and members.

    Attributes:
        config: The section of the configuration.
        profile: The corruptions.
        kinds: Those that are made.
        rows: The test examples that are corrupted.
        members: Variant to how many of its members are run.
    """

    config: Robustness
    profile: Profile
    kinds: tuple[str, ...]
    rows: NDArray[np.intp]
    members: dict[str, int]

    @property
    def conditions(self) -> list[Condition]:
        """Every corruption at every severity, as often as it is drawn."""
        return [
            Condition(kind, severity, draw)
            for kind in self.kinds
            for severity in self.config.severities
            for draw in range(self.config.corruption_seeds)
        ]


def suite_of(config: Robustness, size: int) -> tuple[Profile, tuple[str, ...]]:
    """Choose the corruptions for pictures of a size.

    Args:
        config: What is asked for.
        size: Shorter side of the pictures, pixels.

    Raises:
        ConfigError: The profile is for another size, a corruption is unknown or cannot be made.

    >>> _, kinds = suite_of(Robustness(profile="cifar-c", kinds=["noise", "fog"]), 32)
    >>> kinds
    ('gaussian_noise', 'shot_noise', 'impulse_noise', 'fog')
    """
    frost = None if config.frost is None else Path(config.frost)
    chosen = profile(config.profile, size, frost=frost, jpeg85=config.jpeg85)
    wanted: list[str] = []
    for name in config.kinds or FAMILIES[:-1]:
        if name in FAMILIES:
            own = EXTENDED if name == "extended" else STANDARD
            wanted += [k for k in own if family_of(k) == name and k in chosen.kinds]
        elif name in chosen.kinds or name in chosen.left_out:
            wanted.append(chosen.checked(name))
        else:
            known = [*FAMILIES, *chosen.kinds]
            raise ConfigError(
                f"robustness.kinds must name families or corruptions, got {name!r}"
                f"{nearest(name, known)}; they are {', '.join(known)}"
            )
    if config.extended:
        wanted += [kind for kind in EXTENDED if kind in chosen.kinds]
    if not wanted:
        raise ConfigError(
            f"robustness.kinds leaves no corruption of {size} pixels: "
            f"{'; '.join(f'{k}: {why}' for k, why in chosen.left_out.items())}"
        )
    return chosen, tuple(dict.fromkeys(wanted))


def corrupted_file(run: Run, condition: Condition) -> Path:
    """Where the predictions under one condition lie."""
    return run.path("robustness", f"{condition}.parquet")


def robustness(run: Run) -> list[Path]:
    """Run members on corrupted pictures, one condition after the other, and measure the losses.

    A condition that has ended is kept: a killed step goes on with the next one, and another
    severity or corruption costs its own inference alone.
    """
    config = run.config.robustness
    assert config is not None
    plan, examples = plan_of(run)
    inputs = [run.examples, *(run.predictions(name) for name in plan.members)]
    _predict(run, plan, examples)
    files = [corrupted_file(run, condition) for condition in plan.conditions]
    section = run.section("robustness")
    made_with = json.dumps([config.deciding(), plan.kinds, dict(plan.profile.left_out)])
    outputs = [section, run.strip]
    with run.step("robustness", outputs, [*inputs, *files], made_with=made_with) as due:
        if due:
            from scotoma.stages.measures.robustness import measure_robustness

            write_json(section, measure_robustness(run, plan, examples))
            _draw(run.strip, plan)
    return [*outputs, *files]


def _draw(path: Path, plan: Plan) -> None:
    """Draw a flower, or a digit where pictures are that small, under every corruption."""
    from PIL import Image

    from scotoma.corruptions import corrupt
    from scotoma.corruptions.strip import draw_strip

    public = needs("sklearn.datasets", "train", "the strip of corruptions")
    if plan.profile.size < FLOWER:
        clean = Image.fromarray((public.load_digits().images[0] * 15.9).astype(np.uint8))
    else:
        clean = Image.fromarray(public.load_sample_image("flower.jpg")).crop((106, 0, 533, 427))
    pixels = np.asarray(clean.convert("RGB").resize((plan.profile.size, plan.profile.size)))
    rows = {"clean": [pixels]}
    for kind in plan.kinds:
        rows[kind] = [
            corrupt(pixels[None], ["public"], kind, severity, plan.profile, seed=0)[0]
            for severity in plan.config.severities
        ]
    every = max(1, plan.profile.size // SHOWN)
    small = {kind: [image[::every, ::every] for image in images] for kind, images in rows.items()}
    with written(path) as temporary:
        draw_strip(small).save(temporary, "WEBP", quality=85)


def plan_of(run: Run) -> tuple[Plan, Examples]:
    """Choose conditions, examples and members.

    Returns:
        The plan, and all test examples, without images.

    Raises:
        ConfigError: As `suite_of`.
    """
    from scotoma.datasets.image_decoding import image_shape

    config, asked = run.config, run.config.robustness
    assert asked is not None
    run.fetch(run.examples)
    examples = Examples.read(run.examples, images=False, split="test")
    first = Examples.read(run.examples, only=examples.ids[:1])
    shape = image_shape(first.table["example_id"], first.table["image"], first.size)
    chosen, kinds = suite_of(asked, min(shape[2:]))
    rows = stratified(examples, asked.examples, config.population.seed)
    members = {
        variant.name: min(config.models_of(variant.name), asked.members)
        for variant in config.resolved_variants
    }
    return Plan(asked, chosen, kinds, rows, members), examples


def _predict(run: Run, plan: Plan, examples: Examples) -> None:
    """Run every member under the conditions whose predictions are not there."""
    members = [run.member(name, k) for name, many in plan.members.items() for k in range(many)]
    (every,) = shards(run.config.most_models, 1)
    graphs = graph_files(run, every)
    ids = [examples.ids[row] for row in plan.rows]
    digests = run.mirror.digests([*members, *graphs]).values()
    shared = [versions(), part_digest(run, "shown"), run.config.population.seed, ids, *digests]

    def made_with(condition: Condition) -> str:
        own = plan.profile.fingerprint(condition.kind, condition.severity)
        text = json.dumps([*shared, own, condition.draw], default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    steps = {
        condition: (f"robustness-{condition}", [corrupted_file(run, condition)])
        for condition in plan.conditions
    }
    due = [
        c for c, step in steps.items() if run.is_due(*step, made_with=made_with(c), measures=False)
    ]
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        answers = None
        for condition, (name, files) in steps.items():
            opens = [run.examples, *members, *graphs]
            own = made_with(condition)
            with run.step(name, files, made_with=own, opens=opens, measures=False) as still_due:
                if still_due:
                    if answers is None:
                        images = Path(folder, "images.npy")
                        suite = _suite(run, plan, ids, images, members, graphs)
                        answers = predict_corrupted(suite, due)
                    _write(files[0], ids, next(answers))


def _suite(
    run: Run,
    plan: Plan,
    ids: list[str],
    images: Path,
    members: list[Path],
    graphs: list[Path],
) -> Suite:
    """Decode the chosen pictures once, into a file that workers share."""
    from scotoma.stages.external.models import network_of

    kept = Examples.read(run.examples, only=ids)
    decode_images_to(images, kept)
    network = network_of(run.config, len(kept.classes))
    return Suite(
        members=tuple(members),
        images=images,
        example_ids=tuple(ids),
        network=replace(network, graph=graphs[0] if graphs else None),
        profile=plan.profile,
        seed=run.config.population.seed,
    )


def _write(path: Path, ids: list[str], answers: Conditioned) -> None:
    """Write the predictions under one condition: a row an example."""
    frame = pl.DataFrame(
        {
            "example_id": ids,
            "predicted": answers.predicted,
            "change": answers.distances[:, 0],
            "similarity": answers.distances[:, 1],
        }
    )
    with written(path) as temporary:
        frame.write_parquet(temporary)

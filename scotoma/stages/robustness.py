"""What do corrupted pictures cost each variant, and whom?"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.corruptions import Profile
from scotoma.datasets import Examples, decode_images_to
from scotoma.datasets.parts import part_digest
from scotoma.extras import needs
from scotoma.inference.engines import Network
from scotoma.machine import versions
from scotoma.run import Run, write_json
from scotoma.stages.corrupted import Condition, Conditioned, Suite, predict_corrupted
from scotoma.stages.members import graph_files
from scotoma.stages.other_sets import predict_set, set_file
from scotoma.stages.robustness_plan import Plan, corrupted_file, plan_of
from scotoma.stages.shards import shards
from scotoma.storage.files import written

__all__ = ["robustness"]

FLOWER = 24  # pixels from which a flower can be told
SHOWN = 112  # pixels of an image of the strip


def robustness(run: Run) -> list[Path]:
    """Run members on corrupted pictures, one condition after the other, and measure the losses.

    A condition that has ended is kept: a killed step goes on with the next one, and another
    severity or corruption costs its own inference alone.
    """
    config = run.config.robustness
    assert config is not None
    plan, examples = plan_of(run)
    inputs = [run.examples, *(run.predictions(name) for name in plan.members)]
    if plan.profile is None:
        from scotoma.stages.external.corrupted import import_corrupted

        import_corrupted(run, plan, examples)
    else:
        _predict(run, plan, plan.profile, examples)
    files = [corrupted_file(run, condition) for condition in plan.conditions]
    for asked in config.sets:
        predict_set(run, asked, *_members(run, plan, examples), examples)
        files.append(set_file(run, asked))
    section = run.section("robustness")
    made_with = json.dumps([config.deciding(), plan.kinds, plan.left_out])
    outputs = [section] if plan.profile is None else [section, run.strip]
    with run.step("robustness", outputs, [*inputs, *files], made_with=made_with) as due:
        if due:
            from scotoma.stages.measures.robustness import measure_robustness

            write_json(section, measure_robustness(run, plan, examples))
            if plan.profile is not None:
                _draw(run.strip, plan, plan.profile)
    return [*outputs, *files]


def _draw(path: Path, plan: Plan, profile: Profile) -> None:
    """Draw a flower, or a digit where pictures are that small, under every corruption."""
    from PIL import Image

    from scotoma.corruptions import corrupt
    from scotoma.corruptions.strip import draw_strip

    public = needs("sklearn.datasets", "train", "the strip of corruptions")
    if profile.size < FLOWER:
        clean = Image.fromarray((public.load_digits().images[0] * 15.9).astype(np.uint8))
    else:
        clean = Image.fromarray(public.load_sample_image("flower.jpg")).crop((106, 0, 533, 427))
    pixels = np.asarray(clean.convert("RGB").resize((profile.size, profile.size)))
    rows = {"clean": [pixels]}
    for kind in plan.kinds:
        rows[kind] = [
            corrupt(pixels[None], ["public"], kind, severity, profile, seed=0)[0]
            for severity in plan.severities
        ]
    every = max(1, profile.size // SHOWN)
    small = {kind: [image[::every, ::every] for image in images] for kind, images in rows.items()}
    with written(path) as temporary:
        draw_strip(small).save(temporary, "WEBP", quality=85)


def _members(run: Run, plan: Plan, examples: Examples) -> tuple[list[Path], Network]:
    """Files of the members that are run, and what they have in common."""
    from scotoma.stages.external.models import network_of

    members = [run.member(name, k) for name, many in plan.members.items() for k in range(many)]
    (every,) = shards(run.config.most_models, 1)
    graphs = graph_files(run, every)
    network = network_of(run.config, len(examples.classes))
    return members, replace(network, graph=graphs[0] if graphs else None)


def _predict(run: Run, plan: Plan, profile: Profile, examples: Examples) -> None:
    """Run every member under the conditions whose predictions are not there."""
    members, network = _members(run, plan, examples)
    graphs = [] if network.graph is None else [network.graph]
    ids = [examples.ids[row] for row in plan.rows]
    digests = run.mirror.digests([*members, *graphs]).values()
    shared = [versions(), part_digest(run, "shown"), run.config.population.seed, ids, *digests]

    def made_with(condition: Condition) -> str:
        own = profile.fingerprint(condition.kind, condition.severity)
        more = ["scores"] if plan.config.confidence else []
        text = json.dumps([*shared, own, condition.draw, *more], default=str)
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
                        suite = _suite(run, profile, ids, images, members, network)
                        answers = predict_corrupted(suite, due)
                    _write(files[0], ids, next(answers))


def _suite(
    run: Run,
    profile: Profile,
    ids: list[str],
    images: Path,
    members: list[Path],
    network: Network,
) -> Suite:
    """Decode the chosen pictures once, into a file that workers share."""
    kept = Examples.read(run.examples, only=ids)
    decode_images_to(images, kept)
    return Suite(
        members=tuple(members),
        images=images,
        example_ids=tuple(ids),
        network=network,
        profile=profile,
        seed=run.config.population.seed,
        keep_scores=run.config.robustness is not None and run.config.robustness.confidence,
    )


def _write(path: Path, ids: list[str], answers: Conditioned) -> None:
    """Write the predictions under one condition: a row an example."""
    columns = {
        "example_id": ids,
        "predicted": answers.predicted,
        "change": answers.distances[:, 0],
        "similarity": answers.distances[:, 1],
    }
    if answers.scores is not None:
        columns["score"] = answers.scores.astype(np.float32)
    with written(path) as temporary:
        pl.DataFrame(columns).write_parquet(temporary)

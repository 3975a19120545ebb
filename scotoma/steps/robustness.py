"""What do corrupted pictures cost each variant, and whom?"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from scotoma.corruptions import Profile, corrupt
from scotoma.datasets import AuditedExamples, decode_images_to
from scotoma.datasets.parts import part_digest
from scotoma.extras import needs
from scotoma.robustness.plan import (
    RobustnessPlan,
    checkpoints_file,
    clean_energies_file,
    corrupted_file,
)
from scotoma.robustness.predict import (
    Bench,
    Suite,
    checkpoint_members,
    plan_of,
    predict_corrupted,
    predict_set,
    said_by,
    with_checkpoints,
    write,
)
from scotoma.run import Run, write_json
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written

FLOWER = 24  # pixels from which a flower can be told
SHOWN = 112  # pixels of an image of the strip


@when_due
def robustness(run: Run) -> Iterator[Leaves]:
    """Run members on corrupted pictures, one condition after the other, and measure the losses.

    A condition that has ended is kept: a killed step goes on with the next one, and another
    severity or corruption costs its own inference alone.
    """
    config = run.config.robustness
    assert config is not None
    plan, examples = plan_of(run)
    inputs = [run.examples, *(run.predictions(name) for name in plan.members)]
    if config.files is not None:
        from scotoma.robustness.external import import_corrupted

        chosen = examples.keep(np.isin(np.arange(len(examples.ids)), plan.rows))
        import_corrupted(run, plan.conditions, plan.members, chosen, confidence=config.confidence)
    elif plan.profile is not None or config.confidence:
        plan = _predict(Bench.of(run, plan, examples), plan, examples)
    files = [corrupted_file(run, condition) for condition in plan.conditions]
    if config.confidence and config.files is None:
        files.append(clean_energies_file(run))
    files += [checkpoints_file(run)] * bool(plan.checkpoints)
    for asked in config.sets:
        bench = Bench.of(run, plan, examples)
        files.append(predict_set(bench, asked, examples, sure=config.confidence))
    section = run.section("robustness")
    made_with = json.dumps([config.deciding(), plan.kinds, plan.left_out, plan.checkpoints])
    outputs = [section] if plan.profile is None else [section, run.strip]
    yield Leaves(outputs, [*inputs, *files], made_with, [*outputs, *files])
    from scotoma.robustness.answers import open_seen, open_sets
    from scotoma.robustness.measure import measure_robustness

    seen, sets = open_seen(run, plan, examples), open_sets(run, plan, examples)
    write_json(section, measure_robustness(plan, examples, seen, list(sets)))
    if plan.profile is not None:
        _draw(run.strip, plan, plan.profile)


def _draw(path: Path, plan: RobustnessPlan, profile: Profile) -> None:
    """Draw a flower, or a digit where pictures are that small, under every corruption."""
    from PIL import Image

    from scotoma.corruptions.images import draw_strip

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


def _predict(bench: Bench, plan: RobustnessPlan, examples: AuditedExamples) -> RobustnessPlan:
    """Run every member on the chosen pictures, clean and under each condition that is not there.

    Returns:
        The plan, with the checkpoints that were chosen.
    """
    run, asked = bench.run, plan.config
    chosen = examples.keep(np.isin(np.arange(len(examples.ids)), plan.rows))
    ids, labels = chosen.ids, chosen.labels
    shown = part_digest(run, "shown")
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        images = Path(folder, "images.npy")

        def decoded() -> Path:
            """The pictures, decoded once, in a file that workers share."""
            if not images.exists():
                pictures = AuditedExamples.read(run.examples, only=chosen.pictured.ids)
                decode_images_to(images, pictures)
            return images

        if asked.checkpoints is not None:
            populations = checkpoint_members(run, asked.checkpoints, plan.members["dense"])
            every = tuple(path for own in populations.values() for path in own)
            path = checkpoints_file(run)
            with replace(bench, members=every).step("checkpoints", path, shown, ids) as due:
                if due:
                    said = {
                        name: said_by(own, decoded(), bench.network)["predicted"]
                        for name, own in populations.items()
                    }
                    write(path, ids, said)
            plan = with_checkpoints(run, plan, populations, labels)
            more = [path for name in plan.on_the_way for path in populations[name]]
            bench = replace(bench, members=(*bench.members, *more))
        decides = shown, run.config.population.seed, ids
        if asked.confidence:
            path = clean_energies_file(run)
            with bench.step("clean", path, *decides) as due:
                if due:
                    said = said_by(bench.members, decoded(), bench.network, sure=True)
                    write(path, ids, {"energy": said["energy"]})
        if (profile := plan.profile) is None:
            return plan
        steps = {
            condition: (
                str(condition), corrupted_file(run, condition), *decides, condition.draw,
                profile.fingerprint(condition.kind, condition.severity), asked.confidence,
            )
            for condition in plan.conditions
        }  # fmt: skip
        due_ones = [condition for condition, step in steps.items() if bench.is_due(*step)]
        answers = None
        for step in steps.values():
            with bench.step(*step) as still_due:
                if still_due:
                    if answers is None:
                        suite = Suite(
                            bench.members, decoded(), tuple(chosen.image_ids), chosen.shown_labels,
                            bench.network, profile, run.config.population.seed, asked.confidence,
                        )  # fmt: skip
                        answers = predict_corrupted(suite, due_ones)
                    write(step[1], ids, next(answers))
    return plan

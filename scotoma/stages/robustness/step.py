"""What do corrupted pictures cost each variant, and whom?"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.corruptions import Profile
from scotoma.datasets import AuditedExamples, decode_images_to
from scotoma.datasets.parts import part_digest
from scotoma.extras import needs
from scotoma.inference.engines import Network
from scotoma.machine import versions
from scotoma.predictions import kept_classes
from scotoma.robustness.plan import Condition, RobustnessPlan
from scotoma.run import Run, write_json
from scotoma.stages.members.files import graph_files
from scotoma.stages.members.shards import shards
from scotoma.stages.robustness.checkpoints import (
    checkpoint_members,
    with_checkpoints,
    write_checkpoint_predictions,
)
from scotoma.stages.robustness.clean_energies import write_clean_energies
from scotoma.stages.robustness.corrupted import (
    Columns,
    Suite,
    predict_corrupted,
)
from scotoma.stages.robustness.files import (
    checkpoints_file,
    clean_energies_file,
    corrupted_file,
    set_file,
)
from scotoma.stages.robustness.other_sets import predict_set
from scotoma.stages.robustness.plan import plan_of
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
    if config.files is not None:
        from scotoma.stages.external.corrupted import import_corrupted

        chosen = examples.keep(np.isin(np.arange(len(examples.ids)), plan.rows))
        import_corrupted(run, plan.conditions, plan.members, chosen, confidence=config.confidence)
    elif plan.profile is not None:
        plan = _predict(run, plan, plan.profile, examples)
    elif config.confidence:
        _measure_clean_alone(run, plan, examples)
    files = [corrupted_file(run, condition) for condition in plan.conditions]
    if config.confidence and config.files is None:
        files.append(clean_energies_file(run))
    files += [checkpoints_file(run)] * bool(plan.checkpoints)
    for asked in config.sets:
        predict_set(run, asked, *_members(run, plan, examples), examples)
        files.append(set_file(run, asked))
    section = run.section("robustness")
    made_with = json.dumps([config.deciding(), plan.kinds, plan.left_out, plan.checkpoints])
    outputs = [section] if plan.profile is None else [section, run.strip]
    with run.step("robustness", outputs, [*inputs, *files], made_with=made_with) as due:
        if due:
            from scotoma.robustness.measure import measure_robustness
            from scotoma.stages.robustness.opened import open_seen, open_sets

            seen, sets = open_seen(run, plan, examples), open_sets(run, plan, examples)
            write_json(section, measure_robustness(plan, len(examples.ids), seen, list(sets)))
            if plan.profile is not None:
                _draw(run.strip, plan, plan.profile)
    return [*outputs, *files]


def _draw(path: Path, plan: RobustnessPlan, profile: Profile) -> None:
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


def _members(
    run: Run, plan: RobustnessPlan, examples: AuditedExamples
) -> tuple[list[Path], Network]:
    """Files of the members that are run, and what they have in common."""
    from scotoma.stages.external.network import network_of

    members = [run.member(name, k) for name, many in plan.members.items() for k in range(many)]
    (every,) = shards(run.config.most_models, 1)
    graphs = graph_files(run, every)
    network = network_of(run.config, len(examples.classes))
    best = kept_classes(len(examples.classes))
    return members, replace(network, graph=graphs[0] if graphs else None, best=best)


def _predict(
    run: Run, plan: RobustnessPlan, profile: Profile, examples: AuditedExamples
) -> RobustnessPlan:
    """Run every member under the conditions whose predictions are not there.

    Returns:
        The plan, with the checkpoints that were chosen.
    """
    members, network = _members(run, plan, examples)
    if plan.config.checkpoints is not None:
        plan, more = _choose_checkpoints(run, plan, examples, network)
        members += more
    graphs = [] if network.graph is None else [network.graph]
    ids = [examples.ids[row] for row in plan.rows]
    shared = _shared(run, ids, members, network)

    def made_with(condition: Condition) -> str:
        own = profile.fingerprint(condition.kind, condition.severity)
        more = ["sureness"] * plan.config.confidence + ["top5"] * (network.best > 1)
        return _key([*shared, own, condition.draw, *more])

    steps = {
        condition: (f"robustness-{condition}", [corrupted_file(run, condition)])
        for condition in plan.conditions
    }
    due = [
        c for c, step in steps.items() if run.is_due(*step, made_with=made_with(c), measures=False)
    ]
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        answers, images = None, Path(folder, "images.npy")
        if plan.config.confidence:
            _measure_clean(run, ids, images, members, network, _key(shared))
        for condition, (name, files) in steps.items():
            opens = [run.examples, *members, *graphs]
            own = made_with(condition)
            with run.step(name, files, made_with=own, opens=opens, measures=False) as still_due:
                if still_due:
                    if answers is None:
                        suite = _suite(run, profile, ids, images, members, network)
                        answers = predict_corrupted(suite, due)
                    _write(files[0], ids, next(answers))
    return plan


def _shared(run: Run, ids: list[str], members: list[Path], network: Network) -> list[object]:
    """What decides the predictions of members on any version of these pictures."""
    graphs = [] if network.graph is None else [network.graph]
    digests = run.mirror.digests([*members, *graphs]).values()
    return [versions(), part_digest(run, "shown"), run.config.population.seed, ids, *digests]


def _key(content: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()


def _choose_checkpoints(
    run: Run, plan: RobustnessPlan, examples: AuditedExamples, network: Network
) -> tuple[RobustnessPlan, list[Path]]:
    """Run the dense models as they were on their way on clean pictures, and add the nearest.

    Returns:
        The plan, and the files of the members that it adds.
    """
    assert plan.config.checkpoints is not None
    populations = checkpoint_members(run, plan.config.checkpoints, plan.members["dense"])
    files = [path for own in populations.values() for path in own]
    ids = [examples.ids[row] for row in plan.rows]
    shared = [versions(), part_digest(run, "shown"), ids, *run.mirror.digests(files).values()]
    made_with = _key(shared)
    path, opens = checkpoints_file(run), [run.examples, *files]
    with run.step(
        "robustness-checkpoints", [path], made_with=made_with, opens=opens, measures=False
    ) as due:
        if due:
            with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
                _decoded(run, ids, images := Path(folder, "images.npy"))
                write_checkpoint_predictions(path, populations, images, network, ids)
    plan = with_checkpoints(run, plan, populations, examples.labels[plan.rows])
    return plan, [path for name in plan.on_the_way for path in populations[name]]


def _suite(
    run: Run,
    profile: Profile,
    ids: list[str],
    images: Path,
    members: list[Path],
    network: Network,
) -> Suite:
    kept = _decoded(run, ids, images)
    asked = run.config.robustness
    return Suite(
        members=tuple(members),
        images=images,
        example_ids=tuple(ids),
        labels=kept.labels,
        network=network,
        profile=profile,
        seed=run.config.population.seed,
        confidence=bool(asked and asked.confidence),
    )


def _decoded(run: Run, ids: list[str], images: Path) -> AuditedExamples:
    """Decode the chosen pictures once, into a file that workers share."""
    kept = AuditedExamples.read(run.examples, only=ids)
    if not images.exists():
        decode_images_to(images, kept)
    return kept


def _measure_clean_alone(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> None:
    """Leave how familiar clean pictures are to members, where none is corrupted."""
    members, network = _members(run, plan, examples)
    ids = [examples.ids[row] for row in plan.rows]
    made_with = _key(_shared(run, ids, members, network))
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        _measure_clean(run, ids, Path(folder, "images.npy"), members, network, made_with)


def _measure_clean(
    run: Run, ids: list[str], images: Path, members: list[Path], network: Network, made_with: str
) -> None:
    """Leave how familiar the clean pictures are to members."""
    path, opens = clean_energies_file(run), [run.examples, *members]
    opens += [] if network.graph is None else [network.graph]
    with run.step(
        "robustness-clean", [path], made_with=made_with, opens=opens, measures=False
    ) as due:
        if due:
            _decoded(run, ids, images)
            write_clean_energies(path, members, images, network, len(ids))


def _write(path: Path, ids: list[str], columns: Columns) -> None:
    """Write what is said under one condition: a row an example."""
    with written(path) as temporary:
        pl.DataFrame({"example_id": ids} | columns).write_parquet(temporary)

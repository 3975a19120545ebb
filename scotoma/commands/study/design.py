"""The command that plans a study: opens a run, draws the arms, writes the study's folder."""

from __future__ import annotations

import json
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.commands.shared.finished_run import open_run
from scotoma.commands.study.leaks import leaks_between, mean_places, refuse_leaks
from scotoma.commands.study.population import (
    StudyPopulation,
    mean_scores,
    population_of,
    resolved_variant,
)
from scotoma.commands.study.text import balance_lines, plan_lines
from scotoma.config import CelebaSource
from scotoma.divergence import score
from scotoma.errors import ConfigError, DataError
from scotoma.printable import quoted
from scotoma.run import Run
from scotoma.stages.report import images_of
from scotoma.storage.files import file_digest, written
from scotoma.study.arms import MOST_IMBALANCE, Arms, choose_arms, mean_difference
from scotoma.study.labels import (
    ShownLabels,
    most_confused,
    paper_labels,
    pooled_labels,
    true_label,
    two_classes,
)
from scotoma.study.orders import orders_for
from scotoma.study.pictures import displayed, duplicates, padded, print_of
from scotoma.study.plan import KeyEntry, StudyFolder, StudyPlan
from scotoma.study.questions import CONTRASTS, asked

__all__ = ["Wishes", "new_study"]

Ints = npt.NDArray[np.int64]
PRACTICE = 6
FACES, YES = "faces", ("true", "yes", "1", "1.0")  # a column, and what in it declares a face
ROUNDS = 20  # in which near duplicates are replaced
ANALYSIS = (
    "risk difference per question, arms A-B and A-C, t interval with two-way variance over items "
    "and annotators and Satterthwaite's degrees of freedom; Holm over all of them; \"can't tell\" "
    "left out, with three sensitivity analyses"
)


@dataclass(frozen=True)
class Wishes:
    """The options of `scotoma study new`."""

    variant: str
    group: str
    per_arm: int
    seed: int
    annotators: int
    labels: Literal["pooled", "paper", "true"]
    define_on: Literal["all", "half"]
    repeats: int
    guesses: int
    primary: str
    contact: str
    purpose: str
    keep: str
    faces: str
    blurred: bool
    allow_imbalance: bool
    leaky: bool


def new_study(
    place: str, wishes: Wishes, out: Path | None, *, as_json: bool, quiet: bool
) -> StudyFolder:
    """Draw the arms, write plan, key, items and orders, and say what the study can show.

    Raises:
        ScotomaError: The run has no images, labels or CIEs for it, or the study would not be blind.
    """
    run = open_run(place)
    if run.uri and out is None:
        raise ConfigError(f"{place} is in object storage: give --out, a folder for the study")
    variant = resolved_variant(run, wishes.variant)
    folder = StudyFolder(out or run.path("studies", variant))
    if folder.root.exists() and any(folder.root.iterdir()):
        raise ConfigError(f"{folder.root} holds a study already; give another --out, or remove it")
    population = population_of(run, variant, define_on=wishes.define_on, group=wishes.group)
    _refuse_faces(run, population, wishes)
    classes = len(population.examples.classes)
    questions = asked(1 if wishes.labels == "true" else min(classes, 3))
    primary = _primary(wishes, [one.key for one in questions])
    arms, pictures = _drawn(run, population, variant, wishes)
    imbalance = mean_difference(population.agreement[arms.a], population.agreement[arms.c])
    if abs(imbalance) > MOST_IMBALANCE and not wishes.allow_imbalance:
        raise DataError(
            f"models agree {abs(imbalance):.2f} SD apart on arms A and C, more than "
            f"{MOST_IMBALANCE}: there are too few contested unchanged examples; lower --per-arm, "
            "or give --allow-imbalance"
        )
    rows = np.concatenate([arms.a, arms.b, arms.c])
    practice = _practice(population, rows, pictures, run, wishes)
    shown_rows = np.concatenate([rows, practice])
    shown = _labels(run, population, shown_rows, wishes)
    ids = [secrets.token_hex(16) for _ in shown_rows]
    key = _key(population, arms, shown, ids)
    named = {
        arm: [one for one in ids[: len(rows)] if key[one].arm == arm] for arm in ("A", "B", "C")
    }
    orders = orders_for(
        named,
        ids[len(rows) :],
        repeats=min(wishes.repeats, len(rows)),
        guesses=min(wishes.guesses, len(rows)),
        seed=wishes.seed,
    )
    names = np.array(population.examples.classes)
    items = pl.DataFrame(
        {
            "id": ids,
            "image": padded([pictures[population.examples.ids[row]] for row in shown_rows]),
            "labels": names[shown.ids].tolist(),
        }
    ).sort("id")
    places = mean_places([one.main for one in orders])
    leaks = leaks_between(items, key, places, wishes.seed)
    worst = max(one.value for one in leaks.values())
    if wishes.labels == "paper" and not wishes.leaky:
        raise ConfigError(
            f"--labels paper is not blind (a machine tells the arms apart with AUC "
            f"{worst:.2f}); give --leaky too, or --labels pooled"
        )
    refuse_leaks(leaks, allowed=wishes.leaky)
    plan = StudyPlan(
        project=run.config.project,
        audit_sha256=file_digest(run.path("audit.json")),
        variant=variant,
        group=wishes.group,
        per_arm=wishes.per_arm,
        seed=wishes.seed,
        classes=classes,
        labels=wishes.labels,
        define_on=wishes.define_on,
        still_cie=None if population.still is None else float(population.still[arms.a].mean()),
        questions=tuple(one.key for one in questions),
        primary=primary,
        level=0.95,
        annotators=wishes.annotators,
        repeats=min(wishes.repeats, len(rows)),
        practice=len(practice),
        guesses=min(wishes.guesses, len(rows)),
        consistency_screen=0.7,
        time_screen_s=1.0,
        analysis=ANALYSIS,
        leak=leaks,
        imbalance=imbalance,
        leaky=wishes.leaky,
        contact=wishes.contact,
        purpose=wishes.purpose,
        keep=wishes.keep,
        faces=wishes.faces.strip(),
        blurred=wishes.blurred,
    )
    with written(folder.items_file) as temporary:
        items.write_parquet(temporary)
    folder.write_key(key)
    folder.write_orders(orders)
    folder.write_plan(plan)  # last: a folder with a plan is whole
    if as_json:
        content = {"version": 1, "folder": str(folder.root), "sha256": plan.sha256}
        sys.stdout.write(json.dumps(content | {"plan": plan.model_dump(mode="json")}, indent=1))
        sys.stdout.write("\n")
    elif not quiet:
        lines = [*balance_lines(key), *plan_lines(plan, str(folder.root))]
        sys.stdout.write("\n".join(lines) + "\n")
    return folder


def _refuse_faces(run: Run, population: StudyPopulation, wishes: Wishes) -> None:
    """Refuse images that are said to show faces, unless a legal basis is given."""
    if wishes.faces.strip():
        return
    if isinstance(run.config.source, CelebaSource):
        raise ConfigError(
            'the source shows faces: give --faces "LEGAL BASIS"; CelebA is for non-commercial '
            "research alone"
        )
    for table in (population.examples.table, population.examples.features):
        if FACES in table and table[FACES].cast(pl.String).str.to_lowercase().is_in(YES).any():
            raise ConfigError(
                f'the column {FACES} says that images show faces: give --faces "LEGAL BASIS", or '
                "correct the column"
            )


def _primary(wishes: Wishes, keys: list[str]) -> tuple[str, str]:
    text = wishes.primary
    question, _, contrast = text.partition(":")
    contrasts = [f"{one}-{other}" for one, other in CONTRASTS]
    if question not in keys or contrast not in contrasts:
        raise ConfigError(
            f"--primary must be a question ({', '.join(keys)}) and a contrast "
            f"({', '.join(contrasts)}) such as q1:A-C, got {quoted(text)}"
        )
    if question == "q3" and wishes.labels == "paper":
        raise ConfigError(
            "--primary must be another question than q3 with --labels paper, whose labels differ "
            "exactly in arm A; choose one, or give --labels pooled"
        )
    return question, contrast


def _pictures(run: Run, names: list[str], *, blur: bool) -> dict[str, bytes]:
    """Images as they are shown, by example id."""
    encoded = images_of(run, names)
    if len(encoded) < len(names):
        missing = next(name for name in names if name not in encoded)
        raise DataError(
            f"a study needs images, and example {quoted(missing)} has none; audit a source with "
            "images, or review texts and tables with scotoma review"
        )
    if blur:
        from scotoma.report.thumbnails import blurred

        encoded = {name: blurred(data) for name, data in encoded.items()}
    return {name: displayed(data, name) for name, data in encoded.items()}


def _drawn(
    run: Run, population: StudyPopulation, variant: str, wishes: Wishes
) -> tuple[Arms, dict[str, bytes]]:
    """Arms without two images that are the same or nearly so, and their images."""
    refused = np.zeros(len(population.cie), bool)
    pictures: dict[str, bytes] = {}
    names = population.examples.ids
    for _ in range(ROUNDS):
        arms = choose_arms(
            population.cie,
            population.strata,
            population.agreement,
            wishes.per_arm,
            seed=wishes.seed,
            refused=refused,
            variant=variant,
        )
        rows = np.concatenate([arms.a, arms.b, arms.c])
        absent = [names[row] for row in rows if names[row] not in pictures]
        pictures |= _pictures(run, absent, blur=wishes.blurred)
        again = duplicates(np.stack([print_of(pictures[names[row]]) for row in rows]))
        if not again.any():
            return arms, pictures
        refused[rows[again]] = True
    raise DataError(
        f"the images of {variant} hold too many near duplicates for {wishes.per_arm:,} an arm; "
        "lower --per-arm"
    )


def _practice(
    population: StudyPopulation, rows: Ints, pictures: dict[str, bytes], run: Run, wishes: Wishes
) -> Ints:
    """Images to practise on: unchanged examples, at random, like no other that is shown."""
    rest = np.setdiff1d(np.flatnonzero(~population.cie), rows)
    rng = np.random.default_rng([wishes.seed, PRACTICE])
    waiting, names = rng.permutation(rest), population.examples.ids
    prints = [print_of(pictures[names[row]]) for row in rows]
    chosen: list[int] = []
    while len(chosen) < PRACTICE and len(waiting):
        drawn, waiting = waiting[:PRACTICE], waiting[PRACTICE:]
        pictures |= _pictures(run, [names[row] for row in drawn], blur=wishes.blurred)
        for row in drawn:
            own = print_of(pictures[names[row]])
            if len(chosen) < PRACTICE and not duplicates(np.stack([*prints, own]))[-1]:
                chosen.append(int(row))
                prints.append(own)
    return np.array(chosen, np.int64)


def _labels(run: Run, population: StudyPopulation, rows: Ints, wishes: Wishes) -> ShownLabels:
    true = population.examples.labels
    classes = len(population.examples.classes)
    if wishes.labels == "true":
        return true_label(true[rows])
    if classes == 2:
        return two_classes(true[rows])
    if wishes.labels == "paper":
        scores = score(
            population.dense.predicted[rows], population.compressed.predicted[rows], classes
        )
        return paper_labels(
            true[rows],
            scores.dense_modal.astype(np.int64),
            scores.compressed_modal.astype(np.int64),
        )
    confused = most_confused(true, population.dense.predicted, classes)
    return pooled_labels(
        true[rows],
        population.shares(rows),
        confused,
        seed=wishes.seed,
        scores=mean_scores(run, population, rows),
    )


def _key(
    population: StudyPopulation, arms: Arms, shown: ShownLabels, ids: list[str]
) -> dict[str, KeyEntry]:
    labels, strata = population.examples.labels, population.strata
    key = {}
    position = 0
    for arm, rows in (("A", arms.a), ("B", arms.b), ("C", arms.c)):
        for row in rows:
            alike = population.cie == population.cie[row]
            stratum = int((alike & (strata == strata[row])).sum())
            drawn = int((strata[rows] == strata[row]).sum())
            key[ids[position]] = KeyEntry(
                example_id=population.examples.ids[row],
                arm=arm,
                class_name=population.examples.classes[labels[row]],
                group="" if population.groups is None else population.groups[row],
                agreement=float(population.agreement[row]),
                weight=None if arm == "C" else stratum / drawn,
                label_rule=shown.rules[position],
            )
            position += 1
    return key

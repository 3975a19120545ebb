"""The command that plans a study: opens a run, finds the arms, writes what people answer."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import softmax

from scotoma.answers.group_keys import group_key
from scotoma.commands.asking import Answer
from scotoma.commands.study.new import NewStudyOptions
from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.inputs import Flags, Floats, Ints, Labels
from scotoma.predictions import Predictions, label_counts, read_heads, read_scores
from scotoma.printable import quoted
from scotoma.run import Run
from scotoma.run.finished import compressed_variant, open_run, require_files
from scotoma.steps.measures.pairs import read_predictions, read_test_examples
from scotoma.steps.report import images_of
from scotoma.storage.files import file_digest, write_json, write_whole
from scotoma.study.arms import Arms, mean_difference
from scotoma.study.label_studio import interface, tasks
from scotoma.study.labels import (
    ShownLabels,
    most_confused,
    named_labels,
    pooled_labels,
)
from scotoma.study.leak import contrast_leaks
from scotoma.study.orders import orders_for
from scotoma.study.pages import study_page
from scotoma.study.pictures import displayed, duplicates, encoding_of, padded, print_of
from scotoma.study.plan import KeyEntry, Orders, StudyFolder, StudyKey, StudyPlan
from scotoma.study.questions import CONTRASTS, asked
from scotoma.study.search import DRAWS, Draw, draw_arms
from scotoma.study.text import balance_lines, plan_lines

PRACTICE = 6
AS_ASKED = {
    "group", "seed", "labels", "define_on", "annotators", "leaky", "contact", "purpose", "keep",
}  # fmt: skip
LARGEST_MAIL = 25_000_000  # bytes: what most mail servers let through
FACES, YES = "faces", ("true", "yes", "1", "1.0")  # a column, and what in it declares a face
ANALYSIS = (
    "risk difference per question, arms A-B and A-C, t interval with two-way variance over items "
    "and annotators and Satterthwaite's degrees of freedom; Holm over all of them; \"can't tell\" "
    "left out, with three sensitivity analyses"
)


def new_study(wishes: NewStudyOptions) -> Answer:
    """Find the arms, write plan, key and the files to send, and say what the study can show.

    Raises:
        ScotomaError: The run has no images, labels or CIEs for it, or the study would not be blind.
    """
    run = open_run(wishes.run)
    if run.uri and wishes.out is None:
        raise ConfigError(f"{run.uri} is in object storage: give --out, a folder for the study")
    variant = compressed_variant(run, wishes.variant).name
    folder = StudyFolder(wishes.out or run.path("studies", variant))
    if folder.root.exists() and any(folder.root.iterdir()):
        raise ConfigError(f"{folder.root} holds a study already; give another --out, or remove it")
    population = population_of(run, variant, define_on=wishes.define_on, group=wishes.group)
    _refuse_faces(run, population, wishes)
    classes = len(population.examples.classes)
    questions = asked(1 if wishes.labels == "true" else min(classes, 3))
    primary = _primary(wishes, [one.key for one in questions])
    if wishes.labels == "paper" and not wishes.leaky:
        raise ConfigError(
            "--labels paper is not blind: labels 2 and 3 differ exactly in arm A; give --leaky "
            "too, or --labels pooled"
        )
    pictures: dict[str, bytes] = {}
    labelling = _Labelling(run, population, wishes)
    draw = _found(run, population, labelling, pictures, wishes)
    arms, seed = draw.arms, (wishes.seed, draw.number)
    rows = np.concatenate([arms.a, arms.b, arms.c])
    practice = _practice(population, rows, pictures, run, wishes)
    shown = [
        labelling.shown(part, (*seed, number), labelling.scores(part))
        for number, part in enumerate((rows, practice))
    ]
    ids = [secrets.token_hex(16) for _ in (*rows, *practice)]
    orders = _orders(ids[: len(rows)], ids[len(rows) :], wishes, seed)
    encoded = padded([pictures[population.examples.ids[row]] for row in (*rows, *practice)])
    images = dict(zip(ids, encoded, strict=True))
    names = np.array(population.examples.classes)
    labels = dict(zip(ids, [row for one in shown for row in names[one.ids].tolist()], strict=True))
    key = StudyKey(items=_key(population, draw, shown[0], ids), orders=tuple(orders))
    places = _mean_places(orders, ids[: len(rows)])
    sent = [[len(image), *encoding_of(image)] for image in encoded[: len(rows)]]
    leaks = contrast_leaks(
        shown[0].ids, np.column_stack([places, np.array(sent, float)]), _arm_names(arms),
        classes=classes, seed=wishes.seed,
    )  # fmt: skip
    plan = StudyPlan(
        **wishes.model_dump(include=AS_ASKED),
        blurred=wishes.blur,
        project=run.config.project,
        audit_sha256=file_digest(run.path("audit.json")),
        variant=variant,
        changed=int(population.cie.sum()),
        per_arm=len(arms.a),
        matched=draw.matched,
        draws=DRAWS,
        kept=draw.kept,
        classes=classes,
        still_cie=None if population.still is None else float(population.still[arms.a].mean()),
        questions=tuple(one.key for one in questions),
        primary=primary,
        level=0.95,
        repeats=min(wishes.repeats, len(rows)),
        practice=len(practice),
        guesses=min(wishes.guesses, len(rows)),
        consistency_screen=0.7,
        time_screen_s=1.0,
        analysis=ANALYSIS,
        leak=leaks,
        imbalance=mean_difference(population.agreement[arms.a], population.agreement[arms.c]),
        faces=wishes.faces.strip(),
    )
    largest = _write(folder, plan, key, images, labels)
    content = {"version": 1, "folder": str(folder.root), "sha256": plan.sha256}
    lines = [*balance_lines(key.items), *plan_lines(plan, wishes.per_arm, str(folder.root))]
    if largest > LARGEST_MAIL:
        lines.insert(-1, f"a page has {largest / 1e6:,.0f} MB, too large for most mail servers")
    return Answer("\n".join(lines), content | {"plan": plan.model_dump(mode="json")})


def _write(
    folder: StudyFolder,
    plan: StudyPlan,
    key: StudyKey,
    images: dict[str, bytes],
    labels: dict[str, list[str]],
) -> int:
    """Write a page a person, Label Studio's tasks, key and plan; bytes of the largest page."""
    largest = 0
    for annotator, orders in enumerate(key.orders, 1):
        content = study_page(plan, orders, images, labels, annotator)
        largest = max(largest, len(content))
        write_whole(folder.send / f"annotator-{annotator}.html", content)
    items = sorted(key.items)  # by random ids: an order that tells nothing
    write_json(folder.send / "label-studio.json", tasks(plan, items, images, labels), indent=None)
    write_whole(folder.send / "label-studio.xml", interface(plan))
    folder.write_key(key)
    folder.write_plan(plan)  # last: a folder with a plan is whole
    return largest


def _refuse_faces(run: Run, population: StudyPopulation, wishes: NewStudyOptions) -> None:
    """Refuse images that are said to show faces, unless a legal basis is given."""
    if wishes.faces.strip():
        return
    if run.config.source.shows_faces:
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


def _primary(wishes: NewStudyOptions, keys: list[str]) -> tuple[str, str]:
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
        from scotoma.datasets.thumbnails import blurred

        encoded = {name: blurred(data) for name, data in encoded.items()}
    return {name: displayed(data, name) for name, data in encoded.items()}


def _found(
    run: Run,
    population: StudyPopulation,
    labelling: _Labelling,
    pictures: dict[str, bytes],
    wishes: NewStudyOptions,
) -> Draw:
    """Arms that are blind and balanced, without two images that are nearly the same."""
    names, classes = population.examples.ids, len(population.examples.classes)

    def clashes(rows: Ints) -> npt.NDArray[np.bool_]:
        absent = [names[row] for row in rows if names[row] not in pictures]
        pictures.update(_pictures(run, absent, blur=wishes.blur))
        return duplicates(np.stack([print_of(pictures[names[row]]) for row in rows]))

    def leaks(draws: Sequence[tuple[int, Arms]]) -> list[float]:
        parts = [np.concatenate([arms.a, arms.b, arms.c]) for _, arms in draws]
        every, where = np.unique(np.concatenate(parts), return_inverse=True)
        scores = labelling.scores(every)
        ends = np.cumsum([len(rows) for rows in parts])[:-1]
        worst = []
        for (number, arms), rows, at in zip(draws, parts, np.split(where, ends), strict=True):
            seed = (wishes.seed, number)
            shown = labelling.shown(rows, (*seed, 0), None if scores is None else scores[at])
            items = [str(item) for item in range(len(rows))]
            places = _mean_places(_orders(items, [], wishes, seed), items)
            found = contrast_leaks(
                shown.ids, places[:, None], _arm_names(arms), classes=classes, seed=wishes.seed
            )
            worst.append(max(one.value for one in found.values()))
        return worst

    return draw_arms(
        population.cie,
        population.strata,
        population.agreement,
        wishes.per_arm,
        seed=wishes.seed,
        leaks=leaks,
        clashes=clashes,
        allow_imbalance=wishes.allow_imbalance,
        leaky=wishes.leaky,
    )


def _arm_names(arms: Arms) -> npt.NDArray[np.str_]:
    return np.repeat(["A", "B", "C"], len(arms.a))


def _orders(
    items: list[str], practice: list[str], wishes: NewStudyOptions, seed: tuple[int, int]
) -> list[Orders]:
    """Orders of all annotators; items are those of arm A, then B, then C."""
    per_arm = len(items) // 3
    return orders_for(
        {arm: items[at * per_arm : (at + 1) * per_arm] for at, arm in enumerate("ABC")},
        practice,
        repeats=min(wishes.repeats, len(items)),
        guesses=min(wishes.guesses, len(items)),
        seed=seed,
        annotators=wishes.annotators,
    )


def _mean_places(orders: Sequence[Orders], items: Sequence[str]) -> Floats:
    """Mean place of each item in the orders, shape (items,)."""
    total: dict[str, list[int]] = {item: [] for item in items}
    for order in orders:
        for place, item in enumerate(order.main):
            total[item].append(place)
    return np.array([np.mean(total[item]) for item in items])


def _practice(
    population: StudyPopulation,
    rows: Ints,
    pictures: dict[str, bytes],
    run: Run,
    wishes: NewStudyOptions,
) -> Ints:
    """Images to practise on: unchanged examples, at random, like no other that is shown."""
    rest = np.setdiff1d(np.flatnonzero(~population.cie), rows)
    rng = np.random.default_rng([wishes.seed, PRACTICE])
    waiting, names = rng.permutation(rest), population.examples.ids
    prints = [print_of(pictures[names[row]]) for row in rows]
    chosen: list[int] = []
    while len(chosen) < PRACTICE and len(waiting):
        drawn, waiting = waiting[:PRACTICE], waiting[PRACTICE:]
        pictures |= _pictures(run, [names[row] for row in drawn], blur=wishes.blur)
        for row in drawn:
            own = print_of(pictures[names[row]])
            if len(chosen) < PRACTICE and not duplicates(np.stack([*prints, own]))[-1]:
                chosen.append(int(row))
                prints.append(own)
    return np.array(chosen, np.int64)


class _Labelling:
    """What stands beside the images, by the rule that was asked for."""

    def __init__(self, run: Run, population: StudyPopulation, wishes: NewStudyOptions) -> None:
        self._run, self._population = run, population
        self._true = population.examples.labels
        self._classes = len(population.examples.classes)
        self._rule = wishes.labels
        self._pools = wishes.labels == "pooled" and self._classes > 2
        if self._pools:
            self._confused = most_confused(self._true, population.dense.predicted, self._classes)

    def scores(self, rows: Ints) -> Floats | None:
        """Mean scores of examples, where labels need them and every member kept them."""
        return mean_scores(self._run, self._population, rows) if self._pools else None

    def shown(self, rows: Ints, seed: Sequence[int], scores: Floats | None) -> ShownLabels:
        """Labels of examples."""
        true, population = self._true[rows], self._population
        if self._pools:
            votes = population.shares(rows)
            return pooled_labels(true, votes, self._confused, seed=seed, scores=scores)
        if self._rule == "true":
            return named_labels([true], "none")
        if self._classes == 2:
            return named_labels([true, 1 - true], "other class")
        members = (population.dense.predicted[rows], population.compressed.predicted[rows])
        modal = score(*members, self._classes)
        return named_labels([true, modal.dense_modal, modal.compressed_modal], "modal")


def _key(
    population: StudyPopulation, draw: Draw, shown: ShownLabels, ids: list[str]
) -> dict[str, KeyEntry]:
    labels, strata, arms = population.examples.labels, population.strata, draw.arms
    key = {}
    position = 0
    for arm, rows in (("A", arms.a), ("B", arms.b), ("C", arms.c)):
        for row in rows:
            alike = population.cie == population.cie[row]
            stratum = int((alike & (strata == strata[row])).sum())
            drawn = int((strata[rows] == strata[row]).sum())
            random = arm == "B" or (arm == "A" and not draw.matched)
            key[ids[position]] = KeyEntry(
                example_id=population.examples.ids[row],
                arm=arm,
                class_name=population.examples.classes[labels[row]],
                group="" if population.groups is None else population.groups[row],
                agreement=float(population.agreement[row]),
                weight=stratum / drawn if random else None,
                label_rule=shown.rules[position],
            )
            position += 1
    return key


@dataclass(frozen=True, eq=False)
class StudyPopulation:
    """What a study is drawn from: one row a test example.

    Attributes:
        examples: The test examples.
        dense: Predictions of the dense members.
        compressed: Predictions of the compressed members.
        cie: Whether compression changes an example, by the members that define it.
        still: The same by the other half of the members; None unless halved.
        agreement: Largest share of all votes on one class, in (0, 1].
        groups: Group of each example; None unless arms are stratified by groups.
    """

    examples: AuditedExamples
    dense: Predictions
    compressed: Predictions
    cie: Flags
    still: Flags | None
    agreement: Floats
    groups: list[str] | None

    @property
    def strata(self) -> Ints:
        """Class of each example, or class and group, shape (N,)."""
        labels = self.examples.labels
        if self.groups is None:
            return labels
        _, codes = np.unique(self.groups, return_inverse=True)
        return np.asarray(labels * (codes.max() + 1) + codes, np.int64)

    def shares(self, rows: Ints) -> Floats:
        """Share of dense votes plus share of compressed votes, shape (rows, C)."""
        return _shares(self.dense.predicted[rows], self.compressed.predicted[rows], self.examples)


def _shares(dense: Labels, compressed: Labels, examples: AuditedExamples) -> Floats:
    classes = len(examples.classes)
    return np.asarray(
        sum(label_counts(part, classes) / part.shape[1] for part in (dense, compressed)), float
    )


def population_of(run: Run, variant: str, *, define_on: str, group: str) -> StudyPopulation:
    """Read what a study is drawn from.

    Args:
        run: A finished audit.
        variant: Whose changes are studied.
        define_on: `all` members define what is changed, or `half` of them.
        group: Attribute by whose values arms are stratified; empty for none.

    Raises:
        ScotomaError: The run is not finished, or its examples cannot be studied.
    """
    audit, files = run.path("audit.json"), [run.predictions(v) for v in ("dense", variant)]
    require_files(run, audit, run.examples, *files)
    examples = read_test_examples(run)
    if not examples.labelled:
        raise DataError("the examples have no labels, which a study shows; audit labelled ones")
    folded: dict[str, str] = {}
    for name in examples.classes:
        if (other := folded.setdefault(name.casefold(), name)) != name:
            raise DataError(
                f"classes {quoted(other)} and {quoted(name)} differ only in case, so that people "
                "would confuse them; rename one"
            )
    if group and group not in examples.attributes:
        raise ConfigError(
            f"--group must be one of {', '.join(examples.attributes) or 'no attributes'}, got "
            f"{quoted(group)}; leave it out, or audit with groups"
        )
    dense, compressed = (read_predictions(run, name, examples) for name in ("dense", variant))
    classes = len(examples.classes)
    b, v = dense.predicted, compressed.predicted
    halves = 2 if define_on == "half" else 1
    if (fewest := min(b.shape[1], v.shape[1])) < halves:
        raise DataError(f"--define-on half needs 2 members a variant, got {fewest}; leave it out")
    cie, *still = (
        score(b[:, half::halves], v[:, half::halves], classes).cie for half in range(halves)
    )
    blocks = (slice(start, start + 2**16) for start in range(0, len(examples.ids), 2**16))
    agreement = [_shares(b[rows], v[rows], examples).max(axis=1) / 2 for rows in blocks]
    groups = [group_key([(group, value)]) for value in examples.table[group]] if group else None
    return StudyPopulation(
        examples, dense, compressed, cie, next(iter(still), None), np.concatenate(agreement), groups
    )


def mean_scores(run: Run, population: StudyPopulation, rows: Ints) -> Floats | None:
    """Mean probability of each class by dense members plus that by compressed ones.

    Args:
        run: The audit.
        population: From `population_of`.
        rows: Examples.

    Returns:
        Sums of two means, shape (rows, C); None unless every member kept every score.
    """
    names = [population.examples.ids[row] for row in rows]
    total = np.zeros((len(rows), len(population.examples.classes)))
    for one in (population.dense, population.compressed):
        for member in one.members:
            path = run.scores(one.variant, member)
            run.fetch(path, path.with_suffix(".json"))
            if not path.exists():
                return None
            if read_heads(path).shape != (1, total.shape[1]):
                return None  # heads of groups: no one score of a class
            ids, logits = read_scores(path)
            place = {name: at for at, name in enumerate(ids)}
            if not place.keys() >= {*names}:
                return None
            shown = logits[[place[name] for name in names]]
            total += softmax(shown.astype(float), axis=1) / len(one.members)
    return total

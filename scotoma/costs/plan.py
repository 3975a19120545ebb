"""What will an audit see, find and cost? Its plan, and that as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from scotoma.config import Config
from scotoma.costs.estimate import WITHIN, AuditSize, MeasuringCost, StepCost
from scotoma.costs.measure import ImageFacts, NetworkCost
from scotoma.document import Cell, Column, Document, Facts, Section, Table, show
from scotoma.document.cells import duration, size
from scotoma.document.jsonable import jsonable
from scotoma.power.groups import POWER, GroupForecast
from scotoma.sources.reading import Survey

TIMED = ("train", "prune", "predict", "robustness")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class RobustnessForecast:
    """What the step on corrupted pictures and other test sets does, costs and finds.

    Attributes:
        examples: Test examples that are corrupted.
        conditions: Corruptions times severities times draws.
        models: Members of all variants that are run.
        on_the_way: Dense models on their way that are run on corrupted pictures, too, at most.
        cost: Its time and disk.
        smallest: The extra loss of each group, a fraction, that one family shows in 90% of audits;
            None where the group or the rest is too small to be compared.
        left_out: Corruptions that are not made.
        sets: Pictures of each other test set, by its name.
        external: Whether predictions on corrupted pictures are read, and no model is run.
    """

    examples: int
    conditions: int
    models: int
    on_the_way: int
    cost: StepCost
    smallest: dict[str, float | None]
    left_out: tuple[str, ...]
    sets: dict[str, int]
    external: bool


@dataclass(frozen=True)
class Plan:
    """Facts and estimates about an audit before it runs.

    Attributes:
        config: What is audited.
        survey: Its examples, without images.
        newest: Data and models that are the newest now; None where the source names them.
        size: Examples and classes.
        images: Their size.
        assumed: Error that the dense members are assumed to make, a fraction; None where their
            predictions were read.
        error: That error, or the one that they make.
        groups: Groups of the test split.
        steps: Costs of the pipeline's steps, by name; empty where the data cannot be audited.
        skipped: Names of the steps with nothing to do.
        network: What was measured.
        measuring: What the steps after the predictions take.
        free_memory: Bytes; None where the system does not tell.
        robustness: What is seen on corrupted pictures; None where none are made.
    """

    config: Config
    survey: Survey
    newest: str | None
    size: AuditSize
    images: ImageFacts
    assumed: float | None
    error: float
    groups: list[GroupForecast]
    steps: dict[str, StepCost]
    skipped: frozenset[str]
    network: NetworkCost
    measuring: MeasuringCost
    free_memory: int | None
    robustness: RobustnessForecast | None = None

    @property
    def clusters(self) -> int:
        """Independent test examples."""
        clusters = self.survey.examples.split("test").clusters
        return self.size.test if clusters is None else int(clusters.max()) + 1

    @property
    def notes(self) -> list[str]:
        """Notes on the data."""
        examples = self.survey.examples
        return [*examples.notes, *(note.sentence for note in examples.admission)]

    @property
    def totals(self) -> dict[str, Any]:
        """Time to train and predict, disk, memory; None where one is not known."""
        splits = (self.size.train_images, self.size.test_images) if self.steps else ()
        peak = self.network.peak_bytes
        return {
            "seconds": _total([self.steps[name].seconds for name in TIMED if name in self.steps]),
            "within_factor": WITHIN,
            "disk_bytes": _total([step.disk_bytes for step in self.steps.values()]),
            "memory_bytes": None if peak is None else peak * self.network.workers,
            "free_memory_bytes": self.free_memory,
            "temporary_bytes": max(
                (self.images.decoded_bytes(split) or 0 for split in splits), default=0
            ),
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `--json` prints it."""
        size, images = self.size, self.images
        decoded = images.decoded_bytes(size.train_images + size.test_images)
        return {
            "version": 1,
            "project": self.config.project,
            "source": self.survey.origin,
            "newest": self.newest,
            "examples": {
                "test": size.test, "clusters": self.clusters, "train": size.train,
                "classes": size.classes, "notes": self.notes,
            },
            "join": jsonable(self.survey.join),
            "images": jsonable(images) | {"decoded_bytes": decoded},
            "assumed": {
                "error": self.assumed, "power": POWER, "members": self.config.population.models
            },
            "error": self.error,
            "groups": [
                jsonable(group) | {"estimable": group.estimable, "few": group.few}
                for group in self.groups
            ],
            "steps": [{"step": name, **jsonable(cost)} for name, cost in self.steps.items()],
            "total": self.totals,
            "network": jsonable(self.network),
            "measuring": jsonable(self.measuring) | {"within_factor": WITHIN},
            **({"robustness": jsonable(self.robustness)} if self.robustness else {}),
        }  # fmt: skip


def _total(values: list[Number | None]) -> Number | None:
    """Add values; None where there is none, or one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if values and len(known) == len(values) else None


FEW, NONE = "expect a warning", "expect no interval and no verdict"
DOES = {
    "prepare": "read and check every image",
    "import_models": "check and copy external models",
    "train": "train the dense members",
    "prune": "train the pruned members",
    "quantize": "compress trained members",
    "predict": "run members on test examples",
    "gather": "put predictions together",
    "robustness": "run members on corrupted pictures",
    "divergence": "score every example",
    "bias": "measure classes and groups",
    "slices": "search for slices nobody named",
    "verdict": "write audit.json, judge it",
    "report": "write the page",
    "log": "log to MLflow",
}
UNLABELLED = (
    "The examples have no labels: the audit says whose labels change, and not whose errors rise. "
    "scotoma show RUN examples --unlabelled then ranks what to label first."
)


def plan_document(plan: Plan) -> Document:
    """Lay out what an audit will see, what it can find and what it will cost."""
    facts, size_ = plan.size, f"{plan.size.test_images:,} test examples"
    if plan.clusters < facts.test_images:
        size_ += f" ({plan.clusters:,} clusters)"
    if facts.train:
        size_ = f"{facts.train_images:,} training and {size_}"
    several = facts.rows_an_image > 1
    kinds = f"{facts.outputs:,} labels each" if several else f"{facts.classes:,} classes"
    error = ""
    if plan.survey.examples.labelled:
        error = f"; {100 * plan.error:.3g}% of the baseline's predictions are wrong"
        if plan.assumed is not None:
            error = f"; assumes an error of {100 * plan.assumed:g}%"
    costs = [("corrupt", text) for text in _robustness(plan)]
    parts = [_steps(plan)] if plan.steps else []
    return Document(
        f"{plan.config.project}: {size_}, {kinds}, {_members(plan)}{error}",
        sections=[
            Section("sees", "What the audit will see", parts=[Facts(list(_seen(plan)))]),
            Section("finds", "What it can find", parts=[_groups(plan)]),
            Section("costs", "What it will cost", parts=[*parts, Facts([*_costs(plan), *costs])]),
        ],
    )


def _members(plan: Plan) -> str:
    members = plan.config.population.models
    return f"{members} member{'s' * (members != 1)} a variant"


def _seen(plan: Plan) -> Iterator[tuple[str, str]]:
    """What joins, what was noted and how large images are."""
    join, images = plan.survey.join, plan.images
    if plan.newest is not None:
        yield "newest", plan.newest
    if join is not None:
        without = _named(join.rows_without_image, "row", "without image", join.first_rows)
        lone = _named(join.images_without_row, "image", "without row", join.first_images)
        yield "join", f"{join.rows:,} rows, {join.images:,} images; {without}; {lone}"
    elif plan.size.train:
        yield "join", "every row holds its image"
    for note in plan.notes:
        if join is None or note != join.note():  # which is said above, with more names
            yield "note", note
    if images.shape is not None:
        height, width = images.shape
        train, test = (
            show(images.decoded_bytes(count), "bytes").value
            for count in (plan.size.train_images, plan.size.test_images)
        )
        stored = show(images.encoded_bytes, "bytes").value
        yield (
            "images",
            (f"{width}x{height} pixels, {stored} stored; decoded {train} training and {test} test"),
        )
    elif join is not None or plan.size.train:
        yield "images", images.reason


def _named(count: int, one: str, lacking: str, first: Sequence[str]) -> str:
    if not count:
        return f"no {one} {lacking}"
    names = ", ".join([*first, *(["..."] if count > len(first) else [])])
    return f"{count:,} {one}{'s' * (count != 1)} {lacking} ({names})"


def _groups(plan: Plan) -> Table:
    labelled, variants = plan.survey.examples.labelled, plan.config.resolved_variants[1:]
    known = {
        "clusters": plan.clusters < plan.size.test,
        "positive": plan.groups[0].positives is not None,
        "training": plan.size.train > 0,
        "errors": labelled,
        "detects": labelled and any(not variant.paired for variant in variants),
        "paired": labelled and any(variant.paired for variant in variants),
    }
    columns = [Column("group", "group"), Column("test", "test", "count")]
    columns += [
        Column(key, key, "percent" if key in ("detects", "paired") else "count")
        for key, shown in known.items() if shown
    ]  # fmt: skip
    return Table(
        "groups", "", [*columns, Column("mark", "")],
        [{"group": one.name, "test": one.n, "clusters": one.clusters, "positive": one.positives,
          "training": one.train, "errors": round(one.errors, 1), "detects": _rise(one.independent),
          "paired": _rise(one.paired), "mark": _mark(one) if labelled else ""}
         for one in plan.groups],
        " ".join(_about_groups(plan)),
    )  # fmt: skip


def _rise(value: float | None) -> Cell:
    return "none" if value is None else value


def _mark(group: GroupForecast) -> str:
    return "" if not group.few else FEW if group.estimable else NONE


def _about_groups(plan: Plan) -> Iterator[str]:
    """How to read the table of groups."""
    if not plan.survey.examples.labelled:
        yield UNLABELLED
        return
    if plan.assumed is None:
        yield "Errors: of one model of the baseline on average, as its predictions have them."
    else:
        unseen = "there are no predictions yet" if plan.size.train else (
            "the predictions are not read"
        )  # fmt: skip
        yield (
            f"Errors: expected of one member that errs on {100 * plan.assumed:g}% of the examples. "
            f"That is an assumption (--assumed-error): {unseen}."
        )
    yield (
        "Detects: the smallest relative rise of the error that 80% of audits with "
        f"{_members(plan)} find; none: no rise is found."
    )
    if any(variant.paired for variant in plan.config.resolved_variants[1:]):
        yield "Paired: the same for variants made of the dense members."
    marks = {_mark(group) for group in plan.groups}
    if FEW in marks:
        yield f"{FEW.capitalize()}: fewer than 10 examples carry the error."
    if NONE in marks:
        yield (
            f"{NONE.capitalize()}: fewer than 5 examples carry the error. Collect more of the "
            "group, or leave it out."
        )


def _steps(plan: Plan) -> Table:
    """The steps in their order, with what each takes."""
    unasked = {"import_models"} & plan.skipped | ({"robustness"} - plan.steps.keys())
    rows: list[dict[str, Cell]] = []
    for name in [one for one in DOES if one not in unasked]:
        cost, skipped = plan.steps.get(name, StepCost(None, None)), name in plan.skipped
        rows.append(
            {"step": name, "time": None if skipped else cost.seconds,
             "disk": cost.disk_bytes or None, "does": "nothing to do" if skipped else DOES[name]}
        )  # fmt: skip
    columns = (
        Column("step", "step"), Column("time", "time", "duration"),
        Column("disk", "disk", "bytes"), Column("does", ""),
    )  # fmt: skip
    return Table("steps", "", columns, rows)


def _costs(plan: Plan) -> Iterator[tuple[str, str]]:
    """What the audit as a whole needs, and what the times rest on."""
    total, cost, network = plan.totals, plan.measuring, plan.network
    sizes = {key: size(value) for key, value in total.items() if key.endswith("bytes") and value}
    parts = []
    if plan.steps and total["seconds"] is not None:
        parts.append(
            f"about {duration(total['seconds'])} to train and predict, which may be wrong by a "
            f"factor of {WITHIN:g}"
        )
    if plan.steps and "disk_bytes" in sizes:
        parts.append(f"{sizes['disk_bytes']} of images, models and predictions on disk")
    if plan.steps and "memory_bytes" in sizes:
        free = sizes.get("free_memory_bytes")
        parts.append(f"{sizes['memory_bytes']} of memory" + (f" ({free} are free)" if free else ""))
    if "temporary_bytes" in sizes:
        parts.append(f"{sizes['temporary_bytes']} of decoded images in the temporary folder")
    if parts:
        yield "audit", "; ".join(parts).replace("about <", "less than")
    if not network.image_s:
        yield "trial", network.reason
    else:
        text = "one batch of noise through the first model of each variant"
        if network.step_s is not None:
            step = (
                duration(network.step_s) if network.step_s >= 1
                else f"{1000 * network.step_s:.{0 if network.step_s >= 0.00995 else 1}f} ms"
            )  # fmt: skip
            text = f"{step} a step of {network.batch} images on one core"
            text += f", {network.together} members as one" if network.together > 1 else ""
            if network.tried < network.batch:
                text += f"; scaled from a step of {network.tried} images"
        yield "trial", f"{text}; other programs on this machine make it longer"
    seconds, memory = duration(cost.seconds), size(cost.memory_bytes)
    yield "measure", (
        f"about {seconds} of one core to measure, judge and report, {memory} of memory, "
        f"{size(cost.audit_json_bytes)} of audit.json; each may be wrong by a factor of {WITHIN:g}"
    )  # fmt: skip


def _robustness(plan: Plan) -> Iterator[str]:
    """What corrupted pictures and other test sets show, and what is run for it."""
    robust = plan.robustness
    if robust is None:
        return
    if robust.conditions:
        on_the_way = robust.on_the_way
        text = (
            f"{robust.examples:,} pictures under {robust.conditions:,} conditions, "
            f"{robust.models:,} models each"
            f"{f' and up to {on_the_way:,} dense ones on their way' if on_the_way else ''}: "
            f"{robust.examples * robust.conditions * (robust.models + on_the_way):,} predictions"
            f"{' that are read' * robust.external}"
        )
        known = [(points, name) for name, points in robust.smallest.items() if points is not None]
        if known:
            finest, widest = (choose(known, key=lambda one: one[0]) for choose in (min, max))
            text += (
                "; the smallest loss beyond the other groups that 90% of audits show: "
                f"{100 * finest[0]:.1f} points for {finest[1]}"
            )
            text += f", {100 * widest[0]:.1f} for {widest[1]}" if widest[0] > finest[0] else ""
        if small := [name for name, points in robust.smallest.items() if points is None]:
            more = f" and {len(small) - 1:,} more" if len(small) > 1 else ""
            text += f"; too small to compare: {small[0]}{more}"
        yield text
    if robust.sets or not robust.conditions:
        sets = ", ".join(f"{name}: {many:,} pictures" for name, many in robust.sets.items())
        yield f"other test sets: {sets}; {robust.models:,} models each"

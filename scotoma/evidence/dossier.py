"""What does technical documentation say of testing? Annex IV, point 2(g), of the EU AI Act."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scotoma.audit import Audit
from scotoma.audit.base import cells_at
from scotoma.audit.gate import TestResult
from scotoma.bias.clarify import METRICS
from scotoma.bias.four_fifths import STANDINGS, shown_ratio, standing
from scotoma.document import Cell, Column, Document, Facts, Section, Table
from scotoma.document.parts import Part
from scotoma.evidence.release import Release, measurements
from scotoma.impact.worst_change import gap_groups, turned_gaps
from scotoma.numbers import FEW_RUNS
from scotoma.printable import code_span, printable
from scotoma.verdict.words import decided_words

SCOPES = {
    "population": "The verdict speaks of the variant's models and of the next one trained the same "
    "way.",
    "shipped": "The verdict speaks of the audited models themselves, not of the next training run.",
}
PERSON = ("name", "function", "date", "signature")
ABOUT = (
    "This is the part of the technical documentation that Annex IV, point 2(g), of Regulation (EU) "
    "2024/1689 (Artificial Intelligence Act, text of 12 July 2024) asks for, as far as an audit by "
    "Scotoma {} can give it. Section 5 also holds the tables of the Uniform Guidelines on Employee "
    "Selection Procedures (1978), 29 CFR 1607.4 D. Later changes of either text are not "
    "considered. It is no legal advice: whether these texts apply, and whether this satisfies "
    "them, is for the provider to decide."
)
LIMITS = (
    "The intervals cover {}another test set of this kind. They do not cover data of another kind, "
    "wrong labels, groups that are not in the data, or use other than classification of single "
    "examples. A PASS speaks only of the tests above."
)
N = Column("n", "n", "count")


def dossier(release: Release) -> Document:
    """Say what was tested, on which data, with what result and how sure, in nine sections.

    Args:
        release: The model and its audit.

    Returns:
        A document whose Markdown has names as code, so that nothing in them is markup. The fields
        of the responsible person are left empty.
    """
    audit, variant = release.audit, release.variant.name
    sections: dict[str, Iterable[str | Part]] = {
        "What was tested": _tested(release),
        "Testing data and their main characteristics": _data(audit),
        "Accuracy": [
            f"Intervals are {100 * audit.level:g}%; n counts clusters where examples form "
            "clusters.",
            _rates(release),
        ],
        "Potentially discriminatory impacts": [*_gaps(audit, variant), *_outcomes(audit, variant)],
        "Four-fifths tables": _selection(audit, variant),
        "Test log": _log(release),
        "Robustness": [
            "Measured under corrupted pictures: `rows.robustness` in audit.json has accuracy by "
            "corruption and severity, for every group, with intervals."
            if audit.robustness is not None
            else "Not measured in this audit."
        ],
        "What this does not show": [
            LIMITS.format("another training run and " * (audit.scope == "population")),
            *(f"Too small to judge: {_text(where)}." for where in release.judged.too_small),
        ],
        "Responsible person": [Facts([(field, "") for field in PERSON])],
    }
    title = f"Testing of {code_span(release.model.name)}: accuracy and potentially discriminatory"
    return Document(
        f"{title} impacts",
        ABOUT.format(audit.scotoma),
        [
            _section(f"{number}. {title}", list(content))
            for number, (title, content) in enumerate(sections.items(), start=1)
        ],
    )


def _section(title: str, content: Sequence[str | Part]) -> Section:
    sentences = [one for one in content if isinstance(one, str)]
    return Section(title, title, sentences, [one for one in content if not isinstance(one, str)])


def _tested(release: Release) -> Iterator[str | Part]:
    model, audit = release.model, release.audit
    yield f"{release.binding} {SCOPES[audit.scope]}"
    counts = [
        f"{code_span(one.name)}, {one.members} model{'s' * (one.members != 1)}"
        for one in (release.variant, audit.dense)
    ]
    yield Facts(
        [
            ("model", f"{code_span(model.name)}, {model.size_bytes:,} bytes"),
            ("its SHA-256", code_span(model.sha256)),
            ("variant", counts[0]),
            ("compared with", counts[1]),
            ("day of the verdict", release.day),
            ("SHA-256 of audit.json", code_span(release.audit_sha256)),
            ("SHA-256 of gate.json", code_span(release.gate_sha256)),
            ("SHA-256 of config.yaml", code_span(release.config_sha256)),
            ("training seeds", ", ".join(map(str, release.seeds)) or "not known"),
        ]
    )


def _data(audit: Audit) -> Iterator[str | Part]:
    examples = audit.examples
    yield (
        f"{examples.test:,} test examples in {examples.clusters:,} clusters, {examples.train:,} "
        f"training examples; SHA-256 of their table {code_span(examples.dataset_sha256)}. Classes: "
        f"{', '.join(map(code_span, examples.classes))}."
    )
    yield from map(_text, examples.notes)
    sizes = (Column("n", "test examples", "count"), Column("train", "training examples", "count"))
    groups: list[dict[str, Cell]] = [
        {"group": one.name, "n": one.n, "train": one.train} for one in audit.groups
    ]
    yield Table("groups", "", (Column("group", "group"), *sizes), groups)
    counts = (Column("files", "files", "count"), Column("bytes", "bytes", "count"))
    columns = (Column("key", "input"), *counts, Column("sha256", "SHA-256"))
    inputs: list[dict[str, Cell]] = [
        {"key": one.key, "files": one.files, "bytes": one.bytes, "sha256": one.sha256}
        for one in audit.inputs
    ]
    yield from [Table("inputs", "", columns, inputs)] if inputs else []


def _rates(release: Release) -> Table:
    """Before, after and change of every rate of every group, a row each."""
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for one in measurements(release):
        row = rows.setdefault((one.metric, one.group), {"n": one.quantity.n})
        row |= {"metric": one.metric, "group": one.group_name, one.of: one.quantity}
    columns = (
        Column("metric", "metric"),
        Column("group", "group"),
        Column("baseline", "before compression", "rate"),
        Column("compressed", "after", "rate"),
        Column("change", "change, points", "points"),
        N,
    )
    return Table("rates", "", columns, list(rows.values()), stub=2, known=FEW_RUNS)


def _gaps(audit: Audit, variant: str) -> Iterator[str | Part]:
    rows: list[dict[str, Cell]] = []
    for gap in turned_gaps(audit, variant):
        row, p, (more, less) = gap["gap"], gap["p_adjusted"].number.value, gap_groups(audit, gap)
        rows.append(
            {
                "metric": row.metric, "more": more, "less": less, "gap": row.number,
                "n": row.number.n, "p": "not tested" if p is None else p,
            }
        )  # fmt: skip
    if not rows:
        yield "The audit compares no groups."
        return
    words = (Column("metric", "rate"), Column("more", "rises more for"), Column("less", "than for"))
    columns = (*words, Column("gap", "by, points", "points"), N, Column("p", "p, adjusted", "p"))
    caption = "How much more an error rate rises for one group than for another."
    yield Table("gaps", caption, columns, rows, stub=3, known=FEW_RUNS)


def _outcomes(audit: Audit, variant: str) -> Iterator[Table]:
    rows: list[dict[str, Cell]] = [
        {
            "metric": at["change"].metric,
            **at["change"].facts,
            **cells_at(at),
            "neutral": f"{METRICS[str(at['change'].metric)].neutral:g}",
            "n": at["change"].number.n,
        }
        for at in audit.at("clarify", variant)
        if "change" in at and at["compressed"].number.value is not None
    ]
    if not rows:
        return
    words = [Column(key, key) for key in ("metric", "disadvantaged", "advantaged", "neutral")]
    sides = (Column("dense", "before", "number"), Column("compressed", "after", "number"))
    columns = (*words, *sides, Column("change", "change", "change"), N)
    caption = (
        f"Who gets the favourable outcome {code_span(str(audit.examples.positive))}: metrics of "
        "the disadvantaged beside the advantaged group."
    )
    yield Table("outcomes", caption, columns, rows, stub=4, known=FEW_RUNS)


def _selection(audit: Audit, variant: str) -> Iterator[str | Part]:
    """Four-fifths tables: one an attribute, one an intersection."""
    names, tables = audit.group_names, dict[str, list[dict[str, Cell]]]()
    for at in audit.at("clarify", variant):
        if "ratio" not in at:
            continue
        ratio, group = at["ratio"].number, str(at["ratio"].group)
        tables.setdefault(at["ratio"].fact("attribute"), []).append(
            {
                "group": names.get(group, group),
                "n": at["examples"].number.value,
                "rate": at["rate"].number,
                "ratio": shown_ratio(ratio),
                "standing": STANDINGS[standing(ratio)],
            }
        )
    if not tables:
        yield "None: they need a favourable outcome (`label.positive`) and groups."
        return
    yield (
        f"Selected means predicted {code_span(str(audit.examples.positive))}, mean over the "
        "models. The rule of thumb asks for at least 4/5 of the rate of the group selected most; a "
        "ratio below it is not a legal finding. Groups under 2% of the examples are counted and "
        "not judged."
    )
    ratios = (Column("rate", "selected", "rate"), Column("ratio", "impact ratio", "number"))
    for number, (attribute, rows) in enumerate(tables.items()):
        whose, last = Column("group", code_span(attribute)), Column("standing", "standing")
        yield Table(f"selection{number}", "", (whose, N, *ratios, last), rows, known=FEW_RUNS)


def _log(release: Release) -> Iterator[str | Part]:
    judged = release.judged
    yield f"Verdict on {code_span(release.variant.name)}, {release.day}: **{judged.verdict}**."
    yield from map(_text, judged.sentences)
    yield "FAIL: harm beyond a margin is shown. PASS: it is ruled out. UNSURE: neither."
    yield from map(_text, release.gate.warnings)
    rows: list[dict[str, Cell]] = [
        {
            "test": f"{test.rule}: {test.where}",
            "result": test.verdict,
            "decided": _decided(test),
            "waived": test.waived,
        }
        for test in judged.tests
    ]
    columns = (
        Column("test", "test"),
        Column("result", "result", "verdict"),
        Column("decided", "decided by"),
        Column("waived", "waived"),
    )
    yield Table("tests", "", columns, rows)


def _decided(test: TestResult) -> str:
    if test.decided_by is None:
        return test.reason or "nothing"
    return f"{decided_words(test)}; n {test.decided_by.interval.n:,}"


def _text(sentence: str) -> str:
    """A sentence of the audit, which may hold hostile names: no markup, one line."""
    escaped = printable(sentence)
    for sign in "\\`*_[]<>|#&":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped

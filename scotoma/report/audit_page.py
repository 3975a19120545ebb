"""The page of an audit: its sections in order, one file without network, and its tables."""

from __future__ import annotations

from collections.abc import Callable

from scotoma.audit import Audit, GateResult
from scotoma.audit.findings import Beside, Findings, in_focus
from scotoma.costs.section import frontier_section
from scotoma.divergence.gallery_section import layers_section
from scotoma.document import Column, Document, Facts, Section, Table, Verbatim, show
from scotoma.document.html import html_page
from scotoma.document.parts import Part
from scotoma.impact.worst_change import MEANING
from scotoma.numbers import few_runs
from scotoma.questions import QUESTIONS
from scotoma.report.model_card import model_card
from scotoma.review.section import reviewed_section
from scotoma.study.section import study_section
from scotoma.verdict.gate_section import gate_section
from scotoma.verdict.section import verdict_section

RELATIVE = (
    "Relative and absolute",
    "An error that goes from 1% to 2% doubles (+100%, relative) and rises by one point "
    "(absolute). A group with a low error can change little in points and much in per "
    "cent; look at both.",
)
NAMED = 20  # class names listed
FEW_MEMBERS = 5  # below it CIE counts are unstable


def few_runs_sentence(audit: Audit) -> str:
    """Say that there are few training runs, as a sentence; nothing where there are enough."""
    words = few_runs(min(variant.members for variant in audit.variants))
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def glossary_section(findings: Findings) -> Section:
    """Words and signs."""
    audit = findings.audit
    asks = (
        "Every interval answers: what would another training run show, on another test set of this "
        "kind? Test examples and training runs both vary in it."
        if audit.scope == "population"
        else "Every interval answers: what would these very models show on another test set of "
        f"this kind? {few_runs_sentence(audit)}"
    )
    clustered = audit.examples.clusters != audit.examples.test
    n = "clusters: examples that belong together count once" if clustered else "examples"
    unlabelled = (
        " Without labels the gate asks how many predictions change: a FAIL shows change, not harm."
    )
    rows = [
        (
            "Variant, member, population",
            "A variant is one way of compressing. Its population is one model for each seed: its "
            "members. The baseline is the population that was not compressed, called dense.",
        ),
        (
            "PASS, UNSURE, FAIL",
            "FAIL: harm beyond a margin is shown. PASS: harm beyond every margin is ruled out. "
            "UNSURE: neither; the audit is too small to tell. UNSURE is not a weak PASS."
            + unlabelled
            * (not audit.labelled and audit.scores is None),
        ),
        *(_of_classes(findings) if audit.scores is None else []),
        *([("Most affected", MEANING.removeprefix("Most affected: "))] if audit.labelled else []),
        (
            "[Brackets] and n",
            f"A number and its {100 * audit.level:g}% interval; n counts {n}.",
        ),
        *([RELATIVE] if audit.scores is None else []),
        (
            "Filled diamond or open ring",
            "Filled diamond: the interval excludes 0. Open ring: it includes 0, or there is no "
            "interval. The vertical line is 0.",
        ),
        (
            "“Undefined”, “not estimable”, “few events”",
            "The reason replaces a number that cannot be estimated: no example of that kind, or "
            "fewer than 5 effective events behind a relative change. Effective events: how many "
            "examples carry a rate. “Few events” marks fewer than 10: take it as a hint.",
        ),
    ]
    return Section(
        "reading", "Glossary", [asks.strip()], [Facts(rows)], folded=True, about="words and signs"
    )


def _of_classes(findings: Findings) -> list[tuple[str, str]]:
    return [
        (
            "CIE",
            "A compression-identified exemplar: an example to which most dense models give one "
            "label and most compressed models another. The true label plays no part.",
        ),
        (
            "Floor and excess",
            "Two dense models differ too. The floor is the share of examples on which they do; the "
            "excess is how much more a dense and a compressed model differ. An excess of 0 means "
            "that compression changes no more than another seed does.",
        ),
    ]


def methods_section(findings: Findings) -> Section:
    """What was audited, what the intervals mean, what the page cannot say, versions."""
    audit = findings.audit
    notes = [f"{note.sentence.rstrip('.')}." for note in audit.admission]
    notes += [f"{note.rstrip('.')}." for note in audit.examples.notes]
    lists: list[Part] = [
        Facts(_audited(findings), "What was audited"),
        _groups(audit),
        Facts(_items(_intervals(audit)), "What the intervals mean"),
        *([Facts(_items(_cies(audit)), "CIEs, floor and excess")] if audit.divergence else []),
        *([Facts(_items(notes), "The data", "admission")] if notes else []),
        Facts(_items(_limits(audit)), "What this page cannot say"),
        Facts(_items(_versions(findings)), "Versions"),
    ]
    if audit.scores is None:
        lists.append(Verbatim("card", "For a model card", model_card(audit, findings.gate)))
    return Section(
        "methods",
        "Methods and limitations",
        [],
        lists,
        folded=True,
        about="data, intervals, versions, model card",
        link="Methods",
    )


def _items(sentences: list[str]) -> list[tuple[str, str]]:
    return [("", sentence) for sentence in sentences]


def _audited(findings: Findings) -> list[tuple[str, str]]:
    audit, examples = findings.audit, findings.audit.examples
    names = ", ".join(examples.classes[:NAMED]) + ", …" * (len(examples.classes) > NAMED)
    several = "{} members".format
    models = "; ".join(
        f"{one.name}: {'1 member' if one.members == 1 else several(one.members)}"
        + ", each derived from a dense member" * one.paired
        for one in audit.variants
    )
    size = show(examples.test).value
    if examples.clusters != examples.test:
        size += f" in {show(examples.clusters).value} clusters"
    rows = [
        ("Project", audit.project),
        ("Models", models),
        ("Test examples", size),
        ("Training examples", show(examples.train).value),
    ]
    if audit.scores is None:
        rows.append(("Classes", f"{show(len(examples.classes)).value}: {names}"))
    if examples.positive is not None:
        rows.append(("Positive class", examples.positive))
    if findings.beside.newest is not None:
        rows.append(("Newest input", findings.beside.newest))
    rows += [
        ("Seed", str(audit.seed)),
        ("Configuration, SHA-256", audit.config_sha256),
        ("Data set, SHA-256", examples.dataset_sha256),
    ]
    for files in audit.inputs:
        plural = "" if files.files == 1 else "s"
        count = show(files.files).value
        rows.append((f"Input {files.key}, {count} file{plural}, SHA-256", files.sha256))
    return rows


def _groups(audit: Audit) -> Table:
    return Table(
        "group_sizes",
        "Training and test examples of each group",
        (
            Column("group", "Group"),
            Column("train", "Training examples", "count"),
            Column("test", "Test examples", "count"),
        ),
        [{"group": one.name, "train": one.train, "test": one.n} for one in audit.groups],
        most=0,
    )


def _intervals(audit: Audit) -> list[str]:
    compressed, examples = audit.compressed, audit.examples
    if audit.scope == "population":
        lines = [
            "Rates, differences and relative changes are for another training run on another test "
            "set of this kind. Examples and members are crossed random factors: all members, dense "
            "and compressed, predict the same examples."
        ]
    else:
        lines = [
            "Rates, differences and relative changes are for these very models on another test "
            f"set: only examples vary. {few_runs_sentence(audit)}".strip()
        ]
    paired = [variant.name for variant in compressed if variant.paired]
    if paired and audit.scores is None:
        others = "; other populations are compared as a whole" * (len(paired) < len(compressed))
        lines.append(
            f"Each member of {', '.join(paired)} derives from a dense member and is compared with "
            f"it{others}."
        )
    many = f"{len(compressed)} compressed variant{' was' if len(compressed) == 1 else 's were'}"
    lines.append(
        f"Each interval is a {100 * audit.level:g}% interval by itself: among many, some miss by "
        f"chance. {many} tried: choosing the best of many favours luck."
    )
    if examples.clusters != examples.test:
        lines.append(
            f"The {show(examples.test).value} test examples lie in "
            f"{show(examples.clusters).value} clusters. Every interval resamples whole clusters, "
            "and n counts them."
        )
    if audit.scores is not None:
        lines.append(
            "A mean follows its largest values. Where a few examples carry it, the quantiles say "
            "more."
        )
        return lines
    return [
        *lines,
        "The share of CIEs and the over-representation of groups are for these populations on "
        "another test set. Resampling members would repeat some of them, and populations with "
        "repeated members disagree more.",
        "A rate without an event has no standard error; its interval is the rule of three, 3/n.",
    ]


def _cies(audit: Audit) -> list[str]:
    lines = [
        "Where two labels tie for the most votes, the smallest class id wins; the range beside the "
        "count covers all other choices.",
        "The count falls as members are added, even if compression changes nothing. Do not compare "
        "it between audits.",
        "Floor and excess compare single models over all pairs, so audits with different numbers "
        "of members can be compared.",
    ]
    if any(variant.paired for variant in audit.compressed):
        lines.append(
            "A member made from a dense one is compared with it: these flips contain no seed "
            "noise, so the floor is no yardstick for them. Its excess compares it with the other "
            "dense members."
        )
    return [
        *lines,
        f"With fewer than {FEW_MEMBERS} members CIEs are unstable. With one model a side CIEs are "
        "flips, without floor and excess.",
    ]


def _limits(audit: Audit) -> list[str]:
    lines = [
        "Numbers with few effective events are marked or left out. “No difference shown” does not "
        "mean “no difference”.",
        "Groups are those of the configuration. The search for slices looks beyond them, but only "
        "at attributes that the data have.",
    ]
    if audit.divergence:
        lines.append(
            "The gallery shows CIEs of these models. With other seeds, examples near a tie change "
            "sides."
        )
    return lines


def _versions(findings: Findings) -> list[str]:
    audit, versions = findings.audit, sorted(findings.beside.versions.items())
    lines = [
        f"Scotoma {audit.scotoma}, audit format {audit.version}. audit.json beside this page holds "
        "every number unrounded, tables/ the tables as CSV.",
        "Deterministic mode: the same seed on the same machine gives the same bytes. Library "
        "versions and times are in measurements.json, so that equal audits give equal pages."
        if audit.deterministic
        else "Deterministic mode was off: training again with the same seed may give other "
        "weights.",
    ]
    if versions:
        with_them = ", ".join(f"{package} {version}" for package, version in versions)
        lines.append(f"Measured with {with_them}; hardware and times are in measurements.json.")
    return lines


TABLES = "tables"  # folder of a run that holds the CSV files
Make = Callable[[Findings], Section | None]

# What is drawn beside the sections of the questions, by its place among them.
BESIDE: dict[int, Make] = {
    10: verdict_section,
    80: glossary_section,
    90: gate_section,
    110: layers_section,
    200: study_section,
    210: reviewed_section,
    220: frontier_section,
    240: methods_section,
}


def audit_document(
    audit: Audit,
    gate: GateResult | None = None,
    beside: Beside | None = None,
) -> Document:
    """Everything that an audit says, as a document.

    Args:
        audit: The audit.
        gate: The verdict on it; None shows none.
        beside: What stands beside the audit; None shows nothing of it.
    """
    findings = Findings(audit, gate, in_focus(audit, gate).name, beside or Beside())
    places = dict(BESIDE)
    for question in QUESTIONS.values():
        places |= question.drawn()
    made = [places[place](findings) for place in sorted(places)]
    return Document(
        f"{audit.project}: what compression changed",
        _lead(audit),
        [section for section in made if section is not None],
        "Scotoma audit of scores" if audit.scores else "Scotoma audit",
    )


def _lead(audit: Audit) -> str:
    variants, dense, examples = len(audit.compressed), audit.dense.members, audit.examples
    text = (
        f"{variants} compressed variant{'' if variants == 1 else 's'} beside {dense} dense "
        f"model{'' if dense == 1 else 's'}, on "
    )
    test = show(examples.test).value
    if audit.labels is not None:
        each = show(len(audit.labels.names)).value
        text += f"{show(audit.labels.examples).value} test examples with {each} labels each, "
        text += f"{test} pairs."
    elif examples.clusters != examples.test:
        text += f"{test} test examples in {show(examples.clusters).value} clusters."
    else:
        text += f"{test} test examples."
    if audit.scores is not None:
        unit = f" in {audit.scores.unit}" if audit.scores.unit else ""
        better = "lower" if audit.scores.lower_is_better else "higher"
        text += f" The score is {audit.scores.name}{unit}; {better} is better."
    return text


def csv_tables(document: Document) -> dict[str, Table]:
    """The tables of a document by the names of their CSV files in the run's folder."""
    return {f"{TABLES}/{table.id}.csv": table for table in document.tables() if table.rows}


def render(document: Document, *, linked: bool = True) -> str:
    """Render an audit's document as one HTML file.

    Names of classes, groups, examples and of the project are shown as text, whatever they hold.
    The page's own policy allows its style sheets and scripts, each by its hash, and images inside
    the page; nothing in it evaluates text as code.

    Args:
        document: From `audit_document`.
        linked: Whether the CSV files of its tables lie beside the page.

    Returns:
        The page; equal inputs give equal text, whatever the order of their keys.
    """
    files = {table.id: name for name, table in csv_tables(document).items()}
    return html_page(document, files if linked else {})

"""What do worse pictures cost, and whom? As a section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scotoma.audit.base import At, Row, cells_at
from scotoma.audit.findings import Findings
from scotoma.audit.robustness import ALL_KINDS, RobustnessReport, TriedSet, depends_on_scale
from scotoma.document import Cell, Chart, Column, Facts, Noted, Section, Table, show
from scotoma.document.pictures import Album, Picture
from scotoma.numbers import FEW_RUNS

FAMILIES = {
    ALL_KINDS: "all corruptions",
    "noise": "noise",
    "blur": "blur",
    "weather": "weather",
    "digital": "digital",
    "extended": "extended",
}
HARD = "CIEs of "  # begins no name of a set that is in a folder
MOST_LINES = 6  # variants drawn, those that lose most
MOST_GROUPS = 30  # of each variant, whose losses are listed
MOST_ROWS = 20  # of a table on the page
SHOWN = 0.05  # p, adjusted, from which a group is shown to differ
SCALE = "depends on the scale"
MEANS = ("ce", "alexnet_ce", "top5_accuracy")  # under every standard corruption
ONLY_EXAMPLES = ("of these pictures and models: the interval is over examples alone",)
N = Column("n", "n", "count")
VARIANT = Column("variant", "Variant")
CORRUPTIONS = Column("family", "Corruptions")
SCALES = (
    Column("absolute", "Loss beyond dense, points", "points", drawn=True),
    Column("relative", "Relative, points of robustness", "points"),
    Column("log_odds", "Log-odds", "change"),
)


def robustness_section(findings: Findings) -> Section | None:
    """Losses on corrupted pictures and other test sets; None where there are none."""
    report = findings.audit.robustness
    if report is None:
        return None
    parts: list[Table | Chart | None] = [
        _curves(findings) if report.corruptions else None,
        _losses(findings) if report.corruptions else None,
        _matched(findings),
        *_groups(findings),
        _disagreement(findings),
        _confidence(findings),
        _detection(findings),
        _sets(findings, report),
    ]
    told = [(one.name, text) for one in report.sets if (text := _selected(one))]
    return Section(
        "robustness",
        "Corrupted pictures" if report.corruptions else "Other test sets",
        _answer(findings, report),
        [
            *(part for part in parts if part is not None and _rows(part)),
            *([Facts(told)] if told else []),
            *_strip(findings, report),
        ],
        folded=True,
        about="what worse pictures cost, and whom"
        if report.corruptions
        else "what pictures of another kind cost",
    )


def _strip(findings: Findings, report: RobustnessReport) -> list[Picture]:
    """What the corruptions look like."""
    if not (findings.beside.strip and report.corruptions):
        return []
    says = (
        "One public picture, clean and under each corruption at severities "
        f"{', '.join(map(str, report.severities))}"
    )
    return [Album({"strip": findings.beside.strip}).take("strip", says)]


def _rows(part: Table | Chart) -> Sequence[object]:
    return part.table.rows if isinstance(part, Chart) else part.rows


def _answer(findings: Findings, report: RobustnessReport) -> list[str]:
    if not report.corruptions:
        return []
    severities = ", ".join(map(str, report.severities))
    left_out = f" Not made: {', '.join(sorted(report.left_out))}." if report.left_out else ""
    note = f" Scaled to the size of these pictures: {report.note}." if report.note else ""
    return [
        f"The same models on worse versions of {report.examples:,} of {report.test:,} test "
        f"pictures: {len(report.corruptions)} corruptions ({report.profile}), severities "
        f"{severities}.{left_out}{note}",
        f"The question is whether a compressed model loses more than {findings.audit.dense.name}, "
        "and which groups lose more.",
    ]


def _ats(findings: Findings, part: str, variant: str | None = None) -> list[tuple[Row, At]]:
    """Addresses of a part of the rows, each with one of its rows, which says what it is of."""
    ats = findings.audit.at("robustness", variant, f"{part}.")
    return [(next(iter(at.values())), at) for at in ats]


def _cells(row: Row, at: At, n: str) -> dict[str, Cell]:
    """What every table shows of an address: its variant, corruptions and numbers."""
    family = row.fact("family")
    return {
        "variant": row.variant,
        "family": _noted(FAMILIES.get(family, "clean pictures"), at) if family else None,
        **cells_at(at),
        "n": at[n].number.n,
    }


def _noted(name: str | None, at: At) -> Cell:
    return Noted(name, SCALE) if depends_on_scale(at) else name


def _curves(findings: Findings) -> Chart:
    """Accuracy against severity: a drawing a family, a line a variant."""
    audit = findings.audit

    def lost(name: str) -> float:
        rows = (row for row in audit.numbers("robustness", name) if row.what == "losses.absolute")
        return max((abs(r.number.value or 0.0) for r in rows if r.metric == "error"), default=0.0)

    kept = sorted((one.name for one in audit.compressed), key=lambda name: -lost(name))
    drawn = {audit.dense.name, *kept[: MOST_LINES - 1]}
    names = [one.name for one in audit.variants if one.name in drawn]
    beside = max(1, len(names) - 1)  # intervals of one severity stand side by side
    rows: list[dict[str, Cell]] = [
        {
            **_cells(row, at, "accuracy"),
            "severity": _severity(row),
            "place": row.fact("severity") + 0.3 * (names.index(row.variant) / beside - 0.5),
        }
        for row, at in _ats(findings, "curves")
        if row.variant in names
    ]
    families = list(FAMILIES.values())
    rows.sort(key=lambda row: families.index(str(row["family"])))
    return Chart(
        "curves",
        "Accuracy under corruption, by severity",
        "Lines: means over the corruptions of a family. Bars: their intervals. Severity 0 is "
        "clean.",
        Table(
            "curves",
            "Accuracy, mean over the corruptions of a family",
            (
                CORRUPTIONS,
                Column("severity", "Severity"),
                VARIANT,
                Column("accuracy", "Accuracy", "rate"),
                N,
            ),
            rows,
            stub=3,
            known=FEW_RUNS,
            most=sum(row["family"] == families[0] for row in rows) or MOST_ROWS,
        ),
        "curves",
        by="family",
        first=FAMILIES[ALL_KINDS],
    )


def _severity(row: Row) -> str:
    return str(row.fact("severity") or "clean")


def _losses(findings: Findings) -> Table:
    """What all examples lose, one row a variant and family."""
    everyone = findings.audit.groups[0].name
    floors = {
        row.fact("family"): row.number
        for row in findings.audit.numbers("robustness")
        if row.what == "floor"
    }
    rows: list[dict[str, Cell]] = []
    for variant in findings.audit.compressed:
        own = [
            (row, at)
            for row, at in _ats(findings, "losses", variant.name)
            if findings.name(row.group or "") == everyone
        ]
        of_all = [
            at for row, at in _ats(findings, "by_corruption", variant.name)
            if row.fact("kind") == ALL_KINDS
        ]  # fmt: skip
        top5 = {row.fact("family"): at["absolute"] for row, at in own if row.metric == "top5"}
        for row, at in own:
            if row.metric != "error":
                continue
            family = row.fact("family")
            cells = _cells(row, at, "absolute") | {"floor": floors.get(family)}
            if "misled" in at:
                pairs = at["misled"].number
                cells["misled"] = Noted(pairs.value, f"of {pairs.n:,} pairs")
            for mean in of_all if family == ALL_KINDS else ():
                cells |= {name: one for name, one in cells_at(mean).items() if name in MEANS}
            if family in top5:
                cells["top5_loss"] = top5[family].number
            rows.append(cells)
    columns = (
        VARIANT,
        CORRUPTIONS,
        N,
        Column("dense", "Accuracy, dense", "rate"),
        Column("compressed", "Accuracy, compressed", "rate"),
        *SCALES[:1],
        Column("floor", "Floor, points", "points"),
        *SCALES[1:],
        Column("ce", "mCE", "number"),
        Column("alexnet_ce", "mCE over AlexNet\N{RIGHT SINGLE QUOTATION MARK}s", "number"),
        Column("top5_accuracy", "Top-5", "rate"),
        Column("top5_loss", "Top-5, loss beyond dense", "points"),
        Column("misled", "One pair misses the direction", "rate"),
    )
    kept = {key for row in rows for key, cell in row.items() if cell is not None}
    return Table(
        "corrupted",
        "Loss on corrupted pictures beyond that of dense",
        [column for column in columns if column.key in kept],
        rows,
        "Above 0 the compressed models lose more; where the three scales differ in sign, the "
        "answer depends on the scale. Floor: one half of the dense models less the other. Papers "
        "print 100 times mCE.",
        stub=2,
        known=FEW_RUNS,
        most=MOST_ROWS,
    )


def _matched(findings: Findings) -> Table:
    return Table(
        "matched",
        "Beside models that are as accurate on clean pictures",
        (
            VARIANT,
            Column("matched", "Beside"),
            CORRUPTIONS,
            Column("clean", "Clean accuracy", "rate"),
            Column("matched_clean", "of the other", "rate"),
            Column("absolute", "Loss beyond the other, points", "points", drawn=True),
            *SCALES[1:],
            N,
        ),
        [
            {**_cells(row, at, "absolute"), "matched": row.fact("matched")}
            for row, at in _ats(findings, "matched")
        ],
        "Is it compression, or a weaker model? Compare the two clean accuracies first. "
        "dense-step-9 is dense after 9 steps of training.",
        stub=3,
        known=FEW_RUNS,
        most=MOST_ROWS,
    )


def _groups(findings: Findings) -> Iterator[Chart]:
    """What corruption costs each group beyond all others, the most affected group first."""
    rows = [
        row for variant in findings.audit.compressed for row in _of_groups(findings, variant.name)
    ]
    if not rows:
        return
    columns = (
        VARIANT,
        Column("group", "Group"),
        CORRUPTIONS,
        N,
        Column("error", "Loss beyond dense, points", "points"),
        Column("fpr", "FPR", "points"),
        Column("fnr", "FNR", "points"),
        Column("beyond", "Beyond the rest", "points"),
        Column("p", "p", "p"),
        Column("change", "Pictures changed, grey levels of 255", "number"),
        Column("similarity", "SSIM", "number"),
    )
    kept = {key for row in rows for key in row}
    yield Chart(
        "corrupted-groups",
        "Groups that corruption costs more",
        "Loss of a group beyond dense, less that of all other examples; filled where p is at most "
        f"{SHOWN}. {_largest(rows)}",
        Table(
            "corrupted-groups",
            "What corruption costs each group beyond dense",
            [column for column in columns if column.key in kept],
            rows,
            "Above 0 the compressed models lose more. p: after Holm over groups and families. A "
            "corruption that changes one group\N{RIGHT SINGLE QUOTATION MARK}s pictures more is a "
            "fact about these pictures, not about the models.",
            stub=3,
            known=FEW_RUNS,
            most=MOST_ROWS,
        ),
        "corrupted_groups",
        by="variant",
        first=findings.focus,
    )


def _of_groups(findings: Findings, variant: str) -> Iterator[dict[str, Cell]]:
    everyone = findings.audit.groups[0].name
    changed = {(row.group, row.fact("family")): at for row, at in _ats(findings, "distortion")}
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    most: dict[str, float] = {}
    for row, at in _ats(findings, "losses", variant):
        group = findings.name(row.group or "")
        if group == everyone or row.metric == "top5":
            continue
        own = cells.setdefault((group, row.fact("family")), {"group": group})
        own[str(row.metric)] = at["absolute"].number
        beyond = (at["contrast"].number.value if "contrast" in at else None) or 0.0
        most[group] = max(most.get(group, beyond), beyond)
        if row.metric == "error":
            own |= _cells(row, at, "absolute") | {
                "beyond": at["contrast"].number if "contrast" in at else None,
                "p": at["p_adjusted"].number.value if "p_adjusted" in at else None,
                **cells_at(changed.get((row.group, row.fact("family")), {})),
            }
    groups = sorted(most, key=lambda group: -most[group])[:MOST_GROUPS]
    kept = (key for key in cells if key[0] in groups)
    yield from (cells[key] for key in sorted(kept, key=lambda key: groups.index(key[0])))


def _largest(rows: Sequence[dict[str, Cell]]) -> str:
    """The group that differs most, of those shown to; a sentence."""
    shown = [row for row in rows if isinstance(row["p"], float) and row["p"] <= SHOWN]
    if not shown:
        return "No group is shown to lose more or less than the others."
    one = max(shown, key=lambda row: abs(getattr(row["beyond"], "value", None) or 0.0))
    return (
        f"Largest: {one['group']} under {one['family']} in {one['variant']}, "
        f"{show(one['beyond'], 'points')} points."
    )


def _disagreement(findings: Findings) -> Table:
    return Table(
        "disagreement",
        "Labels that differ between dense and compressed models, by severity",
        (
            VARIANT,
            Column("severity", "Severity"),
            Column("cie_share", "CIEs", "rate"),
            Column("taxicab", "Votes", "rate"),
            Column("flips", "Flips", "rate"),
            N,
        ),
        [
            {**_cells(row, at, "flips"), "severity": _severity(row)}
            for variant in findings.audit.compressed
            for row, at in _ats(findings, "disagreement", variant.name)
        ],
        "CIEs: pictures whose most frequent label changes. Votes: share that go to another label. "
        "Flips: chance that a dense and a compressed model differ. Intervals over examples alone.",
        stub=2,
        known=(*FEW_RUNS, *ONLY_EXAMPLES),
        most=MOST_ROWS,
    )


def _confidence(findings: Findings) -> Table:
    everyone = findings.audit.groups[0].name
    rows = [
        {**_cells(row, at, "gap"), "group": findings.name(row.group or "")}
        for row, at in _ats(findings, "confidence.rows")
    ]
    rows.sort(key=lambda row: row["group"] != everyone)
    return Table(
        "sure",
        "Do models still know when they are wrong?",
        (
            VARIANT,
            Column("family", "Pictures"),
            Column("group", "Group"),
            Column("gap", "Confidence less accuracy, points", "points", drawn=True),
            Column("gap_change", "Beside dense, points", "points"),
            N,
        ),
        rows,
        "Above 0 the models are too sure.",
        stub=3,
        known=FEW_RUNS,
        most=sum(row["group"] == everyone for row in rows) or None,
    )


def _detection(findings: Findings) -> Table:
    everyone = findings.audit.groups[0].name
    return Table(
        "detection",
        "Do models notice other pictures?",
        (
            VARIANT,
            Column("pictures", "Pictures"),
            Column("measure", "Familiar by"),
            Column("auroc", "Told apart", "rate"),
            Column("auroc_change", "Beside dense, points", "points"),
            N,
        ),
        [
            {
                **_cells(row, at, "auroc"),
                "pictures": row.fact("name") or FAMILIES[row.fact("pictures")],
                "measure": row.fact("measure"),
            }
            for row, at in _ats(findings, "confidence.detection")
            if findings.name(row.group or "") == everyone
        ],
        "A model that finds a picture less familiar can hand it to a person. Told apart: chance "
        "that a clean picture is more familiar than another one; 50% is chance.",
        stub=3,
        known=FEW_RUNS,
        most=MOST_ROWS,
    )


def _sets(findings: Findings, report: RobustnessReport) -> Table:
    rows: list[dict[str, Cell]] = []
    dense = {row.fact("name"): at["dense"].number for row, at in _ats(findings, "sets")
             if "dense" in at}  # fmt: skip
    for one in report.sets:
        of_dense: dict[str, Cell] = {"variant": "dense", "accuracy": dense[one.name], "n": one.n}
        every = [of_dense] + [
            {**_cells(row, at, "accuracy"), "variant": _noted(row.variant, at)}
            for row, at in _ats(findings, "sets.rows")
            if row.fact("name") == one.name
        ]
        rows += [{"set": one.name, **cells} for cells in every]
    columns = (
        Column("set", "Test set"),
        VARIANT,
        Column("accuracy", "Accuracy", "rate"),
        Column("difference", "Beside dense, points", "points"),
        *SCALES,
        N,
    )
    kept = {key for row in rows for key, cell in row.items() if cell is not None}
    return Table(
        "sets",
        "Accuracy on other test sets",
        [column for column in columns if column.key in kept],
        rows,
        "Loss: from the test set to this one. Above 0 the compressed models lose more.",
        stub=2,
    )


def _selected(one: TriedSet) -> str:
    """What to know of a set: its classes, and whether it was chosen against a model."""
    masked = ", among which alone models choose" if one.masked else ""
    classes = f"Pictures of {one.classes:,} classes{masked}."
    if one.selected_against is None:
        return classes
    who = one.selected_against
    why = (
        f"{who[:1].upper()}{who[1:]} chose these test examples; the other models, of other seeds, "
        "are judged on them."
        if one.name.startswith(HARD)
        else f"These pictures were chosen because {who} fails on them, so a "
        "variant may look better by chance."
    )
    return f"{classes} {why} Only differences of accuracy are given; none measures robustness."

"""What did people see? Blind studies of changed images, as a section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scotoma.audit.findings import Findings
from scotoma.audit.study import QuestionResult, StudyResult
from scotoma.document import Cell, Column, Document, Facts, Noted, Section, Table, show
from scotoma.document.cells import MINUS

MOST_ROWS = 24
BANG = "Bang\N{RIGHT SINGLE QUOTATION MARK}s index"
JAMES = "James\N{RIGHT SINGLE QUOTATION MARK}s index"
STUDY, ANSWER, ARMS = Column("study", "Study"), Column("answer", "Answer"), Column("arms", "Arms")
N = Column("n", "n images", "count")
Studies = Sequence[tuple[str, StudyResult]]


def study_section(findings: Findings) -> Section | None:
    """Effects, agreement, blinding and annotators of every study; None without a study."""
    studies = findings.beside.people.studies
    if not studies:
        return None
    tables = [
        _effects(studies), _groups(studies), _checks(studies), _agreement(studies),
        _blinding(studies), _balance(studies), _annotators(studies),
    ]  # fmt: skip
    asked = [(one.key.upper(), one.text) for _, result in studies for one in result.questions]
    return Section(
        "study",
        "What people saw",
        [
            "People judged images without knowing which ones compression changes. The gate does "
            "not depend on studies.",
            "Arm A: changed images. B: unchanged ones at random. C: unchanged ones of the same "
            "classes on which models disagree as much.",
        ],
        [
            Facts([row for name, one in studies for row in _said(name, one)]),
            *(table for table in tables if table.rows),
            Facts(list(dict.fromkeys(asked)), "What was asked"),
        ],
        folded=True,
        about="blind studies of changed images",
        warnings=[text for _, one in studies for text in _warnings(one)],
    )


def result_document(name: str, result: StudyResult) -> Document:
    """What a study found, for those who analyse it: the primary outcome, then every question."""
    warnings = [*_warnings(result), *(f"Deviation: {text}" for text in result.deviations)]
    section = Section(
        "study", "", [result.conclusion, result.scope], [_effects([(name, result)])],
        warnings=warnings,
    )  # fmt: skip
    return Document(name, sections=[section])


def _said(name: str, result: StudyResult) -> list[tuple[str, str]]:
    """What a study concludes, who took part, and how it deviates from its plan."""
    flow = result.flow
    people = f"{flow.annotators:,} {'person' if flow.annotators == 1 else 'people'}"
    still = (
        ""
        if result.still_cie is None
        else f" {show(result.still_cie, 'rate').value} of arm A are changed by the other half of "
        "the models, too."
    )
    apart = show(result.balance.imbalance, "change").value
    deviations = " ".join(result.deviations)
    return [
        (
            name,
            f"Images that {result.variant} changes. {result.conclusion} {result.scope}{still}",
        ),
        (
            f"{name}: who took part",
            f"{flow.sampled:,} images in all arms; {people} with {flow.shown:,} judgements: "
            f"{flow.answered:,} answers, {flow.cant_tell:,} of them \u201ccan\u2019t tell\u201d "
            f"and {flow.fast:,} within 300 ms; {flow.skipped:,} images skipped. How far models "
            f"agree on arms A and C differs by {apart} standard deviations.",
        ),
        (
            f"{name}: plan {result.plan_sha256}",
            f"Not as planned: {deviations}" if deviations else "Nothing deviates from it.",
        ),
    ]


def _warnings(result: StudyResult) -> Iterator[str]:
    if result.labels == "paper":
        yield "Not blind: labels 2 and 3 differ exactly in arm A."
    yield from result.blinding.flagged


def _contrasts(
    studies: Studies,
) -> Iterator[tuple[dict[str, Cell], StudyResult, QuestionResult, str]]:
    """Every question of every study in every contrast, with the cells that name it."""
    for name, result in studies:
        for one in result.questions:
            for contrast in sorted(one.effects):
                cells: dict[str, Cell] = {
                    "study": name,
                    "answer": f"{one.key.upper()}: {one.title}",
                    "arms": contrast.replace("-", MINUS),
                }
                yield cells, result, one, contrast


def _effects(studies: Studies) -> Table:
    rows: list[dict[str, Cell]] = []
    for cells, result, one, contrast in _contrasts(studies):
        effect = one.effects[contrast]
        primary = (one.key, contrast) == result.primary
        beside = "; ".join(filter(None, ["primary outcome" * primary, one.remark]))
        if beside:
            cells["answer"] = Noted(cells["answer"], beside)
        shares = (
            "undefined" if share is None else show(share, "rate").value for share in effect.shares
        )
        rows.append(
            cells
            | {
                "shares": " / ".join(shares),
                "difference": effect,
                "p": effect.adjusted_p,
                "n": f"{effect.items[0]:,} / {effect.items[1]:,}",
                "people": effect.annotators,
            }
        )
    level = f"{100 * studies[0][1].level:.0f}%"
    return Table(
        "study",
        "Share of the counted answer, one arm less another",
        (
            STUDY,
            ANSWER,
            ARMS,
            Column("shares", "Shares"),
            Column("difference", "Difference, points", "points", drawn=True),
            Column("p", "Holm p", "p"),
            Column("n", "n images"),
            Column("people", "n people", "count"),
        ),
        rows,
        f"With {level} intervals in which images and people are both random. p is adjusted by "
        "Holm over all rows of a study. The primary outcome was fixed in the plan.",
        stub=3,
        most=MOST_ROWS,
    )


def _groups(studies: Studies) -> Table:
    return Table(
        "study-groups",
        "The same within groups",
        (
            STUDY,
            ANSWER,
            ARMS,
            Column("group", "Group"),
            N,
            Column("within", "Difference, points", "points"),
            Column("apart", "Less that of others, points", "points"),
            Column("p", "Holm p", "p"),
        ),
        [
            cells
            | {
                "group": row.group,
                "n": row.effect.n,
                "within": row.effect,
                "apart": row.interaction,
                "p": None if row.interaction is None else row.interaction.adjusted_p,
            }
            for cells, _, one, contrast in _contrasts(studies)
            for row in one.groups.get(contrast, ())
        ],
        "p: of a group against all others, adjusted by Holm over all comparisons of groups.",
        stub=4,
        most=MOST_ROWS,
    )


def _checks(studies: Studies) -> Table:
    rows: list[dict[str, Cell]] = []
    titles: dict[str, str] = {}
    for cells, _, one, contrast in _contrasts(studies):
        for treatment, told in one.sensitivity.get(contrast, {}).items():
            titles[treatment] = f"{treatment[:1].upper()}{treatment[1:]}, points"
            cells[treatment] = told
        cells["odds"] = one.odds[contrast]
        rows.append(cells)
    return Table(
        "study-checks",
        "The same by other methods",
        (
            STUDY,
            ANSWER,
            ARMS,
            *(Column(key, title, "points") for key, title in titles.items()),
            Column("odds", "Odds ratio", "number"),
        ),
        rows,
        "Odds ratio: of a logistic model in which images and people are random; 1 is no "
        "difference. Nothing here is adjusted.",
        stub=3,
        most=MOST_ROWS,
    )


def _agreement(studies: Studies) -> Table:
    return Table(
        "agreement",
        "Answers, and how far people agree",
        (
            STUDY,
            Column("question", "Question"),
            Column("arm", "Arm"),
            Column("yes", "Yes", "count"),
            Column("no", "No", "count"),
            Column("cant_tell", "Can\N{RIGHT SINGLE QUOTATION MARK}t tell", "count"),
            Column("alpha", "Krippendorff\N{RIGHT SINGLE QUOTATION MARK}s alpha", "number"),
            Column("ac1", "AC1", "number"),
            Column("pairable", "n", "count"),
            Column("population", "Share of all", "rate"),
            Column("items", "n", "count"),
        ),
        [
            {
                "study": name,
                "question": one.key.upper(),
                "arm": arm.arm,
                "yes": arm.yes,
                "no": arm.no,
                "cant_tell": arm.cant_tell,
                "alpha": arm.alpha,
                "ac1": arm.ac1,
                "pairable": arm.alpha.n,
                "population": arm.population,
                "items": arm.items,
            }
            for name, result in studies
            for one in result.questions
            for arm in one.arms
        ],
        "Alpha is low where an answer is rare, whoever answers; AC1, of Gwet, is not. n: images "
        "with two answers or more. The share of all is weighted to every example of the "
        "arm\N{RIGHT SINGLE QUOTATION MARK}s kind; n: images with an answer.",
        stub=3,
        most=MOST_ROWS,
    )  # fmt: skip


def _blinding(studies: Studies) -> Table:
    """How well a machine, and people afterwards, tell the arms apart."""
    rows: list[dict[str, Cell]] = []
    for name, result in studies:
        blinding = result.blinding
        told = [
            *(("Machine, AUC", arms, one) for arms, one in sorted(blinding.machine.items())),
            *((BANG, arm, one) for arm, one in sorted(blinding.bang.items()) if one.n),
            (JAMES, "all", blinding.james),
        ]
        rows += [
            {
                "study": name,
                "measure": measure,
                "arms": arms.replace("-", MINUS),
                "value": one,
                "n": f"{one.n:,} {'guesses' if measure in (BANG, JAMES) else 'images'}",
            }
            for measure, arms, one in told
        ]
    return Table(
        "blinding",
        "Could the arms be told apart?",
        (
            STUDY,
            Column("measure", "Measure"),
            ARMS,
            Column("value", "Value", "number"),
            Column("n", "n"),
        ),
        rows,
        "By a machine without pixels: AUC, 0.5 is chance. By people who guessed afterwards: "
        "Bang\N{RIGHT SINGLE QUOTATION MARK}s index, 0 is blind and 1 is not; "
        "James\N{RIGHT SINGLE QUOTATION MARK}s index, 0.5 is guessing, 0 is not blind.",
        stub=3,
    )


def _images(result: StudyResult, arm: str) -> int:
    return sum(arms.get(arm, 0) for arms in result.balance.classes.values())


def _balance(studies: Studies) -> Table:
    rows: list[dict[str, Cell]] = []
    for name, result in studies:
        balance = result.balance
        counts = [
            ("All images", {a: _images(result, a) for a in "ABC"}),
            *((f"Class {title}", arms) for title, arms in sorted(balance.classes.items())),
            *(
                (f"Labels by {rule}", {a: balance.rules[a].get(rule, 0) for a in balance.rules})
                for rule in sorted({rule for of_arm in balance.rules.values() for rule in of_arm})
            ),
        ]  # fmt: skip
        rows += [
            {"study": name, "what": what, **{arm: arms.get(arm, 0) for arm in "ABC"}}
            for what, arms in counts
            if what == "All images" or len({arms.get(arm, 0) for arm in "ABC"}) > 1
        ]
        rows.append(
            {"study": name, "what": "Agreement of models, %"}
            | {arm: round(100 * share, 2) for arm, share in balance.agreement.items()}
        )
    return Table(
        "balance",
        "How alike are the arms?",
        (STUDY, Column("what", "Of each arm"), *(Column(arm, arm, "count") for arm in "ABC")),
        rows,
        "Images by class, what named their labels, and the mean largest share of "
        "models\N{RIGHT SINGLE QUOTATION MARK} votes on one class. Rows that are equal in every "
        "arm are left out.",
        stub=2,
        most=MOST_ROWS,
    )


def _annotators(studies: Studies) -> Table:
    every = [(name, one) for name, result in studies for one in result.flow.people]
    screened = sum(one.screened for _, one in every)
    return Table(
        "annotators",
        "How people took part",
        (
            STUDY,
            Column("annotator", "Annotator"),
            Column("images", "Images", "count"),
            Column("equal", "Equal answers", "rate"),
            Column("repeats", "n images twice", "count"),
            Column("median", "Median seconds", "count"),
            Column("screen", "Screen"),
        ),
        [
            {
                "study": name,
                "annotator": str(one.annotator),
                "images": one.images,
                "equal": one.equal,
                "repeats": one.equal.n,
                "median": None if one.median_s is None else round(one.median_s, 1),
                "screen": "fails" if one.screened else "passes",
            }
            for name, one in every
        ],
        f"{screened} of {len(every)} fail a screen of the plan; the result is shown with and "
        "without them. Intervals of equal answers have the image as their unit.",
        stub=2,
        most=MOST_ROWS,
    )

"""Whose score gets worse? Means, quantiles and examples where each example has a score."""

from __future__ import annotations

from scotoma.audit import Audit
from scotoma.audit.base import At, cells_at
from scotoma.audit.findings import Findings
from scotoma.audit.groups import ScoreReport
from scotoma.document import Cell, Column, Noted, Section, Table, Unit, show
from scotoma.impact.worst_change import low_end, worst_mean
from scotoma.numbers import FEW_RUNS

MOST_ROWS = 24  # of a table on the page; the CSV file has all
MOST_EXAMPLES = 12
VARIANT, GROUP = Column("variant", "Variant"), Column("group", "Group")
N = Column("n", "n", "count")


def means_section(findings: Findings) -> Section | None:
    """The mean of every group, the surest losses first; None where examples have classes."""
    audit, scores = findings.audit, findings.audit.scores
    if scores is None:
        return None
    worse = "compressed / dense - 1" if scores.lower_is_better else "dense / compressed - 1"
    names = _names(findings)
    rows: list[dict[str, Cell]] = [
        {
            "variant": name,
            "group": findings.name(at["worse"].group or ""),
            "n": at["worse"].number.n,
            **cells_at(at),
            "p": at["p_adjusted"].number.value,
        }
        for name in names
        for at in _ranked(audit, name)
    ]
    return Section(
        "groups",
        f"Who is affected by {findings.focus}? The mean of each group",
        _said(findings),
        [
            Table(
                "means",
                f"Mean {scores.name} of each group beside {audit.dense.name}",
                (
                    VARIANT,
                    GROUP,
                    N,
                    *_both(scores),
                    Column("absolute", f"Change{_unit(scores)}", "score_change"),
                    Column("relative", "Worse, relative", "percent", drawn=True),
                    Column("p", "p", "p"),
                ),
                rows,
                f"Worse: {worse}. Both models are scored on the same examples, so what makes an "
                "example hard for both cancels. p: of no change, adjusted by Holm over the groups.",
                stub=2,
                known=FEW_RUNS,
                most=MOST_ROWS,
            )
        ],
        link="Who",
    )


def _said(findings: Findings) -> list[str]:
    """What happens to the mean of all examples, and to the group that gets worse most."""
    scores = findings.audit.scores
    assert scores is not None
    means = findings.audit.at("scores", findings.focus, "means.")
    if not means:
        return []
    everyone = cells_at(means[0])
    dense, compressed = (show(everyone[one], "score").value for one in ("dense", "compressed"))
    unit = f" {scores.unit}" if scores.unit else ""
    said = [
        f"The mean {scores.name} of all examples goes from {dense} to {compressed}{unit}: "
        f"{show(everyone['absolute'], 'score_change')}."
    ]
    worst = worst_mean(findings.audit, findings.focus)
    if worst is not None and (relative := worst["relative"]).group != means[0]["relative"].group:
        said.append(
            f"It gets worse most for {findings.name(relative.group or '')}, by "
            f"{show(relative.number, 'percent')}, n {relative.number.n:,}."
        )
    return said


def _names(findings: Findings) -> list[str]:
    names = [variant.name for variant in findings.audit.compressed]
    return sorted(names, key=lambda name: name != findings.focus)


def _ranked(audit: Audit, variant: str) -> list[At]:
    """All examples, then the groups whose loss is surest."""
    means = audit.at("scores", variant, "means.")
    return [*means[:1], *sorted(means[1:], key=low_end, reverse=True)]


def _unit(scores: ScoreReport) -> str:
    return f", {scores.unit}" if scores.unit else ""


def _both(scores: ScoreReport) -> tuple[Column, Column]:
    unit: Unit = "score"
    return (
        Column("dense", f"Dense{_unit(scores)}", unit),
        Column("compressed", f"Compressed{_unit(scores)}", unit),
    )


def examples_section(findings: Findings) -> Section | None:
    """The examples whose score gets worse most; None where there are none."""
    scores = findings.audit.scores
    if scores is None or not any(scores.examples.values()):
        return None
    rows: list[dict[str, Cell]] = [
        {
            "variant": name,
            "example": row.example_id,
            "dense": row.dense,
            "compressed": row.compressed,
            "features": "; ".join(f"{key} {value}" for key, value in row.attributes.items()),
        }
        for name in _names(findings)
        for row in scores.examples[name]
    ]
    return Section(
        "examples",
        "Which examples get worse?",
        [
            f"At most {scores.shown} a variant, the largest change first; divergence.parquet has "
            "every example. Chosen for their change, these numbers exaggerate it."
        ],
        [
            Table(
                "examples",
                f"Examples that get worst beside {findings.audit.dense.name}",
                (
                    VARIANT,
                    Column("example", "Example"),
                    *_both(scores),
                    Column("features", "Features"),
                ),
                rows,
                stub=2,
                most=MOST_EXAMPLES,
            )
        ],
        link="Examples",
    )


def quantiles_section(findings: Findings) -> Section | None:
    """Quantiles of every group before and after; None where examples have classes."""
    scores = findings.audit.scores
    if scores is None:
        return None
    rows: list[dict[str, Cell]] = [
        {
            "variant": name,
            "group": findings.name(at["absolute"].group or ""),
            "share": f"{100 * at['absolute'].fact('share'):g}%",
            "n": at["absolute"].number.n,
            **cells_at(at),
        }
        for name in _names(findings)
        for at in _quantiles(findings.audit, name)
    ]
    return Section(
        "quantiles",
        "Quantiles of each group",
        [
            "The smallest score that so many per cent of the scores of a group are no larger than.",
            "Intervals by Woodruff\N{RIGHT SINGLE QUOTATION MARK}s method; that of the change "
            "linearises both.",
        ],
        [
            Table(
                "quantiles",
                f"Quantiles of {scores.name} beside {findings.audit.dense.name}",
                (
                    VARIANT,
                    GROUP,
                    Column("share", "Quantile"),
                    N,
                    *_both(scores),
                    Column("absolute", f"Change{_unit(scores)}", "score_change", drawn=True),
                ),
                rows,
                stub=3,
                known=FEW_RUNS,
                most=MOST_ROWS,
            )
        ],
        folded=True,
        about="how scores spread, before and after",
        link="Quantiles",
    )


def _quantiles(audit: Audit, variant: str) -> list[At]:
    """Quantiles in the order of the means."""
    places = {at["worse"].group: place for place, at in enumerate(_ranked(audit, variant))}
    ats = audit.at("scores", variant, "quantiles.")
    return sorted(ats, key=lambda at: places.get(at["absolute"].group, len(places)))


def scored_columns(audit: Audit) -> tuple[Column, ...]:
    """The columns of a verdict's table that `scored_cells` fills."""
    assert audit.scores is not None
    return (
        Column("mean", f"Mean{_unit(audit.scores)}", "score"),
        Column("worse", "Worse by, relative", "percent"),
        Column("affected", "Group that gets worse most, relative", "percent"),
    )


def scored_cells(audit: Audit, variant: str) -> dict[str, Cell]:
    """A variant's mean, how much worse it is, and for whom most."""
    everyone = cells_at(audit.at("scores", variant, "means.")[0])
    before = f"dense {show(everyone['dense'], 'score').value}; n {everyone['compressed'].n:,}"
    cells: dict[str, Cell] = {
        "mean": Noted(everyone["compressed"], before),
        "worse": everyone["relative"],
        "affected": "no group has an interval",
    }
    if (worst := worst_mean(audit, variant)) is not None:
        relative = worst["relative"]
        name = audit.group_names.get(relative.group or "", "")
        cells["affected"] = Noted(relative.number, f"{name}; n {relative.number.n:,}")
    return cells

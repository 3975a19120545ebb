"""What does a finished audit say, in a notebook: its verdict, and tables with n and interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from scotoma.audit import Audit, GateFile, Quantity, read_audit, read_gate
from scotoma.audit.findings import Findings
from scotoma.audit.rows import NUMBERS, audit_rows
from scotoma.errors import ConfigError, DataError
from scotoma.impact.worst_change import mean_score
from scotoma.printable import ONE_OF_THEM, nearest, printable

if TYPE_CHECKING:
    from scotoma.document import Section


MARKS = {"PASS": "\u2713", "UNSURE": "?", "FAIL": "\u2717"}  # beside the word: never colour alone
COLOURS = {"PASS": "#0b6e4f", "UNSURE": "#7a5c00", "FAIL": "#b3261e"}
BADGE = "color:white;padding:1px 8px;border-radius:4px;font-weight:600"


def open(place: str | Path) -> OpenedAudit:  # noqa: A001  as notebooks write it
    """Open a finished audit to be read.

    Args:
        place: Its folder, or `s3://BUCKET/PREFIX`.

    Raises:
        ConfigError: There is no run.
        DataError: It was changed since it ended, has not ended, or another version wrote it.

    >>> open("nowhere")
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: run nowhere holds no config.yaml; name a folder that scotoma \
audit made
    """
    from scotoma.run import checksums
    from scotoma.run.finished import open_run

    run = open_run(str(place), scores=True)
    names = ["audit.json", "gate.json", NUMBERS]
    run.fetch(*(run.path(name) for name in names))
    for name in names:
        if not run.path(name).exists():
            raise DataError(f"run {place} holds no {name}; end it with scotoma audit --resume")
    checksums.refuse_changed(run.mirror, names)
    audit, gate, table = (run.path(name) for name in names)
    return OpenedAudit(str(place), read_audit(audit), read_gate(gate), table)


class Verdict(str):
    """PASS, UNSURE or FAIL, with what it rests on.

    It is a text: `audit.verdict == "FAIL"`. A notebook shows the badge and the sentences.

    Attributes:
        sentences: What it rests on, each with its numbers.
    """

    __slots__ = ("sentences",)
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, gate: GateFile) -> Verdict:
        """The verdict of a gate."""
        verdict = cls(gate.verdict)
        verdict.sentences = tuple(
            f"{one.verdict} {one.name}: {sentence}"
            for one in gate.variants
            for sentence in one.sentences
        ) + tuple(gate.warnings)
        return verdict

    def _repr_html_(self) -> str:
        """The badge, and the sentences as a list."""
        items = "".join(f"<li>{escape(printable(one))}</li>" for one in self.sentences)
        return f"<div><p>{_badge(self)}</p><ul>{items}</ul></div>"


@dataclass(frozen=True)
class PlottedFigure:
    """A chart that a notebook draws.

    Attributes:
        title: What it is about.
        summary: What it shows, in words.
        svg: The drawing, an image of its own: it can be saved as a file.
        table: The same numbers.
    """

    title: str
    summary: str
    svg: str
    table: pl.DataFrame

    def __repr__(self) -> str:
        """The title and what it shows, in words."""
        return f"{self.title}: {self.summary}"

    def _repr_html_(self) -> str:
        """The drawing below its title, above what it shows."""
        title, summary = escape(self.title), escape(self.summary)
        return (
            f"<figure><figcaption><strong>{title}</strong></figcaption>{self.svg}"
            f"<p>{summary}</p></figure>"
        )


@dataclass(frozen=True)
class Plots:
    """Charts of an audit, as its report draws them."""

    audit: Audit

    def __repr__(self) -> str:
        """The charts that there are."""
        return "charts: groups(variant), slices(variant)"

    def groups(self, variant: str | None = None) -> PlottedFigure:
        """The rates of each group before and after compression.

        Args:
            variant: The variant to draw; None for the first compressed one.

        Raises:
            ConfigError: There is no such variant.
            DataError: The examples have no labels, so there are no rates.
        """
        from scotoma.impact.groups_section import groups_section

        findings = self._findings(variant)
        return self._chart(groups_section(findings), "rates", "rates of groups")

    def slices(self, variant: str | None = None) -> PlottedFigure:
        """Slices that nobody named: how large they are, and how much their error rises.

        Args:
            variant: The variant to draw; None for all.

        Raises:
            ConfigError: There is no such variant.
            DataError: No slice was looked for.
        """
        from scotoma.slices.section import slices_section

        return self._chart(slices_section(self._findings(variant)), "slices", "slices")

    def _findings(self, variant: str | None) -> Findings:
        """The audit; of one variant only, where it is named."""
        audit = self.audit
        name = _variant(audit, variant)
        if variant is None:
            return Findings(audit, None, name)
        update: dict[str, Any] = {
            "slices": {name: audit.slices[name]} if name in audit.slices else {},
        }
        update["rows"] = {**audit.rows, "rates": tuple(audit.numbers("rates", name))}
        return Findings(audit.model_copy(update=update), None, name)

    def _chart(self, section: Section | None, slug: str, what: str) -> PlottedFigure:
        from scotoma.document import Chart
        from scotoma.document.charts import drawings, self_contained

        charts = [
            part
            for part in (section.parts if section else ())
            if isinstance(part, Chart) and part.id == slug and part.table.rows
        ]
        if not charts:
            raise DataError(
                f"the audit {self.audit.project} has no {what}; there is nothing to draw"
            )
        (chart,) = charts
        svg = self_contained(drawings(chart)[0].svg, chart.title)
        return PlottedFigure(chart.title, chart.summary, svg, chart.table.frame())


@dataclass(frozen=True)
class OpenedAudit:
    """A finished audit.

    Attributes:
        place: Where it lies.
        audit: audit.json as it is, every key.
        gate: gate.json as it is, every test.
        table: numbers.parquet; None where the audit is in memory.
    """

    place: str
    audit: Audit
    gate: GateFile
    table: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on all variants: the worst of theirs."""
        return Verdict.of(self.gate)

    @property
    def plot(self) -> Plots:
        """Its charts."""
        return Plots(self.audit)

    @cached_property
    def variants(self) -> pl.DataFrame:
        """A row a variant: verdict, models, top-1 and CIE excess, each with interval and n.

        Of an audit of scores `mean`, in the unit of the score, instead of top-1 and CIE excess.
        """
        verdicts = {one.name: one.verdict for one in self.gate.variants}
        audit = self.audit
        if audit.scores is not None:
            return pl.DataFrame(
                {
                    "variant": one.name,
                    "verdict": verdicts.get(one.name),
                    "models": one.members,
                    **_cells("mean", mean_score(audit, one.name).number),
                    "n": audit.examples.test,
                }
                for one in audit.variants
            )
        return pl.DataFrame(
            {
                "variant": one.name,
                "verdict": verdicts.get(one.name),
                "models": one.members,
                **_cells("top1", audit.number("accuracy", one.name, "top1")),
                **_cells("cie_excess", audit.number("divergence", one.name, "cie.excess")),
                "n": audit.examples.test,
            }
            for one in audit.variants
        )

    @cached_property
    def numbers(self) -> pl.DataFrame:
        """A row an estimate: numbers.parquet, with the columns that `scotoma.measure` gives."""
        return audit_rows(self.audit) if self.table is None else pl.read_parquet(self.table)

    @cached_property
    def tests(self) -> pl.DataFrame:
        """A row a test of the gate: the change, its interval, the margin and the answer.

        Columns `variant`, `rule`, `metric`, `group`, `class`, `where`, `verdict`, `change` (a
        fraction) with `_low` and `_high`, `n`, `margin`, `relative` with `_low` and
        `_high`, `relative_margin`, `harm_p` (adjusted), `clear_p`, and `reason`.
        """
        rows = [
            {
                "variant": variant.name,
                "rule": one.rule,
                "metric": one.metric,
                "group": one.group,
                "class": one.class_name,
                "where": one.where,
                "verdict": one.verdict,
                **_cells("change", one.absolute),
                "n": None if one.absolute is None else one.absolute.n,
                "margin": one.margins.absolute,
                **_cells("relative", one.relative),
                "relative_margin": one.margins.relative,
                "harm_p": one.harm_p_adjusted,
                "clear_p": one.noninferiority_p,
                "reason": one.reason,
            }
            for variant in self.gate.variants
            for one in variant.tests
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def deciding(self) -> pl.DataFrame:
        """The rows of `tests` that the verdict rests on: those of its own answer."""
        return self.tests.filter(pl.col("verdict") == str(self.verdict))

    @cached_property
    def groups(self) -> pl.DataFrame:
        """A row a variant, group and rate, fractions with 95% intervals.

        Columns `variant`, `group`, `metric` (`error`, `fpr`, `fnr`; without labels `changed`),
        `class` (null where the rate is of no single class), `dense`, `compressed` and `change`
        (compressed - dense) with `_low` and `_high`, `n`, `effective_events`, and `reason` where a
        number or interval is missing. Of an audit of scores the metric is `mean`, in the unit of
        the score.
        """
        return pl.DataFrame(list(self._rates()), infer_schema_length=None)

    def _rates(self) -> Iterator[dict[str, Any]]:
        audit, names = self.audit, self.audit.group_names
        if audit.scores is not None:
            yield from (
                {
                    "variant": variant,
                    "group": names.get(group, group),
                    "metric": "mean",
                    **_cells("dense", at["dense"].number),
                    **_cells("compressed", at["compressed"].number),
                    **_rests(at["absolute"].number),
                }
                for at in audit.at("scores", None, "means.")
                for variant, _, group, *_ in (at["dense"].address,)
            )
            return
        for judged in self.gate.variants:
            for at in audit.at("rates", judged.name):
                row = at["absolute"]
                yield {
                    "variant": judged.name,
                    "group": names[str(row.group)],
                    "metric": row.metric,
                    "class": row.class_name,
                    **_cells("dense", at["dense"].number),
                    **_cells("compressed", at["compressed"].number),
                    **_rests(row.number),
                }
            if not audit.labelled:
                for share in audit.numbers("divergence", judged.name, what="ledger.changed"):
                    yield {
                        "variant": judged.name,
                        "group": names[str(share.group)],
                        "metric": "changed",
                        **_rests(share.number),
                    }

    @cached_property
    def slices(self) -> pl.DataFrame:
        """A row a variant and slice that the search reports, fractions with 95% intervals.

        Columns `variant`, `slice`, `size`, `support`, `inside` and `change` (the rise of the error)
        with `_low` and `_high`, `n`, `effective_events`, `reason`, and `q`, the corrected p-value.
        """
        from scotoma.slices.section import corrected_p, found_slices

        rows = [
            {
                "variant": name,
                "slice": one.text,
                "size": one.size,
                "support": one.support,
                **_cells("inside", at["inside"].number),
                **_rests(at["effect"].number),
                "q": corrected_p(at),
            }
            for name in self.audit.slices
            for one, at in found_slices(self.audit, name)
        ]
        return pl.DataFrame(rows, schema=None if rows else SLICES)

    def __repr__(self) -> str:
        """A line on the audit, and one on each compressed variant."""
        head = f"{self.audit.project}: {self.verdict}, {self.audit.examples.test:,} examples"
        lines = [
            f"{one.verdict} {one.name}: {one.sentences[0]}"
            if one.sentences
            else f"{one.verdict} {one.name}"
            for one in self.gate.variants
        ]
        return "\n".join(map(printable, [f"{head} ({self.place})", *lines]))

    def _repr_html_(self) -> str:
        """The verdict, and what a terminal shows of the audit."""
        from scotoma.report.summary import summary

        shown = summary(self.audit, self.gate)._repr_html_()
        return f"<div><p>{_badge(self.verdict)}</p>{shown}</div>"


def _ends(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"]


SLICES: Mapping[str, Any] = {
    "variant": pl.String,
    "slice": pl.String,
    "size": pl.Int64,
    "support": pl.Float64,
    **dict.fromkeys([*_ends("inside"), *_ends("change")], pl.Float64),
    "n": pl.Int64,
    "effective_events": pl.Float64,
    "reason": pl.String,
    "q": pl.Float64,
}


def _cells(name: str, quantity: Quantity | None) -> dict[str, float | None]:
    """A number and the ends of its interval."""
    values: Sequence[float | None] = (
        (None, None, None) if quantity is None else (quantity.value, quantity.low, quantity.high)
    )
    return dict(zip(_ends(name), values, strict=True))


def _rests(change: Quantity) -> dict[str, Any]:
    """A change with its interval, and what it rests on."""
    return _cells("change", change) | {
        "n": change.n,
        "effective_events": change.effective_events,
        "reason": change.reason,
    }


def _variant(audit: Audit, name: str | None) -> str:
    known = [one.name for one in audit.compressed]
    if name is None:
        return known[0]
    if name not in known:
        raise ConfigError(
            f"variant {printable(name)!r} is not in the audit, which has "
            f"{', '.join(known)}{nearest(name, known, ONE_OF_THEM)}"
        )
    return name


def _badge(verdict: str) -> str:
    return (
        f'<span style="background:{COLOURS[verdict]};{BADGE}">{MARKS[verdict]} {escape(verdict)}'
        "</span>"
    )

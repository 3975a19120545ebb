"""`scotoma show`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from scotoma.commands.asking import Answer, Options, argument, option

TAKES = {  # options of its own, by what is shown
    "page": ("no_images", "blur"),
    "examples": ("variant", "percentile", "unlabelled", "out"),
    "trend": ("runs",),
}


class ShowOptions(Options):
    """What is shown."""

    run: str = argument(
        "Folder of a finished audit, or s3://BUCKET/PREFIX; or trend, or schema.",
    )
    part: str = argument(
        "Of a run: page; a section of the page, such as groups; examples; paper:NAME for the "
        "tables of a paper (pie, cie, clarify, variance, autoslicer). Of trend: name of a project, "
        "or its configuration. Of schema: config, gate (its rules), audit (audit.json) or verdict.",
        default="",
    )
    no_images: bool = option(False, "page: show no images.")
    blur: bool = option(False, "page: reduce images to a few squares, beyond recognition.")
    variant: str | None = option(None, "examples: this variant only. Default: all variants.")
    percentile: float | None = option(
        None,
        "examples: those above this percentile. Default: 99, the top 1%. Not with --unlabelled, "
        "which lists all that differ.",
        gt=0,
        lt=100,
    )
    unlabelled: bool = option(False, "examples: rank what to label first; leave out known labels.")
    out: Path | None = option(
        None, "examples: write every CIE beside an unchanged example as pages into this folder."
    )
    runs: str = option("runs", "trend: folder with mlflow.db, if no MLflow server is configured.")

    @property
    def has_table(self) -> bool:
        """Whether a section or a table is shown, and no schema."""
        return self.kind != "schema"

    @property
    def kind(self) -> str:
        """What is shown: trend, schema, paper, or another part of a run."""
        if self.run in ("trend", "schema"):
            return self.run
        return "paper" if self.part.startswith("paper:") else self.part or "page"

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        others = {one for kind, names in TAKES.items() if kind != self.kind for one in names}
        for name in self.changed():
            if name in others:
                yield (f"scotoma show takes no {self.written(name)} for {self.kind}; leave it out")
        if self.no_images and self.blur:
            yield "--no-images and --blur exclude each other; choose one"
        if self.unlabelled and self.percentile is not None:
            yield "--unlabelled lists all examples that differ; leave --percentile out"
        lists = (self.unlabelled, self.percentile is not None, self.form != "text")
        if self.out is not None and any(lists):
            yield "--out writes every CIE as pages; give it with --variant alone"


def show(options: ShowOptions) -> Answer:
    """Show a finished audit: its page, the examples to look at first, the tables of a paper.

    show RUN draws report.html again; --html, --markdown and --csv print it. show RUN SECTION prints
    a section of it. show trend PROJECT shows a project's audits over time, from MLflow. show schema
    KIND prints a JSON Schema.
    """
    kind, part = options.kind, options.part
    if kind == "schema":
        from scotoma.audit.schemas import file_schema

        content = file_schema(part)
        return Answer(json.dumps(content, indent=1, ensure_ascii=False), content)
    if kind == "trend":
        from scotoma.tracking.trend import project_trend

        document, trend, note = project_trend(part, options.runs)
        return Answer(document, trend, [f"note    {note}"])
    from scotoma.run.finished import open_run
    from scotoma.steps.report import draw, page_document, write_gallery

    run = open_run(options.run, scores=kind not in ("examples", "paper"))
    if kind == "paper":
        from scotoma.papers import paper_document

        name, whole = part.partition(":")[2], options.form in ("csv", "json")
        return Answer(paper_document(run, name, whole=whole))
    if kind == "examples" and options.out is not None:
        note = write_gallery(run, options.out, options.variant)
        return Answer(str(options.out / "index.html"), notes=[note])
    if kind == "examples":
        from scotoma.review.choose import examples_document

        shown = examples_document(
            run, options.percentile, options.variant,
            unlabelled=options.unlabelled, whole=options.form == "csv",
        )  # fmt: skip
        return Answer(shown[0], shown[1], shown[2] if options.form == "text" else ())
    pictures = {"images": not options.no_images, "blur": options.blur}
    if kind != "page" or options.form not in ("text", "json"):
        return Answer(page_document(run, kind, **pictures))
    page = draw(run, **pictures)
    place, size = run.mirror.place(page), page.stat().st_size
    content = {"version": 1, "report": place, "bytes": size}
    return Answer(place, content, [f"report  {size / 1e6:.1f} MB, works offline"])

"""`scotoma review`."""

from __future__ import annotations

from typing import Literal

from scotoma.commands.asking import Answer, Options, argument, option


class ReviewOptions(Options):
    """What is reviewed, by whom."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    variant: str | None = option(None, "Compressed variant to look at. Default: the first.")
    unchanged: int = option(200, "Unchanged examples in the random sample.", ge=0)
    name: str = option("", "Who reviews, kept with each verdict. Default: your user name.")
    export: Literal["", "labels", "to-label"] = option(
        "",
        "Print a table instead of serving: `labels`, all reviewed examples with corrected labels; "
        "`to-label`, changed examples without a verdict, the most changed first.",
    )
    port: int = option(8766, "Port on this machine; 0 takes a free one.", ge=0, le=65535)

    @property
    def has_table(self) -> bool:
        """Whether reviews are printed, and not served."""
        return bool(self.export)


def review(options: ReviewOptions) -> Answer:
    """Walk through the examples that a variant changes, and say which labels are wrong.

    Verdicts are kept in RUN/reviews.parquet. To measure again with them:
    `scotoma audit --step bias --labels reviewed --out RUN`.
    """
    from scotoma.document import Document, Section
    from scotoma.extras import home_of
    from scotoma.run.finished import open_run
    from scotoma.steps.review import exported_reviews, serve_review

    if not options.export:
        for name in ("starlette", "uvicorn"):
            home_of(name, "study", "scotoma review")
    run = open_run(options.run)
    if options.export:
        table = exported_reviews(run, options.variant, options.export)
        if options.form == "text":
            return Answer(table.csv())
        return Answer(Document("Reviews", sections=[Section("reviews", "", parts=[table])]))
    serve_review(run, options.variant, options.unchanged, options.name, options.port)
    return Answer("")

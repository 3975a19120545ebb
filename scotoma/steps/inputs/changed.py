"""What has changed outside the run since its last audit, and what is made again for it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scotoma import progress
from scotoma.config import Config
from scotoma.datasets.parts import ExamplesPart, part_digest
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.run.sources import Sources, examine, read_sources, write_sources
from scotoma.storage import StampedFiles

__all__ = ["Changed", "look"]

# The first part that differs says what is made again.
AGAIN: dict[ExamplesPart, str] = {
    "training": "models are trained again",
    "calibration": "static int8 models are calibrated again, none is trained",
    "shown": "all models predict again, none is trained",
    "measured": "all is measured again, no model is trained or predicts",
}
NOTHING = "no example that models are trained or tested on differs"


def look(config: Config, known: Sources) -> Sources:
    """Look at every file that an audit would read, where no run has begun; not registered models.

    Args:
        config: What would be audited.
        known: From an earlier look.

    Raises:
        ScotomaError: The files cannot be listed or read.
    """
    files, remarks = _files_read(config)
    return examine(files, known, remarks)


def _files_read(config: Config) -> tuple[dict[str, StampedFiles], dict[str, str]]:
    """The files that an audit reads, but registered models."""
    files, remarks = config.source.files_read(config)
    return files | config.source.files_of_models(config), remarks


@dataclass(frozen=True)
class Changed:
    """Files outside a run beside what they were when it looked last.

    Attributes:
        run: The run.
        files: The files, by the key of the source.
        before: What they were; of nothing in a new run.
        sources: What they are.
        parts: Digests of what each step read of the examples then.
    """

    run: Run
    files: Mapping[str, StampedFiles]
    before: Sources
    sources: Sources
    parts: Mapping[ExamplesPart, str]

    @classmethod
    def since_last_look(cls, run: Run) -> Changed:
        """Look at every file that the audit reads; those that nobody wrote to are not read."""
        config = run.config
        if config.source.has_models:
            from scotoma.steps.external.registered import models_here

            config = models_here(run)
        files, remarks = _files_read(config)
        before = read_sources(run.mirror)
        parts = {part: part_digest(run, part) for part in AGAIN}
        return cls(run, files, before, examine(files, before, remarks), parts)

    def leave(self) -> None:
        """Write down what the files are, and say what changed and what is made again."""
        if self.sources != self.before:
            write_sources(self.run.mirror, self.sources)
        if self.before.files and (changes := self.sources.changes(self.before)):
            named = ", ".join(self._named(key, names) for key, names in changes.items())
            progress.note(
                f"note    {named} changed since the last audit in this folder: "
                f"{self._made_again(changes)}"
            )

    def _named(self, key: str, names: list[str]) -> str:
        shown = printable(names[0])
        if len(names) == 1:
            return f"source.{key} ({shown})"
        total = len({*self.sources.files.get(key, {}), *names})
        return f"source.{key} ({len(names):,} of {total:,} files, such as {shown})"

    def _made_again(self, changes: Mapping[str, list[str]]) -> str:
        if "models" in changes:
            return "models are imported, predict and are measured again"
        if "files" in changes:
            return "predictions are imported and measured again"
        differing = (part for part in AGAIN if self.parts[part] != part_digest(self.run, part))
        return next((AGAIN[part] for part in differing), NOTHING)

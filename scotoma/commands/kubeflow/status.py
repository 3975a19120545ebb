"""`scotoma kubeflow status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from scotoma.commands.asking import Answer, argument, option
from scotoma.commands.kubeflow import WaitOptions


class StatusOptions(WaitOptions):
    """Which run is shown."""

    run: str | None = argument("The id that `submit` printed. Default: list the audits.", None)
    number: int = option(20, "Most audits to list.", ge=1, le=1000)

    @property
    def has_table(self) -> bool:
        """Whether steps or audits are listed."""
        return not self.wait

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.wait and self.run is None:
            yield "--wait needs the id of a run; name it"


def status(options: StatusOptions) -> Answer:
    """List the audits on Kubeflow with their verdicts, or show the steps of one run."""
    from scotoma.pipelines.audits import list_audits, verdicts_of
    from scotoma.pipelines.documents import audits_document, run_document, run_values
    from scotoma.pipelines.wait import state_lines

    client = options.client()
    if options.run is not None:
        if options.wait:
            return options.waited(client, options.run, known=False)
        run = client.progress(options.run)
        return Answer(run_document(run), run_values(run, client), state_lines(run, client))
    audits, older = list_audits(client, options.number)
    verdicts, reason = verdicts_of(audits)
    notes = [f"verdicts are missing: {reason}"] if reason else []
    if older:
        notes.append(f"older audits are not shown; give --number {2 * options.number}")
    if not audits:
        notes.append("no audits; scotoma kubeflow submit sends one")
    content = [asdict(audit) | {"verdict": verdicts.get(audit.run_id)} for audit in audits]
    return Answer(audits_document(audits, verdicts), content, notes)

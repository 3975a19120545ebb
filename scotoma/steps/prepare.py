"""Read and check the source, and write its examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scotoma.config.gate import GateRules
from scotoma.config.gate_groups import (
    refuse_rules_about_labels,
    refuse_rules_of_other_kind,
    refuse_unknown_groups,
)
from scotoma.datasets import AuditedExamples, checked_parts
from scotoma.datasets.parts import PartDigests, parts_file
from scotoma.processes import progress
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.run.sources import SOURCES, confirmed
from scotoma.steps.external_models import fetch_models, models_here
from scotoma.steps.inputs import Look, changes_told
from scotoma.storage.files import written
from scotoma.training.mitigated import run_groups


def prepare(run: Run) -> list[Path]:
    """Read and check the source, write the examples of both splits, bring the previous audit.

    External predictions are imported whole.
    """
    predicted = run.config.source.has_answers
    made = _predicted(run) if predicted else [*fetch_models(run), *_decoded(run)]
    leaves = [*made, run.path(SOURCES)]
    rules = Judging.of(run).rules
    if rules is not None:
        tested = AuditedExamples.read(run.examples, images=False).split("test")
        refuse_unfit_rules(rules, tested, scored=run.config.source.score is not None)
    run_groups(run)  # what a technique cannot work with is refused now
    if run.config.robustness is not None:
        from scotoma.robustness.predict import plan_of

        plan_of(run)  # what cannot be made is refused before hours of training, not after
    run.fetch(run.previous)
    if run.config.retraining is None and not run.previous.exists():
        return leaves
    from scotoma.steps.judging.previous import fetch_previous  # SciPy comes with it

    return [*leaves, *fetch_previous(run)]


def refuse_unfit_rules(rules: GateRules, examples: AuditedExamples, *, scored: bool) -> None:
    """Refuse rules for groups or labels that there are not before hours of work, not after."""
    refuse_unknown_groups(rules, examples.partition().keys)
    refuse_rules_of_other_kind(rules, scored=scored)
    if not examples.labelled and not scored:
        refuse_rules_about_labels(rules)


def _predicted(run: Run) -> list[Path]:
    from scotoma.sources.answers import reruns_an_example, supplied_reruns
    from scotoma.steps.import_predictions import import_predictions, prepare_predicted

    with changes_told(run) as look:
        supplied = supplied_reruns(run.config)
        rows = reruns_an_example(run.config, supplied)
        more = f"/{rows} reruns" if rows > 1 else ""
        outputs = _examples(run, look, lambda: prepare_predicted(run, supplied), more)
    return [*outputs, *import_predictions(run, supplied)]


def _decoded(run: Run) -> list[Path]:
    with changes_told(run) as look:
        return _examples(run, look, lambda: _decode(run))


def _examples(run: Run, look: Look, read: Callable[[], None], more: str = "") -> list[Path]:
    """The examples of both splits.

    Args:
        run: The run.
        look: From `changes_told`.
        read: Reads and writes them.
        more: What else than the sources they are made from.
    """
    outputs, (files, sources) = [run.examples, parts_file(run)], look
    made_with = sources.key(*(key for key in sources.files if key != "models")) + more
    made_with += models_here(run).source.digest_beside()
    with run.step("prepare", outputs, made_with=made_with) as due:
        if due:
            read()
            confirmed(files, sources)
    return outputs


def _decode(run: Run) -> None:
    from scotoma.datasets.orientation import orientation_notes
    from scotoma.sources.reading import open_examples

    examples, parts = open_examples(models_here(run))
    progress.start("decode images", 1)
    digests, oriented = PartDigests(examples), list[str]()
    with written(run.examples) as temporary:
        # A broken image is refused before anything is trained.
        checked = checked_parts(
            parts, examples.size, limits=run.config.limits, rows_an_image=examples.rows_an_image,
            oriented=oriented,
        )  # fmt: skip
        examples.write_parts(
            temporary, digests.passing(checked), lambda: orientation_notes(examples, oriented)
        )
    digests.write(run)
    progress.advance("decode images")

"""Read and check the source, and write its examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma import progress
from scotoma.config import Config
from scotoma.datasets.parts import PartDigests, parts_file
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.run.sources import SOURCES, confirmed
from scotoma.steps.inputs import Changed
from scotoma.storage.files import written
from scotoma.training.mitigated import run_groups

if TYPE_CHECKING:
    from scotoma.config.gate import GateRules
    from scotoma.datasets import AuditedExamples


def prepare(run: Run) -> list[Path]:
    """Read and check the source, write the examples of both splits, bring the previous audit.

    External predictions are imported whole.
    """
    predicted = run.config.source.has_answers
    made = _predicted(run) if predicted else [*_models(run), *_decoded(run)]
    leaves = [*made, run.path(SOURCES)]
    rules = Judging.of(run).rules
    if rules is not None:
        from scotoma.datasets import AuditedExamples

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
    from scotoma.config.gate_groups import (
        refuse_rules_about_labels,
        refuse_rules_of_other_kind,
        refuse_unknown_groups,
    )

    refuse_unknown_groups(rules, examples.partition().keys)
    refuse_rules_of_other_kind(rules, scored=scored)
    if not examples.labelled and not scored:
        refuse_rules_about_labels(rules)


def _models(run: Run) -> list[Path]:
    if not run.config.source.has_models:
        return []
    from scotoma.steps.external_models import fetch_models

    return fetch_models(run)


def _predicted(run: Run) -> list[Path]:
    from scotoma.sources.answers import reruns_an_example, supplied_reruns
    from scotoma.steps.import_predictions import import_predictions, prepare_predicted

    changed = Changed.since_last_look(run)
    supplied = supplied_reruns(run.config)
    rows = reruns_an_example(run.config, supplied)
    more = f"/{rows} reruns" if rows > 1 else ""
    outputs = _examples(run, changed, lambda: prepare_predicted(run, supplied), more)
    return [*outputs, *import_predictions(run, supplied)]


def _decoded(run: Run) -> list[Path]:
    return _examples(run, Changed.since_last_look(run), lambda: _decode(run))


def _examples(run: Run, changed: Changed, read: Callable[[], None], more: str = "") -> list[Path]:
    """The examples of both splits.

    Args:
        run: The run.
        changed: What changed in the sources since the last look.
        read: Reads and writes them.
        more: What else than the sources they are made from.
    """
    outputs, sources = [run.examples, parts_file(run)], changed.sources
    made_with = sources.key(*(key for key in sources.files if key != "models")) + more
    made_with += _here(run).source.digest_beside()
    with run.step("prepare", outputs, made_with=made_with) as due:
        if due:
            read()
            confirmed(changed.files, sources)
    changed.leave()
    return outputs


def _here(run: Run) -> Config:
    """The run's configuration with its models, if they are external, in a folder."""
    if not run.config.source.has_models:
        return run.config
    from scotoma.steps.external_models import models_here

    return models_here(run)


def _decode(run: Run) -> None:
    from scotoma.datasets import checked_parts
    from scotoma.datasets.orientation import orientation_notes
    from scotoma.sources.reading import open_examples

    examples, parts = open_examples(_here(run))
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

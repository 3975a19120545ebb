"""Read and check the source, and write its examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.config.gate import refuse_unfit_rules
from scotoma.datasets import AuditedExamples, checked_parts
from scotoma.datasets.parts import PartDigests, parts_file
from scotoma.processes import progress
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.run.sources import SOURCES, confirmed
from scotoma.steps.external_models import fetch_models, models_here
from scotoma.steps.inputs import Look, changes_told
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written
from scotoma.training.mitigated import run_groups

if TYPE_CHECKING:
    from scotoma.config import Config
    from scotoma.sources.answers import SuppliedAnswers


def prepare(run: Run) -> list[Path]:
    """Read and check the source, write the examples of both splits, bring the previous audit.

    External predictions are imported whole.
    """
    leaves, config = fetch_models(run), models_here(run)
    with changes_told(run, config) as look:
        supplied = config.source.answers(config)
        leaves += write_examples(run, config, look, supplied)
    if supplied is not None:
        from scotoma.steps.import_predictions import describe_predictions, import_predictions

        leaves += [*import_predictions(run, supplied), *describe_predictions(run)]
    leaves.append(run.path(SOURCES))
    rules = Judging.of(run).rules
    if rules is not None:
        tested = AuditedExamples.read(run.examples, images=False).split("test")
        scored = run.config.source.score is not None
        refuse_unfit_rules(rules, tested.partition().keys, labelled=tested.labelled, scored=scored)
    run_groups(run)  # what a technique cannot work with is refused now
    if run.config.robustness is not None:
        from scotoma.robustness.predict import plan_of

        plan_of(run)  # what cannot be made is refused before hours of training, not after
    run.fetch(run.previous)
    if run.config.retraining is None and not run.previous.exists():
        return leaves
    from scotoma.steps.judging.previous import fetch_previous  # SciPy comes with it

    return [*leaves, *fetch_previous(run)]


@when_due
def write_examples(
    run: Run, config: Config, look: Look, supplied: SuppliedAnswers | None
) -> Iterator[Leaves]:
    """Read, check and write the examples of both splits.

    Args:
        run: The run.
        config: Its configuration, with models in a folder of this machine.
        look: From `changes_told`.
        supplied: What models said of them; None where models are run.
    """
    outputs, (files, sources) = [run.examples, parts_file(run)], look
    made_with = sources.key(*(key for key in sources.files if key != "models"))
    if supplied is not None and supplied.rows > 1:
        made_with += f"/{supplied.rows} reruns"
    made_with += config.source.digest_beside()
    yield Leaves(outputs, made_with=made_with, record="prepare")
    from scotoma.datasets.orientation import orientation_notes
    from scotoma.sources.reading import load_examples, open_examples

    task, oriented = "decode images" if supplied is None else "read examples", list[str]()
    if supplied is None:
        examples, parts = open_examples(config)
        # A broken image is refused before anything is trained.
        parts = checked_parts(
            parts, examples.size, limits=config.limits, rows_an_image=examples.rows_an_image,
            oriented=oriented,
        )  # fmt: skip
    else:
        examples = supplied.told(load_examples(config))
        parts = iter([examples.table])
    progress.start(task, 1)
    digests = PartDigests(examples)
    with written(run.examples) as temporary:
        examples.write_parts(
            temporary, digests.passing(parts), lambda: orientation_notes(examples, oriented)
        )
    digests.write(run)
    progress.advance(task)
    confirmed(files, sources)

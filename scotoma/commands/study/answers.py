"""The command that analyses the answers to a study."""

from __future__ import annotations

from pathlib import Path

from scotoma.audit.study import StudyResult
from scotoma.errors import DataError
from scotoma.run.records import write_json
from scotoma.study.analysis import study_result
from scotoma.study.plan import StudyFolder
from scotoma.study.store import AnswerStore

__all__ = ["analyse"]

BLINDING = "their blinding is up to that project, and no image was shown twice or guessed about"


def analyse(root: Path) -> tuple[StudyResult, Path]:
    """Analyse the answers to a study and write result.json.

    Args:
        root: Folder of the study.

    Returns:
        The result and its file.

    Raises:
        ScotomaError: There are no answers, the plan was edited or the key is missing.
    """
    folder = StudyFolder(root)
    plan, key = folder.plan(), folder.key()
    if not folder.answers_file.exists():
        raise DataError(f"{root} has no answers yet; invite people with scotoma study invite")
    with AnswerStore.opened(folder.answers_file) as store:
        store.register(plan)
        events, outside = store.events(), store.outside()
        erased = len(store.erased_annotators())
    if not any(event.place[0] == "m" for event in events):
        raise DataError(f"{root} has no answers yet; invite people with scotoma study invite")
    orders = {number: folder.orders(number) for number in {event.annotator for event in events}}
    judged = len(outside & orders.keys())
    deviations = [f"{judged} annotators answered in Label Studio: {BLINDING}."] if judged else []
    found = study_result(plan, key, orders, events, erased=erased, deviations=deviations)
    write_json(folder.result_file, found.model_dump(mode="json"))
    return found, folder.result_file

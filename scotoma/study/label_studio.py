"""How do tasks go to Label Studio, and annotations come back? Its JSON and its labelling interface.

What annotators see and know is then up to that project: results say so.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from scotoma.errors import DataError
from scotoma.study.plan import StudyPlan
from scotoma.study.questions import (
    ANSWERS,
    COMMENT,
    LONGEST_COMMENT,
    LONGEST_MS,
    QUESTIONS,
    comment_line,
)

TITLES = dict(zip(("Yes", "No", "Can't tell"), ANSWERS, strict=True))
STUDY, ITEM = "scotoma_study", "scotoma_item"


@dataclass(frozen=True)
class Judgement:
    """What one person said of one image in Label Studio.

    Attributes:
        annotation: Its id there.
        updated: When it was last changed, ISO 8601.
        person: Who it was there.
        item: The image.
        answers: Answers by question, `comment` among them; empty where it was skipped.
        shown_ms: Time spent on it.
    """

    annotation: str
    updated: str
    person: str
    item: str
    answers: dict[str, str]
    shown_ms: int


def tasks(
    plan: StudyPlan,
    items: Sequence[str],
    images: Mapping[str, bytes],
    labels: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Tasks to be imported into a Label Studio project, one an image.

    Args:
        plan: The plan.
        items: Ids, in the order of the tasks.
        images: PNGs by item id.
        labels: Class names by item id.
    """
    return [
        {
            "data": {
                "image": "data:image/png;base64," + base64.b64encode(images[item]).decode(),
                "labels": "; ".join(
                    f"Label {number + 1}: {name}" for number, name in enumerate(labels[item])
                ),
                STUDY: plan.sha256,
                ITEM: item,
            }
        }
        for item in items
    ]


def interface(plan: StudyPlan) -> str:
    """The labelling interface of that project: XML.

    References:
        https://labelstud.io/tags/choices
    """
    lines = [
        "<View>",
        '  <Image name="image" value="$image" maxWidth="384px"/>',
        '  <Text name="labels" value="$labels"/>',
    ]
    for one in QUESTIONS:
        if one.key in plan.questions:
            lines += [
                f"  <Header value={quoteattr(one.text)}/>",
                f'  <Choices name="{one.key}" toName="image" choice="single" required="true">',
                *(f"    <Choice value={quoteattr(title)}/>" for title in TITLES),
                "  </Choices>",
            ]
    lines += ['  <TextArea name="comment" toName="image" maxSubmissions="1"/>', "</View>", ""]
    return "\n".join(lines)


def read_judgements(
    content: Sequence[Any], name: str, plan: StudyPlan, items: frozenset[str]
) -> list[Judgement]:
    """Read what Label Studio exported as JSON.

    Args:
        content: The decoded file, a list of tasks.
        name: Its name, for errors.
        plan: The plan of the study that takes it.
        items: Ids of the images of its arms.

    Raises:
        DataError: It is no such export, or of another study, or holds what is not asked.
    """
    try:
        found = [one for task in content for one in _of_task(task, name, plan, items)]
    except DataError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{name} must be tasks with annotations as Label Studio exports them (JSON, not "
            "JSON-MIN); export them again"
        ) from error
    if not found:
        raise DataError(f"{name} holds no annotation yet; annotate, and export again")
    return found


def _of_task(task: Any, name: str, plan: StudyPlan, items: frozenset[str]) -> Iterator[Judgement]:
    item, study = task["data"][ITEM], task["data"][STUDY]
    if study != plan.sha256:
        raise DataError(
            f"{name} is of another study or an edited plan; name the folder of its own study"
        )
    if item not in items:
        raise DataError(f"{name} holds an image that is not in the study; export the tasks again")
    for annotation in task["annotations"]:
        who = annotation["completed_by"]
        answers: dict[str, str] = {}
        for region in () if annotation.get("was_cancelled") else annotation["result"]:
            question, value = region["from_name"], region["value"]
            if question == COMMENT:
                answers[COMMENT] = comment_line(" ".join(map(str, value["text"])))[:LONGEST_COMMENT]
            elif question in plan.questions:
                (choice,) = value["choices"]
                answers[question] = TITLES[choice]
        yield Judgement(
            annotation=str(annotation["id"]),
            updated=str(annotation.get("updated_at") or ""),
            person=str(who["id"] if isinstance(who, dict) else who),
            item=item,
            answers=answers,
            shown_ms=min(LONGEST_MS, max(0, round(1000 * (annotation.get("lead_time") or 0)))),
        )

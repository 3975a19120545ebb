"""Answers of people who never were, in the files that a page and Label Studio leave."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.study.answers import Event
from scotoma.study.plan import StudyFolder
from tests.helpers.commands import scotoma


def planted_events(root: Path, annotator: int) -> list[Event]:
    """Label 1 is wrong on arm A but for one image, and right on the others but for one each.

    Which one differs between annotators; all other answers are random.
    """
    folder = StudyFolder(root)
    key, plan = folder.key(), folder.plan()
    rng = np.random.default_rng(annotator)
    orders = key.orders[annotator - 1]
    exceptions = {
        sorted(item for item, entry in key.items.items() if entry.arm == arm)[annotator]
        for arm in ("A", "B", "C")
    }
    events = []
    for number, item in enumerate(orders.main):
        for question in plan.questions:
            value = str(rng.choice(["yes", "no"]))
            if question == "q1":
                value = "no" if (key.items[item].arm == "A") != (item in exceptions) else "yes"
            events.append(Event(annotator, f"m{number}", item, question, value, 1500))
    for number, item in enumerate(orders.guess):
        value = "yes" if key.items[item].arm == "A" else "no"
        events.append(Event(annotator, f"g{number}", item, "guess", value, 1500))
    return events


def page_data(root: Path, annotator: int = 1) -> dict[str, Any]:
    """What the page of an annotator holds."""
    text = (StudyFolder(root).send / f"annotator-{annotator}.html").read_text()
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


def sent(event: Event) -> dict[str, Any]:
    """An answer as the page writes it."""
    return {name: value for name, value in vars(event).items() if name != "annotator"}


def answer_file(root: Path, annotator: int, answers: list[Event], /, **changed: Any) -> Path:
    """What the page of an annotator downloads, without a browser."""
    content = {
        "study": StudyFolder(root).plan().sha256, "annotator": annotator, "consent": True,
        "events": [sent(one) for one in answers], **changed,
    }  # fmt: skip
    text = json.dumps(content)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    path = root.parent / f"answers-{annotator}-{len(list(root.parent.iterdir()))}.json"
    outer = {"format": "scotoma study answers", "version": 1, "content": text, "sha256": sha256}
    path.write_text(json.dumps(outer))
    return path


def answered(root: Path, annotators: int) -> list[Path]:
    """A file of planted answers of each annotator."""
    return [answer_file(root, one, planted_events(root, one)) for one in range(1, annotators + 1)]


def result(root: Path, *files: Path) -> str:
    """What `scotoma study result` prints."""
    code, out, err = scotoma("study", "result", root, *files)
    assert code == 0, err
    return out

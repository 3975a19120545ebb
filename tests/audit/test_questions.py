"""Is each question answered by a step, drawn in its own place, and named by its metrics once?"""

from __future__ import annotations

from collections import Counter

import pytest

from scotoma.questions import QUESTIONS, Question, asked_by, question_of
from scotoma.report.audit_page import BESIDE, audit_document
from scotoma.steps.table import STEPS
from tests.helpers.audits import whole


def test_every_question_is_answered_by_a_step_of_the_audit() -> None:
    assert {one.step for one in QUESTIONS.values()} <= STEPS.keys()
    answered = [name for step in STEPS for name in asked_by(step)]
    assert sorted(answered) == sorted(QUESTIONS)


def test_no_two_sections_have_one_place_on_the_page() -> None:
    places = [*BESIDE, *(place for one in QUESTIONS.values() for place in one.sections)]
    assert [place for place, many in Counter(places).items() if many > 1] == []


def test_a_metric_is_of_one_question() -> None:
    metrics = [metric for one in QUESTIONS.values() for metric in one.metrics]
    assert len(set(metrics)) == len(metrics)
    assert [question_of(one) for one in ("error_gap", "fairness.BA")] == ["gaps", "fairness"]


def test_a_question_that_is_added_is_drawn_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    added = Question("words again.", sections={15: "report.audit_page:glossary_section"})
    audit = whole({"variants": [{"name": "dense"}, {"name": "int8"}]})
    before = [section.id for section in audit_document(audit).sections]
    monkeypatch.setitem(QUESTIONS, "words", added)
    after = [section.id for section in audit_document(audit).sections]
    assert after == [before[0], "reading", *before[1:]]

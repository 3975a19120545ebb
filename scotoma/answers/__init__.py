"""Answers: what models said of which examples, and whether it may be judged."""

from __future__ import annotations

from scotoma.answers.note import AdmissionNote

__all__ = ["AdmissionNote"]

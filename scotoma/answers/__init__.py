"""What did models answer, on which examples, and may it be judged?"""

from __future__ import annotations

from scotoma.answers.note import AdmissionNote

__all__ = ["AdmissionNote"]

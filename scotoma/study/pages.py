"""What do browsers load? The pages of a study and of a review, one HTML file each."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scotoma.study.plan import Orders, StudyPlan
from scotoma.study.questions import LONGEST_COMMENT, QUESTIONS

SHARED = Path(__file__).with_name("page")
PAUSE_MINUTES = 25


def page(file: Path, *, loads: str, data: Mapping[str, Any] | None = None) -> bytes:
    r"""Put a page into the frame that all share: its scripts, style and data are in the file.

    Args:
        file: Title, main part and help; its script lies beside it under the same name.
        loads: Sources of what it may load, as a content security policy names them.
        data: What the script reads as JSON; None for nothing.

    >>> shown = page(SHARED / "study.html", loads="img-src data:", data={"a": "</script>"})
    >>> b"<script src" in shown, b'{"a": "\\u003c/script>"}' in shown
    (False, True)
    """
    style = (SHARED / "study.css").read_text(encoding="utf-8")
    scripts = [
        path.read_text(encoding="utf-8") for path in (SHARED / "common.js", file.with_suffix(".js"))
    ]
    policy = (
        f"default-src 'none'; {loads}; base-uri 'none'; form-action 'none'; "
        f"style-src {_hashes([style])}; script-src {_hashes(scripts)}"
    )
    environment = Environment(
        loader=FileSystemLoader([file.parent, SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = None if data is None else json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    template = environment.get_template(file.name)
    return template.render(policy=policy, style=style, scripts=scripts, data=text).encode()


def _hashes(texts: Sequence[str]) -> str:
    """Sources of a content security policy that allow these texts and nothing else."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)


def study_page(
    plan: StudyPlan,
    orders: Orders,
    images: Mapping[str, bytes],
    labels: Mapping[str, Sequence[str]],
    annotator: int,
) -> bytes:
    """Write the page of one annotator; nothing in it depends on the arm of an item.

    Args:
        plan: The plan.
        orders: Of the annotator.
        images: PNGs by item id.
        labels: Class names by item id.
        annotator: Number of the annotator.
    """
    shown = sorted({*orders.practice, *orders.main, *orders.guess})
    data = {
        "study": plan.sha256,
        "annotator": annotator,
        "consent": {
            "contact": plan.contact, "purpose": plan.purpose,
            "keep": plan.keep, "faces": plan.faces,
        },
        "questions": [
            {"key": one.key, "text": one.text, "yes": one.yes, "no": one.no}
            for one in QUESTIONS
            if one.key in plan.questions
        ],
        "parts": {"p": orders.practice, "m": orders.main, "g": orders.guess},
        "labels": {item: list(labels[item]) for item in shown},
        "images": {item: base64.b64encode(images[item]).decode() for item in shown},
        "pause_minutes": PAUSE_MINUTES,
        "longest_comment": LONGEST_COMMENT,
    }  # fmt: skip
    return page(SHARED / "study.html", loads="img-src data:", data=data)

"""What do browsers load? The pages of a study and of a review, on a server or in a single file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

__all__ = ["COMMON", "SHARED", "STYLE", "page", "single_file"]

SHARED = Path(__file__).with_name("page")
STYLE, COMMON = SHARED / "study.css", SHARED / "common.js"


def page(file: Path, scripts: Sequence[str]) -> bytes:
    """Put the content of a page into the frame that all pages share.

    Args:
        file: What is its own: title, main part and help.
        scripts: Addresses of scripts, which follow the common one.

    >>> b'<script src="study.js">' in page(SHARED / "study.html", ["study.js"])
    True
    """
    return _rendered(file, policy="", scripts=["common.js", *scripts])


def single_file(bundle: Mapping[str, Any]) -> bytes:
    """A whole study in one HTML file, which loads nothing.

    Args:
        bundle: What the page needs, images among it; becomes JSON.

    >>> b"<script src" in single_file({"name": "</script>"})
    False
    """
    style = STYLE.read_text(encoding="utf-8")
    names = (COMMON, SHARED / "offline.js", SHARED / "study.js")
    scripts = [name.read_text(encoding="utf-8") for name in names]
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hashes([style])}; script-src {_hashes(scripts)}"
    )
    data = json.dumps(bundle, ensure_ascii=True).replace("<", "\\u003c")
    return _rendered(
        SHARED / "study.html", policy=policy, style=style, scripts=scripts, bundle=data
    )


def _rendered(file: Path, **values: Any) -> bytes:
    environment = Environment(
        loader=FileSystemLoader([file.parent, SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(file.name).render(**values).encode()


def _hashes(texts: Sequence[str]) -> str:
    """Sources of a content security policy that allow these texts and nothing else."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)

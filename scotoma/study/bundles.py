"""How does a study go to people without a server? As HTML files that hold all that they show."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.errors import DataError
from scotoma.study.pages import single_file
from scotoma.study.plan import Orders, StudyPlan
from scotoma.study.session import checked_event, consent_text, page_state
from scotoma.study.store import Event

__all__ = ["LARGEST_FILE", "bundles", "read_answers", "stamp_of"]

LARGEST_FILE = 25_000_000  # bytes: what most mail servers let through
LARGEST_ANSWERS = 50_000_000
BESIDE = 200_000  # bytes of a file beside images: page, labels, questions
FORMAT = "scotoma study answers"


def stamp_of(key: bytes, content: str) -> str:
    """HMAC-SHA256 of the content of an answer file.

    The annotator's page holds the key, so this shows damage and not malice.
    """
    return hmac.new(key, content.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def bundles(
    plan: StudyPlan,
    orders: Orders,
    images: Mapping[str, bytes],
    labels: Mapping[str, Sequence[str]],
    *,
    annotator: int,
    key: bytes,
    largest: int = LARGEST_FILE,
) -> list[tuple[bytes, list[str]]]:
    """Build the HTML files of one annotator, in the order in which they are to be opened.

    Args:
        plan: The plan.
        orders: Of the annotator.
        images: PNGs by item id.
        labels: Class names by item id.
        annotator: Number of the annotator.
        key: Signs the answers; the file holds it.
        largest: Bytes of a file; what does not fit goes into the next one.

    Returns:
        Each file, and the ids of the items whose images it holds.

    Raises:
        DataError: Not even one image fits.
    """
    encoded = {one: base64.b64encode(data).decode() for one, data in images.items()}
    whole = {"p": orders.practice, "m": orders.main, "g": orders.guess}
    parts: list[list[tuple[str, int]]] = [[]]
    held: set[str] = set()
    size = BESIDE
    for name, own in whole.items():
        for number, item in enumerate(own):
            more = 0 if item in held else len(encoded[item]) + 64
            if size + more > largest:
                parts, held, size = [*parts, []], set(), BESIDE
                more = len(encoded[item]) + 64
            if size + more > largest:
                raise DataError(f"an image alone is larger than {largest:,} bytes")
            parts[-1].append((name, number))
            held.add(item)
            size += more
    found = []
    for number, places in enumerate(parts):
        state = page_state(plan, orders, labels, places=places)
        items = sorted({whole[name][place] for name, place in places})
        bundle = {
            "state": state | {"annotator": annotator},
            "sha256": plan.sha256,
            "part": number + 1,
            "parts": len(parts),
            "key": key.hex(),
            "consent": consent_text(plan),
            "images": {item: encoded[item] for item in items},
        }
        found.append((single_file(bundle), items))
    return found


def read_answers(
    data: bytes, name: str, plan: StudyPlan, orders: Mapping[int, Orders], keys: Mapping[int, bytes]
) -> list[Event]:
    """Read the answers that a page downloaded.

    Args:
        data: The file.
        name: Its name, for errors.
        plan: The plan of the study that takes it.
        orders: Of the annotators for whom files were exported.
        keys: Of the same.

    Raises:
        DataError: It is no such file, of another study or person, damaged, or holds answers that
            the study does not ask for.
    """
    text, stamp = _envelope(data, name)
    try:
        content = json.loads(text)
        study, annotator = str(content["study"]), content["annotator"]
        consented, events = content["consent"] is True, list(content["events"])
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise _no_answers(name) from error
    if study != plan.sha256:
        raise DataError(
            f"{name} answers another study or an edited plan (its hash is "
            f"{re.sub('[^0-9a-f]', '?', study[:16])}, this plan's {plan.sha256[:16]}); import it "
            "into its own study"
        )
    if type(annotator) is not int or annotator not in keys:
        raise DataError(f"{name} is of an annotator for whom no file was exported; export one")
    if not hmac.compare_digest(stamp_of(keys[annotator], text).encode(), stamp.encode()):
        raise DataError(
            f"{name} is damaged (its stamp does not hold); ask annotator {annotator} for the "
            "file again"
        )
    if not consented:
        raise DataError(f"{name} holds no consent of annotator {annotator}; it is not taken")
    found: list[Event] = []
    for number, event in enumerate(events):
        try:
            found.append(checked_event(event, annotator, plan, orders[annotator]))
        except DataError as error:
            raise DataError(f"{name}, answer {number + 1}: {error}; it is not taken") from error
    if not found:
        raise DataError(f"{name} holds no answer yet; ask annotator {annotator} for one that does")
    return found


def _envelope(data: bytes, name: str) -> tuple[str, str]:
    """The content of an answer file, as text, and its stamp."""
    if len(data) > LARGEST_ANSWERS:
        raise DataError(f"{name} has {len(data):,} bytes, at most {LARGEST_ANSWERS:,} are taken")
    try:
        outer: Any = json.loads(data)
        if outer["format"] != FORMAT or outer["version"] != 1:
            raise _no_answers(name)
        text, stamp = outer["content"], outer["stamp"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise _no_answers(name) from error
    if not isinstance(text, str) or not isinstance(stamp, str):
        raise _no_answers(name)
    return text, stamp


def _no_answers(name: str) -> DataError:
    return DataError(
        f"{name} must be a file of answers that the page of a study downloaded; ask for it again"
    )

"""Which images carry an EXIF orientation, and of which groups are they?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.datasets.examples import AuditedExamples
from scotoma.printable import printable

SHOWN = 4  # values of an attribute that a note names


def orientation_notes(
    examples: AuditedExamples, oriented: Sequence[str]
) -> Iterator[AdmissionNote]:
    """Write a note on test images with an EXIF orientation, with their groups where these differ.

    Args:
        examples: The examples, with or without images.
        oriented: Ids of the rows whose image carries one.
    """
    carrying = {*oriented}
    test = examples.split("test").pictured
    turned = [example_id in carrying for example_id in test.ids]
    if not (count := sum(turned)):
        return
    upright = examples.size is not None and examples.size.upright
    done = (
        "turned upright; source.orientation: stored leaves pixels as they are stored"
        if upright
        else "not turned; source.orientation: exif turns them upright"
    )
    each = (_by_value(name, test.table[name], turned) for name in examples.attributes)
    where = "; ".join(filter(None, each))
    sentence = (
        f"{count:,} of {len(turned):,} test images carry an EXIF orientation"
        f"{where and f' ({where})'}; they are {done}"
    )
    yield reading_note("source.images", sentence)


def _by_value(attribute: str, values: Iterable[str], turned: Sequence[bool]) -> str:
    """The counts of each value of an attribute; empty where the shares are the same."""
    values = list(values)
    each, carrying = Counter(values), Counter(compress(values, turned))
    if len({carrying[value] / n for value, n in each.items()}) < 2:
        return ""
    order = sorted(each, key=lambda value: (-carrying[value] / each[value], value))
    named = [f"{printable(v)}: {carrying[v]:,} of {each[v]:,}" for v in order[:SHOWN]]
    return f"{printable(attribute)} {', '.join(named)}"

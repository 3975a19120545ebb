"""The script of a text, beside the property Script of the Unicode Character Database."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from scotoma.readers.extract import LETTERS_READ, script_of

# Blocks of plain letters, by Blocks.txt and Scripts.txt of Unicode 15.
LETTERS = {
    "Latin": (0x0041, 0x005A), "Greek": (0x03B1, 0x03C9), "Cyrillic": (0x0410, 0x044F),
    "Armenian": (0x0561, 0x0586), "Hebrew": (0x05D0, 0x05EA), "Arabic": (0x0620, 0x063F),
    "Devanagari": (0x0904, 0x0939), "Bengali": (0x0993, 0x09A8), "Tamil": (0x0B8E, 0x0B90),
    "Thai": (0x0E01, 0x0E2E), "Georgian": (0x10D0, 0x10F0), "Hangul": (0xAC00, 0xACFF),
    "Ethiopic": (0x1200, 0x1246), "Khmer": (0x1780, 0x17A2), "Kana": (0x3041, 0x3096),
    "Han": (0x4E00, 0x4EFF),
}  # fmt: skip


@pytest.mark.parametrize("script", LETTERS)
def test_every_letter_of_a_block_is_of_its_script(script: str) -> None:
    first, last = LETTERS[script]
    for code in range(first, last + 1):
        assert script_of(f"12 {chr(code)} ?!") == script, hex(code)


def test_most_letters_decide_and_their_order_does_not() -> None:
    assert script_of("Translate into Greek: \u03b1\u03b2") == "Latin"
    for text in ("ab\u0431\u0432", "\u0431\u0432ab"):
        assert script_of(text) == "Cyrillic"  # as many of each: the first by name
    assert script_of("x" * LETTERS_READ + "\u05d0" * LETTERS_READ) == "Hebrew"
    assert script_of("\uff21\U0001d400") == "Latin"  # wide, and mathematical


def test_no_sign_of_unicode_is_refused() -> None:
    for code in range(0, sys.maxunicode + 1, 97):
        text = chr(code)
        assert script_of(text) is None or unicodedata.normalize("NFKC", text)[0].isalpha()

"""Which questions does a person answer about an image?

The six of Hooker et al. (2019), Selective Brain Damage, section 6.5, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

ANSWERS = ("yes", "no", "cant-tell")
COMMENT, SKIP = "comment", "skip"
LONGEST_COMMENT = 500
LONGEST_MS = 24 * 3600 * 1000
GUESS = "guess"  # the second pass: was this image changed by compression?
CONTRASTS = (("A", "B"), ("A", "C"))


@dataclass(frozen=True)
class StudyQuestion:
    """One question of the study.

    Attributes:
        key: `q1` to `q6`, as in answers and results.
        text: As people read it.
        counted: The answer whose share is compared between arms.
        bucket: Group of the paper's section 3.3; empty where it stands alone.
        title: What the counted answer says of an image, in a few words.
        yes: What "yes" says of it, read back to people who practise.
        no: The same of "no".
    """

    key: str
    text: str
    counted: str
    bucket: str
    title: str
    yes: str
    no: str


QUESTIONS = (
    StudyQuestion(
        "q1",
        "Does label 1 accurately label an object in the image?",
        "no",
        "ill-specified task",
        "label 1 is wrong or inadequate",
        "label 1 names an object in the image",
        "label 1 names no object in the image",
    ),
    StudyQuestion(
        "q2",
        "Does this image depict a single object?",
        "no",
        "ill-specified task",
        "several objects",
        "there is one object",
        "there is not one object alone",
    ),
    StudyQuestion(
        "q3",
        "Would you consider labels 1, 2 and 3 to be semantically very close to each "
        "other? (does this image require fine grained classification)",
        "yes",
        "challenging example",
        "labels close to each other",
        "the labels are close to each other",
        "the labels are not close to each other",
    ),
    StudyQuestion(
        "q4",
        "Do you consider the object in the image to be a typical exemplar for the "
        "class indicated by label 1?",
        "no",
        "",
        "not typical of label 1",
        "the object is typical of label 1",
        "the object is not typical of label 1",
    ),
    StudyQuestion(
        "q5",
        "Is the image quality corrupted (some common image corruptions: overlaid text, "
        "brightness, contrast, filter, defocus blur, fog, jpeg compression, pixelate, shot "
        "noise, zoom blur, black and white vs. rgb)?",
        "yes",
        "challenging example",
        "image quality corrupted",
        "the image is corrupted",
        "the image is not corrupted",
    ),
    StudyQuestion(
        "q6",
        "Is the object in the image an abstract representation of the class indicated "
        "by label 1? (an object in an abstract form, such as a painting, drawing or rendering "
        "using a different material)",
        "yes",
        "challenging example",
        "abstract representation",
        "the object is an abstract representation",
        "the object is no abstract representation",
    ),
)


def asked(labels: int) -> tuple[StudyQuestion, ...]:
    """The questions beside so many labels: without a third one there is nothing to compare.

    >>> [question.key for question in asked(2)]
    ['q1', 'q2', 'q4', 'q5', 'q6']
    """
    return tuple(one for one in QUESTIONS if labels > 2 or one.key != "q3")


def comment_line(text: str) -> str:
    r"""A comment on one line, without characters that steer how others are shown.

    >>> comment_line("one\n two \u202e\U0001f469\u200d\U0001f469")
    'one two \U0001f469\U0001f469'
    """
    return "".join(c for c in " ".join(text.split()) if c.isprintable())

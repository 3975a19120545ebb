"""`scotoma study new`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from scotoma.commands.asking import Answer, TextOptions, argument, option


class NewStudyOptions(TextOptions):
    """The plan of a study."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    variant: str = option(..., "Compressed variant whose changes are studied.")
    per_arm: int = option(100, "Images in each of the three arms, at most.", ge=2)
    group: str = option("", "Attribute by whose values to stratify; adds results by group.")
    seed: int = option(0, "Same seed, same study.", ge=0, le=2**32 - 1)
    annotators: int = option(5, "People that you plan to ask: a page for each.", ge=1, le=50)
    out: Path | None = option(None, "Folder of the study. Default: RUN/studies/VARIANT.")
    labels: Literal["pooled", "paper", "true"] = option(
        "pooled",
        "Class names beside an image: pooled is blind, paper is as published, true is "
        "the true one alone, without question 3.",
    )
    define_on: Literal["all", "half"] = option(
        "all", "Choose changed examples on all members, or on half and check on half."
    )
    repeats: int = option(10, "Images that each person sees twice.", ge=0)
    guesses: int = option(30, "Images of the second pass, which asks for the arm.", ge=0)
    primary: str = option("q1:A-C", "Primary outcome: question and contrast, such as q1:A-C.")
    contact: str = option(
        "the person who sent you this file",
        "Who asks, shown before the first image: a name and an address.",
    )
    purpose: str = option(
        "to learn which images a compressed image classifier treats differently",
        "Why, shown before the first image.",
    )
    keep: str = option(
        "until the study is published", "How long answers are kept, shown before the first image."
    )
    faces: str = option(
        "", "Legal basis for showing faces; needed for CelebA and where a column says faces."
    )
    blur: bool = option(False, "Show images as a few large squares each.")
    allow_imbalance: bool = option(False, "Go on although arm C agrees far more than arm A.")
    leaky: bool = option(False, "Go on although a machine can tell the arms apart.")


def new(options: NewStudyOptions) -> Answer:
    """Plan a study, and write one HTML file a person and tasks for Label Studio.

    A: changed examples (CIEs). B: unchanged ones at random. C: unchanged ones of the same classes
    on which models disagree as much. Of 25 plans the first is taken that is balanced and whose arms
    a machine cannot tell apart; where few unchanged examples are contested, arm A is matched.
    """
    from scotoma.steps.study import new_study

    return new_study(options)

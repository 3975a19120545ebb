"""`scotoma study new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from scotoma.commands.shared import options

__all__ = ["new"]


def new(
    run: options.FinishedRun,
    variant: Annotated[str, typer.Option(help="Compressed variant whose changes are studied.")],
    per_arm: Annotated[
        int, typer.Option(help="Images in each of the three arms, at most.", min=2)
    ] = 100,
    group: Annotated[
        str, typer.Option(help="Attribute by whose values to stratify; adds results by group.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Same seed, same study.", min=0, max=2**32 - 1)] = 0,
    annotators: Annotated[
        int, typer.Option(help="People that you plan to ask: a page for each.", min=1, max=50)
    ] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the study. Default: RUN/studies/VARIANT.")
    ] = None,
    labels: Annotated[
        Literal["pooled", "paper", "true"],
        typer.Option(
            help="Class names beside an image: pooled is blind, paper is as published, true is "
            "the true one alone, without question 3."
        ),
    ] = "pooled",
    define_on: Annotated[
        Literal["all", "half"],
        typer.Option(help="Choose changed examples on all members, or on half and check on half."),
    ] = "all",
    repeats: Annotated[int, typer.Option(help="Images that each person sees twice.", min=0)] = 10,
    guesses: Annotated[
        int, typer.Option(help="Images of the second pass, which asks for the arm.", min=0)
    ] = 30,
    primary: Annotated[
        str, typer.Option(help="Primary outcome: question and contrast, such as q1:A-C.")
    ] = "q1:A-C",
    contact: Annotated[
        str, typer.Option(help="Who asks, shown before the first image: a name and an address.")
    ] = "the person who sent you this file",
    purpose: Annotated[
        str, typer.Option(help="Why, shown before the first image.")
    ] = "to learn which images a compressed image classifier treats differently",
    keep: Annotated[
        str, typer.Option(help="How long answers are kept, shown before the first image.")
    ] = "until the study is published",
    faces: Annotated[
        str,
        typer.Option(
            help="Legal basis for showing faces; needed for CelebA and where a column says faces."
        ),
    ] = "",
    blur: Annotated[
        bool, typer.Option("--blur", help="Show images as a few large squares each.")
    ] = False,
    allow_imbalance: Annotated[
        bool,
        typer.Option("--allow-imbalance", help="Go on although arm C agrees far more than arm A."),
    ] = False,
    leaky: Annotated[
        bool, typer.Option("--leaky", help="Go on although a machine can tell the arms apart.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a study, and write one HTML file a person and tasks for Label Studio.

    A: changed examples (CIEs). B: unchanged ones at random. C: unchanged ones of the same classes
    on which models disagree as much. Of 25 plans the first is taken that is balanced and whose arms
    a machine cannot tell apart; where few unchanged examples are contested, arm A is matched.
    """
    from scotoma.commands.study.design import Wishes, new_study

    new_study(
        run,
        Wishes(
            variant=variant, group=group, per_arm=per_arm, seed=seed, annotators=annotators,
            labels=labels, define_on=define_on, repeats=repeats, guesses=guesses, primary=primary,
            contact=contact, purpose=purpose, keep=keep, faces=faces, blurred=blur,
            allow_imbalance=allow_imbalance, leaky=leaky,
        ),
        out,
        as_json=as_json,
        quiet=quiet,
    )  # fmt: skip

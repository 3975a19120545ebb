"""`scotoma study result`."""

from __future__ import annotations

from pathlib import Path

from scotoma.commands.asking import Answer, Options, argument


class StudyResultOptions(Options):
    """Which answers are analysed."""

    study: Path = argument("Folder of a study that scotoma study new made.")
    files: tuple[Path, ...] = argument(
        "Answers that came back, all of them: of the page or Label Studio."
    )


def result(options: StudyResultOptions) -> Answer:
    """Open the key, analyse the answers as planned, and write result.json and answers.csv.

    FILES are what annotators downloaded from their page, and JSON exports of Label Studio; leave a
    person out by leaving out their file. `scotoma show RUN` shows a study in RUN/studies.
    """
    from scotoma.study.analyse import analyse_study

    return Answer(*analyse_study(options.study, list(options.files)))

"""Arms, labels, orders and the plan: `scotoma study new`."""

from __future__ import annotations

import io
import shutil
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.commands.study.new import NewStudyOptions
from scotoma.datasets import AuditedExamples
from scotoma.errors import ConfigError, DataError
from scotoma.predictions import ScoreHeads, write_scores
from scotoma.run import Run
from scotoma.steps import study as design
from scotoma.steps.study import population_of
from scotoma.study.arms import Arms, choose_arms, matched_arms, mean_difference
from scotoma.study.labels import most_confused, named_labels, pooled_labels
from scotoma.study.leak import contrast_leaks, machine_leak
from scotoma.study.pictures import SIDE, displayed, encoding_of, padded
from scotoma.study.plan import StudyFolder
from scotoma.study.search import DRAWS, draw_arms
from scotoma.study.text import smallest_difference
from tests.helpers.commands import scotoma
from tests.study.answering import answered, page_data
from tests.study.conftest import new_study, picture

VARIANT = "prune-0.9"
pytestmark = pytest.mark.slow
WISHES = NewStudyOptions(
    run="", variant=VARIANT, group="", per_arm=8, seed=0, annotators=3, labels="pooled",
    define_on="all", repeats=3, guesses=6, primary="q1:A-C", contact="", purpose="", keep="",
    faces="", allow_imbalance=True, leaky=True,
)  # fmt: skip


def planted(seed: int, n: int = 600, classes: int = 10) -> tuple[np.ndarray, ...]:
    """Labels, dense and compressed predictions in which a CIE is what was contested before."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    rival = (labels + 1 + rng.integers(2, size=n)) % classes
    hard = rng.beta(0.5, 1.0, n)[:, None]
    dense, compressed = (
        np.where(rng.random((n, 10)) < hard * chance, rival[:, None], labels[:, None])
        for chance in (0.5, 0.8)
    )
    return labels, dense, compressed


def test_the_papers_labels_give_the_arm_away_and_pooled_ones_do_not() -> None:
    """Spec: 1.00 by the paper's rule; at most 0.60 by the pooled one."""
    found = []
    for seed in range(4):
        labels, dense, compressed = planted(seed)
        counts = [
            np.stack([(one == c).sum(axis=1) for c in range(10)], axis=1)
            for one in (dense, compressed)
        ]
        modal = [one.argmax(axis=1) for one in counts]
        cie = modal[0] != modal[1]
        arms = choose_arms(cie, labels, sum(counts).max(axis=1) / 20, 60, seed=seed)
        rows = np.concatenate([arms.a, arms.c])
        first = np.arange(len(rows)) < len(arms.a)
        pooled = pooled_labels(
            labels[rows],
            (sum(counts) / 10)[rows],
            most_confused(labels, dense, 10),
            seed=seed,
        )
        paper = named_labels([labels[rows], modal[0][rows], modal[1][rows]], "modal")
        nothing = np.zeros((len(rows), 1))
        leak = machine_leak(paper.ids, nothing, first, classes=10, seed=0)
        assert leak.value == pytest.approx(1.0, abs=0.005)
        found.append(machine_leak(pooled.ids, nothing, first, classes=10, seed=0).value)
    assert np.mean(found) <= 0.60


def test_kept_scores_name_the_second_class_where_votes_name_one(
    seen_run: Run, tmp_path: Path
) -> None:
    """Scores say that the class two further on is the runner-up of every example."""
    folder = tmp_path / "run"
    shutil.copytree(seen_run.root, folder)
    run = Run.open(folder)
    examples = AuditedExamples.read(run.examples, images=False)
    logits = np.zeros((len(examples.ids), 4), np.float32)
    logits[np.arange(len(logits)), (examples.labels + 2) % 4] = 1
    logits[np.arange(len(logits)), examples.labels] = 2
    backwards = slice(None, None, -1)  # rows are found by id, not by place
    for variant in ("dense", VARIANT):
        for member in range(6):
            path = run.scores(variant, member)
            path.parent.mkdir(parents=True, exist_ok=True)
            heads = ScoreHeads(variant, member, examples.classes)
            write_scores(path, [(examples.ids[backwards], logits[backwards])], heads)
    new_study(run, tmp_path / "study")
    study = StudyFolder(tmp_path / "study")
    key, classes = study.key().items, examples.classes
    items = shown_labels(study)
    by_scores = [one for one, entry in key.items() if entry.label_rule == "scores"]
    assert by_scores
    assert "confusions" not in {entry.label_rule for entry in key.values()}
    for one in by_scores:
        true, *others = (classes.index(name) for name in items[one])
        assert set(others) == {true, (true + 2) % 4}


def test_arms_have_as_many_of_each_class_and_share_no_row() -> None:
    labels, dense, compressed = planted(0)
    cie = compressed[:, 0] != dense[:, 0]
    arms = choose_arms(cie, labels, np.linspace(0, 1, len(labels)), 40, seed=3)
    rows = np.concatenate([arms.a, arms.b, arms.c])
    assert len(set(rows.tolist())) == 120
    assert Counter(labels[arms.a]) == Counter(labels[arms.b]) == Counter(labels[arms.c])
    assert cie[arms.a].all()
    assert not cie[arms.b].any()
    assert not cie[arms.c].any()


def test_contested_controls_are_the_best_of_all_assignments() -> None:
    """Against every assignment of six controls to four CIEs, once arm B has taken its four."""
    rng = np.random.default_rng(5)
    cie = np.arange(14) < 4
    agreement = rng.random(14)
    arms = choose_arms(cie, np.zeros(14, int), agreement, 4, seed=1)
    rest = np.setdiff1d(np.arange(4, 14), arms.b)
    best = min(
        np.abs(agreement[arms.a] - agreement[list(one)]).sum() for one in permutations(rest, 4)
    )
    assert np.abs(agreement[arms.a] - agreement[arms.c]).sum() == pytest.approx(best)


def test_of_fewer_cies_than_asked_there_are_as_many_as_can_be() -> None:
    cie = (np.arange(22) < 5) | (np.arange(22) >= 20)
    classes = np.where(np.arange(22) < 20, 0, 1)  # of class 1 nothing is unchanged
    for rule in (choose_arms, matched_arms):
        arms = rule(cie, classes, np.ones(22), 7, seed=0)
        assert sorted(arms.a) == [0, 1, 2, 3, 4]
        assert len(set(arms.b) | set(arms.c)) == 10


@pytest.mark.parametrize("seed", range(4))
def test_matched_arms_hold_the_cies_that_have_a_counterpart_and_no_others(seed: int) -> None:
    """Half of the CIEs are more contested than any non-CIE; arm B leaves enough for the rest."""
    rng = np.random.default_rng(seed)
    levels = [0.10, 0.15, 0.50, 0.55]
    rows = [(one, True, level) for one in range(3) for level in levels for _ in range(4)]
    rows += [(one, False, level) for one in range(3) for level in levels[2:] for _ in range(20)]
    rows += [(one, False, 1.0) for one in range(3) for _ in range(60)]
    table = [rows[place] for place in rng.permutation(len(rows))]
    classes, cie, agreement = (np.array(column) for column in zip(*table, strict=True))
    arms = matched_arms(cie, classes, agreement, len(rows), seed=seed)
    assert sorted(arms.a) == np.flatnonzero(cie & (agreement >= 0.50)).tolist()
    assert (agreement[arms.a] == agreement[arms.c]).all()
    assert (classes[arms.a] == classes[arms.c]).all()
    assert Counter(classes[arms.a]) == Counter(classes[arms.b])
    assert not cie[np.concatenate([arms.b, arms.c])].any()
    assert len({*arms.a, *arms.b, *arms.c}) == 3 * len(arms.a)
    assert agreement[arms.b].mean() > 0.65  # at random: no more contested than others are


def drawn_with(leaks: Sequence[float], **options: bool) -> tuple[object, list[int]]:
    """The draw, and which draws were measured, where the machine's AUC is planted."""
    rng = np.random.default_rng(0)
    cie, agreement = np.arange(300) < 60, rng.random(300)
    measured = []

    def auc(draws: Sequence[tuple[int, Arms]]) -> list[float]:
        measured.extend(number for number, _ in draws)
        return [leaks[number] for number, _ in draws]

    draw = draw_arms(
        cie, np.zeros(300, int), agreement, 20, seed=0, leaks=auc,
        clashes=lambda rows: np.zeros(len(rows), bool), **options,
    )  # fmt: skip
    return draw, measured


def test_the_first_blind_plan_is_taken_if_blind_ones_are_no_luck() -> None:
    leaks = [0.7, 0.65, 0.58, *[0.7, 0.5] * 11]
    draw, measured = drawn_with(leaks, allow_imbalance=True)
    assert (draw.number, draw.kept, draw.matched) == (2, 12, False)
    assert measured == list(range(DRAWS))
    assert drawn_with(leaks, leaky=True, allow_imbalance=True)[0].number == 0
    with pytest.raises(DataError, match=r"in all but 6 of 25 draws; give --labels true"):
        drawn_with([0.7] * 19 + [0.5] * 6)


@pytest.mark.parametrize(("per_arm", "matched"), [(10, False), (40, True)])
def test_arm_a_is_matched_where_contested_controls_run_short(per_arm: int, matched: bool) -> None:
    """60 CIEs and 30 controls like them: enough for 10 at random, for 40 not."""
    rng = np.random.default_rng(1)
    cie = np.arange(500) < 60
    agreement = np.where(np.arange(500) < 90, rng.normal(0.6, 0.1, 500), rng.normal(0.8, 0.02, 500))
    draw = draw_arms(
        cie, np.zeros(500, int), agreement, per_arm, seed=0,
        leaks=lambda draws: [0.5] * len(draws), clashes=lambda rows: np.zeros(len(rows), bool),
    )  # fmt: skip
    assert draw.matched == matched
    gaps = [
        mean_difference(agreement[one.a], agreement[one.c])
        for one in (choose_arms(cie, np.zeros(500, int), agreement, 40, seed=s) for s in range(9))
    ]
    assert 0.25 < min(map(abs, gaps)) < max(map(abs, gaps)) < 1.2
    assert len(draw.arms.a) >= per_arm / 2


def test_near_duplicates_are_replaced() -> None:
    rng = np.random.default_rng(0)
    cie, agreement = np.arange(300) < 60, rng.random(300)
    twins = rng.integers(100, size=300)  # of which the second is refused

    def clashes(rows: np.ndarray) -> np.ndarray:
        seen = twins[rows]
        return np.array([one in seen[:place] for place, one in enumerate(seen)])

    draw = draw_arms(
        cie, np.zeros(300, int), agreement, 10, seed=0, leaks=lambda draws: [0.5] * len(draws),
        clashes=clashes, allow_imbalance=True,
    )  # fmt: skip
    rows = np.concatenate([draw.arms.a, draw.arms.b, draw.arms.c])
    assert len(rows) == len(set(twins[rows])) == 30


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    content = io.BytesIO()
    image.save(content, kind)
    return content.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1", "CMYK", "I;16"])
def test_every_kind_of_image_becomes_a_square_png_without_metadata(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((20, 10), 40_000, np.uint16))
    else:
        image = Image.new(mode, (10, 20))
    shown = displayed(encoded(image, "JPEG" if mode == "CMYK" else "PNG"), "x")
    read = Image.open(io.BytesIO(shown))
    assert (read.format, read.mode, read.size, read.info) == ("PNG", "RGB", (SIDE, SIDE), {})
    if mode == "I;16":
        assert read.getpixel((SIDE // 2, SIDE // 2)) == (155, 155, 155)  # 40,000 of 65,535


def test_a_broken_image_is_one_sentence() -> None:
    with pytest.raises(DataError, match="image of example 'x' cannot be decoded"):
        displayed(b"\x89PNG\r\n\x1a\nbroken", "x")


def test_padded_images_have_one_length_and_the_same_pixels() -> None:
    images = [displayed(encoded(Image.new("RGB", (9, 9), c)), "x") for c in ("red", "blue")]
    noise = np.random.default_rng(0).integers(0, 255, (99, 99, 3), dtype=np.uint8)
    images.append(displayed(encoded(Image.fromarray(noise)), "x"))
    found = padded(images)
    assert len({len(one) for one in found}) == 1
    for before, after in zip(images, found, strict=True):
        shown = [np.asarray(Image.open(io.BytesIO(one))) for one in (before, after)]
        np.testing.assert_array_equal(*shown)


def test_a_study_is_planned_and_its_key_is_for_its_owner_alone(planned: Path) -> None:
    folder = StudyFolder(planned)
    plan, key = folder.plan(), folder.key().items
    assert Counter(entry.arm for entry in key.values()) == {"A": 8, "B": 8, "C": 8}
    weighed = Counter(entry.arm for entry in key.values() if entry.weight is not None)
    assert weighed == {"A": 8, "B": 8}  # drawn at random, from their classes
    assert stat.S_IMODE(folder.key_file.stat().st_mode) == 0o600
    sent = sorted(path.name for path in folder.send.iterdir())
    pages = [f"annotator-{number}.html" for number in (1, 2, 3)]
    assert sent == [*pages, "label-studio.json", "label-studio.xml"]
    orders, other, _ = folder.key().orders
    assert len(orders.main) == 27
    assert set(orders.main) == key.keys()
    assert not set(orders.practice) & key.keys()
    assert Counter(key[one].arm for one in orders.guess) == {"A": 2, "B": 2, "C": 2}
    assert orders.main != other.main
    assert plan.leak.keys() == {"A-B", "A-C"}


def test_the_same_seed_draws_the_same_examples(seen_run: Run, tmp_path: Path) -> None:
    keys = []
    for name in ("one", "two"):
        new_study(seen_run, tmp_path / name)
        key = StudyFolder(tmp_path / name).key().items
        keys.append(sorted((entry.arm, entry.example_id) for entry in key.values()))
        assert not key.keys() & {entry.example_id for entry in key.values()}
    assert keys[0] == keys[1]


def shown_labels(folder: StudyFolder) -> dict[str, list[str]]:
    """Labels beside each image, as the page of the first annotator has them."""
    shown: dict[str, list[str]] = page_data(folder.root)["labels"]
    return shown


def test_a_run_with_few_cies_gets_a_plan_that_is_blind_and_balanced(
    seen_run: Run, tmp_path: Path
) -> None:
    """Of its 58 CIEs 26 have an equally contested control; drawn at random, no 10 have."""
    command = ("study", "new", seen_run.root, "--variant", VARIANT, "--out", tmp_path / "study")
    code, out, err = scotoma(*command)
    assert (code, err) == (0, "")
    plan = StudyFolder(tmp_path / "study").plan()
    assert plan.matched
    assert 20 <= plan.per_arm < plan.changed == 58
    assert abs(plan.imbalance) <= 0.25
    assert all(one.value <= 0.60 for one in plan.leak.values())
    assert 7 <= plan.kept <= plan.draws == DRAWS
    n = plan.per_arm
    lines = out.splitlines()
    said = lines[lines.index("") + 1 :]
    imbalance = f"{plan.imbalance:+.2f}".replace("-", "−")
    assert [one for one in said if not one.startswith(("machine leak A-", "smallest diff"))] == [
        f"{3 * n} images in 3 arms of {n}, 6 questions, 5 annotators planned",
        f"Arm A is {n} of the 58 changed images: those with an equally contested unchanged one.",
        f"{plan.kept} of 25 plans drawn were blind and balanced; this is the first",
        "labels: pooled",
        f"agreement of models, A minus C: {imbalance} standard deviations",
        f"plan {plan.sha256[:16]}",
        f"next: send the files in {tmp_path}/study/send, then: scotoma study result "
        f"{tmp_path}/study FILES",
    ]
    leak = plan.leak["A-B"]
    words = f"machine leak A-B: AUC {leak.value:.2f} [{leak.low:.2f}, {leak.high:.2f}]"
    assert sum(one.startswith(words) for one in said) == 1
    least = 100 * (smallest_difference(n, 5) or 0)
    more = 100 * (smallest_difference(n, 7) or 0)  # more images there are none
    assert (
        f"smallest difference shown with 80% power: {least:.1f} points over a share of 17%; "
        f"{more:.1f} points with 2 more annotators"
    ) in said
    population = population_of(seen_run, VARIANT, define_on="all", group="")
    classes, agreement = population.examples.labels, population.agreement
    at_random = [choose_arms(population.cie, classes, agreement, 20, seed=s) for s in range(50)]
    gaps = [mean_difference(agreement[one.a], agreement[one.c]) for one in at_random]
    assert np.mean(np.abs(gaps) <= 0.25) < 0.1


def test_the_true_label_can_stand_alone(seen_run: Run, tmp_path: Path) -> None:
    plan = new_study(seen_run, tmp_path / "study", "--labels", "true")["plan"]
    assert plan["questions"] == ["q1", "q2", "q4", "q5", "q6"]
    folder = StudyFolder(tmp_path / "study")
    assert {len(names) for names in shown_labels(folder).values()} == {1}
    shown = {entry.label_rule for entry in folder.key().items.values()}
    assert shown == {"none"}


def test_images_of_two_sizes_tell_the_arm() -> None:
    """Labels, order and number of bytes say nothing of it."""
    arms = np.repeat(["A", "B", "C"], 8)
    images = padded(
        [encoded(Image.new("RGB", (side, side))) for side in np.where(arms == "A", 32, 64)]
    )
    shown = np.array([[len(one), *encoding_of(one)] for one in images], float)
    found = contrast_leaks(np.zeros((24, 3), int), shown, arms, classes=2, seed=0)
    assert {name: one.value for name, one in found.items()} == {"A-B": 1.0, "A-C": 1.0}


def test_practice_images_are_like_no_other(seen_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    population = population_of(seen_run, VARIANT, define_on="all", group="")
    same = displayed(encoded(Image.new("RGB", (9, 9), "red")), "x")
    twins = set(np.array(population.examples.ids)[~population.cie][::2])  # all alike

    def some(run: Run, names: list[str], *, blur: bool) -> dict[str, bytes]:
        return {one: same if one in twins else noise(one) for one in names}

    def noise(name: str) -> bytes:
        return displayed(picture(int(name.partition("-")[2])), name)

    monkeypatch.setattr(design, "_pictures", some)
    rows = np.flatnonzero(~population.cie)[:1]  # in an arm already
    pictures = {population.examples.ids[rows[0]]: same}
    chosen = design._practice(population, rows, pictures, seen_run, WISHES)
    assert len(chosen) == design.PRACTICE
    assert not {population.examples.ids[row] for row in chosen} & twins


def test_declared_faces_need_a_legal_basis(seen_run: Run) -> None:
    population = population_of(seen_run, VARIANT, define_on="all", group="")
    table = population.examples.table.with_columns(pl.lit("Yes").alias("faces"))
    declared = replace(population, examples=replace(population.examples, table=table))
    with pytest.raises(ConfigError, match="the column faces says that images show faces"):
        design._refuse_faces(seen_run, declared, WISHES)
    design._refuse_faces(seen_run, declared, WISHES.model_copy(update={"faces": "consent of all"}))
    design._refuse_faces(seen_run, population, WISHES)


def test_an_edited_plan_is_refused(planned: Path, tmp_path: Path) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(planned, folder)
    text = (folder / "plan.json").read_text()
    (folder / "plan.json").write_text(text.replace('"repeats": 3', '"repeats": 4'))
    code, _, err = scotoma("study", "result", folder, *answered(planned, 1))
    assert code == 4
    assert "was edited after it was written" in err


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--variant", "prune-0.8"), 2, "--variant must be one of prune-0.9, got 'prune-0.8'"),
        (("--group", "age"), 2, "--group must be one of side, got 'age'"),
        (("--primary", "q9:A-C"), 2, "--primary must be a question"),
        (("--labels", "paper"), 2, "--labels paper is not blind"),
        (
            ("--labels", "paper", "--leaky", "--primary", "q3:A-C"),
            2,
            "--primary must be another question than q3 with --labels paper",
        ),
        (
            ("--labels", "true", "--primary", "q3:A-C"),
            2,
            "--primary must be a question (q1, q2, q4",
        ),
    ],
)
def test_what_cannot_be_studied_is_one_sentence(
    seen_run: Run, tmp_path: Path, options: tuple[str, ...], code: int, sentence: str
) -> None:
    given = ("--variant", VARIANT, "--per-arm", "20", "--allow-imbalance", *options)
    done = scotoma("study", "new", seen_run.root, *given, "--out", tmp_path / "study")
    assert done[0] == code, done[2]
    assert sentence in done[2]
    assert done[2].count("\n") == 1
    assert not (tmp_path / "study").exists()


def test_a_study_leaves_the_run_as_its_audit_left_it(seen_run: Run, tmp_path: Path) -> None:
    from scotoma.run import checksums

    folder = tmp_path / "run"
    shutil.copytree(seen_run.root, folder)
    run = Run.open(folder)
    checksums.seal(run.mirror)
    new_study(run, folder / "studies" / VARIANT)
    assert checksums.compare_checksums(run.mirror).intact

"""The fixed-seed study's own runs: the 77 cells and their totals that 13 of 27 techniques allow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy import stats

from scotoma import published as papers
from scotoma.runs import RunSets, Tournament, baselines, compare_techniques
from scotoma.runs.table import bias_and_accuracy, read_runs
from scotoma.runs.tournament import TournamentSettings, judge_techniques

METRICS = ("DP", "DI", "SPSF", "FPSF", "EOFP", "EOTP", "BA")
STUDY, RAW = papers.load("fairness_variance"), papers.load("fairness_variance_runs")


def runs_of_the_study() -> RunSets:
    sets = {}
    for name, accuracy in RAW.accuracy.items():
        sets |= {(name, metric): papers.fairness_values(name, metric)[:, -1] for metric in METRICS}
        sets[name, "accuracy"] = np.array(accuracy) / (100 if accuracy[0] > 1 else 1)
    return sets


def played(runs: RunSets, protocol: str) -> Tournament:
    return compare_techniques(
        runs,
        baselines(list(dict.fromkeys(name for name, _ in runs))),
        protocol=protocol,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def published() -> Tournament:
    return played(runs_of_the_study(), "published")


@pytest.fixture(scope="module")
def sound() -> Tournament:
    return played(runs_of_the_study(), "sound")


def test_every_printed_cell_is_reproduced(published: Tournament) -> None:
    cells = {(cell.technique, cell.metric): cell for cell in published.cells}
    assert len(cells) == len(STUDY.tests) == 77
    for printed in STUDY.tests:
        cell = cells[printed.technique, printed.metric]
        assert cell.base == printed.base
        assert round(cell.p("U"), 5) == printed.u_p
        assert round(cell.p("relative Levene"), 5) == printed.levene_p
        assert (cell.moves("mean"), cell.spread_moves) == (printed.u_sig, printed.levene_sig)
        if printed.abs_cohen_d is not None:
            assert round(abs(cell.value("Cohen's d")), 2) == printed.abs_cohen_d


def test_totals_follow_from_the_printed_signs(published: Tournament) -> None:
    """Counted once more from the signs in print, and from SciPy's tests of the accuracies."""
    totals = SimpleNamespace(**published.totals)
    paid = []
    for test in (test for test in STUDY.tests if test.u_sig == "-"):
        before, after = (np.array(RAW.accuracy[name]) for name in (test.base, test.technique))
        down = stats.mannwhitneyu(before, after, alternative="greater", method="asymptotic").pvalue
        wider = stats.levene(before / before.mean(), after / after.mean(), center="median").pvalue
        spread = after.std() / after.mean() > before.std() / before.mean()
        falls = after.mean() < before.mean() and down <= 0.05
        paid.append((falls, spread and wider <= 0.05, test.levene_sig == "+"))
    accuracy, spread, bias = (sum(kind) for kind in zip(*paid, strict=True))
    assert (totals.cells, totals.lower, totals.with_cost) == (77, len(paid), sum(map(any, paid)))
    assert (totals.accuracy_down, totals.accuracy_spread_up) == (accuracy, spread)
    assert (totals.bias_spread_up, totals.all_three) == (bias, sum(map(all, paid)))
    signs = [test.u_sig for test in STUDY.tests]
    assert [totals.lower, totals.higher, totals.undecided] == [
        signs.count(sign) for sign in ("-", "+", "NS")
    ]
    huge = [test for test in STUDY.tests if test.u_sig == "-" and (test.abs_cohen_d or 0) >= 2]
    assert totals.huge == len(huge)


def test_published_totals_hold_together() -> None:
    printed = STUDY.totals
    assert printed["lower"] + printed["higher"] + printed["undecided"] == printed["cells"] == 154
    costs = dict(zip(STUDY.costs.columns, STUDY.costs.rows["all, as printed"], strict=True))
    assert [printed[key] for key in ("cells", "lower", "with_cost", "all_three")] == [
        costs[key] for key in ("pairs", "lower bias", "with a cost", "all three")
    ]


def test_the_stricter_default_moves_no_mean_of_the_study(
    published: Tournament, sound: Tournament
) -> None:
    assert [cell.moves("mean") for cell in sound.cells] == [
        cell.moves("mean") for cell in published.cells
    ]


def test_the_spread_of_a_technique_without_bias_turns_around(sound: Tournament) -> None:
    """S-DI2 is printed as more variable; its values vary less, p .002 to .03 before adjusting."""
    own = [cell for cell in sound.cells if cell.technique == "S-DI2"]
    assert [cell.moves("relative spread") for cell in own] == ["+"] * 7
    assert max(cell.value("raw spread") for cell in own) < 0.7
    p = [cell.value("raw Levene p") for cell in own]
    assert 0.0015 < min(p) < max(p) < 0.035


def test_seven_metrics_of_two_balanced_groups_are_nearly_one(sound: Tournament) -> None:
    one = sound.correlations["S-Base"]
    assert (one.runs, one.techniques) == (160, 10)
    assert round(one.lowest_across, 3) == 0.989
    assert 1 <= one.effective_across < 1.02
    dp, spsf = (one.metrics.index(name) for name in ("DP", "SPSF"))
    assert one.across[dp, spsf] == pytest.approx(1, abs=1e-9)
    assert sound.correlations["A-Base"].effective_across > 1.2


def test_no_name_and_no_order_decides_anything(sound: Tournament) -> None:
    """The same runs under other names, backwards: the same cells."""
    study = runs_of_the_study()
    names = {f"{name[0]}{at}x" * (not name.endswith("-Base")) or name: name
             for at, name in enumerate(dict.fromkeys(name for name, _ in study))}  # fmt: skip
    renamed = {(new, m): own for new, old in names.items() for (of, m), own in study.items()
               if of == old}  # fmt: skip
    of = {name: f"{name[0]}-Base" for name in names if not name.endswith("-Base")}
    shuffled = compare_techniques(dict(reversed(renamed.items())), dict(reversed(of.items())))
    before = {(cell.technique, cell.metric): cell for cell in sound.cells}
    for cell in shuffled.cells:
        twin = before[names[cell.technique], cell.metric]
        assert repr(cell.numbers) == repr(twin.numbers)
        assert cell.costs == twin.costs


def test_the_raw_folder_is_read_as_it_is(shared: Path, sound: Tournament) -> None:
    runs = bias_and_accuracy(read_runs([shared / "data" / "fairness_variance"]))
    own = runs_of_the_study()
    assert runs.keys() == own.keys()
    for key, values in runs.items():
        np.testing.assert_array_equal(values, own[key])


def test_the_families_kept_apart_are_read_when_they_come(
    shared: Path, published: Tournament, tmp_path: Path
) -> None:
    """Synthetic runs of the study's other 14 techniques in its two formats: 154 cells."""
    rng = np.random.default_rng(0)
    (tmp_path / "overall").mkdir()
    held = shared / "data" / "fairness_variance" / "bias_runs.npz"
    (tmp_path / held.name).write_bytes(held.read_bytes())
    arrays = {}
    for name in (
        f"{task}-{own}" for task in "CI" for own in ("Base", "R1", "R2", "R3", "A4", "A5")
    ):
        for metric in METRICS:  # a column a class, and their mean last
            arrays[f"{name}|{metric}"] = rng.normal(0.3, 0.02, (16, 80))
        arrays[f"{name}|mAP"] = rng.normal(50, 1, 16)
    np.savez(tmp_path / "more.npz", **arrays)
    for name in ("N-Base", "N-Flow"):
        metrics = {metric: rng.normal(0.3, 0.02, 16).tolist() for metric in (*METRICS[2:], "DP")}
        content = metrics | {"DI bar": rng.normal(size=16).tolist(), "perf": [80.0] * 16}
        (tmp_path / "overall" / f"{name}.yaml").write_text(yaml.safe_dump(content))
    sets = bias_and_accuracy(read_runs([tmp_path]))
    result = judge_techniques(sets, TournamentSettings(protocol="published"))
    cells = {(cell.technique, cell.metric): cell for cell in result.tournament.cells}
    assert len(cells) == 154
    assert "their difference is not that of one technique" in result.remarks[-1]
    assert {result.aims[f"{task}|DP"] for task in "CIN"} == {"*"}
    for own in published.cells:
        cell = cells[own.technique, own.metric]
        assert (repr(cell["difference"]), cell.p("U")) == (repr(own["difference"]), own.p("U"))

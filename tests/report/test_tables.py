"""The tables of the page hold the numbers of the audit, and no others."""

from __future__ import annotations

import copy
import re

import pytest

from tests.report.drawing import render
from tests.report.reading import Page, cell, points, relative, unknown_numbers

pytestmark = pytest.mark.slow

RUN = "One training run: says nothing about the next one."


def test_every_number_of_tables_facts_and_cards_is_in_the_audit(audit):
    assert unknown_numbers(audit.page, audit.content, audit.gate) == []


def test_the_search_for_foreign_numbers_finds_them(audit):
    """Guards the guard: a page of slightly other numbers is full of foreign ones."""
    other = copy.deepcopy(audit.content)
    for variant in other["subgroups"].values():
        for row in variant:
            for part in ("dense", "compressed"):
                if row[part]["value"]:
                    row[part]["value"] *= 1.0137
    assert len(unknown_numbers(render(other, audit.images), audit.content)) > 20


def test_top_line_table_sets_accuracy_beside_the_cies(audit):
    rows = Page(audit.page).table("Top-1 accuracy beside")
    assert list(rows) == ["dense", "prune-0.5", "prune-0.9", "int8-dynamic"]
    for variant in ("prune-0.5", "prune-0.9", "int8-dynamic"):
        top1, found = (
            audit.content["accuracy"][variant]["top1"],
            audit.content["divergence"][variant],
        )
        cie, share = found["cie"], {**found["cie"]["cie_share"], "note": ""}
        few = " few events" * ("few events" in found["cie"]["cie_share"]["note"])
        count = cie["cie"]
        ties = "tie" if count["ties"] == 1 else "ties"
        assert rows[variant] == [
            cell(top1),
            f"{count['count']} [{count['low']} to {count['high']}] {count['ties']} {ties}",
            cell(share) + few,
            cell({**(found["flips"] or cie["disagreement"]), "note": ""}),
            "none: made from dense" if cie["paired"] else cell(cie["floor"]),
            points(cie["excess"]),
            "",
            "80",
            "10",
        ]


def test_the_table_of_exported_models_has_a_share_for_every_group(audit):
    rows = Page(audit.page).table("Predictions on which the exported file")
    parity = audit.content["parity"]
    assert set(parity) == {"dense", "int8-dynamic"}
    assert list(rows) == [group["name"] for group in audit.content["groups"]]
    for place, cells in enumerate(rows.values()):
        by_variant = [parity[name]["groups"][place] for name in ("dense", "int8-dynamic")]
        n = str(by_variant[0]["n"])
        assert cells == [n, *(cell({**row, "note": ""}) for row in by_variant)]
    assert (
        parity["dense"]["groups"][0]["differ"] == 0 < parity["int8-dynamic"]["groups"][0]["differ"]
    )


def test_an_audit_without_exported_models_has_no_such_table(audit):
    page = render(audit.content | {"parity": {}}, audit.images)
    assert "Exported models" in audit.page
    assert "Exported models" not in page


@pytest.mark.parametrize("variant", ["prune-0.5", "prune-0.9", "int8-dynamic"])
def test_group_tables_give_both_rates_both_differences_and_n(audit, variant):
    names = {group["key"]: group["name"] for group in audit.content["groups"]}
    rows = Page(audit.page).table(f"Error of each group: {variant}")
    assert list(rows) == ["all", "a", "b"]
    for row in audit.content["subgroups"][variant]:
        if row["metric"] == "error":
            *found, beyond = rows[names[row["group"]]]
            assert (beyond == "·") is (row["group"] != "side=b")
            assert found == [
                str(row["absolute"]["n"]),
                cell(row["dense"]),
                cell(row["compressed"]),
                points(row["absolute"]),
                relative(row["relative"]),
            ]


def test_a_group_says_how_much_more_it_rises_than_its_reference(audit):
    (gap,) = audit.content["gaps"]["prune-0.9"]
    assert gap["gap"]["low"] > 0, "the planted harm to b must show, or the test tests nothing"
    assert gap["gap"]["effective_events"] < 10
    assert gap["p_adjusted"] is None
    caption = "Error of each group: prune-0.9"
    few = Page(audit.page).table(caption)["b"][-1]
    assert few == f"{points(gap['gap'])} a; too few to show harm"
    content = copy.deepcopy(audit.content)
    content["gaps"]["prune-0.9"][0]["p_adjusted"] = 0.01
    enough = Page(render(content, audit.images, audit.gate)).table(caption)["b"][-1]
    assert enough == f"{points(gap['gap'])} a"


def test_class_table_marks_significance_in_words_and_turns_misses_into_recall(audit):
    rows = Page(audit.page).table("Recall of each class: prune-0.9")
    found = {row["class"]: row for row in audit.content["classes"]["prune-0.9"]}
    assert list(rows) == sorted(found, key=lambda name: -found[name]["loss"]["value"])
    for name, row in found.items():
        n, beyond, _, lost, p, verdict = rows[name]
        loss = row["loss"]
        assert (n, p) == (str(loss["n"]), f"{row['p_adjusted']:.3f}")
        assert beyond.startswith(
            f"{100 * loss['value']:+.2f} [{100 * loss['low']:+.2f}, ".replace("-", "−")
        )
        recall = 100 * (row["dense_recall"] - row["compressed_recall"])
        assert lost.startswith(f"{recall:+.2f} [".replace("-", "−"))
        assert verdict == ("no" if not row["significant"] else verdict)
    for row in audit.content["subgroups"]["prune-0.9"]:
        if (row["group"], row["metric"]) == ("all", "fnr"):
            ends = (row["absolute"]["low"], row["absolute"]["high"])  # recall is 1 - FNR
            low, high = (f"{100 * value:+.2f}".replace("-", "−") for value in ends)
            assert rows[row["class"]][3].split(maxsplit=1)[1].startswith(f"[{low}, {high}]")
    changed = copy.deepcopy(audit.content)
    for row in changed["classes"]["prune-0.9"]:
        row["significant"] = True
    marked = Page(render(changed, {})).table("Recall of each class: prune-0.9")
    assert {rows[-1][:1] for rows in marked.values()} == {"▼", "▲"}


def test_many_classes_are_cut_in_the_middle_and_the_page_says_so(audit):
    changed = copy.deepcopy(audit.content)
    for variant, rows in changed["classes"].items():
        changed["classes"][variant] = [
            {**rows[0], "class": f"class {i}", "loss": {**rows[0]["loss"], "value": i / 1000}}
            for i in range(200)
        ]
    rows = Page(render(changed, {})).table("Recall of each class: prune-0.9")
    assert len(rows) == 61
    assert "140 more classes are in audit.json" in rows


def test_groups_are_called_by_their_names_in_reasons_too(audit):
    changed = copy.deepcopy(audit.content)
    row = next(row for row in changed["subgroups"]["prune-0.9"] if row["group"] == "side=b")
    nothing = {"value": None, "low": None, "high": None}
    row["relative"] |= nothing | {"reason": "undefined (no examples in group 'side=b')"}
    page = Page(render(changed, audit.images))
    assert page.table("Error of each group: prune-0.9")["b"][4] == (
        "undefined (no examples in group 'b')"
    )
    assert "side=b" not in page.text


def test_one_model_a_side_says_what_it_cannot_say(shipped):
    text = " ".join(Page(shipped.page).text.split())
    assert "what would these very models show on another test set of this kind?" in text
    assert RUN in text
    assert "Few models." not in text  # these models are the subject, and no others
    plain = {name: rows for name, rows in Page(shipped.page).tables.items() if RUN not in name}
    assert not [name for name, rows in plain.items() if "[0." in str(rows) or " [+" in str(rows)]
    cells = [text for where, text in Page(shipped.page).texts if "td" in where]
    assert not any("one training run" in text for text in cells)
    row = Page(shipped.page).table("Top-1 accuracy beside")["prune-0.9"]
    assert row[4].startswith("floor not estimable (one model per side")
    assert row[5].startswith("excess not estimable (one model per side: the CIEs are the flips")
    assert unknown_numbers(shipped.page, shipped.content, shipped.gate) == []


def test_positive_class_has_its_false_positives_and_negatives_by_group(make_audit):
    binary = make_audit(classes=("no", "yes"), positive="yes", members=5)
    page = Page(binary.page)
    for metric, caption in (("fpr", "False positive rate"), ("fnr", "False negative rate")):
        rows = page.table(f"{caption} of each group: prune-0.9")
        (found,) = (
            row
            for row in binary.content["subgroups"]["prune-0.9"]
            if (row["metric"], row["group"]) == (metric, "side=b")
        )
        assert rows["b"][0] == str(found["absolute"]["n"])
        assert rows["b"][2:5] == [
            cell(found["compressed"]), points(found["absolute"]), relative(found["relative"])
        ]  # fmt: skip
    # Recall of the positive class is 1 - FNR, that of the other 1 - FPR: both have intervals.
    classes = page.table("Recall of each class: prune-0.9")
    assert all("[" in row[3] for row in classes.values())
    assert unknown_numbers(binary.page, binary.content, binary.gate) == []


def test_no_number_is_empty_and_no_missing_value_leaks_out(audit, shipped):
    for page in (audit.page, shipped.page):
        found = Page(page)
        assert not re.search(r"\b(nan|None|null|inf|undefined)\b(?! \()", found.text)
        for head, *rows in found.tables.values():
            drawn = [name.startswith(("Interval", "Bar")) for name in head]
            for row in rows:
                # The first cell may span rows, and a remark some columns: count from the end.
                drawn_here = drawn[len(drawn) - len(row) :]
                pairs = zip(row, drawn_here, strict=True)
                assert all(text or drawing for text, drawing in pairs), row


def test_slices_of_a_search_without_confirmation_are_not_said_to_be_confirmed(audit):
    content = copy.deepcopy(audit.content)
    for search in content["slices"].values():
        search["settings"] |= {"mode": "batch", "confirm": False}
        for row in search["slices"]:
            row["confirmation"] = None
    text = Page(render(content, audit.images)).text
    assert "which exaggerates them; the gate does not judge these slices" in text
    assert not re.search("second half|confirmed on the other half", text)
    assert "second half" in Page(audit.page).text

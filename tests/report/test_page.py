from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from html import escape
from html.parser import HTMLParser

import pytest

from scotoma.report import render

HOSTILE = (
    "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u202e{{7*7}}"
)
VOID = {"meta", "link", "img", "br", "hr", "input"}
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
MEASURED = {"td", "th", "caption", "summary", "figcaption", "dl"}  # where numbers of an audit stand


class Page(HTMLParser):
    """Tags, texts and tables of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.details: list[tuple[bool, str]] = []
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            # The words of the key are an example, not a measurement.
            self._open.append("words" if ("class", "words") in attrs else tag)
        if tag == "table":
            self._rows = [[]]
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th", "caption"):
            self._rows[-1].append("")
        elif tag == "details":
            self.details.append((("open", "") in attrs or ("open", None) in attrs, ""))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        last = self._open.pop()
        assert last == tag or (last, tag) == ("words", "dl"), f"<{last}> ended by </{tag}>"
        if tag == "table":
            (caption,), *rows = self._rows
            self.tables[" ".join(caption.split())] = [
                [" ".join(cell.split()) for cell in row] for row in rows
            ]

    def handle_data(self, data):
        self.texts.append((tuple(self._open), data))
        if "summary" in self._open and data.strip():
            is_open, before = self.details[-1]
            self.details[-1] = (is_open, f"{before} {data.strip()}".strip())
        if {"td", "th", "caption"} & set(self._open):
            self._rows[-1][-1] += data

    def table(self, start: str) -> dict[str, list[str]]:
        """Rows of the one table whose caption starts so, by their first cell."""
        (rows,) = (rows for caption, rows in self.tables.items() if caption.startswith(start))
        return {row[0]: row[1:] for row in rows[1:]}

    @property
    def text(self) -> str:
        return " ".join(text for where, text in self.texts if "style" not in where)


def walk(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)
    else:
        yield value


def printed(value: float) -> set[str]:
    """All the ways in which the page may print a number, without its sign."""
    sizes = {abs(value), 100 * abs(value), abs(1 - value) * 100}
    found = {f"{size:,.{digits}f}" for size in sizes for digits in (0, 1, 2, 3, 4)}
    return found | ({f"{value:,.2f}".rstrip("0")} if value >= 0 else set())


def unknown_numbers(page: str, content: dict) -> list[str]:
    """Numbers in tables, facts, summaries and cards that the audit does not hold."""
    known = {"0.00", "0.001"}  # 0 on an axis, the limit under which p is "<0.001"
    for value in walk(content):
        if isinstance(value, str):
            known |= set(re.findall(NUMBER, value))
        elif value is not None and not isinstance(value, bool):
            known |= printed(value)
    for part in ("variants", "gallery", "classes"):
        for rows in content[part].values() if isinstance(content[part], dict) else [content[part]]:
            known.add(str(len(rows)))
    known.add(str(len(content["examples"]["classes"])))
    return [
        number
        for where, text in Page(page).texts
        if MEASURED & set(where) and "words" not in where and "code" not in where
        for number in re.findall(NUMBER, text.replace("SHA-256", ""))
        if number not in known
    ]


def cell(estimate, *, factor=100.0, sign="", unit="%", digits=2) -> str:
    """An estimate as its cell should read; a second route to what the page prints."""
    note = f" {estimate['note']}".replace("; ", " ").rstrip()
    if estimate["value"] is None:
        return estimate["reason"]
    value, low, high = (float(estimate[key]) * factor for key in ("value", "low", "high"))
    digits += (max(map(abs, (value, low, high))) < 0.05) and value != 0
    texts = [f"{x:{sign},.{digits}f}" if x else f"{0:.{digits}f}" for x in (value, low, high)]
    reason = f" {estimate['reason']}" if estimate["reason"] else ""
    return f"{texts[0]}{unit} [{texts[1]}, {texts[2]}]{reason}{note}".replace("-", "−")


def points(estimate) -> str:
    return cell(estimate, sign="+", unit="")


def relative(estimate) -> str:
    return cell(estimate, factor=1.0, sign="+", digits=1)


def test_the_report_step_writes_what_render_returns(audit):
    assert render(audit.content, audit.images, audit.gate) == audit.page


def test_every_number_of_tables_facts_and_cards_is_in_the_audit(audit):
    assert unknown_numbers(audit.page, audit.content) == []


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
            f"{100 * cie['floor_at_k']['value']:.2f}% extrapolated, no interval",
            points(cie["excess"]),
            "",
            "80",
            "10",
        ]


def test_flip_table_holds_the_paired_variants_only(audit):
    rows = Page(audit.page).table("Flips:")
    flips = audit.content["divergence"]["int8-dynamic"]["flips"]
    assert rows == {"int8-dynamic": [cell(flips), "", "80", "10"]}


@pytest.mark.parametrize("variant", ["prune-0.5", "prune-0.9", "int8-dynamic"])
def test_group_tables_give_both_rates_both_differences_and_n(audit, variant):
    names = {group["key"]: group["name"] for group in audit.content["groups"]}
    rows = Page(audit.page).table(f"Error of each group: {variant}")
    assert list(rows) == ["all", "a", "b"]
    for row in audit.content["subgroups"][variant]:
        if row["metric"] == "error":
            assert rows[names[row["group"]]] == [
                str(row["absolute"]["n"]),
                cell(row["dense"]),
                cell(row["compressed"]),
                relative(row["relative"]),
                points(row["absolute"]),
                "",
            ]


def test_gap_is_told_as_a_sentence_with_its_interval(audit):
    (gap,) = audit.content["gaps"]["prune-0.9"]
    assert gap["gap"]["low"] > 0, "the planted harm to b must show, or the test tests nothing"
    (rows,) = (rows for name, rows in Page(audit.page).tables.items() if name.startswith("Gaps:"))
    (row,) = (row for row in rows if row[0] == "prune-0.9")
    assert row[1] == f"b paid {100 * gap['gap']['value']:.2f} points more than a"
    assert row[3:6] == [points(gap[key]) for key in ("rise_b", "rise_a", "gap")]


def test_class_table_marks_significance_in_words_and_turns_misses_into_recall(audit):
    rows = Page(audit.page).table("Recall of each class: prune-0.9")
    found = {row["class"]: row for row in audit.content["classes"]["prune-0.9"]}
    assert list(rows) == sorted(found, key=lambda name: found[name]["normalised"])
    for name, row in found.items():
        n, normalised, _, absolute, p, verdict = rows[name]
        assert (n, p) == (str(row["n"]), f"{row['p_adjusted']:.3f}")
        assert normalised.startswith(
            f"{row['normalised']:+.2f} [{row['low']:+.2f}, ".replace("-", "−")
        )
        assert absolute.startswith(f"{row['absolute']:+.2f} [".replace("-", "−"))
        assert verdict == ("no" if not row["significant"] else verdict)
    for row in audit.content["subgroups"]["prune-0.9"]:
        if (row["group"], row["metric"]) == ("all", "fnr"):
            ends = (row["absolute"]["high"], row["absolute"]["low"])  # recall is 1 - FNR
            low, high = (f"{-100 * value:+.2f}".replace("-", "−") for value in ends)
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
            {**rows[0], "class": f"class {i}", "normalised": float(i)} for i in range(200)
        ]
    rows = Page(render(changed, {})).table("Recall of each class: prune-0.9")
    assert len(rows) == 61
    assert "140 classes between these are left out here; audit.json holds them" in rows


def test_dense_and_compressed_votes_stand_below_each_image(audit):
    pair = audit.content["gallery"]["prune-0.9"][0]
    page = Page(audit.page)
    cards = " ".join(text for where, text in page.texts if "figcaption" in where)
    cards = " ".join(cards.split())
    mark = {True: "✓", False: "✗"}
    for kind, card in (("CIE", pair["cie"]), ("Not a CIE", pair["non_cie"])):
        assert (
            f"{kind} True label {card['label']} "
            f"Dense modal {mark[card['dense_modal'] == card['label']]} {card['dense_modal']} "
            f"({card['dense_votes']} of 10 votes) "
            f"Compressed modal {mark[card['compressed_modal'] == card['label']]} "
            f"{card['compressed_modal']} ({card['compressed_votes']} of 10 votes) "
            f"side {card['attributes']['side']} "
        ) in cards
    image = base64.b64encode(audit.images[pair["cie"]["example_id"]]).decode()
    shown = [attributes for tag, attributes in page.tags if tag == "img"]
    assert any(attributes["src"] == f"data:image/png;base64,{image}" for attributes in shown)
    assert all(attributes["alt"] and attributes["class"] == "small" for attributes in shown)


def test_only_the_most_compressed_variant_is_unfolded(audit):
    found = [(is_open, text) for is_open, text in Page(audit.page).details if text[:5] != "False"]
    assert len(found) == 12
    assert all(is_open == text.startswith("prune-0.9") for is_open, text in found)


def test_groups_are_called_by_their_names_in_reasons_too(audit):
    changed = copy.deepcopy(audit.content)
    row = next(row for row in changed["subgroups"]["prune-0.9"] if row["group"] == "side.b")
    nothing = {"value": None, "low": None, "high": None}
    row["relative"] |= nothing | {"reason": "undefined (no examples in group 'side.b')"}
    page = Page(render(changed, audit.images))
    assert page.table("Error of each group: prune-0.9")["b"][3] == (
        "undefined (no examples in group 'b')"
    )
    assert "side.b" not in page.text


def test_names_from_the_data_are_text_and_nothing_else(make_audit):
    plain = make_audit(classes=("x", "y"), values=("g", "h"), attribute="k", ids="i")
    hostile = make_audit(
        classes=(f"x{HOSTILE}", f"y{HOSTILE}"),
        values=(f"g{HOSTILE}", f"h{HOSTILE}"),
        attribute=f"k{HOSTILE}",
        ids=f"i{HOSTILE}",
    )
    hostile.content["project"] = HOSTILE
    page = Page(render(hostile.content, hostile.images, hostile.gate))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in Page(plain.page).tags]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    texts = {text for _, text in page.texts}
    assert {HOSTILE, f"x{HOSTILE}", f"g{HOSTILE}", f"k{HOSTILE}"} <= texts
    assert any(text.startswith(f"i{HOSTILE}-") for text in texts)


def test_notes_on_the_data_stand_among_the_methods_as_text_and_nothing_else(make_audit):
    content = copy.deepcopy(make_audit().content)
    assert content["examples"]["notes"] == []
    assert "The data" not in {text for _, text in Page(render(content, {})).texts}
    content["examples"]["notes"] = ["attribute 'age' is missing in 3 of 9 test rows", HOSTILE]
    page = Page(render(content, {}))
    inside = {text for where, text in page.texts if where[-2:] == ("li", "bdi")}
    assert {"attribute 'age' is missing in 3 of 9 test rows", HOSTILE} <= inside
    assert "The data" in {text for _, text in page.texts}


def test_page_needs_nothing_from_outside_and_its_policy_allows_nothing_else(audit):
    page = Page(audit.page)
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv"))
    (style,) = re.findall("<style>(.*?)</style>", audit.page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not {"script", "iframe", "object", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert "style" not in attributes
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert "url(" not in style
    assert "@import" not in style


def test_equal_inputs_give_equal_bytes_whatever_the_order_of_their_keys(audit):
    def turned(value):
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    images = dict(reversed(audit.images.items()))
    assert render(turned(audit.content), images, turned(audit.gate)) == audit.page
    for pair in (content := copy.deepcopy(audit.content))["gallery"]["prune-0.9"]:
        pair["cie"]["attributes"] |= {"age": "old"}  # a second one, so that they have an order
    assert render(turned(content), images) == render(content, images)
    again = json.loads(json.dumps([audit.content, audit.gate]))
    assert render(again[0], audit.images, again[1]) == audit.page


def test_one_model_a_side_says_what_it_cannot_say(make_audit):
    shipped = make_audit(members=1, clustered=False)
    text = " ".join(Page(shipped.page).text.split())
    assert "what would these two models show on another test set of this kind?" in text
    assert "One training run: says nothing about the next one." in text
    assert "Few models." in text
    above = [name for name in Page(shipped.page).tables if "says nothing about" in name]
    assert len(above) == len(Page(shipped.page).tables) - 1, "all but the table of group sizes"
    cells = [text for where, text in Page(shipped.page).texts if "td" in where]
    assert not any("one training run" in text for text in cells)
    row = Page(shipped.page).table("Top-1 accuracy beside")["prune-0.9"]
    assert row[3].startswith("floor not estimable from 1 members")
    assert row[4].startswith("excess not estimable (one model a side: the CIEs are the flips")
    assert unknown_numbers(shipped.page, shipped.content) == []


def test_positive_class_has_its_false_positives_and_negatives_by_group(make_audit):
    binary = make_audit(classes=("no", "yes"), positive="yes", members=4)
    page = Page(binary.page)
    for metric, caption in (("fpr", "False positive rate"), ("fnr", "False negative rate")):
        rows = page.table(f"{caption} of each group: prune-0.9")
        (found,) = (
            row
            for row in binary.content["subgroups"]["prune-0.9"]
            if (row["metric"], row["group"]) == (metric, "side.b")
        )
        assert rows["b"][0] == str(found["absolute"]["n"])
        assert rows["b"][2:5] == [
            cell(found["compressed"]), relative(found["relative"]), points(found["absolute"])
        ]  # fmt: skip
    # Recall of the positive class is 1 - FNR, that of the other 1 - FPR: both have intervals.
    classes = page.table("Recall of each class: prune-0.9")
    assert all("[" in row[3] for row in classes.values())
    assert unknown_numbers(binary.page, binary.content) == []


def test_no_number_is_empty_and_no_missing_value_leaks_out(audit, make_audit):
    for page in (audit.page, make_audit(members=1, clustered=False).page):
        found = Page(page)
        assert not re.search(r"\b(nan|None|null|inf|undefined)\b(?! \()", found.text)
        for head, *rows in found.tables.values():
            drawn = [name.startswith(("Interval", "Bar")) for name in head]
            for row in rows:
                # The first cell may span rows, and a remark some columns: count from the end.
                drawn_here = drawn[len(drawn) - len(row) :]
                assert all(text or drawing for text, drawing in zip(row, drawn_here, strict=True))


def test_images_are_left_out_before_the_page_grows_too_large(audit):
    large = {example_id: b"\xff\xd8\xff" + bytes(400_000) for example_id in audit.images}
    page = render(audit.content, large)
    assert len(page.encode()) < 4_000_000
    assert page.count("<img") == 4
    assert "image left out to keep this page small" in page


def test_an_svg_is_no_image_here(audit):
    page = render(audit.content, dict.fromkeys(audit.images, b"<svg xmlns='x' onload='alert(1)'/>"))
    assert "<img" not in page
    assert "no image (of its kind: PNG, JPEG, GIF and WebP are shown)" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_browser_finds_no_fault(make_audit, browser, axe, tmp_path, scheme, width):
    """Console, policy, network, overflow and axe, everything unfolded."""
    audit = make_audit(("cat", 60 * "dog"), ("a", 60 * "b"), examples=60, sparsities=(0.9,))
    audit.content["project"] = 80 * "W"  # long words must not widen the page
    file = tmp_path / "report.html"
    file.write_text(render(audit.content, audit.images), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(found => { found.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    faults = page.evaluate(
        "axe.run(document).then(found => found.violations.map(f => [f.id, f.nodes[0].html]))"
    )
    shown = page.evaluate("[...document.images].filter(image => image.naturalWidth > 0).length")
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert shown == audit.page.count("<img")
    assert faults == []


def test_policy_stops_what_does_not_belong_to_the_page(audit, browser, tmp_path):
    """Guards the guard: a script or a foreign style in the same page is refused."""
    file = tmp_path / "report.html"
    foreign = "<script>document.title = 'run'</script><style>body { display: none }</style></body>"
    file.write_text(audit.page.replace("</body>", foreign), encoding="utf-8")
    page = browser.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(file.as_uri())
    title, display = page.title(), page.evaluate("getComputedStyle(document.body).display")
    page.close()
    assert (title, display) == ("tiny: what compression changed", "block")
    assert sum("Content Security Policy" in text for text in complaints) == 2


def test_the_page_says_the_verdict_and_what_decided_it(audit):
    section = audit.page.partition('<h2 id="verdict">')[2].partition("</section>")[0]
    assert section.startswith(f"Verdict: {audit.gate['verdict']}</h2>")
    for variant in audit.gate["variants"]:
        assert f"<td>{variant['verdict']}</td>" in section
        for line in variant["said"]:
            assert escape(line) in section


def test_names_in_the_verdict_are_text(audit):
    gate = audit.gate | {"warnings": ["<script>alert(1)</script>"]}
    assert "<script>alert" not in render(audit.content, audit.images, gate)

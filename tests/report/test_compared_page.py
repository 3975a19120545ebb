"""The page of two compared evaluation logs: questions and answers, folded, for every reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.comparison.logs import write_bbq
from tests.helpers.commands import scotoma

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("compared")
    write_bbq(home / "bf16", n=300)
    write_bbq(home / "w4a16", n=300, harm=1.5, noise=0.2, seed=1)
    code, _, err = scotoma(
        "compare", home / "bf16", home / "w4a16", "--group", "category", "--out", home / "run"
    )
    assert code == 0, err
    return home / "run" / "report.html"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_texts_unfold_without_a_fault_of_accessibility(
    browser: Any, axe: str, file: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    page.goto(file.as_uri(), timeout=120_000)
    folds = page.locator("details.texts")
    assert folds.count() > 0
    assert not folds.first.evaluate("one => one.open")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    assert page.locator(".pair .card").evaluate_all(beyond) == 0
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert folds.first.locator("pre").first.inner_text().strip()
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
    )
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_one_model_a_side_is_not_told_to_train_more(file: Path) -> None:
    assert "use 10 models or more" not in file.read_text(encoding="utf-8")

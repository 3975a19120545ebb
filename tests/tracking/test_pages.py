"""A year of audits in a real server, as a person opens it in a browser.

    SCOTOMA_PICTURES=docs pytest tests/tracking/test_pages.py -m thorough

takes the pictures of docs/operating.md anew.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from PIL import Image

from scotoma.run import Run, read_json
from tests.tracking.months import PROJECT, month

pytestmark = pytest.mark.thorough

PICTURES = os.environ.get("SCOTOMA_PICTURES")
PATIENCE = 60_000  # ms
WIDTH, HEIGHT = 1440, 900
CLOSE = "[data-component-id='mlflow.assistant.chat_panel.close']"
MACHINES = "workflowType=machine_learning"


@dataclass(frozen=True)
class Year:
    """Twelve audits of a project, and a client of the server that holds them."""

    runs: list[Run]
    client: Any
    server: str
    home: str

    def tracked(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.runs[number - 1].path("tracking.json"))
        return found

    def verdict(self, number: int) -> str:
        return str(read_json(self.runs[number - 1].path("gate.json"))["verdict"])

    def address(self, below: str) -> str:
        return f"{self.server}/#/experiments/{self.home}{below}"


@pytest.fixture(scope="module")
def year(mlflow: Any, server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Year]:
    home = tmp_path_factory.mktemp("year")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SCOTOMA_TRACKING_URI", raising=False)
        patch.setenv("MLFLOW_TRACKING_URI", server)
        runs = [month(home, number) for number in range(1, 13)]
        client = mlflow.MlflowClient(tracking_uri=server)
        experiment = client.get_experiment_by_name(PROJECT).experiment_id
        yield Year(runs, client, server, experiment)


@pytest.fixture
def page(browser: Any, server: str) -> Iterator[Any]:
    """A page as wide as a laptop's; whatever the report complains of in it is a failure.

    MLflow's own scripts complain too: that no one is logged in, that a layout took two rounds.
    """
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    opened, complaints = context.new_page(), []
    opened.on("console", lambda message: complaints.append(message))
    opened.set_default_timeout(PATIENCE)
    yield opened
    found = [message for message in complaints if message.type == "error"]
    ours = [one.text for one in found if not one.location["url"].startswith(f"{server}/")]
    context.close()
    assert ours == []


def shoot(page: Any, name: str) -> None:
    """Keep a picture for the documents, in few colours."""
    if not PICTURES:
        return
    if page.locator(CLOSE).count():  # MLflow opens it on a first visit
        page.locator(CLOSE).click()
    page.wait_for_timeout(3_000)  # until everything is drawn
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(Path(PICTURES, name), optimize=True)


# Whether a text lies inside the box that scrolls it, as it is before anybody scrolls.
SHOWN = """one => {
  const box = one.getBoundingClientRect();
  let at = one.parentElement;
  while (at && at.scrollHeight <= at.clientHeight + 1) at = at.parentElement;
  return at === null || at.clientHeight > 400
    || (box.bottom <= at.getBoundingClientRect().bottom && box.height > 0);
}"""


def test_the_server_of_the_documents_is_two_processes(running: Any) -> None:
    assert running.processes() == 2


def test_a_year_stands_in_one_table(year: Year, page: Any) -> None:
    """Who opens the experiment by hand is led to it, from above the traces."""
    page.goto(year.address(""))
    led = page.get_by_role("link", name="Table of the audits").first.get_attribute("href")
    page.goto(f"{year.server}/{led}")  # a link of a description opens a window of its own
    page.get_by_text("12 matching runs").wait_for()
    names = page.get_by_role("grid").get_by_role("link").all_inner_texts()
    months = [f"2027-{number:02d} · {year.verdict(number)}" for number in range(12, 0, -1)]
    assert names == months
    assert len({name.rpartition(" ")[2] for name in names}) > 1
    for column in ("verdict", "worst_group", "worst_rise", "accuracy", "cie_excess"):
        heads = page.get_by_role("columnheader", name=column, exact=True)
        assert heads.first.is_visible(), column
    rises = page.locator("[role=gridcell][col-id*=worst_rise]").all_inner_texts()
    assert len(rises) == 12
    assert all(re.fullmatch(r"[+-]\d+\.\d points \[.*\]", text.strip()) for text in rises)
    shoot(page, "tracking-audits.png")


def test_variants_are_nested_below_their_audit(year: Year, page: Any) -> None:
    page.goto(year.address(f"/runs?{MACHINES}"))
    grid = page.get_by_role("grid")
    grid.get_by_role("link", name="2027-12").first.wait_for()
    assert len(grid.get_by_role("link").all_inner_texts()) == 12
    row = page.get_by_role("row").filter(has_text=f"2027-12 · {year.verdict(12)}")
    row.get_by_role("button").first.click()
    grid.get_by_role("link", name="2027-12 · int8").wait_for()
    assert len(grid.get_by_role("link").all_inner_texts()) == 15


def test_the_link_opens_the_variants_side_by_side(year: Year, page: Any) -> None:
    page.goto(year.tracked(11)["link"])
    page.get_by_text("3 matching runs").wait_for()
    if page.locator(CLOSE).count():
        page.locator(CLOSE).click()
    names = page.get_by_role("grid").get_by_role("link").all_inner_texts()
    assert [name.split(" · ")[1] for name in names] == ["dense", "int8", "prune-0.5"]
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    scatter = cards.filter(has_text="accuracy vs. error_rise_worst")
    scatter.locator(".scatterlayer .point").nth(1).wait_for()
    headings = page.get_by_test_id("experiment-view-compare-runs-section-header")
    assert headings.first.inner_text().startswith("Headline")
    for metric in ("accuracy", "error_rise_worst"):
        card = cards.filter(has=page.get_by_role("heading", name=metric, exact=True))
        card.first.locator(".bartext").first.wait_for()
    shoot(page, "tracking.png")
    page.goto(year.tracked(11)["link"].replace("CHART", "TABLE"))
    cells = page.locator("[role=gridcell][col-id*=verdict]")
    cells.nth(2).wait_for()
    assert year.verdict(11) in {text.strip() for text in cells.all_inner_texts()}


@pytest.mark.parametrize("what", ["three months of int8", "the variants of one audit"])
def test_ticked_runs_show_what_counts_without_a_click(year: Year, page: Any, what: str) -> None:
    if what == "three months of int8":
        ids = [year.tracked(number)["runs"]["int8"] for number in (11, 10, 9)]
    else:
        ids = list(year.tracked(11)["runs"].values())
    runs, experiments = quote(json.dumps(ids)), quote(json.dumps([year.home]))
    page.set_viewport_size({"width": WIDTH, "height": 1600})
    page.goto(f"{year.server}/#/compare-runs?runs={runs}&experiments={experiments}&{MACHINES}")
    page.get_by_text("accuracy_low", exact=True).wait_for()
    for name in ("verdict", "worst_group", "worst_rise", "accuracy", "cie_excess"):
        assert page.get_by_text(name, exact=True).first.evaluate(SHOWN), name
    for run_id in ids:
        params = year.client.get_run(run_id).data.params
        if "verdict" in params:
            assert page.get_by_text(params["worst_rise"], exact=True).first.is_visible()
            assert page.get_by_text(params["worst_group"], exact=True).first.is_visible()
    if what == "three months of int8":
        shoot(page, "tracking-compare.png")


def test_the_page_of_a_run_begins_with_its_headline(year: Year, page: Any) -> None:
    page.goto(year.address(f"/runs/{year.tracked(11)['runs']['int8']}?{MACHINES}"))
    page.get_by_role("link", name="error_rise_worst", exact=True).wait_for()
    shown = page.get_by_role("table").first.get_by_role("link").all_inner_texts()
    assert shown[:4] == ["error_rise_worst", "error_rise_worst_low", "error_rise_worst_high",
                         "accuracy"]  # fmt: skip
    assert not any("/" in name for name in shown[:12])
    shoot(page, "tracking-run.png")


def test_the_report_and_the_chart_of_the_months_open_in_the_run(year: Year, page: Any) -> None:
    run_id = year.tracked(12)["run"]
    page.goto(year.address(f"/runs/{run_id}/artifacts/report.html?{MACHINES}"))
    report = page.frame_locator("iframe")
    report.get_by_role("heading", name=f"{PROJECT}: what compression changed").wait_for()
    # Its own style holds, and its figures are drawn, inside the viewer's sandbox.
    table = report.locator("table").first
    assert table.evaluate("table => getComputedStyle(table).borderCollapse") == "collapse"
    page.goto("about:blank")  # else MLflow's page keeps the file that it shows
    page.goto(year.address(f"/runs/{run_id}/artifacts/trend.html?{MACHINES}"))
    chart = page.frame_locator("iframe")
    chart.get_by_text("12 audits from 2027-01-01 to 2027-12-01").wait_for()
    assert chart.locator("figure.figure .live svg").count() == 3
    shoot(page, "tracking-trend.png")
    page.goto("about:blank")
    page.goto(year.address(f"/runs/{run_id}/artifacts/trend.png?{MACHINES}"))
    page.locator("canvas, img[src]").first.wait_for()
    assert {file.path for file in year.client.list_artifacts(run_id)} >= {
        "trend.html", "trend.png", "report.html", "audit.json", "gate.json", "numbers.parquet",
    }  # fmt: skip

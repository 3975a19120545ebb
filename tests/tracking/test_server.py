"""A real audit in a real server: read back through the client, looked at in a browser."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scotoma.run import Run, read_json
from tests.commands import scotoma
from tests.steps import steps_in_this_process
from tests.tracking.names import short
from tests.tracking.typed import log_audit

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ["dense", "prune-0.5", "int8-static"]  # as the page lists them, the last logged first
SECTIONS = ["0_gate", "1_quality", "2_cie", "3_worst", "5_slices", "amp_error", "gap_points"]
PICTURE = os.environ.get("SCOTOMA_PICTURE")  # file for the picture of docs/tracking.md
PATIENCE = 30_000  # ms


@dataclass(frozen=True)
class Audited:
    """What `scotoma audit` left in its folder and said, and a client of its server."""

    folder: Path
    words: str
    client: Any

    @property
    def audit(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.folder / "audit.json")
        return found

    @property
    def link(self) -> str:
        """The address that the command printed."""
        (line,) = (line for line in self.words.splitlines() if line.startswith("mlflow"))
        return line.split()[1]

    def listed(self) -> list[Any]:
        """The runs that the link's query finds, in its order."""
        fragment = urlsplit(urlsplit(self.link).fragment)
        experiment = fragment.path.split("/")[2]
        (key,) = parse_qs(fragment.query)["viewStateShareKey"]
        tags = self.client.get_experiment(experiment).tags
        view = json.loads(tags[f"mlflow.sharedViewState.{key}"])
        order = f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"
        found = self.client.search_runs([experiment], view["searchFilter"], order_by=[order])
        return list(found)

    def run(self, name: str) -> Any:
        (found,) = (run for run in self.listed() if short(run.info.run_name) == name)
        return found


@pytest.fixture(scope="module")
def audited(
    mlflow: Any,
    server: str,
    folder: Callable[..., Run],
    audit_of: Callable[[Run], dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Audited:
    """The small audit of docs/configuration.md, logged beside another of the same project."""
    home = tmp_path_factory.mktemp("audited")
    other = folder(home / "other", "small")
    assert log_audit(other, audit_of(other), server).reason == ""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    found = re.search(r"^# small\.yaml\n(.*?)^```", page, re.M | re.S)
    assert found
    (home / "small.yaml").write_text(f"{found[1]}tracking: {{uri: {server}}}\n")
    with steps_in_this_process(home):
        code, _, err = scotoma("audit", "small.yaml", "--out", "run")
    assert code == 0, err
    return Audited(home / "run", err, mlflow.MlflowClient(tracking_uri=server))


# --- read back ------------------------------------------------------------------------------------


def test_the_server_of_the_documents_is_two_processes(running: Any) -> None:
    assert running.processes() == 2


def test_the_link_finds_the_flat_runs_of_this_audit_alone(audited: Audited) -> None:
    found = audited.listed()
    assert [short(run.info.run_name) for run in found] == VARIANTS
    assert {run.info.status for run in found} == {"FINISHED"}
    assert not [run for run in found if "mlflow.parentRunId" in run.data.tags]
    (experiment,) = {run.info.experiment_id for run in found}
    assert len(audited.client.search_runs([experiment])) == 6  # the other audit's are there too


@pytest.mark.parametrize("name", VARIANTS[1:])
def test_the_numbers_are_those_of_the_audit(audited: Audited, name: str) -> None:
    audit, metrics = audited.audit, audited.run(name).data.metrics
    cie = audit["divergence"][name]["cie"]
    assert metrics["1_quality/top1"] == audit["accuracy"][name]["top1"]["value"]
    assert metrics["2_cie/count"] == cie["cie"]["count"]
    assert metrics["2_cie/excess_points"] == pytest.approx(100 * cie["excess"]["value"])
    for row in audit["subgroups"][name]:
        if row["metric"] == "error" and row["class"] is None:
            key = row["group"].replace("=", ".").replace(",", "_and_")
            assert metrics[f"amp_error/{key}"] == row["relative"]["value"]
    for row in audit["gaps"][name]:
        found = metrics[f"gap_points/{row['attribute']}"]
        assert found == pytest.approx(100 * row["gap"]["value"])
    assert {metric.rpartition("/")[0] for metric in metrics} == set(SECTIONS)


def test_parameters_can_be_drawn_as_axes(audited: Audited) -> None:
    found = {name: audited.run(name).data.params for name in VARIANTS}
    numbers = {
        name: [float(params[key]) for key in ("sparsity", "bits", "n_models", "seed")]
        for name, params in found.items()
    }
    assert numbers == {
        "dense": [0, 32, 3, 0],
        "prune-0.5": [0.5, 32, 3, 0],
        "int8-static": [0, 8, 3, 0],
    }


def test_every_member_is_there_with_its_seed_and_its_weights(audited: Audited) -> None:
    experiment = audited.client.get_experiment_by_name("small.models").experiment_id
    digest = audited.listed()[0].data.tags["scotoma.audit"]
    logged = audited.client.search_runs([experiment], f"tags.`scotoma.audit` = '{digest}'")
    found = {
        short(run.info.run_name): (int(run.data.params["seed"]), run.data.tags["scotoma.weights"])
        for run in logged
    }
    wanted = {}
    for name in VARIANTS:
        manifest = read_json(audited.folder / "populations" / name / "manifest.json")
        for member in manifest["members"]:
            wanted[f"{name} · {member['index']:02d}"] = (member["seed"], member["sha256"])
    assert len(wanted) == 9
    assert found == wanted


def test_each_run_carries_the_report_and_a_note(audited: Audited, tmp_path: Path) -> None:
    report = (audited.folder / "report.html").read_bytes()
    for run in audited.listed():
        path = audited.client.download_artifacts(run.info.run_id, "report.html", str(tmp_path))
        assert Path(path).read_bytes() == report
        top1 = audited.audit["accuracy"][short(run.info.run_name)]["top1"]["value"]
        assert f"- top-1 {100 * top1:.1f}% [" in run.data.tags["mlflow.note.content"]


# --- looked at ------------------------------------------------------------------------------------


@pytest.fixture
def page(browser: Any, server: str) -> Iterator[Any]:
    """A page as wide as a laptop's; whatever the report complains of in it is a failure.

    MLflow's own scripts complain too: that no one is logged in, that a layout took two rounds.
    """
    context = browser.new_context(viewport={"width": 1440, "height": 960})
    opened, complaints = context.new_page(), []
    opened.on("console", lambda message: complaints.append(message))
    opened.set_default_timeout(PATIENCE)
    yield opened
    found = [message for message in complaints if message.type == "error"]
    ours = [one.text for one in found if not one.location["url"].startswith(f"{server}/")]
    context.close()
    assert ours == []


def test_the_link_opens_the_variants_beside_their_charts(audited: Audited, page: Any) -> None:
    page.goto(audited.link)
    page.get_by_text("3 matching runs").wait_for()
    # The menu of model training is open, not that of chat applications.
    assert page.get_by_role("heading", name="Runs", exact=True).is_visible()
    assert page.get_by_role("link", name="Judges").count() == 0
    # MLflow opens it on a first visit to a server on one's own machine.
    page.locator("[data-component-id='mlflow.assistant.chat_panel.close']").click()
    links = page.get_by_role("grid").get_by_role("link").all_inner_texts()
    assert list(map(short, links)) == VARIANTS
    headings = page.get_by_test_id("experiment-view-compare-runs-section-header")
    headings.filter(has_text="0_charts").wait_for()
    shown = [text.split()[0] for text in headings.all_inner_texts()]
    assert shown[: len(SECTIONS) + 1] == ["0_charts", *SECTIONS]

    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    runs = [run.data.metrics for run in audited.listed()]
    for chart, bars in (("1_quality/top1", 3), ("2_cie/excess_points", 2), ("gap_points/style", 2)):
        page.get_by_placeholder("Search metric charts").fill(chart)
        card = cards.filter(has=page.get_by_role("heading", name=chart, exact=True))
        drawn = card.locator(".bartext")
        drawn.nth(bars - 1).wait_for()
        wanted = [f"{metrics[chart]:.2f}" for metrics in runs if chart in metrics]
        assert sorted(drawn.all_text_contents()) == sorted(wanted), chart
        fills = card.locator(".barlayer path").evaluate_all("all => all.map(one => one.style.fill)")
        assert len(set(fills)) == bars, f"{chart}: {fills}"


def test_the_view_shows_verdicts_and_the_worst_group_against_accuracy(
    audited: Audited, page: Any
) -> None:
    page.goto(audited.link)
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    card = cards.filter(has_text="1_quality/top1 vs. 3_worst/error_points")
    card.locator(".scatterlayer .point").nth(1).wait_for()
    assert card.locator(".scatterlayer .point").count() == 2  # dense has no worst change
    if PICTURE:
        page.locator("[data-component-id='mlflow.assistant.chat_panel.close']").click()
        page.wait_for_timeout(5_000)  # until the parallel coordinates are drawn, too
        page.screenshot(path=PICTURE)
    page.goto(audited.link.replace("CHART", "TABLE"))
    cells = page.locator("[role=gridcell][col-id*=verdict]")
    cells.nth(2).wait_for()
    shown = {text.strip() for text in cells.all_inner_texts()}
    assert shown == {run.data.params["verdict"] for run in audited.listed()}
    assert sum(verdict.startswith("audit: ") for verdict in shown) == 1  # dense has the worst
    page.goto(audited.link.partition("?")[0])
    page.get_by_role("button", name="Views").click()
    named = audited.listed()[0].info.run_name.partition(" · ")[0]
    page.get_by_role("menuitem", name=named).click()
    page.get_by_text("viewing a shared view").wait_for()


def test_the_artifact_viewer_shows_the_report(audited: Audited, page: Any) -> None:
    run = audited.run("prune-0.5")
    server, experiment = audited.link.partition("/#/")[0], run.info.experiment_id
    page.goto(
        f"{server}/#/experiments/{experiment}/runs/{run.info.run_id}/artifacts/report.html"
        "?workflowType=machine_learning"
    )
    report = page.frame_locator("iframe")
    report.get_by_role("heading", name="small: what compression changed").wait_for()
    assert report.get_by_role("heading", name="Who is affected by").count() == 1
    # Its own style holds, and its pictures are drawn, inside the viewer's sandbox.
    table = report.locator("table").first
    assert table.evaluate("table => getComputedStyle(table).borderCollapse") == "collapse"
    pictures = report.locator("img")
    assert pictures.count() > 0
    assert pictures.evaluate_all("all => all.every(one => one.naturalWidth > 0)")

"""What the sections on layers, exports, AP and AR, size and speed show: cells of their tables."""

from __future__ import annotations

from typing import Any

from scotoma.audit import GateResult
from scotoma.audit.findings import Beside, Findings, FrontierRow, VariantLayers
from scotoma.costs.section import frontier_section
from scotoma.detection.section import precision_section
from scotoma.divergence.gallery_section import layers_section, parity_section
from scotoma.document.charts import drawings, filled
from scotoma.numbers import few_runs
from tests.helpers.audits import filled as with_defaults
from tests.helpers.audits import rows_at, whole
from tests.helpers.sections import chart, kept, table, texts

VARIANTS = [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}]
GROUPS = [{"key": "all", "name": "everyone"}, {"key": "s=f", "name": "women"}]
CONTENT = {"variants": VARIANTS, "groups": GROUPS}


def number(value: float, n: int = 0, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.01, "high": value + 0.02, "n": n} | more


def made_of(kind: Any, content: dict[str, Any]) -> Any:
    return kind.model_validate(with_defaults(kind, content))


def verdicts(**words: str) -> GateResult:
    variants = [{"name": name, "verdict": word} for name, word in words.items()]
    gate: GateResult = made_of(GateResult, {"verdict": "FAIL", "variants": variants})
    return gate


def layers(*names: str, **more: Any) -> VariantLayers:
    rows = [
        {"layer": name, "alone": number(0.3, 457, members=2, **more), "together": number(0.4)}
        for name in names
    ]
    made: VariantLayers = made_of(VariantLayers, {"compared": "One by one.", "layers": rows})
    return made


def test_only_layers_of_a_variant_that_fails_are_shown() -> None:
    one_run = {"note": few_runs(2)}
    beside = Beside(layers={"int8": layers("a"), "pruned": layers("conv 0", "conv 3", **one_run)})
    gate = verdicts(int8="UNSURE", pruned="FAIL")
    made = layers_section(Findings(whole(CONTENT), gate, "pruned", beside))
    assert made is not None
    own = table(made, "layers")
    assert texts(own) == [
        ["pruned", name, "457", "2", "30.00% [29.00, 32.00]", "40.00% [39.00, 42.00]"]
        for name in ("conv 0", "conv 3")
    ]
    assert few_runs(2)[1:] in own.note
    said, read = kept(made)
    assert said == read
    assert layers_section(Findings(whole(CONTENT), verdicts(int8="PASS"), "", beside)) is None
    assert layers_section(Findings(whole(CONTENT), None, "", beside)) is None


def test_pruned_layers_say_how_many_weights_are_zero() -> None:
    pruned = layers("conv 0")
    row = pruned.layers[0].model_copy(update={"sparsity": 0.925})
    beside = Beside(layers={"pruned": pruned.model_copy(update={"layers": (row,)})})
    made = layers_section(Findings(whole(CONTENT), verdicts(pruned="FAIL"), "", beside))
    assert made is not None
    assert texts(table(made, "layers"))[0][2] == "92.50%"


def test_exported_models_stand_beside_the_network_that_they_were_made_from() -> None:
    groups = [
        {"group": key, "n": n, "value": share, "low": share / 2, "high": 0.04,
         "note": "this model, another test set"}
        for key, n, share in (("all", 900, 0.002), ("s=f", 400, 0.01))
    ]  # fmt: skip
    parity = {name: {"network": "dense", "groups": groups} for name in ("int8", "dense")}
    made = parity_section(Findings(whole(CONTENT | {"parity": parity})))
    assert made is not None
    own = table(made, "parity")
    assert [column.title for column in own.columns] == [
        "Group",
        "n",
        "dense, same weights",
        "int8 against dense",
    ]
    assert texts(own) == [
        ["everyone", "900", "0.20% [0.10, 4.00]", "0.20% [0.10, 4.00]"],
        ["women", "400", "1.00% [0.50, 4.00]", "1.00% [0.50, 4.00]"],
    ]
    said, read = kept(made)
    assert said == read
    assert parity_section(Findings(whole(CONTENT))) is None


def test_detectors_have_coco_numbers_of_the_variant_in_focus_first() -> None:
    numbers = {"dense": number(0.6), "compressed": number(0.5), "change": number(-0.1, 60)}
    rows = [row for name in ("int8", "pruned")
            for row in rows_at({"variant": name, "metric": "AP50"}, numbers)]  # fmt: skip
    content = CONTENT | {"rows": {"boxes": rows}}
    made = precision_section(Findings(whole(content), focus="pruned"))
    assert made is not None
    assert texts(table(made, "precision")) == [
        [name, "AP50", "60", "60.00% [59.00, 62.00]", "50.00% [49.00, 52.00]",
         "−10.00 [−11.00, −8.00]"]
        for name in ("pruned", "int8")
    ]  # fmt: skip
    said, read = kept(made)
    assert said == read
    shipped = precision_section(Findings(whole(content | {"scope": "shipped"})))
    assert shipped is not None
    assert "training runs" not in shipped.answer[1]
    assert precision_section(Findings(whole(CONTENT))) is None


def frontier(costs: dict[str, Any] | None) -> tuple[FrontierRow, ...]:
    worst = {"group": "s=f", "metric": "fnr", "absolute": number(0.05), "relative": number(0.42)}
    rows = [
        {"variant": "dense", "top1": number(0.945), "costs": costs},
        {"variant": "pruned", "verdict": "FAIL", "top1": number(0.92), "worst": worst,
         "costs": costs},
    ]  # fmt: skip
    return tuple(made_of(FrontierRow, row) for row in rows)


LATENCY = {"1": {"median_ms": 0.5, "low_ms": 0.25, "high_ms": 1.5, "n": 100},
           "64": {"median_ms": 20.5, "low_ms": 20.0, "high_ms": 21.0, "n": 100}}  # fmt: skip


def test_what_a_variant_saves_stands_beside_what_it_loses() -> None:
    costs = {"bytes": 199_040, "compressed_bytes": 18_392, "latency": LATENCY}
    made = frontier_section(Findings(whole(CONTENT), beside=Beside(frontier=frontier(costs))))
    assert made is not None
    own = table(made, "frontier")
    assert texts(own) == [
        ["dense", "not judged", "94.50% [93.50, 96.50]", "", "", "199 kB", "18.4 kB",
         "0.500 [0.250, 1.500]", "20.500 [20.000, 21.000]"],
        ["pruned", "FAIL", "92.00% [91.00, 94.00]", "+5.00 [+4.00, +7.00] (FNR of women)",
         "+42.0% [+41.0, +44.0]", "199 kB", "18.4 kB", "0.500 [0.250, 1.500]",
         "20.500 [20.000, 21.000]"],
    ]  # fmt: skip
    assert "quartiles of 100 runs" in own.note
    assert made.answer == ["What each variant loses and what it saves. FAIL: pruned."]
    said, read = kept(made)
    assert said == read
    drawn = chart(made, "frontier")
    assert [row["packed"] for row in filled(drawn, list(own.rows))["data"]["values"]] == [
        18_392.0,
        18_392.0,
    ]
    assert "Size of one member" in drawings(drawn)[0].svg


def test_without_latencies_or_sizes_their_columns_say_so() -> None:
    costs = {"bytes": 199_040, "compressed_bytes": 18_392, "latency": None}
    made = frontier_section(Findings(whole(CONTENT), beside=Beside(frontier=frontier(costs))))
    assert made is not None
    own = table(made, "frontier")
    assert own.columns[-1].key == "packed"
    assert "measurements.json has it" in own.note
    predicted = frontier_section(Findings(whole(CONTENT), beside=Beside(frontier=frontier(None))))
    assert predicted is not None
    assert texts(table(predicted, "frontier"))[0][5:] == ["not measured", "not measured"]
    assert predicted.parts == [table(predicted, "frontier")]
    assert frontier_section(Findings(whole(CONTENT))) is None

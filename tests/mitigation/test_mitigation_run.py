"""A technique in an audit: members, graphs, scores and predictions; and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import polars as pl
import pytest

from scotoma.config import Config, parse_config
from scotoma.datasets import AuditedExamples, store_images
from scotoma.errors import ConfigError, DataError
from scotoma.inference.members import quantized_variants
from scotoma.mitigation.groups import network_outputs, training_groups
from scotoma.predictions import Predictions, read_heads, read_scores
from scotoma.run import Run, read_json
from scotoma.run.shards import shards
from scotoma.sources.reading import load_examples
from scotoma.steps.compression import Compression
from scotoma.steps.predict import predict
from scotoma.steps.prepare import prepare
from scotoma.training import population
from scotoma.training.mitigated import training_digest
from scotoma.training.models import build_model

pytestmark = pytest.mark.slow

AUDIT = """
source: {{kind: digits-s, styled: dim, recipe: {{steps: 40, batch_size: 64, learning_rate: 0.05}}}}
label: {{column: {label}}}
groups: {{style: {{column: style}}, exposure: {{column: exposure}}}}
variants: [dense, {{prune: [0.5], then: int8-static}}]
population: {{models: 2, forked: {forked}}}
tracking: {{uri: "off"}}
{more}
"""
(SHARD,) = shards(2, 1)
DI = "mitigation: {technique: DI2, attribute: style}"


def config(more: str = DI, *, label: str = "digit", forked: str = "true") -> Config:
    return parse_config(AUDIT.format(more=more, label=label, forked=forked), "audit.yaml")


def made(folder: Path, audited: Config) -> Run:
    """The steps of an audit in this process; what they do in workers, too."""
    run = Run.create(folder / "run", audited)
    prepare(run)
    labels = AuditedExamples.read(run.examples, images=False).split("train").labels
    images = store_images(run.examples, "train", folder)
    worker = population.Trainer(run, images, labels, 10, training_digest(run))
    backend, *_ = worker.choose_way()
    for name in ("dense", "prune-0.5"):
        worker.train(name, [0, 1], backend, "test")
    variants = quantized_variants(run)
    compression = Compression.prepare(run, variants)
    graph = run.path("shards", "000", "graph.onnx")
    graph.parent.mkdir(parents=True, exist_ok=True)
    compression.architecture.write(graph)
    for index in SHARD.members:
        compression("prune-0.5", index)
    predict(run, SHARD)
    return run


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made(tmp_path_factory.mktemp("heads"), config())


@pytest.fixture(scope="module")
def adversary(tmp_path_factory: pytest.TempPathFactory) -> Run:
    more = "mitigation: {technique: UC, attribute: style}\nkeep_scores: full"
    return made(tmp_path_factory.mktemp("adversary"), config(more))


def test_predictions_are_the_sum_of_heads_of_the_scores_that_are_kept(heads: Run) -> None:
    examples = AuditedExamples.read(heads.examples, images=False)
    counts = examples.split("train").table.group_by("style", "label").len()
    for variant in ("dense", "prune-0.5", "prune-0.5+int8-static"):
        predicted = Predictions.read(heads.predictions(variant, 0)).predicted
        for index in SHARD.members:
            path = heads.scores(variant, index)
            of, (ids, scores) = read_heads(path), read_scores(path)
            assert ids == examples.split("test").ids
            assert (of.shape, of.groups) == ((2, 10), ("plain", "styled"))
            assert sum(map(sum, of.train_counts)) == counts["len"].sum() == 1200
            np.testing.assert_array_equal(
                predicted[:, index], scores.astype(float).reshape(-1, 2, 10).sum(1).argmax(1)
            )
    labels = examples.split("test").labels
    assert (predicted == labels[:, None]).mean() > 0.6


@pytest.mark.parametrize(("kind", "width"), [("heads", 20), ("adversary", 10)])
def test_graphs_hold_the_network_and_no_adversary(
    kind: str, width: int, request: pytest.FixtureRequest
) -> None:
    run: Run = request.getfixturevalue(kind)
    layers = {name.partition(".")[0] for name in build_model("tiny-convnet", width, 0).state_dict()}
    for path in [run.path("shards", "000", "graph.onnx"), run.member("prune-0.5+int8-static", 1)]:
        graph = onnx.load(path).graph
        held = {tensor.name for tensor in graph.initializer}
        weights = {name for name in held if ".weight" in name or ".bias" in name}
        assert len(weights) >= 6
        assert {name.partition(".")[0] for name in weights} <= layers
        assert not any("head" in name for name in held)
        assert graph.output[0].type.tensor_type.shape.dim[1].dim_value == width


def test_scores_are_kept_where_they_are_asked_for(adversary: Run) -> None:
    predicted = Predictions.read(adversary.predictions("dense", 0))
    path = adversary.scores("dense", 1)
    of, (_, scores) = read_heads(path), read_scores(path)
    assert (of.shape, of.technique) == ((1, 10), "UC")
    np.testing.assert_array_equal(predicted.predicted[:, 1], scores.argmax(1))
    highest = np.exp(scores - scores.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(predicted.scores[:, 1], 1 / highest, rtol=2e-3)


def test_a_member_of_another_technique_or_of_other_groups_is_not_reused(heads: Run) -> None:
    record = read_json(heads.member("dense", 0).with_suffix(".json"))
    assert record["mitigation"]["family"] == "DI"
    digest = training_digest(heads)
    for more, reused in (
        (DI, True),
        ("mitigation: {technique: DI1, attribute: style}", True),
        ("mitigation: {technique: DD1, attribute: style}", False),
        ("", False),
    ):
        other = Run(heads.root, config(more))
        assert population._finished(other, "dense", 0, digest) is reused, more
    assert not population._finished(heads, "dense", 0, digest + "other groups")


def test_every_head_of_a_group_counts_among_the_outputs(heads: Run) -> None:
    examples = AuditedExamples.read(heads.examples, images=False)
    assert network_outputs(heads.config, examples) == 20
    assert examples.notes == ("all models are trained by DI2 on groups of style",)
    assert network_outputs(config(""), examples) == 10


def changed(keep: pl.Expr) -> AuditedExamples:
    examples = load_examples(config()).split("train")
    return examples.keep(examples.table.select(keep).to_series())


def test_groups_that_training_does_not_have_are_one_sentence() -> None:
    one = changed(pl.col("style") == "plain")
    with pytest.raises(DataError, match="DI2 needs at least two groups in training, got only styl"):
        training_groups(config(), one)
    empty = changed((pl.col("style") == "plain") | (pl.col("label") != "3"))
    sentence = (
        "mitigation.technique DI2 needs training examples of every class in every group, got none "
        "of class '3' with style=styled; name another attribute, or merge values under groups.style"
    )
    with pytest.raises(DataError) as refused:
        training_groups(config(), empty)
    assert str(refused.value) == sentence
    penalty = config("mitigation: {technique: L2, attribute: style}")
    with pytest.raises(DataError, match="L2 is for two classes and two groups, got 10 classes"):
        training_groups(penalty, load_examples(penalty).split("train"))


def test_an_audit_refuses_before_it_trains(tmp_path: Path) -> None:
    penalty = config("mitigation: {technique: ALM, attribute: style}")
    with pytest.raises(DataError, match="ALM is for two classes"):
        prepare(Run.create(tmp_path / "run", penalty))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("mitigation: {technique: RS}", "technique RS needs an attribute, got none; name one of"),
        (
            "mitigation: {technique: RS, attribute: stile}",
            "mitigation.attribute 'stile' is not among groups ['style', 'exposure']; did you mean",
        ),
        ("mitigation: {technique: JTT, attribute: style}", "attribute has no effect on JTT"),
        (
            "mitigation: {technique: UC, attribute: style, eta: 1.0}",
            "mitigation.eta is for L2 and ALM, and the technique is UC; leave it out",
        ),
        ("mitigation: {technique: N-Flow}", "mitigation.technique should be 'RS'"),
        (f"{DI}\nkeep_scores: true", "has no probability of a class and keeps every score"),
        (f"{DI}\nrobustness: {{profile: scaled}}", "robustness cannot run models of"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(more: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(more)
    assert sentence in str(refused.value)


def test_techniques_beside_dense_members_need_forked_ones() -> None:
    more = "mitigation: {technique: distil}"
    with pytest.raises(ConfigError, match=r"set population\.forked to true"):
        config(more, forked="false")
    assert config(more).mitigation

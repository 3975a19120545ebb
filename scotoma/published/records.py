"""What does a paper's table hold? Rows and columns under the names that the paper prints."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

PublishedCell = int | float | str | None


class PublishedPart(BaseModel):
    """A part of a published file; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paper(PublishedPart):
    """What one source printed.

    Attributes:
        source: Authors, year and title.
        notes: What to know before the numbers are compared with others.
    """

    source: str
    notes: tuple[str, ...] = ()


class PublishedTable(PublishedPart):
    """A printed table; an empty cell is None.

    Attributes:
        columns: Names of the columns, without that of the rows.
        rows: Cells of each row, in the order of `columns`.

    >>> PublishedTable(columns=("top1",), rows={"0.5": (94.81,)}).column("top1")
    {'0.5': 94.81}
    """

    columns: tuple[str, ...]
    rows: dict[str, tuple[PublishedCell, ...]]

    def row(self, name: str) -> dict[str, PublishedCell]:
        """Return the cells of a row by column."""
        return dict(zip(self.columns, self.rows[name], strict=True))

    def column(self, name: str) -> dict[str, PublishedCell]:
        """Return the cells of a column by row."""
        place = self.columns.index(name)
        return {row: cells[place] for row, cells in self.rows.items()}

    def numbers(self, name: str) -> dict[str, float]:
        """Return the cells of a row by column, empty ones as nan.

        Raises:
            ValueError: A cell holds text.
        """
        row = self.row(name)
        return {column: np.nan if cell is None else float(cell) for column, cell in row.items()}


class PruningSchedule(PublishedPart):
    """When masks are updated, in training steps."""

    method: str = "magnitude"
    begin_step: int
    end_step: int
    every_steps: int
    pruned_weights_keep_receiving_gradients: bool | None = None


class CieProtocol(PublishedPart):
    """How the models of the CIE paper were trained and compressed."""

    dataset: str
    model: str
    steps: int
    batch_size: int
    population: int
    subgroup_tables_population: int
    sparsity: tuple[float, ...]
    pruning: PruningSchedule
    quantization: tuple[str, ...]


class Cie(Paper):
    """Hooker et al. 2020, Characterising Bias in Compressed Models.

    Attributes:
        protocol: How the models were made.
        table1: Top-1 accuracy, percent, and number of modal CIEs by sparsity or int8 variant.
        table2: Top-1 accuracy, percent, on examples of a kind.
        table3: Normalized difference, percent, of a rate at 95% sparsity by group.
        table5: Rates of groups, percent, at the baseline and at 95% sparsity.
    """

    protocol: CieProtocol
    table1: PublishedTable
    table2: PublishedTable
    table3: PublishedTable
    table5: dict[Literal["baseline", "sparsity 0.95"], PublishedTable]


class PieTraining(PublishedPart):
    """How the models of one data set of the PIE paper were trained and pruned."""

    model: str
    steps: int
    pruning: PruningSchedule


class PieProtocol(PublishedPart):
    """How the models of the PIE paper were made and their classes tested."""

    population: int
    imagenet: PieTraining
    cifar10: PieTraining
    class_test: str


class Pie(Paper):
    """Hooker et al. 2019, Selective Brain Damage.

    Attributes:
        protocol: How the models were made.
        table1: Classes of ImageNet that pruning moved, by sparsity.
        table2: Accuracy, significant classes and PIEs on ImageNet, by sparsity.
        table3: The same on CIFAR-10.
        table4: Classes of CIFAR-10 that pruning moved, by sparsity.
        table5: Accuracy on ImageNet-C, a fraction of two decimals, and in percent of the accuracy
            on clean images; rows "CORRUPTION, SPARSITY", means over the five severities.
        human_study_questions: What annotators were asked of each image.
        human_study_protocol: How the images were drawn and shown.
        imagenet_c_corruptions: The corruptions of images that were tried.
    """

    protocol: PieProtocol
    table1: PublishedTable
    table2: PublishedTable
    table3: PublishedTable
    table4: PublishedTable
    table5: PublishedTable
    human_study_questions: tuple[str, ...]
    human_study_protocol: str
    imagenet_c_corruptions: tuple[str, ...]


class CommonCorruptions(Paper):
    """Hendrycks and Dietterich 2019, Benchmarking Neural Network Robustness.

    Attributes:
        alexnet: Error of AlexNet on ImageNet-C, a fraction, mean over the five severities, by
            corruption: what mCE divides by.
    """

    alexnet: PublishedTable


class Clarify(Paper):
    """The worked example of SageMaker Clarify on UCI Adult.

    Attributes:
        inputs: Rates of women and men that the metrics are computed from.
        metrics: The printed value of each metric.
    """

    inputs: PublishedTable
    metrics: dict[str, float]


class SlicedDataset(PublishedPart):
    """A table that slices were searched in."""

    records: int
    numerical: int
    categorical: int
    model: str


class SearchDefaults(PublishedPart):
    """The settings of the search."""

    max_cross_size: int
    min_slice_size: int
    alpha: float
    bootstrap_replicates: int
    max_categories: int
    numeric_bins: str
    priority_iterations: int


class AutoSlicer(Paper):
    """Liu et al. 2022, AutoSlicer.

    Attributes:
        defaults: The settings of the search.
        datasets: The tables that were searched.
        table1: Slices, seconds and bytes of each way of searching, by table.
        table3: The same under four budgets: 10, 20, 40 and 60% of the space in five iterations, or
            2,500 to 20,000 candidates an iteration where batch did not end.
    """

    defaults: SearchDefaults
    datasets: dict[str, SlicedDataset]
    table1: dict[str, PublishedTable]
    table3: dict[str, PublishedTable]


class RunningExample(PublishedPart):
    """Counts of true (rows) by predicted (columns) labels of two groups, and their metrics."""

    columns: tuple[str, str]
    female: dict[str, tuple[int, int]]
    male: dict[str, tuple[int, int]]
    metrics_percent: dict[str, float]


class FairnessProtocol(PublishedPart):
    """How many runs were compared, by which tests."""

    runs: int
    tests: dict[str, str]


class PublishedTest(PublishedPart):
    """The printed comparison of one technique with its baseline in one metric.

    Attributes:
        technique: Its name.
        base: Name of the baseline.
        metric: The bias metric.
        base_mean: Mean bias of the baseline's runs, in [0, 1].
        technique_mean: Mean bias of the technique's runs.
        u_p: P-value of the one-sided Mann-Whitney U test.
        u_sig: `+`, `-` or `NS`: where the mean moved.
        abs_cohen_d: Size of the effect; None where none is printed.
        base_normvar: Variance of the baseline's runs over their mean.
        technique_normvar: The same of the technique.
        levene_p: P-value of Levene's test of both variances.
        levene_sig: `+`, `-` or `NS`: where the variance moved.
    """

    technique: str
    base: str
    metric: str
    base_mean: float
    technique_mean: float
    u_p: float
    u_sig: str
    abs_cohen_d: float | None
    base_normvar: float
    technique_normvar: float
    levene_p: float
    levene_sig: str


class FairnessVariance(Paper):
    """Qian et al. 2021, Are My Deep Learning Systems Fair?

    Attributes:
        running_example: The example that the metrics are explained by.
        protocol: Runs and tests.
        techniques: What each technique is.
        deterministic_mode_training_overhead_percent: How much longer training takes.
        table2: Spread of each metric, percentage points, by technique.
        table4: Spread of DI, percentage points, by technique.
        costs: Finding 4: pairs of technique and metric that lower bias, and what that costs.
        totals: How many of the 154 pairs are lower, higher, undecided, and what the lower cost.
        aims: Task to the metrics that its techniques aim at: `*` the first, `o` another.
        tests: Each technique against its baseline, in each metric.
        definitions: How the artefact computes what is printed.
    """

    running_example: RunningExample
    protocol: FairnessProtocol
    techniques: dict[str, str]
    deterministic_mode_training_overhead_percent: dict[str, float]
    table2: dict[str, PublishedTable]
    table4: PublishedTable
    costs: PublishedTable
    totals: dict[str, int]
    aims: dict[str, dict[str, str]]
    tests: tuple[PublishedTest, ...]
    definitions: dict[str, str]


class PublishedFairnessRuns(Paper):
    """The runs behind the fairness-variance study.

    Attributes:
        accuracy: Accuracy of each run, by technique.
        bias: Bias of each class and their mean in each run, by `TECHNIQUE|METRIC`.
    """

    accuracy: dict[str, tuple[float, ...]]
    bias: dict[str, tuple[tuple[float, ...], ...]]

    def values(self, technique: str, metric: str) -> NDArray[np.float64]:
        """Return the bias of each class, and last their mean, shape (runs, C + 1), in [0, 1]."""
        return np.array(self.bias[f"{technique}|{metric}"])

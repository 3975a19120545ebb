from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def paired_verdict(
    original: dsl.Input[dsl.Dataset],
    compressed: dsl.Input[dsl.Dataset],
    audit: dsl.Output[dsl.Artifact],
    page: dsl.Output[dsl.HTML],
    summary: dsl.Output[dsl.Markdown],
    metrics: dsl.Output[dsl.Metrics],
    options: str = "",
) -> str:
    """Judge whether compression harms a model, from the answers of two models.

    Args:
        original: Evaluation logs of the original model, or a table of its answers.
        compressed: Those of the compressed model.
        options: Options of `scotoma compare`, such as `--group sex,age --margin 0.02`.

    Returns:
        Output: PASS, UNSURE or FAIL.
        audit: Folder with every number of the audit.
        page: The report, as Kubeflow shows it.
        summary: The verdict in words, as Kubeflow shows it.
        metrics: Numbers by which Kubeflow compares runs.
    """
    from scotoma.steps.kubeflow.paired import judge_artifacts

    return judge_artifacts(
        {"original": original.path, "compressed": compressed.path},
        audit.path,
        options,
        shown={"report.html": page.path, "summary.md": summary.path},
        metrics=metrics.metadata,
    )

from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def write_report(
    run_uri: str,
    divergence: dsl.Input[dsl.Dataset],
    bias: dsl.Input[dsl.Artifact],
    report: dsl.Output[dsl.Artifact],
) -> None:
    """Write audit.json and the report page.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        divergence: Where the divergence scores are.
        bias: Where the tables of classes and groups are.

    Returns:
        report: Where they are.
    """
    from scotoma.stages import execute

    execute(
        "report",
        run_uri,
        report.path,
        after=[divergence.path, bias.path],
    )

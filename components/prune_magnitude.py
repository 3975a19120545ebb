from kfp import dsl

from scotoma.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def prune_magnitude(
    run_uri: str,
    shard: str,
    examples: dsl.Input[dsl.Dataset],
    dense: dsl.Input[dsl.Model],
    pruned: dsl.Output[dsl.Model],
) -> None:
    """Train the magnitude-pruned members of a shard, every sparsity of the configuration.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        shard: Members to take, as INDEX:FIRST-LAST.
        examples: Where the examples are.
        dense: Where the dense members of the shard are.

    Returns:
        pruned: Where they are.
    """
    from scotoma.steps.runner import execute

    execute(
        "prune",
        run_uri,
        pruned.path,
        after=[examples.path, dense.path],
        shard=shard,
    )

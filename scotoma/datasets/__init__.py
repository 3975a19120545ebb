"""Where examples come from, one module a kind of source."""

from __future__ import annotations

from scotoma.config import Config, DigitsSource
from scotoma.datasets.examples import Examples, Partition, decode_images, examples_from_source

__all__ = ["Examples", "Partition", "decode_images", "load_examples"]


def load_examples(config: Config) -> Examples:
    """The examples that a configuration names.

    Args:
        config: Source, label, groups and cluster.

    Returns:
        Both splits, images encoded.

    Raises:
        DataError: The source cannot be read or does not hold what the configuration names.
    """
    if isinstance(config.source, DigitsSource):
        from scotoma.datasets.digits import load_digits_s

        return examples_from_source(load_digits_s(config.source), config, "digits-s")
    from scotoma.datasets.folder import load_folder

    return examples_from_source(load_folder(config.source), config, config.source.attributes)

from scotoma.components.import_models.component import import_models

__all__ = ["import_models"]

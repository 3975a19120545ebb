from scotoma.components.find_slices.component import find_slices

__all__ = ["find_slices"]

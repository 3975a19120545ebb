"""What compression after training makes of a member: ONNX export, then fewer bits a weight.

One graph is exported for an architecture, with batch normalisation folded into the convolutions;
each member's folded weights are put into a copy of it. ONNX Runtime's quantizers do the rest.
"""

from __future__ import annotations

from scotoma.quantization.compressing import compress
from scotoma.quantization.graphs import INPUT, Export, Folding, export_graph, fold, put_weights
from scotoma.quantization.static import StaticPlan, plan_static
from scotoma.quantization.untouched import Untouched, untouched_layers

__all__ = [
    "INPUT",
    "Export",
    "Folding",
    "StaticPlan",
    "Untouched",
    "compress",
    "export_graph",
    "fold",
    "plan_static",
    "put_weights",
    "untouched_layers",
]

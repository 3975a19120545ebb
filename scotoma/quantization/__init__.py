"""What compression after training makes of a member: ONNX export, then fewer bits a weight.

One graph is exported for an architecture, with batch normalisation folded into the convolutions;
each member's folded weights are put into a copy of it. ONNX Runtime's quantizers do the rest.
Nothing is imported here: graphs are filled and run where torch, seconds to import, is not needed.
"""

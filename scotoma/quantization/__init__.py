"""How are members compressed after training? ONNX export, then fewer bits a weight.

One graph is exported for an architecture, with batch normalisation folded into the convolutions;
each member's folded weights are put into a copy of it. ONNX Runtime's quantizers do the rest.
Nothing is imported here: graphs are filled and run without torch, which takes seconds to import.
"""

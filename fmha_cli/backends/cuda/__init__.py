"""NVIDIA devices through cuda-python: what every CUDA backend shares."""

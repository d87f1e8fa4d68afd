"""Code that all CUDA backends share. It drives NVIDIA devices through cuda-python."""

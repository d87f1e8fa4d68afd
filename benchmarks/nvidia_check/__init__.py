"""The NVIDIA part of ``gpu_check.py``: cases, random problems, speed against PyTorch, the sanitizer, and its budget."""

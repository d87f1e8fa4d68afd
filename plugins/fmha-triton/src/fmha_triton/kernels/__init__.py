"""Kernels in Triton's language, as texts: ``emit`` reads these files, and only the child that compiles imports them."""

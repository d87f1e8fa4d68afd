"""AITER's assembly kernels as data: which there are, and the arguments that they take."""

"""A replacement for the HIP runtime: one text of the host API, and a sink that decides the effect of each launch."""

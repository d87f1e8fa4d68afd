"""A replacement for the HIP runtime: one text of the host API, and a sink that decides what each launch does."""

"""A HIP runtime of our own: one text of the host API, and a sink behind it that decides what a launch comes to."""

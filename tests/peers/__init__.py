"""The oracle against implementations that nobody here wrote (extra ``peers``)."""

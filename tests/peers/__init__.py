"""The oracle against implementations from outside this project (extra ``peers``)."""

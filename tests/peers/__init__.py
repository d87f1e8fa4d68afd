"""The oracle compared with implementations from outside this project (extra ``peers``)."""

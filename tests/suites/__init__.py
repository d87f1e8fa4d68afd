"""Attention tests of other projects, replayed on the CPU kernels through shims (slow; their files are never part of this repository)."""

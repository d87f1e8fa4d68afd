"""``fmha``: one command line for every fused multi-head-attention kernel."""

__version__ = "0.1.0"

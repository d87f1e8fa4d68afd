"""Composable Kernel's example programs, for ``fmha parity``: their options, their output and their build."""

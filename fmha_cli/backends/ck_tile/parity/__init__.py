"""Composable Kernel's example programs, for ``fmha parity``: what they are asked, what they say, how they are built."""

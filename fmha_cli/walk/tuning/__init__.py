"""The walk of ``fmha tune``, and the choice among its remembered kernels."""

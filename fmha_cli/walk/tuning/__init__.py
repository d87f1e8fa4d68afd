"""The walk of ``fmha tune``, and the choice of what it remembered."""

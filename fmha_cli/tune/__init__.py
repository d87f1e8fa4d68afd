"""``fmha tune``: candidates, sampling, confirmation in fresh processes, and what an interrupted search goes on from."""

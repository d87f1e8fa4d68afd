"""One run: problems -> selection -> plan -> build -> worker -> verdict -> records, as events (``run.Run``).

``run``, ``validate`` and ``bench`` differ in the last step alone.
"""

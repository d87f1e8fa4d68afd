"""The walk: problems -> selection -> plan -> build -> worker -> comparison -> records.

``run``, ``validate`` and ``bench`` are the same walk with a different last step.
"""

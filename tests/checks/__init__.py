"""Checks that take longer than a test may, or whose results are a page: ``python -m tests.checks NAME``.

A check is a module that lists its cases, says how to run one, and summarises the rows. ``runner.py`` does the rest for
all of them.
"""

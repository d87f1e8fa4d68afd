"""Helpers that tests need: each folder holds one kind, and all of them use the files here.

``models``: numpy models of kernels and machines. ``generators``: problems, records and files that tests draw. ``referees``: independent
answers, by formulas or by upstream's own code. ``fakes``: stand-ins for backends, drivers and plugins. ``builds``:
helpers that really compile. ``children``: programs that run in a process started by a test. ``fixtures``: fixtures of
pytest. ``golden``: reviewed texts.
"""

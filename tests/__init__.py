"""Tests of the command line and its rooms; what they need that is not a test stands in :mod:`tests.support`.

Each folder is a package named after the room that it tests. The tests of a plugin are a package as well, whose name is the plugin's with
``_tests`` (``fmha_triton_tests``), so that no two packages have one name. A plugin with a single test file has it in ``tests/``.
"""

"""Fixtures that run the command line in this process, as the tests of ``cli`` do."""

from tests.cli.conftest import fmha, home

__all__ = ["fmha", "home"]

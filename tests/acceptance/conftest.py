"""The command line in this process, as the tests of ``cli`` call it."""

from cli.conftest import fmha, home

__all__ = ["fmha", "home"]

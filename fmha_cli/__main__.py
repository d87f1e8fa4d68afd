"""``python -m fmha_cli``."""

from fmha_cli.cli.app import main

main()

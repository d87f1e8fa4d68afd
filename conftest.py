"""For every test of the repository and of its plugins: no command writes into the store of results of whoever runs them."""

from __future__ import annotations

import os

os.environ["FMHA_NO_STORE"] = "1"
os.environ.pop("FMHA_STORE", None)

"""Threads of numpy's matrix products, which the process chooses before numpy is imported.

The reference multiplies blocks of a few hundred rows. The threads of OpenBLAS wait for each other in busy loops around every
such product: on two cores that are also used by others, the reference of 8 heads of 4096 rows took 18 CPU seconds with two
threads, and 5 with one. So a product gets one thread, and the blocks are spread over threads instead (``oracle.reference``).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

VARIABLE = "OPENBLAS_NUM_THREADS"
"""OpenBLAS reads it when numpy loads it."""

_CHOSEN_HERE = "01"
"""OpenBLAS reads it as 1. A user would not write it so: a variable of the user's goes to the worker, this one does not."""


def use_one_thread(environ: MutableMapping[str, str]) -> None:
    """One thread for each product of this process, unless the user has set a number."""
    environ.setdefault(VARIABLE, _CHOSEN_HERE)


def uses_one_thread(environ: Mapping[str, str]) -> bool:
    """Whether a product uses one thread, so several of them can run at once."""
    return environ.get(VARIABLE, "").strip() in ("1", _CHOSEN_HERE)


def as_the_user_set_it(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for kernels, which choose their own threads: without the settings of ``use_one_thread``."""
    return {name: value for name, value in environ.items() if (name, value) != (VARIABLE, _CHOSEN_HERE)}

"""cuda-python's bindings of the driver, imported on demand. They import even where there is no driver."""

from __future__ import annotations

import importlib
from typing import Any

from fmha_cli.domain.errors import EnvironmentProblem

_BINDINGS = "cuda.bindings.driver"


def open_bindings() -> Any:
    """The module ``cuda.bindings.driver``.

    Raises:
        EnvironmentProblem: N003, cuda-python is not installed or does not import.
    """
    try:
        return importlib.import_module(_BINDINGS)
    except (ImportError, RuntimeError) as fault:
        absent = isinstance(fault, ModuleNotFoundError)
        raise EnvironmentProblem(
            "cuda-python is not installed" if absent else "cuda-python does not import",
            code="N003",
            where="cuda-python",
            why=str(fault),
            help="pip install 'fmha[cuda]'",
        ) from fault

"""``own``: a method of an upstream that is a function of another module.

The module is imported on first use of the method, so listing kernels loads neither numpy nor the rules about problems.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Own:
    """A method that is a function of another module, without ``self``. See :func:`own`."""

    def __init__(self, module: str, name: str | None) -> None:
        self._module, self._name = module, name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self  # read by the class itself, to see whether it is abstract
        return getattr(import_module(self._module, getattr(owner, "package", None)), self._name or "")


def own(module: str, name: str | None = None) -> Any:
    """A method that is a function of another module.

    Args:
        module: ``.module`` of ``Upstream.package``, or a module by its full name.
        name: the function's, if it is not the method's.
    """
    return Own(module, name)

"""``PackagedUpstream``: an ``Upstream`` whose methods are functions of modules with fixed names.

Modules are imported when a method is asked for, so listing kernels loads neither numpy nor the rules about problems.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.domain.rules import Rule


class Own:
    """A method that is a function of another module, without ``self``. See :func:`own`."""

    def __init__(self, module: str, name: str | None) -> None:
        self._module, self._name = module, name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self  # asked for by the class itself, to see whether it is abstract
        return getattr(import_module(self._module, getattr(owner, "package", None)), self._name or "")


def own(module: str, name: str | None = None) -> Any:
    """A method that is a function of another module.

    Args:
        module: ``.module`` of ``Upstream.package``, or a module by its full name.
        name: the function's, if it is not the method's.
    """
    return Own(module, name)


class PackagedUpstream(Upstream):
    """The methods of ``Upstream`` by the modules of the derived class's package. A derived class may name other places, and
    adds what is optional in the same way. ``emit`` and ``template`` are elsewhere. The folders of shims are in ``src`` of the
    package in ``codegen`` that has the same name.
    """

    kernels = own(".catalogue")
    refusals = own(".kernel_rules")
    situation_of = own(".situation")
    decide = own(".decide")
    plan_of = own(".plan")
    params_of = own(".arguments")
    launch_of = own(".arguments")
    expected = own(".arguments")
    _kernel_rules = own(".kernel_rules", "KERNEL_RULES")
    _problem_rules = own(".problem_rules", "RULES")

    def shim_folder(self, name: str) -> Path:
        from fmha_cli.codegen.cuda.shared import shim_folder

        return shim_folder(name, self.package.replace(".backends.", ".codegen."))

    def rules(self) -> tuple[Rule, ...]:
        return (*self._problem_rules, *self._kernel_rules)

"""The CK-Tile backend's choice without its device: just enough to find the kernels that a case needs."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from fmha_cli.backends.ck_tile.decide import decide
from fmha_cli.backends.ck_tile.plan import plan_of
from fmha_cli.backends.ck_tile.upstream_names import upstream_name
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from tests.support.fakes.paper_backends import PaperBackend, checked


class Choice(PaperBackend):
    """Decides, plans and names kernels like the backend; builds and runs nothing."""

    def __init__(self) -> None:
        super().__init__("ck_tile", ("gfx90a", "gfx942", "gfx950", "gfx1201"))

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:  # type: ignore[override]
        return decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return plan_of(problem, kernel, device)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return upstream_name(kernel)


def choosing_registry() -> Registry:
    class Module:
        @hookimpl
        def fmha_register_backends(self) -> list[Any]:
            return [checked(Choice())]

    entry = SimpleNamespace(name="choice", value="choice", dist=None, load=Module)
    return Registry({}, lambda: [entry])  # type: ignore[list-item]

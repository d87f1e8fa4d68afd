"""``Subject``: the backend under test, in its own registry, and the problems to put to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fmha_cli.conformance.problems import all_problems
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend


@dataclass(frozen=True)
class Subject:
    """The backend under test.

    Attributes:
        entry: where the worker finds it: ``module`` or ``module:attribute``.
        cache_root: a private folder for built kernels (created with mode 0700).
        seed: seed of the drawn problems.
        dropout_streams: what the plugin's ``fmha_register_dropout_streams`` returns.
        arch_specs: what the plugin's ``fmha_register_arch_specs`` returns.
        beside: modules of further plugins to register, such as the emulator that executes its kernels.
    """

    backend: Backend
    entry: str
    cache_root: Path
    seed: int = 0
    dropout_streams: Mapping[str, Any] = field(default_factory=dict)
    arch_specs: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @cached_property
    def registry(self) -> Registry:
        """A registry with this backend, the further plugins, and nothing else."""
        module = SimpleNamespace(
            fmha_register_backends=hookimpl(lambda: [self.backend]),
            fmha_register_dropout_streams=hookimpl(lambda: self.dropout_streams),
            fmha_register_arch_specs=hookimpl(lambda: self.arch_specs),
        )
        plugin = SimpleNamespace(name="subject", value=self.entry, dist=None, load=lambda: module)
        others = [EntryPoint(name, name, "fmha") for name in self.beside]
        return Registry({}, lambda: [cast(Any, plugin), *others])

    @cached_property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """Its devices on this machine, or an invented one for each of its architectures."""
        found = self.backend.probe() if self.backend.probes_in_parent else None
        made_up = tuple(DeviceFacts.of_arch(arch) for arch in self.backend.archs())
        return found.devices if found is not None and found.devices else made_up

    def problems(self) -> Iterator[Problem]:
        """Small problems of every kind, the same for the same seed."""
        return all_problems(self.seed)

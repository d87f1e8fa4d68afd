"""The scope of a tuned kernel, as it is now on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fmha_cli import __version__
from fmha_cli.bench.roofline import CacheState
from fmha_cli.bench.scope import Scope, joined_versions, source_digest
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Choice
from fmha_cli.domain.device import CPU, Availability
from fmha_cli.domain.encode import SCHEMA_VERSION
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext, Keyed
from fmha_cli.run.host import Host
from fmha_cli.toolchain.cache.key import BuildKey


@dataclass(frozen=True, kw_only=True)
class Scopes:
    """The common part of all scopes of an invocation."""

    registry: Registry
    found: Mapping[str, Availability]
    building: BuildContext
    host: Host
    threads: int

    def of(self, problem: Problem, choices: Sequence[Choice], cache: CacheState) -> Scope:
        """The scope of a choice among kernels of one backend and device; the first names them.

        A backend that cannot tell the key of a build identifies its kernels by its version and their names.
        """
        device, backend = choices[0].device, self.registry.backend(choices[0].kernel.backend)
        version = self.found[backend.name].version if backend.name in self.found else None
        own = () if device.id == CPU else tuple(f"{name} {text}" for name, text in sorted(self.host.drivers.items()))
        keys = [key for choice in choices for key in self._keys(problem, choice)]
        return Scope(
            device=joined_versions(device.name, self.host.processor.text if device.id == CPU else None),
            units=device.units,
            driver=joined_versions(backend.name, version, *own),
            compiler=joined_versions(
                *dict.fromkeys(key.toolchain_version for key in keys if isinstance(key, BuildKey))
            ),
            source=source_digest([_content(key) for key in keys]),
            codegen=f"fmha {__version__}, encoding {SCHEMA_VERSION}",
            threads=self.threads if device.id == CPU else 0,
            cache=cache.value,
        )

    def _keys(self, problem: Problem, choice: Choice) -> list[BuildKey | str]:
        """The key of every stage's build, or its placeholder: the kernel's name, or why there is none."""
        backend = self.registry.backend(choice.kernel.backend)
        plan = backend.plan(problem, choice.kernel, choice.device)
        if not isinstance(backend, Keyed):
            return [stage.kernel.name for stage in plan.stages]
        out: list[BuildKey | str] = []
        for stage in plan.stages:
            try:
                key = backend.cache_key(stage, self.building)
            except FmhaError as fault:
                key = f"no key: {fault.what}"
            out.append(key if isinstance(key, BuildKey) else str(key))
        return out


def _content(key: BuildKey | str) -> object:
    """The key's members about the source; the compiler has its own members."""
    if isinstance(key, str):
        return key
    return [key.spec.source_sha256, list(key.flags), key.headers_digest]

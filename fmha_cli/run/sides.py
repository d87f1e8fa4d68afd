"""A kernel and the tree of sources that it is built from: ``K@DIR``, and the builds of a walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.installation import Sourced
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext


@dataclass(frozen=True)
class NamedKernel:
    """A kernel as the user names it, and the user's tree of its sources; without one, it is built from the sources that
    the options or ``fmha`` choose.
    """

    kernel: str
    home: str | None = None

    @staticmethod
    def parse(text: str, where: str) -> NamedKernel:
        """The side of ``K`` or ``K@DIR``. No name of a kernel holds an ``@``, but a folder may.

        Raises:
            UsageError: E002, a part is missing.
        """
        kernel, at, home = text.partition("@")
        if not kernel or (at and not home):
            help = "K@DIR: a kernel, and the tree of sources to build it from"
            raise UsageError(f"{where} {text}: a part is missing", code="E002", where=where, help=help)
        return NamedKernel(kernel, home or None)


@dataclass(frozen=True)
class Order:
    """One kernel to build, from the tree ``home`` if there is one."""

    stage: Stage
    home: str | None = None

    @property
    def key(self) -> str:
        """Its name among the kernels of a walk: the digest, or ``DIGEST@DIR``."""
        return self.stage.kernel.digest if self.home is None else f"{self.stage.kernel.digest}@{self.home}"


def home_option(registry: Registry, backend: str, home: str, where: str) -> str:
    """The option of a backend that names the user's tree.

    Raises:
        UsageError: E016, its sources cannot be replaced.
    """
    found = registry.backend(backend)
    option = found.home_option if isinstance(found, Sourced) else None
    if option is None:
        named = [b.name for b in registry.backends.values() if isinstance(b, Sourced) and b.home_option]
        raise UsageError(
            f"{where} K@{home}: {backend} builds from no sources that could be replaced",
            code="E016",
            where=where,
            help=f"backends whose sources can be: {', '.join(named) or 'none'}",
        )
    return option


def options_at(
    registry: Registry, options: Mapping[str, str], backend: str, home: str | None, where: str = "--ab"
) -> dict[str, str]:
    """The options of a build, with the tree of one side in place of the one for all.

    Raises:
        UsageError: as :func:`home_option`.
    """
    return dict(options) if home is None else {**options, home_option(registry, backend, home, where): home}


def context_at(
    registry: Registry, context: BuildContext, backend: str, home: str | None, where: str = "--ab"
) -> BuildContext:
    """The context in which the kernels of one side are built. Raises as :func:`options_at`."""
    return replace(context, options=options_at(registry, context.options, backend, home, where))

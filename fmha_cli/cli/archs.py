"""``fmha archs``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.builtins import revision_option
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import EmptySelection
from fmha_cli.domain.protocols import Catalogued
from fmha_cli.report.documents.installation import (
    archs_document,
)
from fmha_cli.report.form import Format


def archs(call: CliCall) -> None:
    """Every architecture, or one, with its facts."""
    name = call.argument("arch")
    names = call.registry.arch_names() if name is None else (call.registry.arch(name).name,)
    call.output.document(archs_document(call.registry.arch(n) for n in names))
    if call.output.form is Format.TABLE:
        for line in _later_revisions(call.registry, names):
            call.console.say(line)


def _later_revisions(registry: Registry, names: Sequence[str]) -> Iterator[str]:
    """For each backend, the architectures for which only a revision that is not its default has kernels."""
    for backend in registry.backends.values():
        option = revision_option(backend.name)
        if option is None or not isinstance(backend, Catalogued):
            continue
        found: dict[str, list[str]] = {}
        for arch in map(registry.arch, (name for name in names if name in backend.archs())):
            for revision in backend.revisions():
                with suppress(EmptySelection):
                    if any(True for _ in backend.catalogue(arch, None, revision)):
                        found.setdefault(revision, []).append(arch.name)
                        break
        for revision in backend.revisions()[1:]:
            if revision in found:
                yield f"{', '.join(found[revision])}: {backend.name} has no kernels by default, and some with --{option.name} {revision}"

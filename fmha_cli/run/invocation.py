"""The identity of an invocation: everything except its rows that could change a verdict or a time, by readable names.

A journal of another invocation must not be resumed, because its finished rows would answer another question. A member of
``Request`` is therefore part of the identity unless ``_APART`` lists it with a reason.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli.discovery.plugins import Plugin
from fmha_cli.discovery.registry import BUILTINS, Registry
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.device import Availability
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.reading import regular_bytes
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.input_files import InputFiles
from fmha_cli.run.origin import Host
from fmha_cli.run.records import budget_text
from fmha_cli.run.request import Context, Request
from fmha_cli.run.rows import Row

_APART: Mapping[str, str] = {
    "argv": "the problems are in the rows, and -o changes no row",
    "files": "told with their contents",
    "options": "told one by one",
    "threads": "told as the number that is used",
    "journal": "where the journal is",
    "resume": "where the journal is",
    "jobs": "compilers at once",
    "offline": "a build that it prevents is told as one that failed",
    "dry_run": "nothing runs",
    "cache_root": "the keys of the builds are told",
}
"""Members of ``Request`` that are not parts as they are, each with the reason."""

_FLAGS: Mapping[str, str] = {
    "command": "the command",
    "fills": "--fill",
    "check": "--check",
    "probe": "--probe",
    "flops_dense": "--flops dense",
    "budget_s": "--budget",
    "max_time_s": "--max-time",
    "oracle_s": "--check-budget",
    "emu_checks": "--emu-checks",
}
"""Members whose option has another name."""


def parts_of(
    rows: Sequence[Row], context: Context, files: InputFiles, found: Mapping[str, Availability], host: Host
) -> dict[str, str]:
    """The parts by their names for people; a value that begins with ``sha256:`` is a digest.

    Args:
        files: the tensors that were read.
        found: the answers of the backends' probes.
    """
    request = context.request
    parts = dict(_options(request))
    parts["--threads"] = str(context.threads)
    parts |= {f"--{name}": text for name, text in request.options.items()}
    parts |= {f"--{flag.replace('_', '-')}": spec for flag, spec in request.files.items()}
    specs = list(files.paths.values())
    for tensor, array in files.arrays.items():
        spec = files.paths.get(tensor, f"tensor {tensor}")
        parts[spec if specs.count(spec) < 2 else f"{spec} ({tensor})"] = array_digest(array)
    if request.baseline is not None:
        parts[f"the content of {request.baseline}"] = _sha256(regular_bytes(Path(request.baseline)))
    choices = [row.choice for row in rows if row.choice is not None]
    for choice in choices:
        device, backend, arch = choice.device, choice.kernel.backend, choice.kernel.arch
        facts = f"{device.name or 'unnamed'}, {'/'.join(device.archs)}, {device.units} units"
        parts[f"device {device.id} of {backend}"] = facts  # each backend describes a device in its own words
        parts[f"backend {backend}"] = (found[backend].version if backend in found else None) or "without a version"
        if f"architecture {arch}" not in parts and arch in context.registry.arch_names():
            parts[f"architecture {arch}"] = f"sha256:{digest_of(to_json(context.registry.arch(arch)))}"
    for plugin in plugins_in_use(context.registry, {c.kernel.backend for c in choices}, request.fills):
        if plugin.name not in BUILTINS:
            parts[f"plugin {plugin.name}"] = plugin.version or "without a version"
            parts[f"the source of plugin {plugin.name}"] = _sha256(sources_of(plugin))
    if context.emulation is not None:
        parts["the emulator"] = context.emulation.name
        parts["the emulator's library"] = f"sha256:{context.emulation.library.sha256}"
    return {**parts, "the machine": host.text, "the machine's drivers and compilers": f"sha256:{host.digest}"}


def _options(request: Request) -> Iterator[tuple[str, str]]:
    for field in fields(request):
        if field.name not in _APART:
            name = _FLAGS.get(field.name, f"--{field.name.replace('_', '-')}")
            value = getattr(request, field.name)
            yield name, budget_text(value) if field.name == "oracle_s" else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "unset" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def array_digest(array: Array) -> str:
    """``sha256:`` and the digest of an array's element type, shape and bytes."""
    digest = hashlib.sha256(f"{array.dtype} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return f"sha256:{digest.hexdigest()}"


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


_COMPILED = ("__pycache__", ".pyc")


def plugins_in_use(registry: Registry, backends: Collection[str], fills: Collection[str]) -> list[Plugin]:
    """The plugins that provide a backend or a fill of this run."""
    entries = {registry.entry_point(name) for name in backends}
    custom = set(fills) & set(registry.fills)
    return [
        plugin
        for plugin in registry.plugins
        if plugin.value in entries or (custom and custom & set(registry.brought_by(plugin)["fills"]))
    ]


def sources_of(plugin: Plugin) -> bytes:
    """A listing of a plugin's files with their digests: its module, or the whole package that the entry point names.

    An author who edits a kernel of a plugin seldom changes the version, and the cache knows no key for kernels that a
    plugin keeps in Python. Files outside the package are not covered.
    """
    module = sys.modules.get(plugin.value.partition(":")[0])
    place = getattr(module, "__file__", None)
    if module is None or place is None:
        return b""
    folder = Path(place).parent
    files = sorted(folder.rglob("*")) if hasattr(module, "__path__") else [Path(place)]
    return "".join(_lines(folder, files)).encode()


def _lines(folder: Path, files: Iterable[Path]) -> Iterable[str]:
    for path in files:
        if path.is_file() and not any(mark in str(path.relative_to(folder)) for mark in _COMPILED):
            yield f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"

"""The stable names for Python users: six verbs, and what their results consist of. Plugins import ``fmha_cli.plugin`` too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.domain.arch import arch_of
from fmha_cli.domain.arguments import in_python
from fmha_cli.domain.decision import Decision, Supported, Trace, Unsupported
from fmha_cli.domain.errors import EnvironmentProblem, FmhaError, KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.phases import Tell, silent
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.logged import logged_voice
from fmha_cli.run.probing import probe_backends

if TYPE_CHECKING:
    from fmha_cli.report.record import Record
    from fmha_cli.run.attention import Attention
    from fmha_cli.run.session import AttentionSession

_LATE = {
    "Attention": "fmha_cli.run.attention",
    "AttentionSession": "fmha_cli.run.session",
    "Record": "fmha_cli.report.record",
}


def __getattr__(name: str) -> Any:
    """Import the classes of results on first use; only type annotations need them.

    Raises:
        ImportError: the name is one of ``fmha_cli.plugin``, which the message names.
        AttributeError: there is no such name.
    """
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    if not name.startswith("_") and name in import_module("fmha_cli.plugin").__all__:
        raise ImportError(f"fmha_cli.api has no {name}: plugins import fmha_cli.plugin.{name}", name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(
    *problems: Problem,
    tensors: Mapping[str, object] | None = None,
    files: Mapping[str, object] | None = None,
    registry: Registry | None = None,
    phase: Tell = silent,
    **options: Any,
) -> tuple[Record, ...]:
    """``fmha run`` (or, with ``command=``, ``validate`` or ``bench``): one record for every row.

    Args:
        tensors: the problems' tensors by name, where not all of them are generated: arrays, names of files, or
            ``"filled"`` for one to generate, as in ``fmha_cli.run.attention.attention``.
        files: likewise; tensors may also go by the names of their flags.
        phase: called during long work as phase(what, done, total), from any thread.
        options: further fields of ``fmha_cli.run.request.Request``: backend, arch, device, kernel, out, fills, fill_seed,
            check, threads, timeout, all_kernels ...

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: before anything runs.
        KeyboardInterrupt: the user interrupted.
    """
    from fmha_cli.run.given_arrays import given_tensors, merged, request_with
    from fmha_cli.run.run import Run

    try:
        given, texts = given_tensors(merged(tensors or {}, files or {}))
        request = request_with(options, texts)
        return Run(problems, request, registry or build_registry(), given=given, voice=logged_voice(phase)).records()
    except UsageError as fault:
        in_python(fault)
        raise


def attention(q: object, k: object, v: object = None, **options: Any) -> Attention:
    """Fused attention on arrays by the kernel that ``fmha run`` would choose, with its record.

    ``api.attention(q, k, v, causal=True).o``; all arguments are those of ``fmha_cli.run.attention.attention``.

    Raises:
        UsageError, UnsupportedError, EnvironmentProblem, KernelFailure: see there.
    """
    from fmha_cli.run.attention import attention as on_arrays

    return on_arrays(q, k, v, **options)


def session(problem: Problem | None = None, **options: Any) -> AttentionSession:
    """Fused attention again and again by one kernel: ``with api.session(causal=True) as s: o = s(q, k, v)["o"]``.

    All arguments are those of ``fmha_cli.run.session.open_session``.

    Raises:
        UsageError, EnvironmentProblem: see there.
    """
    from fmha_cli.run.session import open_session

    return open_session(problem, **options)


def explain(
    problem: Problem,
    *,
    registry: Registry | None = None,
    backend: str = "auto",
    arch: str | None = None,
    device: str | None = None,
    kernel: str | None = None,
) -> Trace:
    """``fmha explain``: every candidate kernel with Supported or all its Reasons.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: an unknown or absent backend, device or kernel.
    """
    registry = registry or build_registry()
    wanted = Wanted(backend=backend, arch=arch and arch_of(arch), device=device, kernel=kernel)
    found = probe_backends(registry, wanted_backends(registry, wanted), device=device)
    return select(problem, registry, found, wanted).trace


def list_kernels(arch: str, *, backend: str = "auto", registry: Registry | None = None) -> Iterator[KernelSpec]:
    """``fmha list-kernels``: every kernel that exists for an architecture; needs no device and no compiler.

    Raises:
        UsageError: no such architecture or backend.
    """
    registry = registry or build_registry()
    spec = registry.arch(arch)
    for one in wanted_backends(registry, Wanted(backend=backend)):
        if spec.name in one.archs():
            yield from one.kernels(spec)


__all__ = [
    "Attention",
    "AttentionSession",
    "Decision",
    "EnvironmentProblem",
    "FmhaError",
    "KernelFailure",
    "KernelSpec",
    "Problem",
    "Reason",
    "Record",
    "Registry",
    "Supported",
    "Trace",
    "Unsupported",
    "UnsupportedError",
    "UsageError",
    "Verdict",
    "attention",
    "build_registry",
    "explain",
    "list_kernels",
    "run",
    "session",
]

"""``fmha inspect KERNEL``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import ARCH, BACKEND, CACHE_DIR, OFFLINE, ROWS


def inspect(call: Call) -> int:
    """What the built kernel needs; it is built when it is not in the cache."""
    from fmha_cli.cli.request import request_of
    from fmha_cli.plan import Stage
    from fmha_cli.report.document import inspect_document
    from fmha_cli.select import find_kernel, wanted_backends
    from fmha_cli.walk.builds import build_context

    registry, request = call.registry, request_of(call)
    if request.arch is not None:
        registry.arch(request.arch)
    backends = wanted_backends(registry, request.wanted)
    if request.backend == "auto":
        backends = tuple(registry.backends.values())
    archs = [request.arch] if request.arch else [a for backend in backends for a in backend.archs()]
    kernel = find_kernel(registry, backends, call.argument("kernel"), dict.fromkeys(archs))
    assert kernel is not None  # the argument is required, and an unknown one is a usage error
    backend = registry.backend(kernel.backend)
    artifact = backend.build(Stage(kernel), build_context(request, call.voice.say))
    findings = backend.inspect(kernel, artifact)
    call.output.document(inspect_document(kernel, findings, artifact, backend.upstream_name(kernel)))
    return 0


COMMAND = Command(
    inspect,
    options=(ARCH, BACKEND, OFFLINE, CACHE_DIR, *ROWS),
    arguments=(Argument("kernel", "Canonical name, upstream name, or digest prefix", required=True),),
)

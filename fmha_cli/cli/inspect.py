"""``fmha inspect KERNEL``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import ARCH, BACKEND, BUILDING, CACHE_DIR, OFFLINE, ROWS


def inspect(call: Call) -> int:
    """What the built kernel needs; it is built when it is not in the cache."""
    from fmha_cli.cli.kernels import named_kernel
    from fmha_cli.cli.request import request_of
    from fmha_cli.plan import Stage
    from fmha_cli.report.document import inspect_document
    from fmha_cli.walk.builds import build_context

    kernel = named_kernel(call)
    backend = call.registry.backend(kernel.backend)
    artifact = backend.build(Stage(kernel), build_context(request_of(call), call.voice.say))
    findings = backend.inspect(kernel, artifact)
    call.output.document(inspect_document(kernel, findings, artifact, backend.upstream_name(kernel)))
    return 0


COMMAND = Command(
    inspect,
    options=(ARCH, BACKEND, OFFLINE, *BUILDING, CACHE_DIR, *ROWS),
    arguments=(Argument("kernel", "Canonical name, upstream name, or digest prefix", required=True),),
)

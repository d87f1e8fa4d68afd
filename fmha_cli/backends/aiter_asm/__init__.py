"""The plugin of AITER's hand-written assembly kernels for gfx942 and gfx950."""

from fmha_cli.backends.aiter_asm.upstream import UPSTREAM
from fmha_cli.backends.hip.code_object_backend import CodeObjectBackend
from fmha_cli.discovery.hookspecs import hookimpl

backend = CodeObjectBackend(UPSTREAM)


@hookimpl
def fmha_register_backends() -> tuple[CodeObjectBackend, ...]:
    return (backend,)

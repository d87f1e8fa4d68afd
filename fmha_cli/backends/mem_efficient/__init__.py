"""The plugin of memory-efficient attention: CUTLASS's kernels of xformers and PyTorch, compiled from upstream's sources."""

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.discovery.hookspecs import hookimpl

backend = CubinBackend(UPSTREAM)


@hookimpl
def fmha_register_backends() -> tuple[CubinBackend, ...]:
    return (backend,)

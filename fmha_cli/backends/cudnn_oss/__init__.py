"""The plugin of the cuDNN backend: the attention kernels whose text NVIDIA published in cudnn-frontend."""

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.discovery.hookspecs import hookimpl

backend = CubinBackend(UPSTREAM)


@hookimpl
def fmha_register_backends() -> tuple[CubinBackend, ...]:
    return (backend,)

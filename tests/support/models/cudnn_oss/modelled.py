"""The cuDNN backend on a simulated device whose kernels are the numpy model. Tests name it as an entry point."""

from __future__ import annotations

from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from tests.support.models.cudnn_oss.kernels import run_kernel
from tests.support.models.modelled_session import ModelledBackend

modelled = ModelledBackend(UPSTREAM, run_kernel)

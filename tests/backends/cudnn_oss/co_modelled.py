"""The cuDNN backend on a simulated device whose kernels are the numpy model. Tests name it as an entry point."""

from __future__ import annotations

from co_model import run_kernel
from modelled_session import ModelledBackend

from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM

modelled = ModelledBackend(UPSTREAM, run_kernel)

"""MLX's ``mx.fast.scaled_dot_product_attention`` on the CPU, as a backend for fmha. MLX is imported in the worker alone."""

from __future__ import annotations

from fmha_cli import plugin
from fmha_mlx.kernels import RULES, MlxAlgorithm, kernels

BACKEND = plugin.LibraryBackend(
    name="mlx",
    distribution="mlx-cpu",
    algorithm=MlxAlgorithm,
    listed=kernels,
    table=RULES,
    session="fmha_mlx.session:MlxSession",
    tried=("0.32.4",),
)


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [BACKEND]

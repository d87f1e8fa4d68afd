"""JAX's ``jax.nn.dot_product_attention`` on the CPU, as a backend for fmha. JAX is imported in the worker alone."""

from __future__ import annotations

from fmha_cli import plugin
from fmha_jax.kernels import RULES, JaxAlgorithm, kernels

BACKEND = plugin.LibraryBackend(
    name="jax",
    distribution="jax",
    algorithm=JaxAlgorithm,
    listed=kernels,
    table=RULES,
    session="fmha_jax.session:JaxSession",
    tried=("0.10.2", "0.12.0.1"),
)


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [BACKEND]

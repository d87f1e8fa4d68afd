"""MLX's ``mx.fast.scaled_dot_product_attention`` on the CPU, as a backend for fmha. MLX is imported in the worker alone."""

from __future__ import annotations

from dataclasses import replace

from fmha_cli import plugin
from fmha_mlx.kernels import RULES, MlxAlgorithm, kernels


class MlxBackend(plugin.LibraryBackend):
    """The library in two packages: the front end is of no use without the one that computes."""

    def probe(self) -> plugin.Availability:
        found = super().probe()
        return found if found.state is plugin.State.OK else replace(found, help="pip install mlx mlx-cpu")


BACKEND = MlxBackend(
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

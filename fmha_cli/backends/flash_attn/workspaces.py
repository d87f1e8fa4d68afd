"""The workspaces of a plan: its scratch tensors (``scratch``) as bytes that the core allocates, poisons and guards."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.scratch import scratch_of
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Workspace


def workspaces_of(situation: Situation, main: KernelSpec, splits: int) -> tuple[Workspace, ...]:
    """Those that have bytes, in the order in which upstream allocates them."""
    made = scratch_of(situation, main, splits).items()
    return tuple(Workspace(name, scratch.nbytes) for name, scratch in made if scratch.nbytes)

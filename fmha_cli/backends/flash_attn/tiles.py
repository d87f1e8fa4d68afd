"""The traits that upstream's launch templates choose by head dim, dropout, causality, and the device's facts.

The first row of a table that matches decides. ``None`` in a row matches either value.
Traits are the :class:`FaAlgorithm` of a kernel without its evenness: the fields that it shares with the other stages.

Source, in ``csrc/flash_attn/src``:

- ``flash_fwd_launch_template.h``: ``run_mha_fwd_hdim*``, ``run_mha_fwd_splitkv_dispatch``.
- ``flash_bwd_launch_template.h``: ``run_mha_bwd_hdim*``.
- ``static_switch.h``: ``HEADDIM_SWITCH``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.arch import ArchSpec

HDIMS = (32, 64, 96, 128, 192, 256)
"""The head dims that upstream has kernels for (``kHeadDim``)."""
EVEN_MN_HDIM = 128
"""The largest head dim with kernels for even lengths (``Kernel_traits::kHeadDim <= 128``)."""
LOG_MAX_SPLITS = (1, 2, 3, 4, 5, 6, 7)
"""``Log_max_splits`` of the combine kernels."""
KIB = 1024


@dataclass(frozen=True)
class TileFacts:
    """The properties of a device that upstream's launch templates read.

    Attributes:
        sm8x: ``is_sm8x``: compute capability 8.x, except 8.0.
        block: ``max_smem_per_block``: opt-in shared memory of a block, bytes.
        sm: ``max_smem_per_sm``: shared memory of a multiprocessor, bytes.
    """

    sm8x: bool
    block: int
    sm: int


@dataclass(frozen=True)
class ForwardRow:
    """A choice of ``run_mha_fwd_hdim*``. ``Is_Q_in_regs`` and ``Share_Q_K_smem`` are false in every launch.

    Attributes:
        block: the least shared memory of a block, bytes.
        sm: the multiprocessor must have less shared memory than this, bytes.
    """

    hdim: int
    traits: FaAlgorithm
    dropout: bool | None = None
    causal: bool | None = None
    sm8x: bool | None = None
    block: int = 0
    sm: int | None = None


@dataclass(frozen=True)
class BackwardRow:
    """A choice of ``run_mha_bwd_hdim*``.

    Attributes:
        traits: None where upstream launches nothing.
        block: the least shared memory of a block, bytes.
    """

    hdim: int
    traits: FaAlgorithm | None
    dropout: bool | None = None
    block: int = 0


_128x128, _128x64, _128x32 = (FaAlgorithm(tile=(128, keys), warps=4) for keys in (128, 64, 32))
_64x64 = FaAlgorithm(tile=(64, 64), warps=4)
_128x64x8 = FaAlgorithm(tile=(128, 64), warps=8)

FORWARD: tuple[ForwardRow, ...] = (
    ForwardRow(32, _128x128),
    ForwardRow(64, _128x128, dropout=False),
    ForwardRow(64, _128x64),
    ForwardRow(96, _64x64, causal=True, sm8x=True),
    ForwardRow(96, _128x64),
    ForwardRow(128, _128x32, dropout=True),
    ForwardRow(128, _64x64, causal=True, sm8x=True),
    ForwardRow(128, _128x32, sm8x=True),
    ForwardRow(128, _128x64),
    ForwardRow(192, _128x64x8, dropout=False),
    ForwardRow(192, _64x64),
    ForwardRow(256, _128x64x8, block=2 * 256 * (128 + 2 * 64), sm=4 * 256 * (64 + 2 * 64)),
    ForwardRow(256, _64x64),
)


def _backward(rows: int, keys: int, atoms: tuple[int, int, int], regs: bool, single: bool = False) -> FaAlgorithm:
    return FaAlgorithm(tile=(rows, keys), warps=8, atoms=atoms, v_in_regs=regs, single_buffer=single)


BACKWARD: tuple[BackwardRow, ...] = (
    BackwardRow(32, _backward(128, 128, (4, 4, 4), False), True, 2 * ((3 * 128 + 2 * 128) * 32 + 2 * 128 * 128)),
    BackwardRow(32, _backward(128, 128, (4, 4, 4), True)),
    BackwardRow(64, _backward(128, 128, (4, 4, 4), False), None, 144 * KIB),
    BackwardRow(64, _backward(64, 128, (2, 4, 4), True)),
    BackwardRow(96, _backward(64, 128, (2, 4, 4), False), True, 116 * KIB),
    BackwardRow(96, _backward(64, 128, (2, 4, 4), True)),
    BackwardRow(128, _backward(64, 128, (2, 4, 2), False), None, 144 * KIB),
    BackwardRow(128, _backward(64, 64, (4, 2, 2), True)),
    BackwardRow(192, _backward(64, 64, (4, 2, 2), False), None, 136 * KIB),
    BackwardRow(192, _backward(64, 64, (4, 2, 2), True, True)),
    BackwardRow(256, _backward(64, 64, (4, 2, 2), False), None, 176 * KIB),
    BackwardRow(256, _backward(64, 64, (4, 2, 2), False, True), None, 144 * KIB),
    BackwardRow(256, _backward(64, 32, (4, 1, 2), True, True), False),
    BackwardRow(256, None),
)


def facts_of(arch: ArchSpec) -> TileFacts:
    """An architecture's answers to the run-time queries of upstream's launch templates."""
    major, minor = arch.fact("compute_capability")
    return TileFacts(
        sm8x=major == 8 and minor > 0,
        block=int(arch.fact("shared_per_block_optin")),
        sm=int(arch.fact("shared_per_sm")),
    )


def bucket(hdim: int) -> int | None:
    """The smallest head dim of :data:`HDIMS` that holds a head dim; None above 256 (``HEADDIM_SWITCH``)."""
    return next((holds for holds in HDIMS if hdim <= holds), None)


def forward_traits(hdim: int, dropout: bool, causal: bool, facts: TileFacts) -> FaAlgorithm:
    """The traits of the plain forward kernel for a head dim of :data:`HDIMS`."""
    return next(
        row.traits
        for row in FORWARD
        if row.hdim == hdim
        and row.dropout in (None, dropout)
        and row.causal in (None, causal)
        and row.sm8x in (None, facts.sm8x)
        and facts.block >= row.block
        and (row.sm is None or facts.sm < row.sm)
    )


def split_traits(hdim: int) -> FaAlgorithm:
    """The traits of the split-KV kernel for a head dim, and of its combine kernel."""
    return FaAlgorithm(tile=(64, 256 if hdim <= 64 else 128 if hdim <= 128 else 64), warps=4)


def backward_traits(hdim: int, dropout: bool, facts: TileFacts) -> FaAlgorithm | None:
    """The traits of the backward kernels for a head dim of :data:`HDIMS`; None where upstream launches nothing."""
    return next(
        row.traits
        for row in BACKWARD
        if row.hdim == hdim and row.dropout in (None, dropout) and facts.block >= row.block
    )


def stage_traits(hdim: int, facts: TileFacts) -> Iterator[FaAlgorithm]:
    """The distinct traits of a backward pass's first and last stage, those without dropout first."""
    found = (backward_traits(hdim, dropout, facts) for dropout in (False, True))
    yield from dict.fromkeys(traits for traits in found if traits is not None)


def log_max_splits(splits: int) -> int | None:
    """The ``Log_max_splits`` of the combine kernel for 2 parts and more (``run_flash_splitkv_fwd``); None above 128."""
    return next((log for log in LOG_MAX_SPLITS if splits <= 1 << log), None)

"""Sizes that a forward kernel's paddings and its 32-bit offsets admit, as conditions on the argument block.

Source: ``scheck``, ``skcheck``, ``dcheck``, ``dvcheck`` of ``codegen/ops/fmha_fwd.py``, ``fmha_fwd_splitkv.py``,
``fmha_pagedkv_prefill.py`` and ``fmha_batch_prefill.py``. A kernel without padding accesses whole tiles. With a size
that does not fill them, it would read and write outside the tensors.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.features import grouped
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey

Rules = tuple[tuple[str, str], ...]
Products = tuple[tuple[str, str, str], ...]

_QK_COLUMNS = {32: 32, 48: 48, 64: 64, 96: 128, 128: 128, 192: 192, 256: 256}
"""Columns of Q and K that a pipeline loads at once, by ``bk0max`` (``K0_MAX_SUBMAX_MAP``)."""
_ASYNC_ELEMENTS = 8
"""Elements of 16 bits in the 16 bytes of one asynchronous load."""


def padding_rules(kernel: KernelSpec, algorithm: CkAlgorithm, lengths: str = "") -> Rules:
    """Conditions on head dims, and in batch mode on lengths.

    Args:
        lengths: the pointer to device lengths that an unpadded kernel cannot take; "" if there is none.
    """
    return (*_head_dims(kernel, algorithm), *(() if grouped(kernel) else _lengths(algorithm, lengths)))


def sequence_products(kernel: KernelSpec, *, paged: bool) -> Products:
    """Offsets of the last sequence, in the block table and in ALiBi's slopes, which device code forms in 32 bits."""
    strides = (
        *(("batch_stride_block_table",) if paged else ()),
        *(("stride_bias",) if kernel.signature.bias is BiasKey.ALIBI else ()),
    )
    return tuple((name, "a.batch - 1", f"a.{name}") for name in strides)


def _head_dims(kernel: KernelSpec, algorithm: CkAlgorithm) -> Rules:
    signature = kernel.signature
    columns = _QK_COLUMNS[algorithm.tile[5]]
    out = []
    for name, most, pad in (
        ("hdim_q", signature.hdim, algorithm.pad_d),
        ("hdim_v", signature.hdim_v, algorithm.pad_dv),
    ):
        step = columns
        if pad:
            step = _ASYNC_ELEMENTS if algorithm.pipeline is Pipeline.QR_ASYNC else 1
        whole = "" if step == 1 else f" && a.{name} % {step} == 0"
        out.append((name, f"a.{name} <= {most}{whole}"))
    return tuple(out)


def _lengths(algorithm: CkAlgorithm, lengths: str) -> Rules:
    """In batch mode, every row is in the grid. Without padding, the rows and the keys fill whole tiles."""
    rows, keys = algorithm.tile[:2]
    out = [("max_seqlen_q", "a.max_seqlen_q >= a.seqlen_q")]
    if algorithm.pipeline is Pipeline.QR_ASYNC_TRLOAD:  # this pipeline pads lengths itself
        return tuple(out)
    if not algorithm.pad_s:
        out.append(("seqlen_q", f"a.seqlen_q % {rows} == 0"))
    if not algorithm.pad_sk:
        out.append(("seqlen_k", f"a.seqlen_k % {keys} == 0"))
        if lengths:
            out.append((lengths, f"a.{lengths} == nullptr"))
    return tuple(out)

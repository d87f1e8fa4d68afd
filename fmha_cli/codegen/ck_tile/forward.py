"""What the forward families share: tile, epilogue, sizes and options.

Source of the template arguments: ``codegen/ops/fmha_fwd.py``, ``FMHA_FWD_KERNEL_BODY``; its kin spell them alike.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, VLayout
from fmha_cli.codegen.ck_tile.call import words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, sequence, template, using
from fmha_cli.codegen.ck_tile.features import masked, on
from fmha_cli.kernel import KernelSpec
from fmha_cli.signature import BiasKey, QScaleKey


def forward_shape(algorithm: CkAlgorithm) -> str:
    """Aliases of the tile and its distribution over waves, common to the forward families with two GEMMs."""
    row_major = flag(algorithm.vlayout is VLayout.ROW)
    parts = [
        sequence(algorithm.waves[:3]),
        sequence(algorithm.warp[:3]),
        sequence(algorithm.waves[3:]),
        sequence(algorithm.warp[3:]),
    ]
    return using("Tile", sequence(algorithm.tile)) + using(
        "Shape", template(f"{CK}TileFmhaShape", ["Tile", *parts, row_major])
    )


def epilogue(algorithm: CkAlgorithm) -> str:
    """Aliases of the epilogue that stores O."""
    arguments = ["Types::OaccDataType", "Types::ODataType", flag(algorithm.pad_s), flag(algorithm.pad_dv > 0)]
    problem = template(f"{CK}Default2DEpilogueProblem", arguments)
    return using("EpilogueProblem", problem) + using("Epilogue", f"{CK}Default2DEpilogue<EpilogueProblem>")


def forward_extents() -> tuple[tuple[str, int], ...]:
    """Sizes of the forward families with their least values."""
    ones = words("batch nhead_q nhead_k max_seqlen_q hdim_q hdim_v")
    return (*((name, 1) for name in ones), ("seqlen_q", 0), ("seqlen_k", 0))


def forward_options(
    kernel: KernelSpec,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Needed, unused and rules for what forward kernels compile in or out: bias, LSE, soft cap, mask, quantisation."""
    signature = kernel.signature
    needed = ["q_ptr", "k_ptr", "v_ptr", "o_ptr"]
    unused: list[str] = []
    (unused if signature.bias is BiasKey.NONE else needed).append("bias_ptr")
    (needed if on(signature.lse) else unused).append("lse_ptr")
    rules = [("nhead_q", "a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0")]
    if on(signature.softcap):
        rules.append(("logits_soft_cap", "a.logits_soft_cap > 0"))
    else:
        unused.append("logits_soft_cap")
    rules.append(("mask_type", "a.mask_type >= 0 && a.mask_type <= 3" if masked(kernel) else "a.mask_type == 0"))
    if signature.qscale is not QScaleKey.TENSOR:
        rules += [("scale_p", "a.scale_p == 1"), ("scale_o", "a.scale_o == 1")]
    return tuple(needed), tuple(unused), tuple(rules)


def dropout_rules() -> tuple[tuple[str, str], ...]:
    """Dropout's own conditions in the forward families."""
    return (
        ("p_drop", "a.p_drop >= 0 && a.p_drop < 1"),
        ("rand_val_ptr", "a.s_randval == 0 || a.rand_val_ptr != nullptr"),
        ("drop_seed_ptr", "a.drop_from_device == 0 || a.drop_seed_ptr != nullptr"),
        ("drop_offset_ptr", "a.drop_from_device == 0 || a.drop_offset_ptr != nullptr"),
    )

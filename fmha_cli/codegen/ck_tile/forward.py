"""The parts that the forward families share: tile, epilogue, sizes and options.

Source of the template arguments: ``codegen/ops/fmha_fwd.py``, ``FMHA_FWD_KERNEL_BODY``. The other families' files spell
them alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, VLayout
from fmha_cli.codegen.ck_tile.call import words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, sequence, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.features import bias_value, grouped, mask_type, masked, on
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey, QScaleKey


@dataclass(frozen=True, kw_only=True)
class Templates:
    """The class templates of a forward family with one kernel, and their arguments in addition to the common ones.

    Attributes:
        traits, problem, pipeline, kernel: names of the templates.
        types: element types of the pipeline problem, in order, each by the beginning of its name.
        trait_tail: arguments of ``traits`` after the common ones.
        problem_tail: arguments of ``problem`` between mask and traits.
    """

    traits: str
    problem: str
    pipeline: str
    kernel: str
    types: tuple[str, ...]
    trait_tail: Sequence[str]
    problem_tail: Sequence[str] = ()


def forward_aliases(kernel: KernelSpec, algorithm: CkAlgorithm, templates: Templates) -> str:
    """All aliases of a forward family with one kernel, from the element types to ``Kernel``."""
    traits = template(f"{CK}{templates.traits}", [*common_traits(kernel, algorithm), *templates.trait_tail])
    arguments = [*problem_types(kernel, templates.types), "Variant", "Mask", *templates.problem_tail, "Traits"]
    return "".join(
        (
            struct_of_types("Types", forward_types(kernel.signature)),
            forward_shape(algorithm),
            using("Traits", traits),
            variant_and_mask(kernel),
            using("Problem", template(f"{CK}{templates.problem}", arguments)),
            using("Pipeline", f"{CK}{templates.pipeline}<Problem>"),
            epilogue("O", pad_s=algorithm.pad_s, pad_dv=algorithm.pad_dv > 0),
            using("Kernel", f"{CK}{templates.kernel}<Pipeline, Epilogue>"),
        )
    )


def common_traits(kernel: KernelSpec, algorithm: CkAlgorithm, *, lse: bool | None = None) -> list[str]:
    """The first arguments of every traits template: paddings, soft cap, bias, no bias gradient, LSE.

    Args:
        lse: whether LSE is stored. None takes the signature's choice.
    """
    signature = kernel.signature
    return [
        flag(algorithm.pad_s),
        flag(algorithm.pad_sk),
        flag(algorithm.pad_d > 0),
        flag(algorithm.pad_dv > 0),
        flag(on(signature.softcap)),
        bias_value(kernel),
        flag(False),
        flag(on(signature.lse) if lse is None else lse),
    ]


def problem_types(kernel: KernelSpec, types: Sequence[str]) -> list[str]:
    """The first arguments of every pipeline problem: element types, shape, group mode."""
    return [*(f"Types::{name}DataType" for name in types), "Shape", flag(grouped(kernel))]


def variant_and_mask(kernel: KernelSpec) -> str:
    """Aliases of the attention variant and of the mask."""
    softcap = flag(on(kernel.signature.softcap))
    variant = f"{CK}ComposedAttention<{softcap} * {CK}LOGITS_SOFT_CAP, CK_TILE_FMHA_FWD_FAST_EXP2>"
    return using("Variant", variant) + using("Mask", mask_type(kernel))


def squant(kernel: KernelSpec) -> str:
    """The template argument of static quantisation."""
    return flag(kernel.signature.qscale is QScaleKey.TENSOR)


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


def epilogue(stored: str, *, pad_s: bool, pad_dv: bool) -> str:
    """Aliases of the epilogue that stores O.

    Args:
        stored: the element type in memory, by the beginning of its name.
    """
    arguments = ["Types::OaccDataType", f"Types::{stored}DataType", flag(pad_s), flag(pad_dv)]
    problem = template(f"{CK}Default2DEpilogueProblem", arguments)
    return using("EpilogueProblem", problem) + using("Epilogue", f"{CK}Default2DEpilogue<EpilogueProblem>")


def forward_extents() -> tuple[tuple[str, int], ...]:
    """Sizes of the forward families with their minimum values."""
    ones = words("batch nhead_q nhead_k max_seqlen_q hdim_q hdim_v")
    return (*((name, 1) for name in ones), ("seqlen_q", 0), ("seqlen_k", 0))


def forward_options(
    kernel: KernelSpec,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(needed, unused, rules) for options that forward kernels compile in or out: bias, LSE, soft cap, mask, squant."""
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

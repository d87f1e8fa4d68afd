"""The ``batch_prefill`` family: attention over a cache whose keys are found through a list of one-key pages.

Source of the template arguments: ``codegen/ops/fmha_batch_prefill.py``, ``FMHA_FWD_KERNEL_BODY``; of the call:
``fmha_fwd.hpp``, ``fmha_batch_prefill_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.call import DROP, RATIO, Call, words
from fmha_cli.codegen.ck_tile.cpp import flag
from fmha_cli.codegen.ck_tile.features import grouped, on
from fmha_cli.codegen.ck_tile.forward import (
    Templates,
    dropout_rules,
    forward_aliases,
    forward_extents,
    forward_options,
    squant,
)
from fmha_cli.codegen.ck_tile.paddings import padding_rules, sequence_products
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.domain.kernel import KernelSpec

_PROBLEM_TYPES = words("Q K V Sacc SMPLCompute Bias RandValOutput LSE P Oacc O")
_HEAD = words("q_ptr k_ptr v_ptr bias_ptr rand_val_ptr lse_ptr o_ptr")
_PAGES = words("num_total_pages kv_indptr kv_page_indices")
_SCALES = words("scale_s scale_p scale_o logits_soft_cap")
_ROW_TENSORS = words("q k v bias randval o")
_TENSORS = words("q k v bias randval lse o")
_GROUP_TENSORS = words("k v")
_MASK = words("window_size_left window_size_right mask_type")


def prefill_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a batch prefill kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR_ASYNC:
        raise no_emitter(kernel)
    return Unit(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=True)


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    templates = Templates(
        traits="TileFmhaTraits",
        problem="BlockFmhaPipelineProblem",
        pipeline="BlockFmhaBatchPrefillPipelineQRKSVSAsync",
        kernel="FmhaBatchPrefillWithPagedKVCacheKernel",
        types=_PROBLEM_TYPES,
        trait_tail=(flag(on(kernel.signature.dropout)), squant(kernel), str(algorithm.occupancy)),
        problem_tail=(flag(algorithm.trload),),
    )
    return forward_aliases(kernel, algorithm, templates)


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> Call:
    group, dropout = grouped(kernel), on(kernel.signature.dropout)
    needed, unused, rules = forward_options(kernel)
    return Call(
        maker="MakeKargs",
        arguments=(
            *_HEAD,
            "seqstart_q_ptr" if group else "seqlen_q",
            *words(f"hdim_q hdim_v nhead_q {RATIO}"),
            *_PAGES,
            *_SCALES,
            *(f"stride_{name}" for name in _ROW_TENSORS),
            *(f"nhead_stride_{name}" for name in _TENSORS),
            *(f"batch_stride_{name}" for name in (_GROUP_TENSORS if group else _TENSORS)),
            *_MASK,
            *words(f"p_drop s_randval {DROP}"),
        ),
        grid=words("batch nhead_q max_seqlen_q hdim_v"),
        needed=(*needed, *_PAGES[1:], *(("seqstart_q_ptr",) if group else ())),
        unused=(
            *unused,
            *(() if group else ("seqstart_q_ptr",)),
            *(() if dropout else words("p_drop s_randval rand_val_ptr")),
        ),
        extents=(*forward_extents(), ("num_total_pages", 1)),
        rules=(*rules, *padding_rules(kernel, algorithm), *(dropout_rules() if dropout else ())),
        products=(
            *sequence_products(kernel, paged=False),
            *((f"stride_{name}", "a.num_total_pages - 1", f"a.stride_{name}") for name in _GROUP_TENSORS),
        ),
    )

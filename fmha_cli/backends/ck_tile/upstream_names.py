"""Upstream's file stems for kernels.

Source: the properties ``name`` and ``filename`` of the kernel, tile and pipeline classes in
``example/ck_tile/01_fmha/codegen/ops/*.py``; for the newer revision, section 5.1 of its description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from fmha_cli.backends.ck_tile.revisions import BASELINE, arch_class, arch_facts, dtype_names
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, algorithm_of
from fmha_cli.domain.codec import once
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, Need, QScaleKey, RotaryKey, Signature

YES = Need.YES
BIAS_WORDS = {BiasKey.NONE: "nbias", BiasKey.ELEMENTWISE: "bias", BiasKey.ALIBI: "alibi"}
MASK_WORDS = {MaskKey.NONE: "nmask", MaskKey.ANY: "mask", MaskKey.CAUSAL: "mc", MaskKey.GENERIC: "mg"}
QSCALE_WORDS = {
    QScaleKey.NONE: "nqscale",
    QScaleKey.TENSOR: "pertensor",
    QScaleKey.BLOCK: "blockscale",
    QScaleKey.KV_BLOCK: "kv_blockscale",
    QScaleKey.MX: "mx",
    QScaleKey.HEAD: "perhead",
}
_ROTARY = {RotaryKey.NONE: "", RotaryKey.INTERLEAVED: "_inter", RotaryKey.HALF: "_half"}


def upstream_name(kernel: KernelSpec) -> str | None:
    """The file stem that upstream's generator gives a kernel, or None if the architecture has no class there."""
    signature, algorithm = kernel.signature, algorithm_of(kernel)
    suffix = _suffix(kernel.arch, kernel.family, algorithm.rev)
    if suffix is None:
        return None
    stems: dict[tuple[Family, int], tuple[Signature, str]] = once(algorithm, "_upstream_stems", lambda _: {})
    key = kernel.family, id(signature)
    if key not in stems:  # for other architectures with this kernel; the signature is kept because its id is the key
        stems[key] = signature, _STEMS[kernel.family](signature, algorithm)
    return stems[key][1] + suffix


@cache
def _suffix(arch: str, family: Family, revision: str) -> str | None:
    facts = arch_facts(arch)
    class_ = arch_class(facts, family, revision) if facts else None
    return None if class_ is None else class_.suffix


def _word(on: bool, word: str) -> str:
    return f"_{word}" if on else f"_n{word}"


def _pads(*named: tuple[object, str]) -> str:
    letters = "".join(name for on, name in named if on)
    return f"_p{letters}" if letters else "_npad"


def _group(numbers: tuple[int, ...], letter: str) -> str:
    """``_r4x1x1_r4x1x1``: numbers in threes."""
    return "".join(f"_{letter}{'x'.join(map(str, numbers[i : i + 3]))}" for i in range(0, len(numbers), 3))


def _tile(a: CkAlgorithm) -> str:
    """The same for the hundreds of kernels that share an algorithm."""
    return once(a, "_upstream_tile", _tile_text)


def _tile_text(a: CkAlgorithm) -> str:
    occupancy = "" if a.occupancy == -1 else f"_o{a.occupancy}"
    return f"b{'x'.join(map(str, a.tile))}{_group(a.waves, 'r')}{_group(a.warp, 'w')}{occupancy}"


def _dtype(s: Signature) -> str:
    return dtype_names()[s.dtype, s.dtype_out]


def _head(prefix: str, s: Signature) -> str:
    return f"{prefix}_d{s.hdim}_{_dtype(s)}_{s.mode.value}_"


def _start(s: Signature, a: CkAlgorithm) -> str:
    """How the pipeline names of all forward families begin."""
    pads = _pads((a.pad_s, "s"), (a.pad_sk, "sk"), (a.pad_d, "d"), (a.pad_dv, "dv"))
    softcap = _word(s.softcap is YES, "logits")
    return f"_{a.pipeline.value}_v{a.vlayout.value[0]}{pads}{softcap}_{BIAS_WORDS[s.bias]}_{MASK_WORDS[s.mask]}"


def _scale(s: Signature, a: CkAlgorithm) -> str:
    if a.rev == BASELINE:
        return _word(s.qscale is QScaleKey.TENSOR, "squant")
    return f"_{QSCALE_WORDS[s.qscale]}"


def _static(s: Signature) -> str:
    return _word(s.qscale is QScaleKey.TENSOR, "squant")


def _sink(s: Signature, a: CkAlgorithm) -> str:
    return "" if a.rev == BASELINE else _word(s.sink is YES, "sink")


def _fwd(s: Signature, a: CkAlgorithm) -> str:
    words = _word(s.lse is YES, "lse") + _word(s.dropout is YES, "dropout") + _word(a.skip_min_seqlen_q, "skip")
    tdm = _word(a.kv_lds_prefetch, "kvldsprefetch") + _word(a.progressive_dsk, "progressivedsk")
    tail = _word(a.trload, "trload") + (tdm if a.pipeline is Pipeline.QR_TDM else "") + _sink(s, a)
    return f"{_head('fmha_fwd', s)}{_tile(a)}{_start(s, a)}{words}{_scale(s, a)}{tail}"


def _splitkv(s: Signature, a: CkAlgorithm) -> str:
    tail = f"_lse{_static(s)}{_word(s.cache is CacheKey.PAGED, 'pagedkv')}{_sink(s, a)}"
    return f"{_head('fmha_fwd_splitkv', s)}{_tile(a)}{_start(s, a)}{tail}"


def _combine(s: Signature, a: CkAlgorithm) -> str:
    pads = _pads((a.pad_s, "s"), (a.pad_dv, "dv"))
    return f"{_head('fmha_fwd_splitkv_combine', s)}{_tile(a)}_unused{pads}{_word(s.lse is YES, 'lse')}{_static(s)}"


def _pagedkv(s: Signature, a: CkAlgorithm) -> str:
    words = _word(s.lse is YES, "lse") + _word(a.skip_min_seqlen_q, "skip") + _static(s) + "_pagedkv"
    return f"{_head('fmha_fwd_pagedkv', s)}{_tile(a)}{_start(s, a)}{words}{_sink(s, a)}"


def _appendkv(s: Signature, a: CkAlgorithm) -> str:
    pads = _pads((a.pad_s, "s"), (a.pad_sk, "sk"), (a.pad_d, "d"), (a.pad_dv, "dv"))
    words = ("" if pads == "_npad" else pads) + _ROTARY[s.rotary] + ("_pagedkv" if s.cache is CacheKey.PAGED else "")
    return f"fmha_fwd_appendkv_d{s.hdim}_{_dtype(s)}_{_tile(a)}_v{a.vlayout.value[0]}{words}"


def _prefill(s: Signature, a: CkAlgorithm) -> str:
    words = _word(s.lse is YES, "lse") + _word(s.dropout is YES, "dropout") + _scale(s, a) + _sink(s, a)
    if a.rev == BASELINE:
        return f"{_head('fmha_batch_prefill', s)}{_tile(a)}{_start(s, a)}{words}"
    page = f"ps{s.page}_{'64bit_' if a.wide_loads else ''}"
    layout = f"_{a.kv_layout.value}_{a.kv_lookup.value}"
    return f"{_head('fmha_batch_prefill', s)}{page}{_tile(a)}{_start(s, a)}{words}{layout}"


def _bwd_tile(a: CkAlgorithm) -> str:
    return f"b{'x'.join(map(str, a.tile))}{_group(a.waves, 'r')}{_group(a.warp, 'w')}_o{a.occupancy}_maxq{a.max_seq_q}"


def _bwd(s: Signature, a: CkAlgorithm) -> str:
    tile = once(a, "_upstream_bwd_tile", _bwd_tile)
    pads = _pads((a.pad_d, f"d{a.pad_d}"), (a.pad_dv, f"dv{a.pad_dv}"))
    dropout = f"dropout_wg16{'_storerandval' if a.store_randval else ''}" if s.dropout is YES else "ndropout"
    words = f"_{BIAS_WORDS[s.bias]}{_word(s.dbias is YES, 'dbias')}_{MASK_WORDS[s.mask]}_{dropout}"
    end = _word(s.deterministic is YES, "deterministic") + _word(a.trload, "trload")
    return f"{_head('fmha_bwd', s)}{tile}{pads}{words}{end}"


def _dot_do_o(s: Signature, a: CkAlgorithm) -> str:
    pads = _pads((a.pad_s, "s"), (a.pad_dv, "dv"))
    return f"fmha_bwd_dot_do_o_d{s.hdim}_{_dtype(s)}_b{a.tile[0]}_{s.mode.value}_o{a.occupancy}{pads}"


def _convert_dq(s: Signature, a: CkAlgorithm) -> str:
    pads = _pads((a.pad_s, "s"), (a.pad_d, "d")) + _word(s.deterministic is YES, "deterministic")
    return f"fmha_bwd_convert_dq_d{s.hdim}_{_dtype(s)}_b{a.tile[0]}x{a.tile[1]}_{s.mode.value}_o{a.occupancy}{pads}"


_STEMS: Mapping[Family, Callable[[Signature, CkAlgorithm], str]] = MappingProxyType(
    {
        Family.FWD: _fwd,
        Family.FWD_SPLITKV: _splitkv,
        Family.FWD_SPLITKV_COMBINE: _combine,
        Family.FWD_PAGEDKV: _pagedkv,
        Family.FWD_APPENDKV: _appendkv,
        Family.BATCH_PREFILL: _prefill,
        Family.BWD_DOT_DO_O: _dot_do_o,
        Family.BWD_DQ_DK_DV: _bwd,
        Family.BWD_CONVERT_DQ: _convert_dq,
    }
)

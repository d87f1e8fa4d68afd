"""Every kernel of an architecture: the signatures that the sources serve, with one configuration each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

from fmha_cli import api, plugin
from fmha_triton.algorithm import Language, TritonAlgorithm, configuration, data, target_of

NAME = "triton"
HDIMS = (32, 64, 128, 256)
_HALVES = (plugin.DType.FP16, plugin.DType.BF16)
_BIASES = (plugin.BiasKey.NONE, plugin.BiasKey.ALIBI, plugin.BiasKey.ELEMENTWISE)
_MASKS = (plugin.MaskKey.NONE, plugin.MaskKey.ANY)
_GLUON_MASKS = (plugin.MaskKey.NONE, plugin.MaskKey.CAUSAL)
_CAPS = (plugin.Need.NO, plugin.Need.YES)
KERNELS = {
    plugin.Family.FWD: "forward",
    plugin.Family.FWD_SPLITKV: "split",
    plugin.Family.FWD_SPLITKV_COMBINE: "combine",
    plugin.Family.BWD_DOT_DO_O: "dot_do_o",
    plugin.Family.BWD_DQ_DK_DV: "dq_dk_dv",
}
"""The function of each family in Triton's language."""
HOPPER, BLACKWELL, GLUON_HDIMS = "forward_hopper", "forward_blackwell", (64, 128)
"""The functions in Gluon, and their head dims."""
UNEQUAL_HDIMS = ((128, 64), (64, 128))
"""Head dims of Q and K, and of V, where they differ."""
TENSOR_COLUMNS = 512
"""Columns of tensor memory of a multiprocessor (PTX ISA 9.1, 9.7.16.1)."""
CLUSTERS = (1, 2, 4)
"""CTAs of a cluster on Blackwell."""


def function_of(kernel: api.KernelSpec) -> str:
    """The function of a kernel."""
    if algorithm_of(kernel).language is Language.TRITON:
        return KERNELS[kernel.family]
    return HOPPER if _has(kernel.arch, HOPPER) else BLACKWELL


def _has(arch: str, function: str) -> bool:
    """Whether the data has configurations of a function for an architecture."""
    found: bool = data()["archs"][arch]["class"] in data()["kernels"][function]["by_class"]
    return found


def algorithm_of(kernel: api.KernelSpec) -> TritonAlgorithm:
    """The kernel's algorithm with its own type.

    Raises:
        api.UsageError: E004, it is another backend's.
    """
    if not isinstance(kernel.algorithm, TritonAlgorithm):
        raise api.UsageError(f"{kernel.name} is not a kernel of triton", code="E004")
    return kernel.algorithm


def tensor_columns(kernel: api.KernelSpec, hdim_v: int) -> int:
    """Columns of tensor memory of a Blackwell kernel with a head dim of V: scores and O of the two halves of a tile, in fp32."""
    return 2 * (algorithm_of(kernel).block_n + hdim_v)


def base(dtype: plugin.DType, hdim: int) -> plugin.Signature:
    """The run-time choices of all kernels: packing, sinks, LSE, head counts. All are deterministic."""
    return plugin.Signature(
        dtype=dtype,
        dtype_out=dtype.default_output,
        hdim=hdim,
        hdim_v=hdim,
        mode=plugin.ModeKey.ANY,
        lse=plugin.Need.ANY,
        gqa=plugin.Need.ANY,
        deterministic=plugin.Need.ANY,
    )


@cache
def kernels_of(arch: str) -> tuple[api.KernelSpec, ...]:
    """All kernels of an architecture, main kernels before those of further stages."""
    return (*_gluon(arch), *_forward(arch), *_split(arch), *_combine(arch), *_backward(arch), *_dots(arch))


def _kernel(arch: str, family: plugin.Family, signature: plugin.Signature, *, pad: bool) -> api.KernelSpec:
    bits = 8 if signature.dtype.is_fp8 else 16
    algorithm = configuration(arch, KERNELS[family], signature.hdim, pad=pad, bits=bits)
    return api.KernelSpec(backend=NAME, family=family, arch=arch, signature=signature, algorithm=algorithm)


def _attention(dtype: plugin.DType, hdim: int) -> Iterator[plugin.Signature]:
    """The signatures of kernels that compute scores in half precision."""
    for mask, bias, cap in product(_MASKS, _BIASES, _CAPS):
        shown = replace(base(dtype, hdim), mask=mask, bias=bias, softcap=cap)
        yield replace(shown, sink=plugin.Need.ANY if mask is plugin.MaskKey.ANY else plugin.Need.NO)


def _narrow(arch: str) -> Iterator[plugin.Signature]:
    """The signatures of fp8 inputs: without a bias and a cap, with the scales that the kernels read."""
    for name in dict(target_of(arch).fp8):
        plain = name.removesuffix("_fnuz")
        encoding = "fnuz" if name.endswith("fnuz") else "ocp"
        scales = (plugin.QScaleKey.NONE, plugin.QScaleKey.TENSOR, plugin.QScaleKey.HEAD)
        for hdim, mask, scale in product(data()["fp8_hdims"], _MASKS, scales):
            shown = replace(
                base(plugin.DType(plain), hdim), mask=mask, qscale=scale, fp8_encoding=plugin.Fp8Key(encoding)
            )
            yield replace(shown, sink=plugin.Need.ANY if mask is plugin.MaskKey.ANY else plugin.Need.NO)


def _signatures(arch: str) -> Iterator[plugin.Signature]:
    for dtype, hdim in product(_HALVES, HDIMS):
        yield from _attention(dtype, hdim)
    yield from _narrow(arch)


def _forward(arch: str) -> Iterator[api.KernelSpec]:
    for signature, pad in product(_signatures(arch), (False, True)):
        yield _kernel(arch, plugin.Family.FWD, replace(signature, sink_logits=plugin.Need.ANY), pad=pad)


def _gluon(arch: str) -> Iterator[api.KernelSpec]:
    """The kernels in Gluon, where the data has configurations of them."""
    functions = [function for function in (HOPPER, BLACKWELL) if _has(arch, function)]
    for function, dtype, hdim, mask in product(functions, _HALVES, GLUON_HDIMS, _GLUON_MASKS):
        yield from _clusters(arch, function, replace(base(dtype, hdim), mask=mask))
    if BLACKWELL in functions:
        yield from _gluon_narrow(arch)
        yield from _gluon_unequal(arch)


def _clusters(arch: str, function: str, signature: plugin.Signature) -> Iterator[api.KernelSpec]:
    """The kernels in Gluon of a signature: one for each number of CTAs."""
    shown = replace(signature, mode=plugin.ModeKey.BATCH)
    for num_ctas in CLUSTERS if function == BLACKWELL else (1,):
        found = configuration(
            arch, function, shown.hdim, pad=False, bits=shown.dtype.bits, num_ctas=num_ctas, hdim_v=shown.hdim_v
        )
        algorithm = replace(found, language=Language.GLUON)
        yield api.KernelSpec(backend=NAME, family=plugin.Family.FWD, arch=arch, signature=shown, algorithm=algorithm)


def _gluon_narrow(arch: str) -> Iterator[api.KernelSpec]:
    """The kernels in Gluon of fp8 inputs: P in the type of V."""
    scales = (plugin.QScaleKey.NONE, plugin.QScaleKey.TENSOR, plugin.QScaleKey.HEAD)
    for name, hdim, mask, scale in product(dict(target_of(arch).fp8), GLUON_HDIMS, _GLUON_MASKS, scales):
        yield from _clusters(arch, BLACKWELL, replace(base(plugin.DType(name), hdim), mask=mask, qscale=scale))


def _gluon_unequal(arch: str) -> Iterator[api.KernelSpec]:
    """The kernels in Gluon whose V has another head dim than Q and K: 16 bits."""
    for dtype, (hdim, hdim_v), mask in product(_HALVES, UNEQUAL_HDIMS, _GLUON_MASKS):
        yield from _clusters(arch, BLACKWELL, replace(base(dtype, hdim), hdim_v=hdim_v, mask=mask))


def _split(arch: str) -> Iterator[api.KernelSpec]:
    caches = (plugin.CacheKey.NONE, plugin.CacheKey.LINEAR, plugin.CacheKey.PAGED)
    for signature, cache_kind, pad in product(_signatures(arch), caches, (False, True)):
        shown = replace(signature, cache=cache_kind, split=plugin.Need.ANY, sink_logits=plugin.Need.ANY)
        yield _kernel(arch, plugin.Family.FWD_SPLITKV, shown, pad=pad)


def _combine(arch: str) -> Iterator[api.KernelSpec]:
    """One for each output type and head dim; what was masked or capped is behind it."""
    for dtype, hdim in product(_HALVES, HDIMS):
        shown = replace(
            base(dtype, hdim),
            mask=plugin.MaskKey.ANY,
            sink=plugin.Need.ANY,
            sink_logits=plugin.Need.ANY,
            bias=plugin.BiasKey.ANY,
            softcap=plugin.Need.ANY,
            cache=plugin.CacheKey.ANY,
            split=plugin.Need.ANY,
            qscale=plugin.QScaleKey.ANY,
        )
        yield _kernel(arch, plugin.Family.FWD_SPLITKV_COMBINE, shown, pad=True)


def _backward(arch: str) -> Iterator[api.KernelSpec]:
    for dtype, hdim in product(_HALVES, HDIMS):
        for signature, pad in product(_attention(dtype, hdim), (False, True)):
            shown = replace(signature, sink_logits=plugin.Need.ANY)
            yield _kernel(arch, plugin.Family.BWD_DQ_DK_DV, shown, pad=pad)


def _dots(arch: str) -> Iterator[api.KernelSpec]:
    for dtype, hdim, pad in product(_HALVES, HDIMS, (False, True)):
        shown = replace(
            base(dtype, hdim),
            mask=plugin.MaskKey.ANY,
            sink=plugin.Need.ANY,
            sink_logits=plugin.Need.ANY,
            bias=plugin.BiasKey.ANY,
            softcap=plugin.Need.ANY,
        )
        yield _kernel(arch, plugin.Family.BWD_DOT_DO_O, shown, pad=pad)

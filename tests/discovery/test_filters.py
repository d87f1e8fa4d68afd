"""Filters: keys, globs, exclusion, and the term that excluded everything."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fmha_cli.discovery.filters import Filter, filter_keys, parse_filter
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.signature import MaskKey, Signature


@dataclass(frozen=True, kw_only=True)
class Tiles(Algorithm):
    tile: tuple[int, ...] = (64, 128)
    packed: bool = False
    mask: int = 7


ALGORITHMS = {"toy": Tiles}


def kernel(dtype: DType = DType.FP16, hdim: int = 64, mask: MaskKey = MaskKey.NONE) -> KernelSpec:
    signature = Signature(dtype=dtype, dtype_out=dtype, hdim=hdim, hdim_v=hdim, mask=mask)
    return KernelSpec(backend="toy", family=Family.FWD, arch="gfx942", signature=signature, algorithm=Tiles())


KERNELS = [kernel(d, h, m) for d in (DType.FP16, DType.BF16) for h in (64, 128) for m in (MaskKey.NONE, MaskKey.CAUSAL)]


def upstream(k: KernelSpec) -> str | None:
    return f"fmha_{k.signature.dtype}_d{k.signature.hdim}" if k.signature.hdim == 64 else None


def select(*texts: str) -> list[KernelSpec]:
    return list(parse_filter(texts, ALGORITHMS).apply(KERNELS, upstream))


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (["dtype:fp16"], 4),
        (["dtype:*16"], 8),
        (["dtype:fp16,dtype:bf16"], 8),
        (["dtype:fp16", "dtype:bf16"], 8),
        (["dtype:fp16,hdim:64"], 2),
        (["-dtype:fp16"], 4),
        (["hdim:64,-signature.mask:causal"], 2),
        (["algorithm.mask:7"], 8),
        (["tile:64x*,packed:no"], 8),
        (["upstream_name:*_d64"], 4),
        (["backend:toy,family:fwd,arch:gfx9*"], 8),
        (["name:*hdim=128*"], 4),
        ([f"digest:{KERNELS[0].digest[:8]}*"], 1),
        ([], 8),
    ],
)
def test_selection(texts: list[str], count: int) -> None:
    assert len(select(*texts)) == count


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("dtype:fp64", "dtype:fp64 matches none of the 8 kernels"),
        ("dtype:fp16,hdim:96", "hdim:96 matches none of the 4 kernels that match dtype:fp16"),
        ("-hdim:*", "-hdim:\\* matches none of the 8 kernels"),
        ("hdim:32,hdim:33", "hdim:32,hdim:33 matches none"),
    ],
)
def test_no_match_names_the_term(text: str, term: str) -> None:
    with pytest.raises(EmptySelection, match=term):
        select(text)


@pytest.mark.parametrize("text", ["dtpye:fp16", "fp16", "dtype:", "dtype:fp16,", "hdim:64 or 1", ""])
def test_bad_terms_are_usage_errors(text: str) -> None:
    if text == "hdim:64 or 1":  # a value is matched as text, never evaluated
        with pytest.raises(EmptySelection):
            select(text)
        return
    with pytest.raises(UsageError) as caught:
        select(text)
    assert caught.value.code == "F001"


def test_unknown_keys_get_near_names() -> None:
    with pytest.raises(UsageError) as caught:
        select("dtpye:fp16")
    assert "dtype" in (caught.value.help or "")


def test_keys_cover_every_field() -> None:
    keys = filter_keys(ALGORITHMS)
    assert {"dtype", "lse", "tile", "packed", "digest", "signature.mask", "algorithm.mask"} <= set(keys)


def test_no_kernels_at_all_is_left_to_the_caller() -> None:
    assert list(Filter().apply([], upstream)) == []
    assert list(parse_filter(["dtype:x"], ALGORITHMS).apply([], upstream)) == []


def test_the_first_terms_narrow_what_need_be_listed() -> None:
    values = ("fwd", "fwd_splitkv", "bwd_dq_dk_dv")

    def first(*texts: str) -> tuple[str, ...]:
        return parse_filter(texts, ALGORITHMS).first_values("family", values, after=("backend",))

    assert first() == first("dtype:fp16") == values
    assert first("family:fwd*") == first("backend:toy", "family:fwd*", "dtype:fp16") == values[:2]
    assert first("family:fwd,family:bwd*") == ("fwd", "bwd_dq_dk_dv")
    assert first("dtype:fp16", "family:fwd") == values, "the message of an emptied filter counts what came before"
    assert first("-family:fwd") == values
    assert first("family:nope") == values, "the filter itself says what eliminated all"

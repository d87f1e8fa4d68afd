from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.encode import SCHEMA_VERSION, canonical_fields, digest_of, encode_fields
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec, parse_kernel
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import (
    BiasKey,
    CacheKey,
    MaskKey,
    ModeKey,
    Need,
    QScaleKey,
    RotaryKey,
    Signature,
)
from tests.support.generators.strategies import problems


@dataclass(frozen=True, slots=True)
class Slotted:
    tile: tuple[int, ...]
    pad: bool = False


class Pipeline(StrEnum):
    QR = "qr"
    ASYNC = "qr_async"


@dataclass(frozen=True, kw_only=True)
class Tiled(Algorithm):
    tile: tuple[int, ...]
    pipeline: Pipeline = Pipeline.QR
    pad: bool = False
    occupancy: int = -1


signatures = st.builds(
    Signature,
    dtype=st.sampled_from(DType),
    dtype_out=st.sampled_from(DType),
    hdim=st.integers(1, 512),
    hdim_v=st.integers(1, 512),
    mode=st.sampled_from(ModeKey),
    mask=st.sampled_from(MaskKey),
    bias=st.sampled_from(BiasKey),
    cache=st.sampled_from(CacheKey),
    rotary=st.sampled_from(RotaryKey),
    qscale=st.sampled_from(QScaleKey),
    page=st.sampled_from([0, 16, 256]),
    **{f.name: st.sampled_from(Need) for f in fields(Signature) if f.default is Need.NO},
)
kernels = st.builds(
    KernelSpec,
    backend=st.sampled_from(["one", "two_2"]),
    family=st.sampled_from(Family),
    arch=st.sampled_from(["gfx942", "sm_90", "sm_90a", "x86_64_v4_bf16"]),
    signature=signatures,
    algorithm=st.builds(
        Tiled,
        tile=st.lists(st.integers(1, 512), max_size=9).map(tuple),
        pipeline=st.sampled_from(Pipeline),
        pad=st.booleans(),
        occupancy=st.integers(-1, 6),
    ),
)
ALGORITHMS = {"one": Tiled, "two_2": Tiled}


@given(kernels)
def test_name_reads_back(kernel: KernelSpec) -> None:
    assert parse_kernel(kernel.name, ALGORITHMS) == kernel
    assert not set(kernel.name) & set(" '\"$&;|<>()*?[]{}!\\`\n")


@given(kernels, kernels)
@pytest.mark.slow
@pytest.mark.ci
def test_digests_differ_where_kernels_do(a: KernelSpec, b: KernelSpec) -> None:
    assert (a == b) == (a.digest == b.digest) == (a.name == b.name)


def test_every_field_enters_the_digest() -> None:
    signature = Signature.of(Problem.of())
    base = KernelSpec(backend="one", family=Family.FWD, arch="sm_90", signature=signature, algorithm=Tiled(tile=(1, 2)))
    others = [
        replace(base, arch="sm_90a"),
        replace(base, family=Family.FWD_SPLITKV),
        replace(base, backend="two_2"),
        replace(base, algorithm=Tiled(tile=(1, 2), pad=True)),
        replace(base, algorithm=Tiled(tile=(12,))),
        *(
            replace(base, signature=replace(signature, **{f.name: changed}))
            for f in fields(Signature)
            for changed in [_other(getattr(signature, f.name))]
        ),
    ]
    assert len({k.digest for k in [base, *others]}) == len(others) + 1


def _other(value: object) -> object:
    if isinstance(value, StrEnum):
        return next(m for m in type(value) if m is not value)
    return int(str(value)) + 1


def spec(hdim: int = 64) -> KernelSpec:
    signature = Signature(dtype=DType.FP16, dtype_out=DType.FP16, hdim=hdim, hdim_v=hdim)
    return KernelSpec(
        backend="one", family=Family.FWD, arch="gfx942", signature=signature, algorithm=Tiled(tile=(4, 8))
    )


def test_the_digest_is_over_the_canonical_json_of_all_fields() -> None:
    for kernel in (spec(), spec(hdim=96), replace(spec(), arch='gf"x\u00e9')):
        assert kernel.digest == digest_of({"schema": SCHEMA_VERSION, **to_json(kernel)})


def test_texts_kept_with_a_part_are_its_own() -> None:
    """Signatures and algorithms cache their texts; the cache does not affect equality, copies or other kernels."""
    kernel = spec()
    before = (kernel.name, kernel.digest, to_json(kernel))
    twin = spec()
    assert twin == kernel
    assert hash(twin) == hash(kernel)
    changed = replace(kernel, signature=replace(kernel.signature, hdim=kernel.signature.hdim * 2))
    assert changed.name != kernel.name
    assert changed.digest != kernel.digest
    shown = to_json(kernel)
    shown["algorithm"]["tile"].append(1)
    shown["signature"]["hdim"] = 0
    assert (kernel.name, kernel.digest, to_json(kernel)) == before
    assert set(asdict(kernel)) == {f.name for f in fields(kernel)}


def test_a_noun_that_cannot_keep_texts_is_encoded_too() -> None:
    noun = Slotted((1, 2))
    assert encode_fields(noun) == encode_fields(noun) == "tile=1x2"
    assert canonical_fields(noun) == '{"pad":false,"tile":[1,2]}'


def test_digest_is_the_same_in_every_process() -> None:
    code = "from fmha_cli.domain.problem import Problem; from fmha_cli.domain.encode import SCHEMA_VERSION, canonical_fields, digest_of, encode_fields; print(digest_of(Problem.of().to_dict()))"
    here = digest_of(Problem.of().to_dict())
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == here


@pytest.mark.parametrize(
    "name",
    [
        "", "x", "one:fwd:sm_90:dtype=fp16", "one:nope:sm_90::", "zero:fwd:sm_90::",
        "one:fwd:sm_90:dtype=fp16,dtype_out=fp16,hdim=1,hdim_v=1,bogus=1:tile=1",
        "one:fwd:sm_90:dtype=fp16,dtype_out=fp16,hdim=1,hdim_v=1:tile=1x",
        "one:fwd:sm_90:dtype=fp16,dtype_out=fp16,hdim=1,hdim_v=1:pad=yes",
        "one:fwd:sm_90:dtype=fp16,dtype_out=fp16,hdim=1,hdim=2,hdim_v=1:tile=1",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        parse_kernel(name, ALGORITHMS)


@given(problems())
def test_a_problem_fits_its_own_signature(problem: Problem) -> None:
    signature = Signature.of(problem)
    assert signature.misfits(signature) == ()


@given(problems(), st.sampled_from([f.name for f in fields(Signature) if f.default is Need.NO]))
def test_misfits_name_the_field(problem: Problem, field: str) -> None:
    signature = Signature.of(problem)
    flipped = Need.NO if getattr(signature, field) is Need.YES else Need.YES
    assert replace(signature, **{field: flipped}).misfits(signature) == (field,)
    assert replace(signature, **{field: Need.ANY}).misfits(signature) == ()

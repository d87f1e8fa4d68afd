"""The catalogue of FlashAttention: counts, names, and what fits a device. Listing needs nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import fields

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels, kernels
from fmha_cli.backends.flash_attn.signatures import FAMILIES, MAIN
from fmha_cli.backends.flash_attn.tiles import HDIMS, bucket, log_max_splits
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.traits import algorithm_of, smem_bytes, threads
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec, parse_kernel
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need
from tests.support.generators.flash_attn.mutations import ARCHS

pytestmark = pytest.mark.promise("GPU backends list upstream's kernels and choose among them as upstream does.")

ROOMY = {"fwd": 372, "fwd_splitkv": 928, "fwd_splitkv_combine": 168, "bwd_dot_do_o": 32, "bwd_dq_dk_dv": 372}
COUNTS = {True: {**ROOMY, "bwd_convert_dq": 16}, False: {**ROOMY, "bwd_dot_do_o": 24, "bwd_dq_dk_dv": 354}}
COUNTS[False]["bwd_convert_dq"] = 12
LISTING = """
import sys
from fmha_cli.domain.arch import load_arch
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
listed = list(CubinBackend(UPSTREAM, driven=False).kernels(load_arch("sm_90")))
names = [kernel.name for kernel in listed]
heavy = [name for name in ("numpy", "cuda", "torch", "subprocess", "urllib.request") if name in sys.modules]
print(len(names), heavy)
"""


def same(name: str) -> list[KernelSpec]:
    return list(kernels(load_arch(name)))


@pytest.mark.parametrize("arch", ARCHS)
def test_counts(arch: str) -> None:
    spec = load_arch(arch)
    found = Counter(kernel.family.value for kernel in kernels(spec))
    assert found == COUNTS[spec.fact("shared_per_block_optin") >= 144 * 1024]
    assert all(kernel.arch == arch and kernel.backend == "flash_attn" for kernel in kernels(spec))


@pytest.mark.slow
@pytest.mark.ci
def test_names_and_digests_are_those_of_one_kernel() -> None:
    every = [kernel for arch in ARCHS for kernel in same(arch)]
    print(f"{len(every)} kernels")
    assert len({kernel.name for kernel in every}) == len(every) == len(set(every))
    assert len({kernel.digest for kernel in every}) == len(every)


def test_names_are_read_back() -> None:
    for kernel in same("sm_103a"):
        assert parse_kernel(kernel.name, {"flash_attn": FaAlgorithm}) == kernel


def static_bytes(kernel: KernelSpec) -> int:
    """The bytes of ``sLSE[kMaxSplits][kBlockM + 1]`` in ``combine_attn_seqk_parallel`` (``flash_fwd_kernel.h``)."""
    algorithm = algorithm_of(kernel)
    table = 4 * (1 << algorithm.log_max_splits) * (algorithm.combine_rows + 1)
    return table if kernel.family is Family.FWD_SPLITKV_COMBINE else 0


@pytest.mark.parametrize("arch", ARCHS)
def test_every_kernel_fits_its_architecture(arch: str) -> None:
    spec = load_arch(arch)
    for kernel in kernels(spec):
        assert smem_bytes(kernel) + static_bytes(kernel) <= spec.fact("shared_per_block_optin"), kernel.name
        assert threads(kernel) in (128, 256)


def test_nothing_backwards_with_dropout_for_hdim_256_where_upstream_has_none() -> None:
    def has(arch: str) -> bool:
        group = family_kernels(load_arch(arch), Family.BWD_DQ_DK_DV)
        return any(k.signature.hdim == 256 and k.signature.dropout is Need.YES for k in group)

    assert [arch for arch in ARCHS if not has(arch)] == ["sm_120", "sm_120a", "sm_86", "sm_89"]


def test_other_backends_architectures_and_families_have_none() -> None:
    assert list(kernels(load_arch("gfx942"))) == []
    assert family_kernels(load_arch("sm_90"), Family.FWD_PAGEDKV) == ()
    assert {kernel.family for kernel in same("sm_90")} == set(FAMILIES)


def test_what_is_taken_at_run_time_is_not_compiled_in() -> None:
    for kernel in same("sm_90"):
        s, a = kernel.signature, algorithm_of(kernel)
        assert s.lse is s.gqa is s.deterministic is Need.ANY
        assert s.page == 0
        assert s.mode is (ModeKey.BATCH if a.even_mn else ModeKey.ANY)
        assert not (s.softcap is Need.YES and s.dropout is Need.YES)
        if kernel.family in MAIN:
            assert s.mask in (MaskKey.NONE, MaskKey.CAUSAL, MaskKey.WINDOW)
            assert s.bias in (BiasKey.NONE, BiasKey.ALIBI)


def test_the_order_is_the_same_every_time_and_the_families_can_be_asked_for_alone() -> None:
    spec = load_arch("sm_80")
    assert [k.name for k in kernels(spec, (Family.FWD,))] == [k.name for k in family_kernels(spec, Family.FWD)]
    first = next(kernels(spec))
    assert (first.signature.dtype, first.signature.hdim) == (DType.FP16, HDIMS[0])


def test_buckets_and_parts() -> None:
    assert [bucket(hdim) for hdim in (8, 32, 40, 64, 72, 104, 136, 200, 256, 257)] == [
        32,
        32,
        64,
        64,
        96,
        128,
        192,
        256,
        256,
        None,
    ]
    assert [log_max_splits(n) for n in (2, 3, 4, 5, 64, 65, 128)] == [1, 2, 2, 3, 6, 7, 7]


def test_algorithms_hold_nothing_that_a_name_would_lose() -> None:
    kinds = {type(getattr(algorithm_of(k), f.name)) for k in same("sm_86") for f in fields(FaAlgorithm)}
    assert kinds == {tuple, int, bool}


def test_listing_takes_no_sources_and_no_heavy_import() -> None:
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    print(done.stdout.strip())
    assert done.stdout.startswith("1888 []")

"""Seventeen defects of an earlier FlashAttention dispatch library. Each has a test that this design is free of it.

They were found by reading that library. Every test names the defect and asserts the opposite.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path

import pytest

from fmha_cli.backends import flash_attn
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.shop import build
from fmha_cli.backends.flash_attn.catalogue import family_kernels, kernels
from fmha_cli.backends.flash_attn.decide import decide
from fmha_cli.backends.flash_attn.key import DispatchKey, Page, key_of
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.emit import SYMBOL, emit, shims
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.features import Direction
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import BiasKey
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cuda.compile import cuda_key
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.probe import CudaKind, CudaToolchain
from tests.support.builds.nvrtc_context import nvrtc_context
from tests.support.referees.flash_attn.dispatch import NOT_LISTED, lookup, strict_lookup, validate

pytestmark = pytest.mark.promise(
    "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
)

ROOT = Path(__file__).resolve().parents[3]
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")
NVRTC = CudaToolchain(
    kind=CudaKind.NVRTC,
    path=Path("/somewhere/libnvrtc.so.13"),
    version="NVRTC 13.0.88",
    capabilities=(80, 86, 89, 90, 100, 103, 120),
    headers_digest="c" * 64,
    places={"nvrtc_library": "/somewhere", "cuda": "/somewhere/include", "cccl": "/somewhere/cccl"},
)
PROBLEM = "-b 64 -s 2k --dtype bf16"


def key(line: str = PROBLEM, arch: str = "sm_90") -> DispatchKey:
    return key_of(Problem.from_cli(line), arch)


def kernel(line: str = PROBLEM, arch: str = "sm_90") -> KernelSpec:
    """The kernel that upstream would take."""
    found = strict_lookup(key(line, arch)).kernel
    assert found is not None
    return found


def build_key(of: KernelSpec, text: str = "the text", digests: tuple[str, ...] = ("a" * 64,)) -> BuildKey:
    return cuda_key(of, text, NVRTC, (), ("nvrtc", "flash"), digests)


@pytest.fixture(scope="module")
def cubin(shared_cache: Path) -> bytes:
    """The artifact of a small kernel, compiled once per run."""
    small = (k for k in family_kernels(load_arch("sm_90"), Family.FWD_SPLITKV_COMBINE) if k.signature.hdim == 64)
    return build(UPSTREAM, next(small), nvrtc_context(UPSTREAM, shared_cache)).path.read_bytes()


@pytest.mark.slow
@pytest.mark.ci
def test_defect_01_what_the_cache_keeps_is_a_cubin(cubin: bytes) -> None:
    """Earlier defect: the "cubin cache" held PTX, so every start ran the driver's compiler."""
    assert cubin[:4] == b"\x7fELF"
    assert Cubin(cubin).arch == "sm_90"
    assert b".target sm_" not in cubin
    assert b".version 8" not in cubin
    assert all("compute_" not in flag for flag in build_key(kernel()).flags), "a real architecture gives a cubin"


@pytest.mark.slow
@pytest.mark.ci
def test_defect_02_a_kernels_name_in_the_cubin_is_known(cubin: bytes) -> None:
    """Earlier defect: the mangled names of templates were never requested, so no kernel would have been found."""
    assert [found.name for found in Cubin(cubin).kernels] == [SYMBOL]
    for line in (PROBLEM, "-s 1 --seqlen-k 9k", "-s 2k --direction bwd"):
        assert f'extern "C" __global__ void {SYMBOL}(' in emit(kernel(line))


def test_defect_03_one_text_for_two_targets_is_two_entries() -> None:
    """Earlier defect: loaded modules were identified by the source alone."""
    first = build_key(kernel())
    others = [
        build_key(replace(kernel(), arch="sm_100")),
        replace(first, flags=tuple(reversed(first.flags))),
        replace(first, flags=first.flags[:-1]),
        replace(first, toolchain_version="NVRTC 13.0.99"),
        build_key(kernel(), digests=("b" * 64,)),
        build_key(kernel(), text="another text"),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert build_key(kernel()).digest == first.digest


def test_defect_04_the_suffix_of_an_architecture_is_in_every_key() -> None:
    """Earlier defect: sm_90 and sm_90a were both 90 in the key of the disk cache."""
    plain, suffixed = kernel(arch="sm_90"), kernel(arch="sm_90a")
    assert plain.algorithm == suffixed.algorithm
    assert plain.signature == suffixed.signature
    for first, second in ((plain, suffixed), (kernel(arch="sm_100"), kernel(arch="sm_100a"))):
        assert first.name != second.name
        assert first.digest != second.digest
        assert build_key(first).spec.arch == first.arch
        assert build_key(first).digest != build_key(second).digest
        assert f"-arch={second.arch}" in build_key(second).flags
    assert key(arch="sm_90").digest != key(arch="sm_90a").digest


def test_defect_05_sm_100_never_gets_the_instructions_of_sm_100a() -> None:
    """Earlier defect: kernels with tcgen05 were compiled for compute_100, but only 100a has it."""
    assert "tcgen05" in load_arch("sm_100a").fact("instructions")
    assert "tcgen05" not in load_arch("sm_100").fact("instructions")
    texts = [
        path.read_text("utf-8") for name in ("common", "nvrtc") for path in shims(name).rglob("*") if path.is_file()
    ]
    texts += [emit(kernel(line, arch)) for arch in ("sm_100", "sm_100a") for line in (PROBLEM, "-s 2k --direction bwd")]
    assert not any(word in text for text in texts for word in ("tcgen05", "wgmma", "setmaxnreg"))
    assert "-arch=sm_100" in build_key(kernel(arch="sm_100")).flags
    both = [emit(kernel(arch=arch)).replace(arch, "ARCH") for arch in ("sm_100", "sm_100a")]
    assert both[0] == both[1], "one code for both: it uses nothing that the plain architecture lacks"


@pytest.mark.slow
@pytest.mark.ci
def test_defect_06_no_two_kernels_share_a_name() -> None:
    """Earlier defect: forward and backward, sm_80 and sm_89, sm_90a and sm_100 shared names."""
    listed = [one for arch in ARCHS for one in kernels(load_arch(arch))]
    assert len({one.name for one in listed}) == len(listed) > 10000
    sample = listed[::7]
    assert len({one.digest for one in sample}) == len(sample)
    forward, backward = key(), key(f"{PROBLEM} --direction bwd")
    assert forward.name != backward.name
    assert forward.digest != backward.digest
    assert len({key(arch=arch).name for arch in ARCHS}) == len(ARCHS)


def test_defect_07_everything_that_changes_the_kernel_is_in_the_key() -> None:
    """Earlier defect: the key lacked the KV type, dropout, head dim of V, softcap, page class, splits and direction."""
    axes = {field.name for field in fields(DispatchKey)}
    assert {"dtype_kv", "dropout", "hdim_v", "softcap", "page", "split", "direction", "append", "varlen"} <= axes
    base = key()
    for change in (
        {"dtype_kv": DType.FP16},
        {"dropout": True},
        {"hdim_v": 64},
        {"softcap": True},
        {"cache": True, "page": Page.WHOLE},
        {"split": True},
        {"direction": Direction.BWD},
    ):
        other = replace(base, **change)  # type: ignore[arg-type]
        assert (other.name, other.digest) != (base.name, base.digest)
    told = {line: kernel(line).digest for line in (PROBLEM, f"{PROBLEM} --dropout 0.1", f"{PROBLEM} --softcap 9")}
    assert len(set(told.values())) == len(told)


def test_defect_08_the_size_of_a_window_is_not_compiled_in() -> None:
    """Earlier defect: each number of keys in a window required a compile."""
    windows = [f"{PROBLEM} --mask window:{left},{right}" for left, right in ((641, 0), (7, 7), (1234, 56), (-1, 99))]
    assert len({kernel(line) for line in windows}) == 1
    assert len({key(line) for line in windows}) == 1
    text = emit(kernel(windows[0]))
    assert "641" not in text
    assert "1234" not in key(windows[2]).name


def test_defect_09_digests_are_the_same_in_every_process() -> None:
    """Earlier defect: the hash could change with any release of the language."""
    told = []
    for seed in ("1", "2"):
        code = (
            "from fmha_cli.backends.flash_attn.decide import decide; from fmha_cli.backends.flash_attn.key import key_of;"
            "from fmha_cli.domain.device import DeviceFacts; from fmha_cli.domain.problem import Problem;"
            f"p = Problem.from_cli({PROBLEM!r}); best = next(iter(decide(p, DeviceFacts.of_arch('sm_90'))));"
            "print(key_of(p, 'sm_90').digest, best.kernel.digest)"
        )
        env = {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        told.append(done.stdout.split())
    assert told == [[key().digest, kernel().digest]] * 2
    assert re.fullmatch("[0-9a-f]{64}", key().digest)


def test_defect_10_any_ratio_of_heads_that_divides_is_served() -> None:
    """Earlier defect: a comment required powers of two; the code accepted anything but 0."""
    for heads, kv_heads in ((6, 2), (5, 1), (7, 7), (48, 4)):
        line = f"-b 64 -s 2k -H {heads} --kv-heads {kv_heads}"
        assert kernel(line) == kernel("-b 64 -s 2k")


def test_defect_11_an_fp8_request_is_refused_on_every_architecture() -> None:
    """Earlier defect: the FlashAttention-2 request accepted fp8 wherever FlashAttention-3 would have."""
    for arch in ARCHS:
        for dtype in (DType.FP8_E4M3, DType.FP8_E5M2):
            made = replace(key(arch=arch), dtype=dtype, dtype_kv=dtype, dtype_out=DType.BF16)
            assert "K420" in {reason.id for reason in validate(made)}
            problem = Problem.from_cli(f"--dtype {dtype.value}")
            assert not any(isinstance(d, Supported) for d in decide(problem, DeviceFacts.of_arch(arch)))


def test_defect_12_a_miss_is_never_silent() -> None:
    """Earlier defect: the lenient lookup invented a name for whatever the table lacked."""
    for wrong in (replace(key(), arch="sm_75"), replace(key(), head_dim=20, hdim_v=20, even=False)):
        for found in (lookup(wrong), strict_lookup(wrong)):
            assert found.kernel is None
            assert found.reasons
    missed = strict_lookup(key(), [])
    assert missed.kernel is None
    assert missed.reasons[0].id == NOT_LISTED


def mentions(texts: Collection[str]) -> set[str]:
    """The rule ids that texts mention, without the ends of ranges."""
    return {word for text in texts for word in re.findall(r"(?<![-\w])K4\d\d(?![-\w])", text)}


def test_defect_13_what_is_written_about_rules_names_rules_that_exist() -> None:
    """Earlier defect: the documentation named members that the code did not have."""
    paths = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *Path(str(flash_attn.__file__)).parent.glob("*.py")]
    known = {rule.id for rule in CubinBackend(UPSTREAM, driven=False).rules()}
    found = mentions([path.read_text("utf-8") for path in paths])
    assert len(found) > 30
    assert found <= known
    assert mentions(["as K499 says"]) - known == {"K499"}, "a planted one is seen"


def test_defect_14_products_of_sizes_do_not_wrap() -> None:
    """Earlier defect: batch times longest sequence was computed in 32 bits, so 2^32 rows looked like none."""
    problem = Problem.from_cli("-b 65536 -H 65536 -s 65536 --seqlen-k 1")
    refused = [d for d in decide(problem, DeviceFacts.of_arch("sm_90")) if not isinstance(d, Supported)]
    nearest = min(refused, key=lambda d: d.distance)
    texts = {reason.id: reason.text for reason in nearest.reasons}
    assert texts["K452"].startswith(f"{2**48} rows")
    fitting = Problem.from_cli("-b 1024 -H 2 -s 1m --seqlen-k 1")
    texts = {
        r.id: r.text
        for d in decide(fitting, DeviceFacts.of_arch("sm_90"))
        if not isinstance(d, Supported)
        for r in d.reasons
    }
    assert texts["K452"].startswith(f"{2**31} rows")


def test_defect_15_a_lookup_validates_what_the_key_is_for() -> None:
    """Earlier defect: backward and paged keys were checked as plain forward ones."""
    backward = key("-b 64 -s 2k -d 256 --direction bwd --dropout 0.1", "sm_86")
    assert [reason.id for reason in lookup(backward).reasons] == ["K434"]
    assert lookup(replace(backward, direction=Direction.FWD)).kernel is not None
    paged = replace(key("-s 1 --kv-cache paged:16"), split=False)
    assert [reason.id for reason in lookup(paged).reasons] == ["K436"]
    assert [reason.id for reason in lookup(replace(paged, page=Page.WHOLE)).reasons] == []


def test_defect_16_without_a_device_the_answer_is_a_typed_error() -> None:
    """Earlier defect: callers saw a dropped reply, whatever had happened."""
    backend = CubinBackend(UPSTREAM, driven=False)
    found = backend.probe()
    assert found.state is State.NO_DEVICE
    assert found.why
    assert found.help
    registry = build_registry()
    with pytest.raises(EnvironmentProblem) as told:
        select(Problem.from_cli(""), registry, {"flash_attn": found}, Wanted(backend="flash_attn"))
    assert told.value.code == "E022"
    assert told.value.why == found.why
    wanted = Wanted(backend="flash_attn", arch="sm_90")
    assert select(Problem.from_cli(""), registry, {"flash_attn": found}, wanted).best is not None


def test_defect_17_features_are_upstreams_and_no_others() -> None:
    """Earlier defect: it offered e5m2, sink tokens, and ALiBi where the kernels lacked them."""
    made = replace(key(), dtype=DType.FP8_E5M2, dtype_kv=DType.FP8_E5M2, dtype_out=DType.BF16, sink=True, causal=True)
    assert {"K420", "K427"} <= {reason.id for reason in validate(made)}
    slopes = kernel(f"{PROBLEM} --alibi")
    assert slopes.signature.bias is BiasKey.ALIBI
    assert ", true" in emit(slopes)
    assert emit(slopes) != emit(kernel())
    listed = list(kernels(load_arch("sm_90")))
    assert {one.signature.dtype for one in listed} == {DType.FP16, DType.BF16}
    assert {one.signature.sink.value for one in listed} == {"no"}

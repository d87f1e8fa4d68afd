"""Architecture facts: all have a source, shared facts are stated once, and NVRTC assembles the listed instructions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fmha_cli.bench.peaks import spec_peaks
from fmha_cli.domain import arch
from fmha_cli.domain.arch import ArchSpec, apart, arch_from_json, arch_names, arch_root, load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from tests.support.builds import nvrtc_features

NVIDIA = tuple(name for name in arch_names() if name.startswith("sm_"))
NEEDED = [
    "compute_capability",
    "registers_per_sm",
    "register_allocation_unit",
    "warp_allocation_granularity",
    "max_registers_per_thread",
    "max_registers_per_block",
    "shared_per_sm",
    "shared_per_block",
    "shared_per_block_optin",
    "shared_reserved_per_block",
    "shared_allocation_unit",
    "max_warps_per_sm",
    "max_threads_per_sm",
    "max_blocks_per_sm",
    "max_threads_per_block",
    "warp_size",
    "sm_count",
    "product",
    "other_products",
    "device_names",
    "llc_bytes",
    "peak_flops",
    "peak_bandwidth",
    "instructions",
]
CONFIDENCE = {"checked", "recalled", "conflict"}
GROUPS = "_nvidia.json"


def text(**changes: Any) -> str:
    """The text of a small architecture file."""
    fact = {"value": 1, "source": "here"}
    return json.dumps(
        {"schema": "fmha.arch/1", "name": "a", "vendor": "nvidia", "title": "t", "facts": {"one": fact}} | changes
    )


@pytest.mark.parametrize("name", arch_names())
def test_every_fact_has_a_source(name: str) -> None:
    spec = load_arch(name)
    assert spec.name == name
    for key, fact in spec.facts.items():
        assert str(fact["source"]).strip(), key
        assert set(fact) <= {"value", "source", "confidence", "conflict"}, key
        assert fact.get("confidence", "checked") in CONFIDENCE, key
        assert "conflict" not in fact or len(fact["conflict"]) > 10, key


def test_the_thirteen_architectures() -> None:
    assert set(NVIDIA) == {
        "sm_60",
        "sm_70",
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_89",
        "sm_90",
        "sm_90a",
        "sm_100",
        "sm_100a",
        "sm_103a",
        "sm_120",
        "sm_120a",
    }


@pytest.mark.parametrize("name", NVIDIA)
def test_nvidia_facts_are_complete_and_agree(name: str) -> None:
    spec = load_arch(name)
    capability = spec.fact("compute_capability")
    later = {"nvrtc_assembler_fails_on"} if capability >= [9, 0] else set()
    earlier = {"nvrtc_refuses"} if capability < [7, 5] else set()
    short = {"matrix_sum_bits"} if name in ("sm_89", "sm_90a") else set()
    assert set(spec.facts) == set(NEEDED) | later | earlier | short
    assert all("confidence" in fact for fact in spec.facts.values())
    major, minor = spec.fact("compute_capability")
    assert name.removeprefix("sm_").rstrip("a") == f"{major}{minor}"
    if capability >= [7, 0]:  # earlier devices have no opt-in
        assert spec.fact("shared_per_block_optin") == spec.fact("shared_per_sm") - spec.fact(
            "shared_reserved_per_block"
        )
    assert spec.fact("max_threads_per_sm") == spec.fact("max_warps_per_sm") * spec.fact("warp_size")
    assert spec.vendor == "nvidia"
    assert all(row["source"] for row in spec.backends.values())
    suffixed = name.endswith("a") and capability < [12, 0]  # cudnn_oss: WGMMA or tcgen05, which take the "a" targets
    served = {"flash_attn": capability >= [8, 0], "mem_efficient": True, "cudnn_oss": suffixed}
    served["flash_attn_3"] = name == "sm_90a"
    assert set(spec.backends) == {backend for backend, here in served.items() if here}


@pytest.mark.parametrize("name", [n for n in NVIDIA if n.endswith("a") and n[:-1] in NVIDIA])
def test_a_suffix_adds_instructions_and_changes_nothing_else(name: str) -> None:
    plain, suffixed = load_arch(name[:-1]).facts, load_arch(name).facts
    assert {key for key in plain if plain[key] != suffixed[key]} == {"instructions"}
    assert set(plain["instructions"]["value"]) < set(suffixed["instructions"]["value"])


@pytest.mark.parametrize("name", NVIDIA)
def test_peaks_are_those_of_the_named_product(name: str) -> None:
    spec = load_arch(name)
    peaks = spec_peaks(spec)
    assert peaks is not None
    assert peaks.bandwidth is not None
    assert peaks.llc_bytes is not None
    assert set(spec.fact("device_names").values()) == {spec.fact("product"), *spec.fact("other_products")}
    assert set(peaks.flops) <= {dtype.value for dtype in DType}
    assert {"fp16", "fp32"} <= set(peaks.flops)
    assert peaks.flops["fp16"] > peaks.flops["fp32"]
    assert ("bf16" in peaks.flops) == ("mma_m16n8k16_bf16" in spec.fact("instructions"))
    assert peaks.flops.get("bf16", peaks.flops["fp16"]) == peaks.flops["fp16"]
    assert ("fp8_e4m3" in peaks.flops) == ("mma_m16n8k32_fp8_e4m3" in spec.fact("instructions"))
    for product, row in spec.fact("other_products").items():
        assert product != spec.fact("product")
        assert row["confidence"] in CONFIDENCE
        assert row["peak_flops"]["fp16"] <= peaks.flops["fp16"] * 1.12, product  # GB200 and GB300 have higher clocks
        assert set(row["peak_flops"]) == set(peaks.flops), product


ASSEMBLED = ("sm_60", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120")
"""One architecture of each set of instructions, one that NVRTC refuses, and one on each side of a suffix."""


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", [n if n in ASSEMBLED else pytest.param(n, marks=pytest.mark.slow) for n in NVIDIA])
def test_nvrtc_assembles_exactly_the_instructions_that_the_facts_name(name: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-python is not installed")
    refused = "nvrtc_refuses" in load_arch(name).facts
    try:
        found = nvrtc_features.instructions(name)
    except Exception as error:  # the bindings' error has no more specific base class
        if refused and "invalid value for --gpu-architecture" in str(error):
            return
        if type(error).__name__ != "DynamicLibNotFoundError":
            raise
        pytest.skip("NVRTC is not installed")
    assert found == tuple(load_arch(name).fact("instructions"))
    assert not refused


def test_shared_facts_are_used_and_stand_once() -> None:
    groups = json.loads(arch_root().joinpath(GROUPS).read_text("utf-8"))["groups"]
    files = [json.loads(arch_root().joinpath(f"{name}.json").read_text("utf-8")) for name in NVIDIA]
    assert set(groups) == {name for file in files for name in file["shared"]["groups"]}
    spec = arch_from_json(text(shared={"file": GROUPS, "groups": ["nvidia"]}), "a")
    assert spec.fact("warp_size") == 32
    assert spec.fact("one") == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"shared": {"file": GROUPS, "groups": ["nowhere"]}},
        {"shared": {"file": "_nowhere.json", "groups": ["nvidia"]}},
        {"shared": {"file": "_sources.json", "groups": ["nvidia"]}},
        {"shared": {"file": GROUPS, "groups": ["nvidia", "nvidia"]}},
        {"shared": {"file": GROUPS, "groups": ["nvidia"]}, "facts": {"warp_size": {"value": 64, "source": "here"}}},
        {"shared": {"files": GROUPS}},
        {"facts": {"one": {"value": 1}}},
        {"facts": None},
    ],
    ids=["group", "file", "schema", "twice", "own", "members", "source", "facts"],
)
def test_damaged_files_are_named(changes: dict[str, Any]) -> None:
    assert isinstance(arch_from_json(text(), "a"), ArchSpec)
    with pytest.raises(InternalError, match="a"):
        arch_from_json(text(**changes), "a")


def test_a_missing_fact_is_named() -> None:
    with pytest.raises(InternalError, match="isa_version"):
        load_arch("sm_90").fact("isa_version")
    assert arch.SCHEMA != arch.GROUPS_SCHEMA


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sm_90", ["sm_90a", "sm_100a", "sm_103a"]),
        ("sm_120", ["sm_103a", "sm_100a", "sm_90a"]),
        ("gfx950", ["gfx942", "gfx90a", "gfx1100", "gfx1201"]),
        ("gfx1250", ["gfx1201", "gfx1100", "gfx950"]),
        ("gfx90a", ["gfx942", "gfx950", "gfx1100"]),
        ("gfx942", ["sm_100a", "sm_90a"]),
    ],
)
def test_the_nearest_architecture_comes_first(name: str, near: list[str]) -> None:
    start = near if name == "gfx942" else sorted(near)
    assert sorted(start, key=lambda other: apart(name, other)) == near

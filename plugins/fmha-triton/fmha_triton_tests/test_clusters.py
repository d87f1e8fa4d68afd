"""Blackwell kernels of several CTAs: their layouts, and runs on emulated devices, also with several tiles for a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu import emulator
from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of
from fmha_triton.deciding import decide
from fmha_triton.emit import arguments, cga_layout, constants, emit, rows_per_copy, swizzle_bytes
from fmha_triton.plan import grid_of, plan_of, tiles_of

from fmha_cli import api, plugin
from fmha_triton_tests.support.emulated_runs import assert_clean, drawn, needs_triton, plant, record

DEVICE = plugin.DeviceFacts(id="none", archs=("sm_103a",), units=5)
LENGTHS = "-H 1 -s 512 --seqlen-k 256"
PAIR = f"{LENGTHS} -d 128 --dtype fp16"
SIGNATURES = (
    *(f"-d {hdim} --dtype {dtype}" for hdim in (64, 128) for dtype in ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2")),
    "-d 128 --hdim-v 64 --dtype fp16",
    "-d 64 --hdim-v 128 --dtype bf16",
)
PARTITIONS = "], [4, 4, 1, 1, 1], [192, 192, 24, 24, 24])"
FAULTS = {
    "the block does not wait for the last buffers": ("    q.drain()\n    kv.drain()\n", "", "cluster-misuse"),
    "barriers are invalidated while the other CTA may still arrive": (
        PARTITIONS,
        f"{PARTITIONS}\n    mbarrier.invalidate(channels[4].empty.index(0))",
        "mbarrier-misuse",
    ),
}
"""The text, what stands there instead, and the finding. Two CTAs, two blocks of keys."""


def kernel_of(num_ctas: int, flags: str = PAIR) -> api.KernelSpec:
    """The Blackwell kernel of a problem with a number of CTAs."""
    found = (d.kernel for d in candidates(flags) if function_of(d.kernel) == BLACKWELL)
    return next(k for k in found if algorithm_of(k).num_ctas == num_ctas)


def candidates(flags: str) -> list[api.Supported]:
    found = (d for d in decide(api.Problem.from_cli(flags), DEVICE) if isinstance(d, api.Supported))
    return sorted(found, key=lambda d: d.rank)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
def test_a_cluster_splits_the_rows_of_q_and_shares_k_and_v() -> None:
    pair, four = kernel_of(2), kernel_of(4)
    assert cga_layout(pair, "QMap") == cga_layout(pair, "KMap") == cga_layout(pair, "OutMap") == [[0, 0, 1, 0]]
    assert cga_layout(pair, "VMap") == [[0, 0, 0, 1]]
    assert cga_layout(four, "OutMap") == [[0, 0, 1, 0], [0, 0, 2, 0]]
    assert cga_layout(four, "KMap") == [[0, 0, 1, 0], [0, 0, 0, 0]]
    for kernel in (pair, four):
        assert [rows_per_copy(kernel, name) for name in ("QMap", "KMap", "VMap", "OutMap")] == [128, 64, 128, 128]


def test_the_number_of_ctas_is_in_name_digest_and_text() -> None:
    names = [kernel_of(n).name for n in (1, 2, 4)]
    assert "num_ctas" not in names[0]
    assert [name.endswith(f"num_ctas={n}") for name, n in zip(names[1:], (2, 4), strict=True)] == [True, True]
    assert len({kernel_of(n).digest for n in (1, 2, 4)}) == len({emit(kernel_of(n)) for n in (1, 2, 4)}) == 3
    assert all(f'"num_ctas": {n}' in emit(kernel_of(n)) for n in (1, 2, 4))


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.parametrize(("flags", "widths"), [
    ("-d 128 --dtype fp16", [128, 128]),
    ("-d 64 --dtype bf16", [128, 64]),
    ("-d 128 --dtype fp8_e5m2", [128, 64]),
    ("-d 64 --dtype fp8_e4m3", [64, 32]),
    ("-d 128 --hdim-v 64 --dtype fp16", [128, 64]),
    ("-d 64 --hdim-v 128 --dtype bf16", [128, 128]),
])  # fmt: skip
def test_a_row_of_v_is_swizzled_over_the_half_that_a_cta_has(flags: str, widths: list[int]) -> None:
    """Bytes of a row of K and of V, of several CTAs. One CTA has rows of V twice as long, up to the widest swizzle."""
    one, pair, four = (kernel_of(n, f"{LENGTHS} {flags}") for n in (1, 2, 4))
    for kernel in (pair, four):
        assert [swizzle_bytes(kernel, name) for name in ("KMap", "VMap")] == widths
        types = {a.name: a.type for a in arguments(kernel)}
        assert f"(swizzle_byte_width={widths[1]}," in types["VMap"]
    assert swizzle_bytes(one, "VMap") == min(2 * widths[1], 128)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.parametrize("flags", SIGNATURES)
def test_other_numbers_of_ctas_stay_candidates_behind_upstream_s(flags: str) -> None:
    """Upstream takes two CTAs without a mask, with head dim 128 and 16 bits."""
    first = 2 if flags in ("-d 128 --dtype fp16", "-d 128 --dtype bf16") else 1
    order = [first, *(n for n in (1, 2, 4) if n != first)]
    assert [algorithm_of(d.kernel).num_ctas for d in candidates(f"{LENGTHS} {flags}")[:3]] == order
    assert [algorithm_of(d.kernel).num_ctas for d in candidates(f"{LENGTHS} {flags} --causal")[:3]] == [1, 2, 4]


@pytest.mark.parametrize(("flags", "buffers"), [("-d 64 --dtype fp16", 6), ("-d 64 --dtype fp8_e4m3", 8)])
def test_head_dim_64_takes_turns_and_has_more_buffers_also_in_clusters(flags: str, buffers: int) -> None:
    for num_ctas in (1, 2, 4):
        found = constants(kernel_of(num_ctas, f"{LENGTHS} {flags}"))
        assert (found["TURNSTILE"], found["BUFFERS"]) == (True, buffers)


def test_the_grid_holds_whole_clusters_and_the_plan_says_what_they_take() -> None:
    problem = api.Problem.from_cli("-H 9 -s 512 -d 128 --dtype fp16")
    assert grid_of(problem, kernel_of(2), 1, 5) == (4, 1, 1)
    assert grid_of(problem, kernel_of(4), 1, 2) == (4, 1, 1)
    detail = dict(plan_of(problem, kernel_of(2), DEVICE).stages[0].detail)
    assert detail["cluster"] == "2 CTAs"
    assert detail["tensor memory"] == "512 of 512 columns"
    assert detail["shared memory"].endswith(" bytes")


def test_head_dim_256_is_refused_with_the_columns_that_it_needs() -> None:
    found = decide(api.Problem.from_cli("-H 2 -s 256 -d 256 --dtype fp16"), DEVICE)
    refused = next(d for d in found if d.kernel is not None and function_of(d.kernel) == BLACKWELL)
    assert isinstance(refused, api.Unsupported)
    text = next(reason.text for reason in refused.reasons if reason.id == "K961")
    assert text.endswith("256 would need 768 columns of tensor memory, of 512")


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize(("arch", "flags"), drawn([
    ("sm_103a", "-H 2 -s 512 -d 128 --dtype fp16"),
    ("sm_103a", "-b 2 -H 4 --kv-heads 2 -s 300 --seqlen-k 333 -d 128 --dtype bf16 --lse"),
    ("sm_103a", "-H 2 -s 256 -d 64 --dtype fp16"),
], 1, "clusters"))  # fmt: skip
def test_it_passes(arch: str, flags: str, cache: str) -> None:
    found = record(flags, arch, cache)
    assert_clean(found)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize(("num_ctas", "flags"), [
    (4, "-H 1 -s 700 --seqlen-k 300 -d 128 --dtype fp16"),
    (2, "-H 1 -s 4096 -d 128 --dtype fp16"),
    (2, f"{LENGTHS} -d 64 --dtype fp16 --causal --lse"),
    pytest.param(2, "-H 1 -s 300 --seqlen-k 200 -d 64 --dtype fp8_e4m3 --qscale tensor --causal --lse", marks=pytest.mark.ci),
    (4, "-H 1 -s 700 --seqlen-k 300 -d 128 --dtype fp8_e5m2 --qscale head"),
    (2, "-H 1 -s 300 --seqlen-k 200 -d 128 --hdim-v 64 --dtype bf16"),
])  # fmt: skip
def test_the_named_kernel_passes(num_ctas: int, flags: str, cache: str) -> None:
    """Numbers of CTAs that upstream takes for no problem, and 4,096 rows, which take half a minute."""
    kernel = kernel_of(num_ctas, flags).name
    (found,) = api.run(
        api.Problem.from_cli(flags), backend="triton", device="emu:sm_103a", kernel=kernel, cache_root=cache
    )
    assert_clean(found)
    assert found.kernel is not None
    assert found.kernel.name == kernel


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize(("flags", "tiles", "programs"), [
    pytest.param("-H 3 -s 300 --seqlen-k 200 -d 64 --dtype bf16 --causal --lse", 6, 2, marks=pytest.mark.ci),
    ("-H 2 --kv-heads 1 -s 600 --seqlen-k 200 -d 128 --dtype fp16 --lse", 4, 1),
])  # fmt: skip
def test_a_program_computes_several_tiles_in_turn(
    flags: str, tiles: int, programs: int, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six tiles in two programs of one CTA; four in one of two CTAs, on a device that claims to have two
    multiprocessors.

    A whole device gives each tile a program. Each program loads its parameters once.
    """
    kernel, whole = candidates(flags)[0].kernel, emulator._facts
    assert tiles_of(api.Problem.from_cli(flags), kernel) == tiles
    assert 2 // algorithm_of(kernel).num_ctas == programs
    loads = []
    for units in (None, 2):
        if units:
            monkeypatch.setattr(emulator, "_facts", lambda arch: replace(whole(arch), units=2))
        found = record(flags, "sm_100a", cache)
        assert_clean(found)
        assert found.executed
        loads.append(found.executed[0].classes["param"])
    assert loads[0] * programs == loads[1] * tiles


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", drawn([(name,) for name in FAULTS], 1, "faults of clusters"))
def test_a_planted_fault_is_found(name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, other, finding = FAULTS[name]
    plant(text, other, monkeypatch)
    found = record(PAIR, "sm_103a", cache)
    assert found.verdict is api.Verdict.HAZARD, found.notes
    assert finding in {one.kind for one in found.findings}

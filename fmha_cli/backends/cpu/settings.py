"""Run-time settings of the CPU kernels that depend on the processor: prefetch hints of decode, blocks and turns of prefill.

Facts of the microarchitecture decide. Where there are none, a short measurement with the kernel itself does, once per machine.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from mmap import mmap
from pathlib import Path
from random import Random
from statistics import median
from time import process_time_ns

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import Processor, microarchitecture, this_processor
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.domain.signature import KvKey, Signature
from fmha_cli.domain.tensors import shapes_of

NEAR, FAR, PAGES = "prefetch_near", "prefetch_far", "prefetch_pages"
BLOCK, TURNS = "block_keys", "query_tiles"
"""Members of ``FmhaCpuArgs``: hints of decode, and how prefill goes through keys and queries."""

KIB = 1024
HINTS = (
    (8 * KIB, 0),
    (4 * KIB, 0),
    (16 * KIB, 0),
    (2 * KIB, 8 * KIB),
    (8 * KIB, 8 * KIB),
    (2 * KIB, 16 * KIB),
    (0, 8 * KIB),
)
"""Distances into the first-level cache and the second that the measurement tries, besides the kernel's own."""
SHARES = (1, 2, 4)
"""The parts of the kernel's own block of keys that it tries."""
TURNS_TRIED = (4, 8)
"""The tiles of queries that take turns at each block of keys."""

ROUNDS = 7
GAIN = 0.95
"""Another setting than the kernel's own must take at most this share of its time: less is noise."""

FILLING = b"\x3c"
"""Repeated, it is 0.01 in fp32 and bf16, and 1.06 in fp16."""

LEAST_BYTES, MOST_BYTES = 64 << 20, 128 << 20
"""K and V of the measurement: four times the last-level cache, within these limits."""
KV_HEADS = 8
"""Each is read by four query heads: with one, arithmetic leaves the processor so much time that hints hardly differ. Bytes take more
arithmetic: one query head is enough."""
LONG = 1024
"""Keys from which a prefill kernel has several blocks."""
MEASURED_KEYS = 4096
"""Keys of its measurement: more of K and V than a second-level cache holds."""


def default_settings(kernel: KernelSpec, processor: Processor) -> Settings | None:
    """The settings of a kernel by the facts, else its own; None if it takes none."""
    algorithm, known = algorithm_of(kernel), microarchitecture(processor)
    streams = algorithm.kind in (LoopKind.DECODE, LoopKind.SPLIT)
    fact = None if known is None else known.fact("decode_prefetch" if streams else BLOCK)
    if streams:
        own = {NEAR: algorithm.prefetch, FAR: 0, PAGES: 0}
        found = None if fact is None else {NEAR: fact["near"], FAR: fact["far"], PAGES: fact["pages"]}
    elif algorithm.kind is LoopKind.PREFILL:
        own = {BLOCK: algorithm.block_k, TURNS: 1}
        turns = None if known is None else known.fact(TURNS)
        found = (
            None
            if fact is None or turns is None
            else {BLOCK: min(fact, algorithm.block_k) or algorithm.block_k, TURNS: turns}
        )
    else:
        return None
    return (
        Settings(values=own, source=SettingsFrom.KERNEL)
        if found is None
        else Settings(values=found, source=SettingsFrom.FACTS)
    )


def settings_here(kernel: KernelSpec, device: DeviceFacts) -> Settings | None:
    """The settings of a kernel on this processor."""
    return default_settings(kernel, this_processor())


def worth_measuring(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> bool:
    """Whether the settings matter for a problem: K and V that no cache of a core holds, or several blocks of keys and rows.

    A last-level cache does not rule it out: that of a large server, shared by its cores and its guests, may read as
    slowly as memory (results/cpu_intel.md).
    """
    if algorithm_of(kernel).kind is LoopKind.SPLIT:
        return False  # the decode kernel is the one to measure
    if algorithm_of(kernel).kind is LoopKind.DECODE:
        keys = sum(problem.key_lengths()) * problem.kv_heads * (problem.hdim + problem.hdim_v)
        return keys * problem.kv_bits // 8 >= LEAST_BYTES
    return min(problem.seqlen_q, problem.seqlen_k) >= LONG


def measure_settings(artifact: Path, kernel: KernelSpec, threads: int) -> dict[str, int]:
    """The fastest settings of a kernel on this machine, measured in interleaved rounds. Processor time is compared: other
    processes lengthen it less than the time on the clock.

    Raises:
        KernelFailure: the artifact does not load, or refuses the launch.
        MemoryError: no memory for the tensors.
    """
    found: dict[str, int] = {}
    for problem, tried in measurements_of(kernel, detect(), threads):
        found |= choose_settings(tried, _times(problem, tried, artifact, kernel, threads))
    return found


def _times(
    problem: Problem, tried: list[dict[str, int]], artifact: Path, kernel: KernelSpec, threads: int
) -> list[list[int]]:
    """Nanoseconds of processor time of each launch with each of the settings. Raises as ``measure_settings``."""
    from fmha_cli.backends.cpu.session import CpuSession

    device, (tensors, size) = detect(), dense(problem)
    arena = _fill_memory(problem, tensors, size)
    sessions = [CpuSession(replace(device, settings=tuple(values.items()))) for values in tried]
    times: list[list[int]] = [[] for _ in tried]
    try:
        for session in sessions:
            session.load(Plan(problem, (Stage(kernel),)), [artifact])
            session.bind(memoryview(arena), tensors, threads)
        for turn in range(ROUNDS + 1):
            for taken, session in zip(times, sessions, strict=True):
                before = process_time_ns()
                session.launch()
                taken += [process_time_ns() - before] if turn else []  # the first round warms up
    finally:
        for session in sessions:
            session.close()
    return times


def _fill_memory(problem: Problem, tensors: Mapping[str, BoundTensor], size: int) -> mmap:
    """Memory of the tensors: numbers everywhere, and pages in the order in which an allocator hands them out over time."""
    arena, filling = mmap(-1, size), FILLING * (1 << 20)
    while arena.tell() < size:
        arena.write(filling[: size - arena.tell()])
    if problem.paged:
        at, count = tensors["block_table"].offset, prod(tensors["block_table"].shape)
        pages = list(range(count))
        Random(count).shuffle(pages)
        arena[at : at + 4 * count] = struct.pack(f"={count}i", *pages)
    return arena


def choose_settings(tried: list[dict[str, int]], times: list[list[int]]) -> dict[str, int]:
    """The fastest settings; the first, the kernel's own, unless another one is surely faster.

    Its median must be less, and the median of its shares round by round: medians alone differ by chance where the machine became
    slower between two rounds.
    """

    def share(index: int) -> float:
        rounds = [one / own for one, own in zip(times[index], times[0], strict=True)]
        return max(median(times[index]) / median(times[0]), median(rounds))

    best = min(range(len(tried)), key=share)
    return tried[best] if share(best) <= GAIN else tried[0]


def measurements_of(
    kernel: KernelSpec, device: DeviceFacts, threads: int
) -> list[tuple[Problem, list[dict[str, int]]]]:
    """The problems of the measurement, each with the settings that it tries, the kernel's own first.

    Distances of hints are found on a linear cache, and whether pages need more of them on pages of 16 keys.
    """
    algorithm, flags = algorithm_of(kernel), _type_flags(kernel.signature)
    if algorithm.kind is LoopKind.PREFILL:
        problem = Problem.of(heads=threads, seqlen=LONG, seqlen_k=MEASURED_KEYS, hdim=128, **flags)
        blocks = [{BLOCK: algorithm.block_k // share, TURNS: 1} for share in SHARES]
        return [(problem, [*blocks, *({BLOCK: algorithm.block_k, TURNS: turns} for turns in TURNS_TRIED)])]
    cached = kernel.signature.kv_dtype is not KvKey.SAME
    one = 2 * KV_HEADS * MEASURED_KEYS * 128 * (8 if cached else kernel.signature.dtype.bits) // 8
    batch = -(-min(max(4 * device.llc_bytes, LEAST_BYTES), MOST_BYTES) // one)
    hints = dict.fromkeys(((algorithm.prefetch, 0), *HINTS))
    heads = {"heads": KV_HEADS if cached else 4 * KV_HEADS, "kv_heads": KV_HEADS}
    linear = Problem.of(batch=batch, seqlen=1, seqlen_k=MEASURED_KEYS, hdim=128, **heads, **flags)
    pages = {**flags, "kv_cache": "paged:16", "cache_seqlens": str(MEASURED_KEYS)}
    paged = Problem.of(batch=batch, seqlen=1, hdim=128, **heads, **pages)
    return [(linear, [{NEAR: near, FAR: far} for near, far in hints]), (paged, [{PAGES: 0}, {PAGES: 1}])]


def _type_flags(signature: Signature) -> dict[str, str]:
    """The flags of a problem whose types a kernel reads. Any 8-bit type stands for all: none takes longer than another."""
    dtype = {"dtype": dtypes_text(signature.dtype, signature.dtype_out)}
    return dtype if signature.kv_dtype is KvKey.SAME else {**dtype, "kv_cache": "linear", "kv_dtype": "int8"}


def dense(problem: Problem) -> tuple[Mapping[str, BoundTensor], int]:
    """The problem's tensors one after the other without gaps, each on its own page, and their bytes."""
    out, at = {}, 0
    for name, tensor in shapes_of(problem).items():
        strides = tuple(prod(tensor.shape[axis + 1 :]) for axis in range(len(tensor.shape)))
        out[name] = BoundTensor(name, at, tensor.dtype.value, tensor.shape, strides)
        at += -(-tensor.nbytes // 4096) * 4096
    return out, at

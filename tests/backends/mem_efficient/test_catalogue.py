"""The listed kernels are upstream's: torch 2.13's dispatch functions, and the generator of the pinned sources."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cuda.capability import capability
from fmha_cli.backends.mem_efficient.catalogue import kernels, profile_kernels
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.algorithm import NAME, MemEffAlgorithm
from fmha_cli.codegen.mem_efficient.traits import FAMILIES, Traits, document, kernels_of, traits_of
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec, parse_kernel
from fmha_cli.domain.rules import Severity
from fmha_cli.domain.signature import ModeKey, Need
from fmha_cli.sources.store import fetch_source

pytestmark = pytest.mark.promise("GPU backends list upstream's kernels and choose among them as upstream does.")

ARCHS = tuple(name for name in arch_names() if NAME in load_arch(name).backends)
EARLY = {"sm_60": 44, "sm_70": 56}
COUNTS = EARLY | {"sm_75": 52} | dict.fromkeys((a for a in ARCHS if a not in (*EARLY, "sm_75")), 55)
DTYPES = {"f32": DType.FP32, "f16": DType.FP16, "bf16": DType.BF16}
ELEMENTS = {"f32": "float", "f16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t"}
Found = Mapping[tuple[str, int, int], list[tuple[Any, ...]]]
"""(type, first and last compute capability) -> the kernels in the order of dispatch."""


def listed(arch: str, profile: str = "pytorch") -> list[KernelSpec]:
    return list(profile_kernels(load_arch(arch), profile))


def torch_rows(family: str) -> list[dict[str, Any]]:
    table = json.loads(Path(__file__).with_name("torch_2_13_kernels.json").read_text("utf-8"))
    return [dict(zip(table["fields"][family], row, strict=True)) for row in table[family]]


def ours(kernels: Iterable[KernelSpec], dtype: DType, forward: bool) -> list[Traits]:
    found = [traits_of(kernel) for kernel in kernels if kernel.signature.dtype is dtype]
    return [traits for traits in found if traits.forward is forward]


@pytest.mark.parametrize("arch", ARCHS)
def test_counts(arch: str) -> None:
    assert len(listed(arch)) == COUNTS[arch]
    assert len(list(kernels(load_arch(arch)))) == (0 if arch in EARLY else COUNTS[arch])
    assert len(listed(arch, "xformers")) == (COUNTS[arch] if capability(load_arch(arch)) < 100 else 0)


def test_all_kernels_are_there_once() -> None:
    names = [traits.name for family in FAMILIES for traits in kernels_of(family)]
    assert [len(kernels_of(family)) for family in FAMILIES] == [45, 162]
    assert len(set(names)) == 207
    assert {traits_of(kernel).name for arch in ARCHS for kernel in listed(arch)} == set(names)


@pytest.mark.parametrize("arch", ARCHS)
def test_torchs_dispatch_has_the_same_kernels_in_the_same_order(arch: str) -> None:
    cc, mine, seen = capability(load_arch(arch)), listed(arch), 0
    for family, forward in (("cutlassF", True), ("cutlassB", False)):
        for short, dtype in DTYPES.items():
            rows = [r for r in torch_rows(family) if r["dtype"] == short and r["cc_min"] <= cc <= r["cc_max"]]
            assert [torch_row(row, forward) for row in rows] == [our_row(t) for t in ours(mine, dtype, forward)]
            seen += len(rows)
    assert seen == COUNTS[arch]


def torch_row(row: Mapping[str, Any], forward: bool) -> tuple[object, ...]:
    cond = "" if row["cond"] is None else row["cond"]
    if forward:
        assert row["supports_dropout"] is row["supports_bias"] is True
        return row["name"], cond, row["aligned"], (row["q"], row["k"]), row["max_k"], True, False, False
    flags = row["apply_dropout"], row["preload_mmas"], row["seq_aligned"]
    return row["name"], cond, row["aligned"], (row["block_i"], row["block_j"]), row["max_k"], *flags


def our_row(t: Traits) -> tuple[object, ...]:
    a, cond = t.algorithm, " || ".join(f"cc == {cc}" for cc in t.only_cc)
    return t.name, cond, a.aligned, a.tile, a.max_k, t.drops, a.preload, a.seq_aligned


@pytest.fixture(scope="module")
def generated(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what upstream's own generator writes."""
    try:
        tree = fetch_source("xformers", shared_cache, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's sources are not here: {fault}")
    folder = tmp_path_factory.mktemp("generated")
    (folder / "autogen" / "impl").mkdir(parents=True)
    shutil.copy(tree / UPSTREAM.folders["fmha"] / "generate_kernels.py", folder)
    subprocess.run([sys.executable, "generate_kernels.py"], cwd=folder, check=True, timeout=60)
    return folder / "autogen"


def dispatched(text: str) -> Found:
    """What the ``dispatch_*`` functions of a generated header pass: condition, template, name."""
    bodies = dict(re.findall(r"void (dispatch_cutlass\w_\w+)\(T cb, int cc\) \{\n(.*?)\n\}", text, re.DOTALL))
    places = re.findall(r"is_same<DT, ([\w:]+)>::value && (\d+) <= cc && cc < (\d+)\) \{\s+(\w+)\(cb, cc\);", text)
    shorts = {element: short for short, element in ELEMENTS.items()}
    calls = re.compile(r"(?:if \((?P<cond>[^)]*)\) )?cb\((?P<template>\w+<[^>]*>)\(\), (?P<name>\w+)\);")
    assert len(places) == len(bodies)
    return {
        (shorts[element], int(low), int(high) - 1): [
            (m["cond"] or "", m["template"], m["name"]) for m in calls.finditer(bodies[function])
        ]
        for element, low, high, function in places
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_upstreams_generator_writes_the_same_kernels(generated: Path, family: Family) -> None:
    """Names, template arguments, order, conditions and ranges of all 207; and the profile of xformers."""
    stem = "cutlassF" if family is Family.FWD else "cutlassB"
    theirs = dispatched((generated / f"{stem}.h").read_text())
    mine = defaultdict(list)
    tags = next(row["tags"] for row in document()["profiles"] if row["name"] == "xformers")
    shorts = {dtype: short for short, dtype in DTYPES.items()}
    for t in kernels_of(family):
        cond = " || ".join(f"cc == {cc}" for cc in t.only_cc)
        mine[shorts[t.dtype], *tags[str(t.algorithm.tag)]].append((cond, t.template, t.name))
    assert mine == theirs
    assert sum(map(len, theirs.values())) == {"cutlassF": 45, "cutlassB": 162}[stem]


def test_upstreams_files_are_the_groups(generated: Path) -> None:
    theirs = {
        path.stem: re.findall(r"^(fmha_cutlass\w+)\(typename", path.read_text(), re.MULTILINE)
        for path in (generated / "impl").glob("*.cu")
    }
    mine = defaultdict(set)
    for t in (t for family in FAMILIES for t in kernels_of(family)):
        mine[f"cutlass{'F' if t.forward else 'B'}_{t.group}"].add(t.name)
    assert mine == {stem: set(names) for stem, names in theirs.items()}


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_names_are_read_back_and_digests_differ(arch: str) -> None:
    made = listed(arch)
    assert [parse_kernel(kernel.name, {NAME: MemEffAlgorithm}) for kernel in made] == made
    assert len({kernel.digest for kernel in made}) == len(made)
    assert {UPSTREAM.upstream_name(kernel) for kernel in made} == {traits_of(kernel).name for kernel in made}


def test_signatures_hold_what_is_compiled_in() -> None:
    for kernel in listed("sm_80"):
        s, t = kernel.signature, traits_of(kernel)
        assert s.hdim == s.hdim_v == t.algorithm.max_k
        assert s.mode is (ModeKey.BATCH if t.algorithm.seq_aligned else ModeKey.ANY)
        assert s.dropout is (Need.ANY if t.forward or "_dropout" in t.name else Need.NO)
        assert s.dbias is (Need.NO if t.forward else Need.ANY)
        assert t.threads == t.algorithm.tile[0] * t.algorithm.tile[1] // 32
        assert 0 < t.shared_bytes <= load_arch("sm_80").fact("shared_per_block_optin")


def test_early_architectures_are_listed_and_not_built() -> None:
    for arch in EARLY:
        for kernel in listed(arch):
            (reason,) = UPSTREAM.refusals(kernel)
            assert (reason.id, reason.severity) == ("K501", Severity.PLACE)
            assert reason.text == f"NVRTC 13.0 does not compile for {arch}"
    for arch in ("sm_75", "sm_120"):
        assert not any(UPSTREAM.refusals(kernel) for kernel in listed(arch))


def test_kernels_that_upstream_does_not_have_are_refused() -> None:
    kernel = next(k for k in listed("sm_80") if traits_of(k).name == "fmha_cutlassB_bf16_aligned_64x64_k64_sm80")
    a, s = kernel.algorithm, kernel.signature
    assert isinstance(a, MemEffAlgorithm)
    for changed, text in (
        (replace(kernel, algorithm=replace(a, tile=(128, 64))), "tile 128x64"),
        (replace(kernel, algorithm=replace(a, preload=False)), "preload no"),
        (replace(kernel, signature=replace(s, dropout=Need.YES)), "dropout yes"),
        (replace(kernel, signature=replace(s, softcap=Need.ANY)), "softcap any"),
        (replace(kernel, signature=replace(s, hdim=80)), "hdim 80"),
        (replace(kernel, arch="sm_75"), "tag 80"),
        (replace(kernel, family=Family.FWD_SPLITKV), "family fwd_splitkv"),
    ):
        (reason,) = UPSTREAM.refusals(changed)
        assert reason.id == "K502"
        assert text in reason.text, reason.text
    (reason,) = UPSTREAM.refusals(replace(kernel, arch="gfx942"))
    assert reason.id == "K500"

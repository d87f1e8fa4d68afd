"""The listed kernels, and the choice among them, equal those of upstream's launch templates, read as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels, kernels
from fmha_cli.backends.flash_attn.tiles import TileFacts, backward_traits, facts_of, log_max_splits
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.traits import algorithm_of, smem_bytes, threads
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, Need
from fmha_cli.sources.store import fetch_source
from tests.support.generators.flash_attn.mutations import ARCHS
from tests.support.referees.flash_attn.launch_templates import Device, Launch, LaunchTemplates
from tests.support.referees.flash_attn.template_ids import kernel_of_template

NO_SCORES = {"p_ptr": None}
"""``Return_softmax`` off: it writes the scores, for upstream's own tests."""
REACHED = ({**NO_SCORES, "softcap": 0.0}, {**NO_SCORES, "p_dropout": 1.0})
"""What ``flash_api.cpp`` accepts: no softcap, or no dropout (``p_dropout`` is the probability to keep)."""
SPLITS = (2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 127, 128)
EVEN, ODD_Q, ODD_K, PACKED = "even", "odd rows", "odd keys", "packed"
TRAITS = ("tile", "warps", "atoms", "v_in_regs", "single_buffer")
POINTER = 1
LENGTH = 1024
TOLD_APART = ("sm_80", "sm_86", "sm_90a")
"""One architecture of each kind that the launch code tells apart: by its version, and by its shared memory."""


@pytest.fixture(scope="module")
def templates(shared_cache: Path) -> LaunchTemplates:
    try:
        return LaunchTemplates(fetch_source("flash-attn", shared_cache, offline=False, notify=lambda notice: None))
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's sources are not here: {fault}")


def device_of(arch: str) -> Device:
    spec = load_arch(arch)
    major, minor = spec.fact("compute_capability")
    return Device((major, minor), spec.fact("shared_per_block_optin"), spec.fact("shared_per_sm"))


def launch_of(kernel: KernelSpec) -> Launch:
    """The launch that the product computes."""
    return Launch(UPSTREAM.template(kernel), threads(kernel), smem_bytes(kernel))


@dataclass(frozen=True)
class Cell:
    """A problem as launch code sees it: the signs of its parameters, not their sizes."""

    family: Family
    causal: bool
    window: bool
    alibi: bool
    softcap: bool
    even: str
    even_k: bool
    dropout: bool = False
    splits: int = 0
    append: bool = False
    deterministic: bool = False

    def params(self, hdim: int) -> dict[str, Any]:
        """The parameters that launch code may read."""
        packed = POINTER if self.even == PACKED else None
        return {
            "p_ptr": None,
            "cu_seqlens_q": packed,
            "cu_seqlens_k": packed,
            "seqlen_q": LENGTH + (self.even == ODD_Q),
            "seqlen_k": LENGTH + (self.even == ODD_K),
            "d": hdim if self.even_k else hdim - 8,
            "b": 2,
            "h": 3,
            "is_causal": self.causal,
            "window_size_left": 7 if self.window else -1,
            "window_size_right": 0 if self.causal else 5 if self.window else -1,
            "alibi_slopes_ptr": POINTER if self.alibi else None,
            "softcap": 2.5 if self.softcap else 0.0,
            "p_dropout": 0.9 if self.dropout else 1.0,
            "num_splits": self.splits,
            "knew_ptr": POINTER if self.append else None,
            "deterministic": self.deterministic,
        }


def cells(family: Family, causal: bool) -> Iterator[Cell]:
    """Every cell of a main family that the host accepts: never softcap with dropout."""
    flags = (False, True)
    for window, alibi, even, even_k in product(flags, flags, (EVEN, ODD_Q, ODD_K, PACKED), flags):
        base = Cell(family, causal, window, alibi, False, even, even_k)
        if family is Family.FWD_SPLITKV:
            for softcap, append, splits in product(flags, flags, (0, 1, 2)):
                yield replace(base, softcap=softcap, append=append, splits=splits)
        else:
            for dropout, softcap in ((False, False), (True, False), (False, True)):
                yield replace(base, dropout=dropout, softcap=softcap)
    if family is Family.FWD_SPLITKV:
        for even_k, splits in product(flags, SPLITS):
            yield Cell(family, causal, False, False, False, ODD_Q, even_k, splits=splits)
    if family is Family.BWD_DQ_DK_DV:
        for even_k, dropout in product(flags, flags):
            yield Cell(family, causal, False, False, False, EVEN, even_k, dropout=dropout, deterministic=True)


Known = list[tuple[KernelSpec, Launch]]


@cache
def listed(arch: str, family: Family) -> Mapping[tuple[Any, ...], Known]:
    """The listed kernels of a main family by the features that they are compiled for, the most specialised first."""
    found: dict[tuple[Any, ...], Known] = {}
    for kernel in family_kernels(load_arch(arch), family):
        s = kernel.signature
        key = (s.dtype.value, s.hdim, s.mask, s.bias, s.softcap, s.dropout, s.split, s.append)
        found.setdefault(key, []).append((kernel, launch_of(kernel)))
    for group in found.values():
        group.sort(key=lambda k: (algorithm_of(k[0]).even_mn, algorithm_of(k[0]).even_k), reverse=True)
    return found


@cache
def staged(arch: str, family: Family, dtype: str, hdim: int) -> Known:
    """The listed kernels of a stage for a data type and head dim."""
    return [
        (kernel, launch_of(kernel))
        for kernel in family_kernels(load_arch(arch), family)
        if (kernel.signature.dtype.value, kernel.signature.hdim) == (dtype, hdim)
    ]


def ours(arch: str, dtype: str, hdim: int, cell: Cell) -> list[Launch]:
    """The launches for a cell, from listed kernels only; of several matches, the one with the most assumptions."""
    mask = MaskKey.CAUSAL if cell.causal else MaskKey.WINDOW if cell.window else MaskKey.NONE
    bias = BiasKey.ALIBI if cell.alibi else BiasKey.NONE
    split = Need.of(cell.splits > 1)
    key = (dtype, hdim, mask, bias, *map(Need.of, (cell.softcap, cell.dropout)), split, Need.of(cell.append))
    found = next((found for found in listed(arch, cell.family).get(key, []) if _admits(found[0], cell)), None)
    if found is None:
        return []
    main, launch = found
    launches = [launch]
    if split is Need.YES:
        wanted = {"even_k": cell.even_k, "log_max_splits": log_max_splits(cell.splits)}
        launches.append(_stage(arch, Family.FWD_SPLITKV_COMBINE, main, wanted))
    if cell.family is Family.BWD_DQ_DK_DV:
        traits = {name: getattr(main.algorithm, name) for name in TRAITS}
        cleared = {**traits, "clear_dq_accum": not cell.deterministic}
        launches.insert(0, _stage(arch, Family.BWD_DOT_DO_O, main, cleared))
        launches.append(_stage(arch, Family.BWD_CONVERT_DQ, main, traits))
    return launches


def _admits(kernel: KernelSpec, cell: Cell) -> bool:
    algorithm = algorithm_of(kernel)
    return (cell.even == EVEN or not algorithm.even_mn) and (cell.even_k or not algorithm.even_k)


def _stage(arch: str, family: Family, main: KernelSpec, wanted: Mapping[str, Any]) -> Launch:
    found = [
        launch
        for kernel, launch in staged(arch, family, main.signature.dtype.value, main.signature.hdim)
        if all(getattr(kernel.algorithm, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1, (family, main.name, wanted)
    return found[0]


FAMILY_OF = {"fwd": Family.FWD, "fwd_split": Family.FWD_SPLITKV, "bwd": Family.BWD_DQ_DK_DV}


def parts_of(stem: str) -> tuple[Family, int, str, bool]:
    """The family, head dim, data type and causality in the name of an instance file."""
    direction, _, rest = stem.removeprefix("flash_").partition("_hdim")
    hdim, dtype, *causal = rest.removesuffix("_sm80").split("_")
    return FAMILY_OF[direction], int(hdim), dtype, causal == ["causal"]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("arch", ARCHS)
def test_listed_kernels_are_those_that_the_templates_instantiate(arch: str, templates: LaunchTemplates) -> None:
    device = device_of(arch)
    mine = {launch_of(kernel) for kernel in kernels(load_arch(arch))}
    theirs = {
        launch
        for instance in templates.instances.values()
        for known in REACHED
        for launch in templates.launches(instance, device, known)
    }
    everything = {launch for i in templates.instances.values() for launch in templates.launches(i, device)}
    print(f"{arch}: {len(mine)} kernels, {len(theirs)} upstream's, {len(everything - theirs)} of its out of reach")
    assert mine == theirs
    assert theirs < everything


@pytest.mark.parametrize("arch", ["sm_80", "sm_86"])
def test_kernels_stand_in_the_file_that_upstream_compiles_them_in(arch: str, templates: LaunchTemplates) -> None:
    device = device_of(arch)
    files: dict[str | None, set[str]] = defaultdict(set)
    for kernel in kernels(load_arch(arch)):
        files[UPSTREAM.upstream_name(kernel)].add(UPSTREAM.template(kernel))
    assert set(files) == set(templates.instances)
    for stem, instance in templates.instances.items():
        found = {x.template for known in REACHED for x in templates.launches(instance, device, known)}
        plain = files[stem.replace("_causal", "")]
        stages = {text for text in plain if any(word in text for word in ("combine", "dot_do_o", "convert_dq"))}
        assert found == files[stem] | stages, stem


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch", [pytest.param(arch, marks=pytest.mark.ci if arch in TOLD_APART else ()) for arch in ARCHS]
)
def test_every_cell_chooses_the_same_template_arguments(arch: str, templates: LaunchTemplates) -> None:
    """The choice agrees in every (head dim, dtype, causality, dropout, feature) cell of all families."""
    counted: Counter[str] = Counter()
    mismatches = []
    for stem, instance in templates.instances.items():
        family, hdim, dtype, causal = parts_of(stem)
        for cell in cells(family, causal):
            theirs = templates.launches(instance, device_of(arch), cell.params(hdim))
            mine = ours(arch, dtype, hdim, cell)
            counted[family.value] += 1
            mismatches += [(stem, cell, theirs, mine)] if mine != theirs else []
    print(f"{counted.total()} cells; {dict(counted)}; mismatches {len(mismatches)}")
    assert not mismatches, mismatches[:3]
    assert counted.total() > 5_000


def test_facts_decide_and_a_wrong_one_is_seen(templates: LaunchTemplates) -> None:
    """With another architecture's shared memory, the templates choose kernels that are not listed."""
    sm_80, mine = device_of("sm_80"), {UPSTREAM.template(k) for k in kernels(load_arch("sm_80"))}
    for wrong in (sm_80._replace(block=101376), sm_80._replace(sm=233472), sm_80._replace(capability=(8, 6))):
        theirs = {x.template for i in templates.instances.values() for x in templates.launches(i, wrong, REACHED[1])}
        assert theirs - mine, wrong


def test_the_boundaries_of_shared_memory_are_upstreams(templates: LaunchTemplates) -> None:
    """The backward traits agree just below and at every shared-memory size that upstream compares with."""
    seen = set()
    for block in sorted({n + d for n in (106496, 144 * 1024, 116 * 1024, 136 * 1024, 176 * 1024) for d in (-1, 0)}):
        device = Device((9, 0), block, 233472)
        for stem, instance in templates.instances.items():
            family, hdim, dtype, causal = parts_of(stem)
            if family is not Family.BWD_DQ_DK_DV or causal or dtype != "fp16":
                continue
            for dropout in (False, True):
                traits = backward_traits(hdim, dropout, TileFacts(False, block, device.sm))
                cell = Cell(family, causal, False, False, False, EVEN, True, dropout=dropout)
                found = templates.launches(instance, device, cell.params(hdim))
                assert bool(found) == (traits is not None)
                if traits is not None:
                    flags = ", ".join(str(f).lower() for f in (traits.v_in_regs, traits.single_buffer))
                    words = (hdim, *traits.tile, traits.warps, *traits.atoms)
                    text = f"Flash_bwd_kernel_traits<{', '.join(map(str, words))}, {flags}, cutlass::half_t>"
                    assert text in found[1].template
                    seen.add(text)
    print(f"{len(seen)} different traits")
    assert len(seen) > 10


@pytest.mark.parametrize("arch", ["sm_90", "sm_120a"])
def test_a_template_id_names_one_kernel(arch: str) -> None:
    spec = load_arch(arch)
    for kernel in kernels(spec):
        assert kernel_of_template(f"flash::{UPSTREAM.template(kernel)}", spec) == kernel
        assert kernel_of_template(UPSTREAM.template(kernel).replace(" ", ""), spec) == kernel
    with pytest.raises(KeyError):
        kernel_of_template("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4, false, false, float>, true>", spec)


@pytest.mark.slow
@pytest.mark.ci
def test_launch_code_that_is_not_understood_is_not_passed_over(templates: LaunchTemplates, tmp_path: Path) -> None:
    """A change of upstream's text changes the walk or stops it."""
    source = templates._root
    target = tmp_path / "csrc" / "flash_attn" / "src"
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix in (".h", ".cu"):
            (target / path.name).write_bytes(path.read_bytes())
    launch = target / "flash_fwd_launch_template.h"
    text = launch.read_text("utf-8")
    stem = "flash_fwd_hdim128_fp16_sm80"
    device = device_of("sm_90")

    def changed(old: str, new: str) -> list[Launch]:
        assert old in text
        launch.write_text(text.replace(old, new), "utf-8")
        tree = LaunchTemplates(tmp_path)
        return tree.launches(tree.instances[stem], device, REACHED[1])

    before = templates.launches(templates.instances[stem], device, REACHED[1])
    assert changed("cc_minor > 0;", "cc_minor > 0 ;") == before
    assert changed("cc_major == 8 &&", "cc_major == 9 ||") != before
    assert changed("Is_local && !Is_causal, Has_alibi, IsEvenMNConst", "Is_local, Has_alibi, !IsEvenMNConst") != before
    with pytest.raises(AssertionError, match="not read"):
        changed("const bool is_even_K =", "while (false) {} const bool is_even_K =")
    with pytest.raises(AssertionError, match="not known"):
        changed("params.d == Kernel_traits::kHeadDim", "head_dim == Kernel_traits::kHeadDim")


def test_facts_are_the_architectures() -> None:
    found = {arch: facts_of(load_arch(arch)) for arch in ARCHS}
    assert [arch for arch, facts in found.items() if facts.sm8x] == ["sm_86", "sm_89"]
    assert {arch for arch, facts in found.items() if facts.block < 104 * 1024} == {
        "sm_86",
        "sm_89",
        "sm_120",
        "sm_120a",
    }

"""Suggestions: names that people use, typing mistakes, and silence where nothing is near."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from fmha_cli.backends.builtins import BUILTINS
from fmha_cli.cli.command import CommandSet
from fmha_cli.cli.commands import COMMANDS, declared, known_options
from fmha_cli.discovery.models import presets
from fmha_cli.domain import spoken
from fmha_cli.domain.arch import arch_names, arch_of, arch_root, load_arch
from fmha_cli.domain.dtypes import DType, parse_dtypes
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import CLOSED_FILLS, FILLS, Direction, Layout, QScale
from fmha_cli.domain.spoken import FILE, letters, products
from fmha_cli.domain.suggest import NameKind, distance, near_names, suggest
from fmha_cli.report.document import names as schema_names
from fmha_cli.toolchain.cuda.nvrtc import LIBRARY, Nvrtc

pytestmark = pytest.mark.promise("A wrong name leads to the one that was meant, or to none.")

TABLE = json.loads(arch_root().joinpath(FILE).read_text("utf-8"))
SUBCOMMANDS = [n for c in COMMANDS if isinstance(found := declared(c), CommandSet) for n in found.commands]
OPTIONS = {name for names in known_options().values() for name in names}
KNOWN: dict[str, list[str]] = {
    "arch": list(arch_names()),
    "backend": list(BUILTINS),
    "device": ["cpu", "cuda:0", "hip:0", "emu:ARCH"],
    "dtype": [d.value for d in DType],
    "mask": ["none", "causal", "causal-tl", "window:L,R"],
    "layout": [x.value for x in Layout],
    "fill": [*FILLS, *CLOSED_FILLS],
    "direction": [x.value for x in Direction],
    "qscale": [x.value for x in QScale],
    "command": [*COMMANDS, *SUBCOMMANDS, "--version"],
    "option": sorted(OPTIONS),
    "model": list(presets()),
}
RARE = {"format"}
"""An option of ``tune export`` alone; with other commands, people mean --json."""


@pytest.mark.parametrize("kind", list(NameKind))
def test_the_table_names_what_exists_and_gives_sources(kind: NameKind) -> None:
    rows = TABLE["names"][kind]
    said = [letters(name) for row in rows for name in row["said"]]
    assert [name for name, count in Counter(said).items() if count > 1] == []
    known = COMMANDS if kind is NameKind.COMMAND else [name for name in KNOWN[kind] if name not in RARE]
    assert kind is NameKind.ARCH or set(said) & set(map(letters, known)) == set()
    for row in rows:
        assert row["source"].strip()
        assert row["means"] or row["note"]
        assert row.get("confidence", "checked") in ("checked", "recalled", "conflict")
        for name in row["means"]:
            assert parse_dtypes(name) if kind is NameKind.DTYPE else name in KNOWN[kind]


def test_products_stand_once() -> None:
    stated = {letters(p) for arch in arch_names() for p in products(load_arch(arch).facts)}
    assert not [name for row in TABLE["names"]["arch"] for name in row["said"] if letters(name) in stated]
    assert set(TABLE["names"]) == set(NameKind)


@pytest.mark.parametrize(
    ("name", "archs"),
    [
        *((name, "gfx942") for name in ("mi300x", "MI300A", "mi325x", "MI-300X", "AMD Instinct MI300X", "mi300")),
        ("mi355x", "gfx950"),
        ("mi350", "gfx950"),
        ("mi250x", "gfx90a"),
        *((name, "gfx1100") for name in ("rx7900", "RX7900XTX", "7900xtx", "rx-7900-xt", "w7900")),
        ("rx9070xt", "gfx1201"),
        ("strix-halo", "gfx1151"),
        *((name, "sm_90a") for name in ("h100", "H200", "h100-sxm", "gh200", "hopper")),
        ("b200", "sm_100a"),
        ("b300", "sm_103a"),
        *((name, "sm_80") for name in ("a100", "A100-80GB", "a100_sxm", "sm80")),
        *((name, "sm_89") for name in ("l40s", "l40", "l4", "4090", "rtx4090", "RTX 4080")),
        *((name, "sm_120a") for name in ("5090", "rtx-5090")),
        *((name, "sm_86") for name in ("3090", "a10", "rtx3080")),
        *((name, "sm_75") for name in ("t4", "2080", "rtx2070", "turing")),
        ("v100", "sm_70"),
        ("p100", "sm_60"),
        ("GFX942", "gfx942"),
        ("gfx942:sramecc+:xnack-", "gfx942"),
        ("gfx943", "gfx942"),
        ("gxf942", "gfx942"),
    ],
)
def test_products_and_spellings_lead_to_architectures(name: str, archs: str) -> None:
    assert near_names(name, arch_names(), NameKind.ARCH) == tuple(archs.split())


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        *((name, "sm_90a") for name in ("h100", "H200", "NVIDIA H100 SXM5", "hopper", "sm_90a")),
        ("mi300x", "gfx942"),
        ("rtx 4090", "sm_89"),
        *((name, name) for name in ("mi300", "mi50", "gxf942", "sm90", "sm80", "")),  # first letters, and other guesses
    ],
)
def test_a_product_that_only_one_architecture_has_is_that_architecture(name: str, arch: str) -> None:
    assert arch_of(name) == arch


def test_a_product_of_two_architectures_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoken, "whole_of", lambda arch, archs: None)
    assert arch_of("h100") == "h100"  # sm_90 and sm_90a both run there, and neither is the whole one now


def test_the_answer_says_by_what_it_was_found() -> None:
    assert suggest("mi300x", arch_names(), NameKind.ARCH) == "did you mean gfx942 (MI300X)?"
    assert suggest("sbhd", ["bhsd", "bshd"], NameKind.LAYOUT) == (
        "tensors whose first axis is the sequence are not taken; transpose them to bshd; one of bhsd, bshd"
    )
    assert suggest("x", []) == "there are none"


@pytest.mark.parametrize(
    ("name", "is_"),
    [
        ("gfx906", "gfx906 is AMD Vega 20 (Radeon VII, Pro VII, MI50, MI60)"),
        ("gfx906:sramecc+:xnack-", "gfx906 is AMD Vega 20 (Radeon VII, Pro VII, MI50, MI60)"),
        *((name, "gfx906 is AMD Vega 20") for name in ("Radeon VII", "mi50", "MI60", "AMD Instinct MI50")),
        *((name, "gfx1200 is AMD RDNA4, Navi 44") for name in ("gfx1200", "rx9060", "RX 9060 XT", "radeon-rx-9060")),
        ("gfx1251", "gfx1251 is an AMD GPU like gfx1250"),
        *((name, "NVIDIA Rubin (Vera Rubin") for name in ("sm_107", "sm107", "sm_107a", "rubin")),
        *((name, "NVIDIA Thor (Jetson AGX Thor") for name in ("sm_110", "SM110", "sm_110f", "thor")),
        *((name, "NVIDIA Blackwell, GB10 (DGX Spark)") for name in ("sm_121", "DGX Spark", "gb10")),
        ("mi100", "gfx908 is AMD CDNA"),
        ("gtx1080", "sm_61, sm_62 are NVIDIA Pascal other than GP100"),
    ],
)
def test_an_architecture_without_kernels_is_said_to_be_what_it_is(name: str, is_: str) -> None:
    """It is never taken for a neighbour, whose kernels would not load on it."""
    with pytest.raises(UsageError, match="not one of fmha's architectures") as caught:
        load_arch(name)
    assert caught.value.why is not None
    assert is_ in caught.value.why
    assert near_names(name, arch_names(), NameKind.ARCH) == ()
    assert "did you mean" not in str(caught.value.help)


def test_architectures_without_kernels_are_none_of_ours() -> None:
    rows = TABLE["without_kernels"]
    archs = [arch for row in rows for arch in row["archs"]]
    assert set(archs) & set(arch_names()) == set()
    assert len(set(archs)) == len(archs)
    ours = {letters(p) for arch in arch_names() for p in products(load_arch(arch).facts)}
    ours |= {letters(name) for row in TABLE["names"]["arch"] for name in row["said"]}
    theirs = [letters(product) for row in rows for product in row["products"]]
    assert set(theirs) & ours == set()
    assert len(set(theirs)) == len(theirs)
    assert all(row["source"].strip() and row["confidence"] in ("checked", "recalled") for row in rows)


def test_what_nvrtc_compiles_for_is_ours_or_named(nvrtc_archs: tuple[int, ...]) -> None:
    """An architecture that a new NVRTC brings is known by name before someone asks for it."""
    known = {*arch_names(), *(arch for row in TABLE["without_kernels"] for arch in row["archs"])}
    assert [n for n in nvrtc_archs if not known & {f"sm_{n}", f"sm_{n}a"}] == []


@pytest.fixture
def nvrtc_archs() -> tuple[int, ...]:
    """The compute capabilities that the installed NVRTC knows. ``Nvrtc`` loads its builtins too: without them, every later test of
    this process that compiles with the library would fail."""
    libraries = find_spec("nvidia")
    roots = libraries.submodule_search_locations or () if libraries else ()
    found = [path for root in roots for path in Path(root).glob(f"*/lib/{LIBRARY}")]
    if not found:
        pytest.skip("no NVRTC is installed")
    return Nvrtc(found[0].parent).capabilities()


@pytest.mark.parametrize(
    "name", ["k80", "gtx1080", "sm_53", "rx9060", "rx6900", "mi100", "gfx1030", "foo", "980", "i9"]
)
def test_another_product_is_no_near_name(name: str) -> None:
    assert near_names(name, arch_names(), NameKind.ARCH) == ()


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        (NameKind.BACKEND, "ck ck_tile flash flash_attn cuda flash_attn rocm ck_tile hip ck_tile cktile ck_tile"),
        (NameKind.DEVICE, "cuda cuda:0 rocm hip:0 gpu cuda:0|hip:0 cpu:0 cpu"),
        (NameKind.DTYPE, "float16 fp16 half fp16 bfloat16 bf16 torch.float16 fp16 fp61 fp16 float8 fp8_e4m3|fp8_e5m2"),
        (NameKind.MASK, "casual causal causl causal sliding:64 window:L,R swa window:L,R"),
        (NameKind.LAYOUT, "nhd bshd thd bshd bnsd bhsd BSHD bshd"),
        (NameKind.FILL, "gaussian normal norml normal randn normal"),
        (NameKind.DIRECTION, "backward bwd forward fwd both fwd+bwd fwd-bwd fwd+bwd"),
        (NameKind.QSCALE, "per-tensor tensor kvblock kv-block"),
        (NameKind.COMMAND, "rn run list list-kernels listkernels list-kernels validat validate benchmark bench sl ls"),
        (NameKind.OPTION, "num-heads heads head_dim hdim hdmi hdim bathc batch is-causal causal window-size window"),
    ],
)
def test_what_people_type(kind: NameKind, pairs: str) -> None:
    words = pairs.split()
    for name, meant in zip(words[::2], words[1::2], strict=True):
        known = (*COMMANDS, "ls") if kind is NameKind.COMMAND else KNOWN[kind]
        assert near_names(name, known, kind) == tuple(meant.split("|")), name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("nope", schema_names()),
        ("lukewarm", ("hot", "cold", "both")),
        ("sometimes", ("auto", "always", "never")),
        ("backward", ("forward",)),
        ("xy", ("xz", "ab")),
        ("K9999", ("K001", "K012", "K900")),
        ("int8", KNOWN["dtype"]),
        ("--", KNOWN["option"]),
        ("", ("a", "b")),
    ],
)
def test_none_rather_than_a_silly_one(name: str, known: tuple[str, ...]) -> None:
    assert near_names(name, known) == ()
    assert suggest(name, known, otherwise="look") == "look"


def test_every_kind_of_slip_is_one_step() -> None:
    slips = {"causal": 0, "casual": 1, "causl": 1, "causall": 1, "cauzal": 1, "cuasla": 2, "": 6}
    assert {name: distance(name, "causal") for name in slips} == slips

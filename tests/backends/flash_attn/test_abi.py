"""Cubins that differ from the host in one number: each is refused with the name of that number."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fmha_cli.backends.cuda.tables import check_exports
from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.launches import expect_exports
from fmha_cli.codegen.cuda import VERSION
from fmha_cli.codegen.flash_attn.emit import FACTS, SYMBOL
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.flash_attn.traits import BACKWARD, FORWARD, algorithm_of, smem_bytes, threads
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.builds.cubin_tiny import tiny_cubin

FAMILIES = (*FORWARD, *BACKWARD)


def kernel_of(family: Family, arch: str = "sm_90a", hdim: int = 128) -> KernelSpec:
    return next(kernel for kernel in family_kernels(load_arch(arch), family) if kernel.signature.hdim == hdim)


@dataclass
class Parts:
    """The exports of a kernel's cubin; each can be changed separately."""

    arch: str
    version: int
    size: int
    fields: list[tuple[str, int, int]]
    facts: list[int]
    arguments: tuple[int, ...]
    symbol: str = SYMBOL
    shared: int = 0
    without: str = ""
    more: dict[str, bytes] = field(default_factory=dict)

    def cubin(self) -> bytes:
        numbers = [number for _, offset, size in self.fields for number in (offset, size)]
        table = [self.version, self.size, len(self.fields), *numbers]
        data = {
            f"{SYMBOL}_abi_table": struct.pack(f"<{len(table)}I", *table),
            f"{SYMBOL}_abi_names": " ".join(name for name, _, _ in self.fields).encode() + b"\0",
            f"{SYMBOL}_facts": struct.pack(f"<{len(self.facts)}I", *self.facts),
        }
        data = {name: value for name, value in data.items() if name != f"{SYMBOL}_{self.without}"} | self.more
        number = self.arch.removeprefix("sm_")
        return tiny_cubin(
            self.symbol,
            self.arguments,
            capability=int(number.rstrip("a")),
            accelerated=number.endswith("a"),
            shared=self.shared,
            data=data,
        )


def parts_of(kernel: KernelSpec) -> Parts:
    instance = instance_of(kernel)
    size = ctypes.sizeof(ctypes_structure(instance.block))
    facts = [*algorithm_of(kernel).tile, kernel.signature.hdim, threads(kernel), smem_bytes(kernel)]
    arguments = (size, *(4 for _ in instance.extra))
    return Parts(kernel.arch, VERSION, size, list(host_layout(instance.block)), facts, arguments)


def refused(kernel: KernelSpec, parts: Parts, code: str = "B061") -> str:
    with pytest.raises(KernelFailure) as caught:
        check_exports(parts.cubin(), kernel, expect_exports(kernel))
    assert caught.value.code == code
    assert caught.value.where == kernel.name
    return str(caught.value.why)


@pytest.mark.sampled(8, ci="all")
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a", "sm_100", "sm_120a"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_cubin_that_agrees(family: Family, arch: str) -> None:
    kernel = kernel_of(family, arch)
    abi = check_exports(parts_of(kernel).cubin(), kernel, expect_exports(kernel))
    block: Any = FaFwdParams if family in FORWARD else FaBwdParams
    assert abi.fields == host_layout(block)
    assert (abi.arch, abi.block_bytes, abi.smem_bytes) == (
        arch,
        456 if family in FORWARD else 632,
        smem_bytes(kernel),
    )
    assert abi.facts["kNThreads"] == threads(kernel)
    assert abi.occupancy.blocks > 0


@pytest.mark.parametrize("family", [Family.FWD, Family.BWD_DQ_DK_DV])
def test_every_field_is_compared(family: Family) -> None:
    kernel = kernel_of(family)
    good = parts_of(kernel)
    for place, (name, offset, size) in enumerate(good.fields):
        for changed in ((name, offset + 4, size), (name, offset, size * 2)):
            fields = [*good.fields[:place], changed, *good.fields[place + 1 :]]
            why = refused(kernel, replace(good, fields=fields))
            assert why.startswith(f"field {name}: (offset, size) {changed[1:]} in the cubin, {(offset, size)} here")
        missing = [*good.fields[:place], *good.fields[place + 1 :]]
        assert f"field {name}: (offset, size) None in the cubin" in refused(kernel, replace(good, fields=missing))
    more = [*good.fields, ("later", 8, 8)]
    assert "field later: (offset, size) (8, 8) in the cubin, None here" in refused(kernel, replace(good, fields=more))
    twice = [*good.fields, good.fields[3]]
    assert "named twice" in refused(kernel, replace(good, fields=twice))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_fact_of_the_launch_is_compared(family: Family) -> None:
    kernel = kernel_of(family)
    good = parts_of(kernel)
    for place, name in enumerate((*FACTS, "dynamic shared memory")):
        facts = [value + 32 * (at == place) for at, value in enumerate(good.facts)]
        assert name in refused(kernel, replace(good, facts=facts))


def test_version_and_size() -> None:
    kernel = kernel_of(Family.FWD)
    good = parts_of(kernel)
    assert "table version 2" in refused(kernel, replace(good, version=VERSION + 1))
    assert "sizeof(FaFwdParams) is 464, the host's is 456" in refused(kernel, replace(good, size=464))
    assert ";" in refused(kernel, replace(good, size=464, version=7))  # all of them, not the first


def test_arguments() -> None:
    kernel = kernel_of(Family.BWD_CONVERT_DQ)
    good = parts_of(kernel)
    assert good.arguments == (632, 4)
    assert "[(0, 632)]" in refused(kernel, replace(good, arguments=(632,)))
    assert "[(0, 632), (632, 8)]" in refused(kernel, replace(good, arguments=(632, 8)))


def test_the_architecture_with_its_suffix() -> None:
    kernel = kernel_of(Family.FWD)
    for other in ("sm_90", "sm_100a", "sm_80"):
        assert refused(kernel, replace(parts_of(kernel), arch=other), "B060") == f"it is for {other}"


def test_another_kernel_or_none() -> None:
    kernel = kernel_of(Family.FWD)
    good = parts_of(kernel)
    assert "flash_fwd" in refused(kernel, replace(good, symbol="flash_fwd"), "B060")
    for name in ("abi_table", "abi_names", "facts"):
        assert f"exports no {SYMBOL}_{name}" in refused(kernel, replace(good, without=name), "B060")
    assert "6 numbers" in refused(kernel, replace(good, facts=[*good.facts, 1]), "B060")
    odd = {f"{SYMBOL}_facts": bytes(21)}
    assert "has 21 bytes" in refused(kernel, replace(good, more=odd), "B060")
    names = {f"{SYMBOL}_abi_names": b"q_ptr k_ptr\0"}
    assert "2 fields" in refused(kernel, replace(good, more=names), "B060")
    for raw in (b"", b"\x7fELF", good.cubin()[:900]):
        with pytest.raises(KernelFailure) as caught:
            check_exports(raw, kernel, expect_exports(kernel))
        assert caught.value.code == "B060"


def test_more_than_the_architecture_has() -> None:
    """The largest launch fits exactly; one more unit of static shared memory does not."""
    for arch in ("sm_80", "sm_86", "sm_90a", "sm_120"):
        kernel = kernel_of(Family.FWD, arch)
        good = parts_of(kernel)
        room = load_arch(arch).fact("shared_per_block_optin") - smem_bytes(kernel)
        assert check_exports(replace(good, shared=room).cubin(), kernel, expect_exports(kernel)).occupancy.blocks == 1
        why = refused(kernel, replace(good, shared=room + 1), "B062")
        assert f"{room + 1} + {smem_bytes(kernel)} bytes of shared memory: shared" in why

"""The table of architectures: complete, the only place that names them, and consistent with ``arch_specs/``."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from fmha_amdgpu_emu import device_facts
from fmha_amdgpu_emu.device_facts import EmulatedDevice, arch_facts, device_of, emulated_archs
from fmha_amdgpu_emu.units import core_files

from fmha_amdgpu_emu_tests.support.harness import assemble
from fmha_cli.api import build_registry
from fmha_cli.plugin import load_arch

TABLE = "arch_traits.hpp"
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "emulation.md"


def code_of(text: str) -> str:
    """C++ text without its comments."""
    return re.sub(r"//[^\n]*", "", text)


def members(struct: str) -> list[str]:
    """The names of a struct's members in the table's file, in order."""
    body = re.search(rf"struct {struct} {{(.*?)\n}};", code_of(core_files()[TABLE]), re.DOTALL)
    assert body is not None
    return re.findall(r"(\w+)(?=[,;])", body[1])


def rows() -> list[str]:
    return re.findall(r"\n    {\n(.*?)\n    },", core_files()[TABLE], re.DOTALL)


def test_no_other_file_names_an_architecture() -> None:
    """A handler that tests a name would miss the next architecture with the same feature."""
    named = {name: re.findall(r"\w*gfx\d\w*", code_of(text)) for name, text in core_files().items()}
    assert {name for name, found in named.items() if found} == {TABLE, "arch_facts.hpp"}


def test_every_row_states_every_trait() -> None:
    """C++ would silently fill omitted fields with zeros."""
    assert len(rows()) == len(emulated_archs()) >= 5
    for row in rows():
        assert re.findall(r"\.(\w+) =", row) == members("ArchTraits")


def test_the_facts_in_python_and_in_cpp_have_the_same_fields() -> None:
    assert [field.name for field in fields(EmulatedDevice)] == members("ArchFacts")


@pytest.mark.parametrize("arch", emulated_archs())
def test_every_row_has_its_facts(arch: str) -> None:
    device = device_of(arch)
    assert device.wave in (32, 64)
    assert device.lds_of_group <= device.lds_of_unit
    assert f"ArchFacts {arch}{{.major = {device.major}, " in arch_facts()


def test_every_amd_architecture_is_emulated_or_said_not_to_be() -> None:
    registry = build_registry()
    amd = {name for name in registry.arch_names() if registry.arch(name).vendor == "amd"}
    lines = PAGE.read_text("utf-8").splitlines()
    emulated, absent = (
        set(re.findall(r"`(?:emu:)?(gfx\w+)`", next(line for line in lines if line.startswith(start))))
        for start in ("AMD devices: ", "Not emulated: ")
    )
    assert emulated == {*emulated_archs()}
    assert amd == {*emulated_archs()} | absent
    assert not absent & {*emulated_archs()}


@pytest.mark.parametrize("arch", emulated_archs())
def test_the_elf_flag_is_the_assemblers(arch: str, tmp_path: Path) -> None:
    row = next(row for row in rows() if f'.name = "{arch}"' in row)
    flag = re.search(r"\.machine = (0x\w+)", row)
    assert flag is not None
    code = assemble(arch, ".text\ns_endpgm\n", tmp_path).read_bytes()
    assert code[48] == int(flag[1], 16)  # the low byte of e_flags


def test_a_fact_that_the_core_cannot_express_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(arch: str) -> Any:
        spec = load_arch(arch)
        return replace(spec, facts={**spec.facts, "matrix_flushes_subnormals": {"value": ["fp16"], "source": "none"}})

    monkeypatch.setattr(device_facts, "load_arch", odd)
    with pytest.raises(ValueError, match="fp16"):
        device_of("gfx90a")


def test_an_architecture_without_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_facts, "limits_of", lambda arch: None)
    with pytest.raises(ValueError, match="gfx90a"):
        device_of("gfx90a")

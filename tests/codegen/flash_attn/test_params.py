"""The parameter blocks: their layout equals upstream's own header, and every deviation is reported separately."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fmha_cli.codegen.flash_attn.params import NAMESPACE, FaBwdParams, FaFwdParams, QkvParams, cpp_name
from fmha_cli.codegen.struct import c_fields, ctypes_structure, host_layout, pack
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sources.store import fetch_source

STUBS = {
    "cuda.h": "using cudaStream_t = struct CUstream_st*;\n",
    "ATen/cuda/CUDAGeneratorImpl.h": "#include <cstdint>\nnamespace at { struct PhiloxCudaState { uint64_t seed, offset; }; }\n",
}


def _headers(cache_root: Path) -> Path:
    try:
        tree = fetch_source("flash-attn", cache_root, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's headers are not here: {fault}")
    (header,) = tree.rglob("flash_attn/src/flash.h")
    return header.parent


def _program(blocks: tuple[type, ...]) -> str:
    lines = ["#include <cstdio>", "#include <cstddef>", "#include <cstdint>", '#include "flash.h"']
    lines += ["using namespace FLASH_NAMESPACE;", "int main() {"]
    for block in blocks:
        name = cpp_name(block)
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        for field, _ in c_fields(block):
            place = f"offsetof({name}, {field}), sizeof((({name}*)0)->{field})"
            lines.append(f'  printf("{name} {field} %zu %zu\\n", {place});')
    return "\n".join([*lines, "}", ""])


def _compiled(folder: Path, source: Path) -> dict[str, list[list[str]]]:
    compiler = shutil.which("c++") or shutil.which("clang++-22") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on the PATH")
    for name, text in STUBS.items():
        place = folder / "stubs" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    program = folder / "layout.cpp"
    program.write_text(_program((FaFwdParams, FaBwdParams)))
    out = folder / "layout"
    includes = [f"-I{folder / 'stubs'}", f"-I{source}"]
    command = [compiler, "-std=c++17", "-w", *includes, str(program), "-o", str(out)]
    subprocess.run(command, check=True, timeout=600)
    rows = subprocess.run([str(out)], check=True, capture_output=True, text=True, timeout=600).stdout.splitlines()
    found: dict[str, list[list[str]]] = {}
    for row in rows:
        name, *rest = row.split()
        found.setdefault(name, []).append(rest)
    return found


def test_layout_is_that_of_upstreams_header(tmp_path: Path, shared_cache: Path) -> None:
    found = _compiled(tmp_path, _headers(shared_cache))
    for block in (FaFwdParams, FaBwdParams):
        (size,), *rows = found[cpp_name(block)]
        assert ctypes.sizeof(ctypes_structure(block)) == int(size)
        assert host_layout(block) == tuple((name, int(offset), int(width)) for name, offset, width in rows)


def test_no_field_of_upstreams_structs_is_missing_and_their_order_is_kept(shared_cache: Path) -> None:
    text = (_headers(shared_cache) / "flash.h").read_text()
    text = re.sub(r"//[^\n]*", "", text)
    assert f"namespace {NAMESPACE}" in text
    names: list[str] = []
    bodies = dict(re.findall(r"struct (\w+)[^{;]*\{(.*?)\n\};", text, re.DOTALL))
    for struct, block in (
        ("Qkv_params", QkvParams),
        ("Flash_fwd_params", FaFwdParams),
        ("Flash_bwd_params", FaBwdParams),
    ):
        for statement in bodies[struct].split(";"):
            statement = statement.strip()
            if statement and not statement.startswith("using"):
                names += re.findall(r"(\w+)\s*(?:,|$)", statement)
        assert names == [name for name, _ in c_fields(block)]


def test_values_arrive_where_the_fields_are() -> None:
    block = FaBwdParams(q_ptr=7, is_causal=True, philox_args=(2**63, 5), p_dropout_in_uint8_t=230, deterministic=True)
    raw, places = bytes(pack(block)), {name: (at, size) for name, at, size in host_layout(FaBwdParams)}
    for name, value in (("q_ptr", 7), ("is_causal", 1), ("p_dropout_in_uint8_t", 230), ("deterministic", 1)):
        at, size = places[name]
        assert int.from_bytes(raw[at : at + size], "little") == value
    at, size = places["philox_args"]
    assert size == 16
    assert raw[at : at + 16] == (2**63).to_bytes(8, "little") + (5).to_bytes(8, "little")

"""Prove that a HIP compiler works: give it a root if need be, build a small kernel both ways, and look at the results."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.toolchain.asking import ask
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import stamps
from fmha_cli.toolchain.cpp.headers import files_digest, parse_dependencies, tree_digest
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.proving import Probed, ProbeError
from fmha_cli.toolchain.rocm.candidates import INSTALL_HELP, OLDEST_CLANG, RocmCandidate, RocmKind, RocmToolchain
from fmha_cli.toolchain.rocm.compile import probed_flags
from fmha_cli.toolchain.rocm.offload import code_objects
from fmha_cli.toolchain.rocm.root import RocmSupply, isa_versions, lay_out, place_root, root_key

PROBE_ARCH = "gfx942"
OLDEST_HIP = 6

_STANDARD = (
    "algorithm array cassert chrono cmath cstddef cstdint cstdlib cstring functional initializer_list iomanip iostream "
    "iterator limits map numeric optional ostream sstream stdexcept string string_view thread tuple type_traits "
    "unordered_map unordered_set utility variant vector"
)
"""Standard headers that Composable Kernel includes, or that generated kernels may."""

_HIP = ("hip/hip_runtime.h", "hip/hip_fp16.h", "hip/hip_bfloat16.h", "hip/hip_version.h")
PROBE_SOURCE = (
    "".join(f"#include <{name}>\n" for name in (*_HIP, *_STANDARD.split()))
    + f"""#if HIP_VERSION_MAJOR < {OLDEST_HIP}
#error "HIP is older than {OLDEST_HIP}.0"
#endif
extern "C" __global__ void fmha_probe(float* x) {{ x[threadIdx.x] = expf(x[threadIdx.x]); }}
extern "C" int fmha_probe_launch(float* x, hipStream_t s) {{ fmha_probe<<<1, 64, 0, s>>>(x); return (int)hipGetLastError(); }}
"""
)
DEVICE_SOURCE = 'extern "C" __attribute__((global)) void fmha_probe(float* x) { x[0] = __builtin_expf(x[0]); }\n'
"""The kernel alone, without headers: the library's build has already read them, which takes seconds."""

_FLAGS = ("-D__HIP_PLATFORM_AMD__=1", "-std=c++20", "-O1", "-w")
_VERSION = re.compile(r"^#define HIP_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)
_LAYOUT = re.compile(r'^target datalayout = "([^"]+)"', re.MULTILINE)
_PACKAGES = {"llvm-as": "llvm", "clang-offload-bundler": "clang-tools", "ld.lld": "lld"}


def probe_rocm(candidate: RocmCandidate, work: Path, layout: CacheLayout, parts: RocmSupply) -> Probed[RocmToolchain]:
    """Prove one compiler in an empty folder of the cache.

    Args:
        parts: the parts of ROCm that a clang of the system lacks; fetched for such a compiler only.

    Raises:
        ProbeError: it is missing, too old, lacks a tool, or does not build the right code.
        EnvironmentProblem: the parts cannot be obtained.
        OSError: the cache cannot be written.
    """
    before = stamps([candidate.argv0[0]])
    said = ask((*candidate.argv0, "--version"), work)
    if not said.ok or not said.text.strip():
        raise ProbeError("does not answer --version")
    version = next((line for line in said.text.splitlines() if "version" in line), said.text.splitlines()[0]).strip()
    if candidate.kind is RocmKind.CLANG and (_version_number(said.text) or 0) < OLDEST_CLANG:
        raise ProbeError(f"is older than clang {OLDEST_CLANG}: {version}", INSTALL_HELP)
    tools = {name: _tool(candidate, name, work) for name in _PACKAGES}
    before |= stamps(str(path) for path in tools.values() if path)
    for name in ("ld.lld", "clang-offload-bundler"):
        _need(tools, name, said.text)
    root = candidate.rocm
    if root is None:
        root = _synthesise_root(candidate, tools, said.text, work, layout, parts)
    source = work / "probe.hip"
    source.write_text(PROBE_SOURCE, "ascii")
    base = (*candidate.argv0, "-x", "hip", f"--offload-arch={PROBE_ARCH}", f"--rocm-path={root}", *_FLAGS)
    headers = _headers(base, source, work)
    libraries = _device_libraries(candidate, root, work)
    before |= stamps(map(str, (*headers, *libraries)))
    options = _options(base, work)
    accepted = tuple(word for option in options for word in option.split(" "))
    _prove((*base, *accepted), source, work)
    toolchain = RocmToolchain(
        argv0=candidate.argv0,
        version=version,
        kind=candidate.kind,
        rocm_path=root,
        archs=_archs(candidate, work),
        hip_version=_hip_version(headers),
        headers_digest=_digest(candidate, root, headers, libraries),
        options=options,
    )
    return Probed(toolchain, before)


def _digest(candidate: RocmCandidate, root: Path, headers: list[Path], libraries: list[Path]) -> str:
    """Digest of everything that a compile reads in addition to its source.

    An installed file counts by path and content. A root that this tool made counts by content alone, because its path
    differs from cache to cache.

    Raises:
        OSError: a file cannot be read.
    """
    if candidate.kind is RocmKind.ROCM:
        return files_digest([*headers, *libraries])
    others = [path for path in headers if not path.is_relative_to(root)]
    return digest_of([files_digest(others), tree_digest(root, ("*",))])


def _tool(candidate: RocmCandidate, name: str, work: Path) -> Path | None:
    """A tool of the compiler's own LLVM: the one that the compiler itself would use, or the one next to the program."""
    said = ask((*candidate.argv0, f"-print-prog-name={name}"), work).text.strip()
    beside = Path(os.path.realpath(candidate.argv0[0])).with_name(name)
    for path in (Path(said), beside):
        if path.is_absolute() and os.access(path, os.X_OK):
            return path
    match = re.search(r"-(\d+)$", candidate.argv0[0])
    found = shutil.which(f"{name}-{match[1]}") if match else None
    return Path(found) if found else None


def _archs(candidate: RocmCandidate, work: Path) -> tuple[str, ...]:
    """The architectures with facts that the compiler knows."""
    said = ask((*candidate.argv0, "-target", "amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"), work)
    words = set(said.text.split())
    return tuple(name for name in sorted(isa_versions()) if name in words)


def _need(tools: Mapping[str, Path | None], name: str, said: str) -> Path:
    path = tools[name]
    if path is None:
        number = _version_number(said)
        help = f"install {_PACKAGES[name]}-{number} (Debian, Ubuntu) or {_PACKAGES[name]} of the same version"
        raise ProbeError(f"lacks {name} of its version", help)
    return path


def _synthesise_root(
    candidate: RocmCandidate,
    tools: Mapping[str, Path | None],
    said: str,
    work: Path,
    layout: CacheLayout,
    parts: RocmSupply,
) -> Path:
    """A ROCm root for a compiler that has none, in the cache.

    Raises:
        ProbeError: the compiler does not know the GPU, or its tools fail.
        EnvironmentProblem: the parts cannot be obtained.
    """
    assembler = _need(tools, "llvm-as", said)
    empty = work / "empty.c"
    empty.write_text("", "ascii")
    flags = ("-target", "amdgcn-amd-amdhsa", "-nogpulib", "-x", "c", empty.name, "-S", "-emit-llvm", "-o", "-")
    answer = ask((*candidate.argv0, *flags), work)
    match = _LAYOUT.search(answer.text)
    if not answer.ok or match is None:
        raise ProbeError(f"does not compile for AMD GPUs: {answer.fault}", INSTALL_HELP)
    given = parts.get()
    key = root_key(given, match[1], ask((str(assembler), "--version"), work).text)
    fresh = work / "rocm"
    fresh.mkdir()
    for source, library in lay_out(given, match[1], fresh).items():
        answer = ask((str(assembler), str(source), "-o", str(library)), work)
        if not answer.ok:
            raise ProbeError(f"{assembler.name} does not assemble {source.name}: {answer.fault}")
    return place_root(layout, key, fresh)


def _headers(base: tuple[str, ...], source: Path, work: Path) -> list[Path]:
    """Every header that the probe's source includes: all that kernels include outside Composable Kernel.

    Raises:
        ProbeError: one is missing.
    """
    found: set[Path] = set()
    for side in ("--cuda-device-only", "--cuda-host-only"):
        rule = work / f"probe{side}.d"
        # The driver's own -M prints nothing in the passes of an offload compile.
        listing = ("-dependency-file", rule.name, "-MT", "probe", "-sys-header-deps")
        passed = (word for flag in listing for word in ("-Xclang", flag))
        answer = ask((*base, side, "-E", *passed, source.name, "-o", os.devnull), work)
        if not answer.ok or not rule.exists():
            raise ProbeError(f"lacks headers: {answer.fault}")
        names = parse_dependencies(rule.read_text("utf-8", "replace"))
        found |= {Path(os.path.normpath(work / name)) for name in names}
    return sorted(found - {source})


def _device_libraries(candidate: RocmCandidate, root: Path, work: Path) -> list[Path]:
    """The bitcode libraries that the compiler may link: below the root, or among its own resources."""
    said = ask((*candidate.argv0, "-print-resource-dir"), work)
    folders = [root / "amdgcn" / "bitcode"]
    folders += [Path(said.text.strip()) / "lib" / "amdgcn" / "bitcode"] if said.ok else []
    return sorted(path for folder in folders for path in folder.glob("*.bc"))


def _options(base: tuple[str, ...], work: Path) -> tuple[str, ...]:
    """The flags of ``compile.probed_flags`` that the compiler accepts. They are tried one by one only if it refuses the set."""
    empty = work / "empty.hip"
    empty.write_text("", "ascii")
    quick = (*base, "-nogpulib", "-nogpuinc", "--cuda-device-only", "-c", empty.name, "-o", os.devnull)
    if ask((*quick, *(word for flag in probed_flags() for word in flag.words)), work).ok:
        return tuple(flag.text for flag in probed_flags())
    return tuple(flag.text for flag in probed_flags() if ask((*quick, *flag.words), work).ok)


def _prove(base: tuple[str, ...], source: Path, work: Path) -> None:
    """Build a host library with a code object inside, and a code object alone, and look for the kernel.

    Raises:
        ProbeError: one of them fails or holds no code for the GPU.
    """
    small = work / "device.hip"
    small.write_text(DEVICE_SOURCE, "ascii")
    outputs = {
        "host library": (source, ("-shared", "-fPIC", "-no-hip-rt")),
        "code object": (small, ("-nogpuinc", "--cuda-device-only", "--no-gpu-bundle-output")),
    }
    for what, (text, flags) in outputs.items():
        out = work / what.replace(" ", "-")
        answer = ask((*base, *flags, text.name, "-o", out.name), work)
        if not answer.ok:
            raise ProbeError(f"cannot build a {what}: {answer.fault}")
        try:
            found = [item for item in code_objects(out.read_bytes()) if item.arch == PROBE_ARCH]
        except (MalformedObject, OSError) as error:
            raise ProbeError(f"builds a {what} that cannot be read: {error}") from error
        if not any(b"fmha_probe.kd" in item.data for item in found):
            raise ProbeError(f"builds a {what} without the kernel for {PROBE_ARCH} in it")


def _version_number(text: str) -> int | None:
    """The major version in what ``--version`` prints; None without one."""
    match = re.search(r"version (\d+)\.", text)
    return int(match[1]) if match else None


def _hip_version(headers: list[Path]) -> str:
    for path in headers:
        if path.name == "hip_version.h":
            found = dict(_VERSION.findall(path.read_text("utf-8", "replace")))
            return ".".join(found.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))
    return "0.0.0"

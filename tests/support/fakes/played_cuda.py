"""NVIDIA wheels with a simulated NVRTC, a simulated ptxas and a simulated nvcc: compilers that obey the source text."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.library import PORTABLE_FLAGS, build_cpp
from fmha_cli.toolchain.cuda.nvrtc import BUILTINS, LIBRARY
from fmha_cli.toolchain.cuda.packages import ASSEMBLER, CCCL, COMPILER, RUNTIME
from tests.support.builds.cubin_tiny import tiny_cubin

SOURCE = Path(__file__).with_name("played_nvrtc.cpp")
VERSIONS = {COMPILER: "13.0.48", RUNTIME: "13.0.48", CCCL: "13.0.50"}
WITH_PTXAS = VERSIONS | {ASSEMBLER: "13.0.88"}
LIB, INCLUDE, BIN = "nvidia/cu13/lib", "nvidia/cu13/include", "nvidia/cu13/bin"


@dataclass(frozen=True)
class Site:
    """A folder of modules that contains the wheels."""

    folder: Path

    @property
    def calls(self) -> list[str]:
        """The arguments of the simulated NVRTC, one line per compile."""
        path = self.folder / LIB / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []


def library(cache: Path) -> Path:
    """The simulated NVRTC, compiled once for all tests."""
    spec = BuildSpec(BuildKind.HOST_LIBRARY, "tests:played-nvrtc", "generic", {}, SOURCE.read_text("utf-8"))
    return build_cpp(spec, BuildContext(cache), (*PORTABLE_FLAGS, "-ldl")).path


def site(folder: Path, cache: Path, versions: dict[str, str] | None = None) -> Site:
    """Lay out the wheels below a folder; wheels that ``versions`` leaves out are not installed."""
    wanted = VERSIONS if versions is None else versions
    files = {
        COMPILER: {f"{LIB}/{LIBRARY}": library(cache), f"{LIB}/{BUILTINS}": library(cache)},
        RUNTIME: {f"{INCLUDE}/cuda_fp16.h": "#pragma once\n", f"{INCLUDE}/vector_types.h": "struct int2 {};\n"},
        CCCL: {
            f"{INCLUDE}/cccl/cuda/std/tuple": "// tuples\n",
            f"{INCLUDE}/cccl/nv/target": "// targets\n",
            f"{INCLUDE}/cccl/thrust/sort.h": "// no part of any kernel\n",
        },
        ASSEMBLER: {f"{BIN}/ptxas": PTXAS.format(folder=folder / BIN)},
    }
    for name, version in wanted.items():
        for path, content in files[name].items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, place)
            else:
                place.write_text(content)
                place.chmod(0o755 if path.startswith(BIN) else 0o644)
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in [*files[name], f"{info.name}/RECORD"]))
    if COMPILER in wanted:
        build = int(wanted[COMPILER].rpartition(".")[2])
        cubin = tiny_cubin("fmha_probe", (8,), data={"fmha_version": struct.pack("<3i", 13, 0, build)})
        (folder / LIB / "default.cubin").write_bytes(cubin)
    return Site(folder)


PTXAS = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; fi
echo "$@" >> "{folder}/ptxas-calls.txt"
for word; do
  if [ "$previous" = -o ]; then out=$word; fi
  case "$word" in *.ptx) text=$word;; esac
  previous=$word
done
message=$(sed -n 's/.*ptxas-fails //p' "$text")
if [ -n "$message" ]; then echo "ptxas $text, line 3; error   : $message"; exit 255; fi
echo "ptxas info    : Used 32 registers"
sed -n 's/.*ptxas-says //p' "$text"
cp "$(sed -n 's/.*ptxas-cubin //p' "$text")" "$out"
"""


def ptxas(folder: Path) -> Path:
    """A simulated ptxas: returns the file after ``ptxas-cubin`` in the PTX, prints the text after ``ptxas-says``."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ptxas"
    program.write_text(PTXAS.format(folder=folder))
    program.chmod(0o755)
    return program


NVCC = """#!/bin/sh
echo "$@" >> "{folder}/nvcc-calls.txt"
case " $* " in
  *" --version "*) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0;;
  *" --list-gpu-code "*) echo sm_80; echo sm_90; echo sm_100; exit 0;;
  *" -M "*) echo "probe.o : probe.cu {folder}/header.h"; exit 0;;
esac
for word; do
  if [ "$previous" = -o ]; then out=$word; fi
  case "$word" in *.cu|*.cpp) text=$word;; esac
  previous=$word
done
message=$(sed -n 's/.*nvcc-fails //p' "$text")
if [ -n "$message" ]; then echo "source.cpp(3): error: $message"; exit 2; fi
file=$(sed -n 's/.*nvcc-cubin //p' "$text")
cp "${{file:-{folder}/header.h}}" "$out"
"""


def nvcc(home: Path) -> Path:
    """A simulated nvcc below a CUDA home: it returns the file after ``nvcc-cubin`` in the text."""
    program = home / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    (home / "header.h").write_text("#pragma once\n")
    program.write_text(NVCC.format(folder=home))
    program.chmod(0o755)
    return program

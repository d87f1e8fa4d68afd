"""The program that compiles one source text: ``python -m fmha_triton.compiling SOURCE -o ARTIFACT``.

It is the only place that imports Triton, and runs as a child of the build: an LLVM that aborts costs one build. It needs no GPU and
no toolkit, since Triton's package brings ptxas and lld. A failure is one line ``error: ...`` and the traceback before it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

MARK = "# build: "
_MEDDLERS = ("TRITON_", "MLIR_", "LLVM_", "DISABLE_", "ENABLE_", "PTXAS_", "AMDGCN_", "NVPTX_", "USE_IR_LOC")
"""Variables of Triton and its compilers, which no build key holds."""
_PTX = "kernel.ptx"


def build_of(source: str) -> dict[str, Any]:
    """The statement of a source text's last line about its build."""
    last = source.rstrip().rsplit("\n", 1)[-1]
    if not last.startswith(MARK):
        raise ValueError("the text says nothing about its build")
    found: dict[str, Any] = json.loads(last.removeprefix(MARK))
    return found


def prepare(scratch: Path) -> None:
    """Clear the variables that would decide the output without being in the key, and give Triton its own folder."""
    for name in [name for name in os.environ if name.startswith(_MEDDLERS)]:
        del os.environ[name]
    os.environ["TRITON_CACHE_DIR"] = str(scratch / "triton")
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # the path of the source would be in the code
    os.environ["HOME"] = str(scratch)
    sys.dont_write_bytecode = True


def function_of(path: Path, name: str) -> Any:
    """The jitted function of a source text."""
    spec = importlib.util.spec_from_file_location(
        "fmha_kernel", path, loader=SourceFileLoader("fmha_kernel", str(path))
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fmha_kernel"] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def compiled(path: Path, build: dict[str, Any]) -> tuple[dict[str, Any], bytes, str | None]:
    """(the launch's parameters, the binary, the PTX or None) of a source text."""
    import triton  # type: ignore[import-untyped]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]

    function = function_of(path, build["function"])
    types = dict(build["arguments"])
    names = function.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    marked = {(names.index(name),): [["tt.divisibility", number]] for name, number in build["divisible"].items()}
    kind, arch, wave = build["target"]
    source_type = triton.compiler.ASTSource
    if build["gluon"]:
        from triton.experimental.gluon._runtime import GluonASTSource  # type: ignore[import-untyped]

        source_type = GluonASTSource
    source = source_type(function, signature, build["constants"], marked)
    kernel = triton.compile(source, target=GPUTarget(kind, arch, wave), options=build["options"])
    meta = kernel.metadata
    about = {
        "symbol": meta.name,
        "shared_bytes": int(meta.shared),
        "threads": int(meta.num_warps) * wave,
        "arguments": build["arguments"],
        "trailing_pointers": 2,
        "scratch_bytes": int(getattr(meta, "global_scratch_size", 0) or 0),
        "triton": triton.__version__,
    }
    binary = kernel.asm["cubin" if kind == "cuda" else "hsaco"]
    return about, binary, kernel.asm.get("ptx") if kind == "cuda" else None


def main(arguments: list[str]) -> int:
    """Compile. Returns 1 after a failure."""
    source, flag, out = arguments
    if flag != "-o":
        raise SystemExit("SOURCE -o ARTIFACT")
    path = Path(source).absolute()
    prepare(Path(os.environ.get("TMPDIR", path.parent)).absolute())
    try:
        about, binary, ptx = compiled(path, build_of(path.read_text("utf-8")))
    except Exception as fault:  # noqa: BLE001 - whatever Triton raises is the failure of this build
        traceback.print_exc()
        said = str(fault).strip().splitlines() or [""]
        print(f"error: {type(fault).__name__}: {said[-1]}")
        return 1
    Path(out).write_bytes(json.dumps(about, sort_keys=True).encode() + b"\n" + binary)
    if ptx is not None:
        Path(_PTX).write_text(ptx, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

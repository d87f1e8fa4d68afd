#!/usr/bin/env bash
# NVRTC's PTX does not show whether a product and a sum are rounded once or twice.
# Guessed: with its default, -fmad=true, NVRTC writes fma where it contracts, so whoever reads or executes the PTX sees the
# kernel's rounding. Seen: with NVRTC and ptxas 13.0.88 for sm_80: the PTX of exp2f(s * scale - m) has mul.f32 and sub.f32, and the cubin of
# the same compilation has one FFMA. A softmax of this form (FlashAttention-2's softmax.h) is right for scores of 1e10 by the PTX, and
# loses such rows on a GPU.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvdisasm==13.5.37 cuda-bindings==13.0.3
cat > "$folder/look.py" <<'PY'
import subprocess, sys
from importlib import metadata
from pathlib import Path

from cuda.bindings import nvrtc

TEXT = b"""extern "C" __global__ void k(float* x, float scale) {
  x[threadIdx.x] = exp2f(x[threadIdx.x] * scale - x[threadIdx.x + 32]);
}"""


def checked(found):
    assert int(found[0]) == 0, found
    return found[1] if len(found) == 2 else found[1:]


program = checked(nvrtc.nvrtcCreateProgram(TEXT, b"k.cu", 0, [], []))
checked(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_80"]))
texts = {}
for kind in ("PTX", "CUBIN"):
    size = checked(getattr(nvrtc, f"nvrtcGet{kind}Size")(program))
    texts[kind] = b" " * size
    checked(getattr(nvrtc, f"nvrtcGet{kind}")(program, texts[kind]))
cubin = Path(sys.argv[1])
cubin.write_bytes(texts["CUBIN"])
tool = next(f.locate() for f in metadata.files("nvidia-cuda-nvdisasm") if f.name == "nvdisasm")
Path(tool).chmod(0o755)
sass = subprocess.run([tool, "-c", cubin], check=True, capture_output=True, text=True).stdout
ptx = texts["PTX"].decode()
found = {"PTX": [w for w in ("mul.f32", "sub.f32", "fma.rn.f32") if w in ptx], "SASS": [w for w in ("FADD", "FFMA") if w + " " in sass]}
print("NVRTC", ".".join(map(str, checked(nvrtc.nvrtcVersion()))), found)
assert found == {"PTX": ["mul.f32", "sub.f32"], "SASS": ["FFMA"]}, "this has changed"
PY
"$folder/venv/bin/python" "$folder/look.py" "$folder/k.cubin"

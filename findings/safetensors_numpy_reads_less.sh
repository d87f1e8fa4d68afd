#!/usr/bin/env bash
# safetensors.numpy writes bf16 and fp8 arrays (types of ml_dtypes), and cannot read what it wrote.
#
# Guessed: 0.4.5 refuses to write them, and 0.8.0 reads and writes them.
# Seen:    every release from 0.4.5 to 0.8.0 writes bfloat16, float8_e4m3fn and float8_e5m2 under the format's names, and
#          safetensors.numpy.load of the same bytes raises KeyError with that name.
# Needs python3 with pip and a package index. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0
for release in 0.4.5 0.8.0; do
  "$folder/env/bin/pip" install -q "safetensors==$release"
  "$folder/env/bin/python" - "$release" <<'PY'
import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import load, save

for kind, name in (("bfloat16", "BF16"), ("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")):
    written = save({"x": np.arange(8, dtype=np.float32).astype(getattr(ml_dtypes, kind))})
    assert f'"dtype":"{name}"'.encode() in written
    try:
        load(written)
    except KeyError as fault:
        print(f"safetensors {sys.argv[1]}: {kind} is written as {name}; load raises {fault!r}")
    else:
        sys.exit(f"safetensors {sys.argv[1]} reads {name}")
PY
done

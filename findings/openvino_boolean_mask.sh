#!/usr/bin/env bash
# OpenVINO's ScaledDotProductAttention with a mask of booleans, on the CPU.
#
# Documented (operation-specs/sequence/scaled-dot-product-attention): true means that the element takes part.
# Guessed: every release of 2025 and 2026 does so.
# Seen:    2025.0.0 to 2025.2.0 do the opposite: the result is that of the inverted mask to 3e-7, and off by more than 1
#          from the documented one. 2025.3.0 and later do as documented.
# Needs python3 with pip and a package index. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
for row in 2025.0.0:opposite 2025.2.0:opposite 2025.3.0:documented 2026.4.1:documented; do
  "$folder/env/bin/pip" install -q "openvino==${row%:*}"
  "$folder/env/bin/python" - "$row" <<'PY'
import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

release, stated = sys.argv[1].split(":")
draw = np.random.default_rng(0)
q, k, v = (draw.normal(size=(1, 2, n, 8)).astype(np.float32) for n in (16, 64, 64))
shown = np.ascontiguousarray(np.broadcast_to(np.arange(64) % 3 != 1, (1, 1, 16, 64)))
inputs = [*(ops.parameter([*a.shape], ov.Type.f32) for a in (q, k, v)), ops.parameter([1, 1, 16, 64], ov.Type.boolean)]
model = ov.Model([ops.scaled_dot_product_attention(*inputs)], inputs, "attention")
(found,) = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([q, k, v, shown]).values()


def attention(mask):
    scores = np.where(mask, np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


errors = {"documented": abs(found - attention(shown)).max(), "opposite": abs(found - attention(~shown)).max()}
print(f"openvino {release}: error as documented {errors['documented']:.1e}, of the opposite {errors['opposite']:.1e}")
sys.exit(int(errors[stated] > 1e-5))
PY
done

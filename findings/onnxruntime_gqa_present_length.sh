#!/usr/bin/env bash
# ONNX Runtime's GroupQueryAttention: the length of present_key where past_key has a declared shape, on the CPU.
#
# Documented (docs/ContribOperators.md): present_key holds the past and the new keys.
# Guessed: the shape that the session states for present_key is that length, or is open.
# Seen:    the tensor has 8 + 4 = 12 keys in every release. 1.25.1 to 1.30.0 state 8, the length of past_key, and warn of their
#          own output when the model runs ("Expected shape from model ... does not match actual shape"). 1.24.4 states no shape,
#          1.32.0 leaves the length open. A client that allocates present_key by the stated shape has too little.
# Needs python3 with pip and a package index. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
for row in 1.24.4:none 1.25.1:past 1.30.0:past 1.32.0:open; do
  "$folder/env/bin/pip" install -q onnx==1.23.2 "onnxruntime==${row%:*}"
  "$folder/env/bin/python" - "$row" <<'PY'
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

release, stated = sys.argv[1].split(":")
names = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length")
shapes = ((1, 4, 64), (1, 4, 32), (1, 4, 32), (1, 2, 8, 16), (1, 2, 8, 16), (1,), ())
types = [TensorProto.FLOAT] * 5 + [TensorProto.INT32] * 2
inputs = [helper.make_tensor_value_info(*one) for one in zip(names, types, shapes)]
outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("output", "present_key", "present_value")]
node = helper.make_node(
    "GroupQueryAttention", names, [one.name for one in outputs], domain="com.microsoft", num_heads=4, kv_num_heads=2
)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "attention", inputs, outputs), opset_imports=opsets, ir_version=10)
session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
draw = np.random.default_rng(0)
feeds = dict(zip(names, [draw.normal(size=shape).astype(np.float32) for shape in shapes[:5]]))
feeds |= {"seqlens_k": np.array([11], np.int32), "total_sequence_length": np.array(12, np.int32)}
present = session.run(["present_key"], feeds)[0]
shape = session.get_outputs()[1].shape
found = "none" if not shape else "past" if shape[2] == 8 else "open" if not isinstance(shape[2], int) else "right"
print(f"onnxruntime {release}: present_key has {present.shape[2]} keys, the session states {shape}")
sys.exit(int(present.shape[2] != 12 or found != stated))
PY
done

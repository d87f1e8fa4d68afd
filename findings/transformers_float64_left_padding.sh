#!/usr/bin/env bash
# Eager attention of Hugging Face transformers in float64, with left padding.
#
# Documented: attn_implementation="eager" is the plain form, and masked keys get the least number of the model's type.
# Guessed: a model in float64 gives a reference for the same model in float32.
# Seen:    with 5.24.0 and left padding all logits of the padded sequence are NaN, those of its real tokens too. The mask holds the least
#          float64; the softmax is taken in float32, where that is -inf, so a padded row is NaN, and the next layer spreads it. Float32 is finite.
# Needs python3 with pip and a package index. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q transformers==5.24.0 torch==2.13.0
HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PY'
import sys

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
config = LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2, attn_implementation="eager")
model = LlamaForCausalLM(config).eval()
ids, mask = torch.tensor([[0, 0, 3, 4, 5]]), torch.tensor([[0, 0, 1, 1, 1]])
finite = {}
for kind in (torch.float32, torch.float64):
    with torch.no_grad():
        logits = model.to(kind)(ids, attention_mask=mask).logits[0, 2:]
    finite[str(kind)] = bool(logits.isfinite().all())
print("transformers", transformers.__version__, "logits of the real tokens are finite:", finite)
sys.exit(finite != {"torch.float32": True, "torch.float64": False})
PY

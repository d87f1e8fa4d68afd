#!/usr/bin/env bash
# Packed sequences in Hugging Face transformers, told by position_ids that start anew.
#
# Documented: position_ids that reset mark packed sequences, which do not see each other.
# Guessed: the marks hold in every forward call without a mask.
# Seen:    with 5.24.0 they hold with use_cache=False alone. With the default, use_cache=True, the second sequence attends to the first:
#          its logits change with the first sequence's tokens, without a warning.
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
sizes = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)).eval()
positions = torch.tensor([[0, 1, 2, 0, 1]])
packed, other = torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([[9, 8, 2, 6, 7]])  # the second sequence is 6, 7 in both
moved = {}
for cache in (False, True):
    with torch.no_grad():
        one, two = (model(ids, position_ids=positions, use_cache=cache).logits[0, 3:] for ids in (packed, other))
    moved[cache] = float((one - two).abs().max())
print("transformers", transformers.__version__, "use_cache -> change of the second sequence's logits:", moved)
sys.exit(not (moved[False] < 1e-6 < 1e-3 < moved[True]))
PY

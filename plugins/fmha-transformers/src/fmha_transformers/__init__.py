"""Importing this package registers ``attn_implementation="fmha"`` in transformers: attention by fmha's CPU kernels in this process.

``FMHA_TRANSFORMERS_RECORD=DIR`` writes every distinct call as a problem with its count, for ``fmha bench --workload``.
"""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from fmha_transformers.attention import attend
from fmha_transformers.masks import mask_of

NAME = "fmha"

AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, mask_of)

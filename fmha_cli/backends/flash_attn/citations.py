"""Files of FlashAttention-2 that rules cite as their sources."""

from __future__ import annotations

API = "csrc/flash_attn/flash_api.cpp"
SRC = "csrc/flash_attn/src"
FORWARD_LAUNCH = f"{SRC}/flash_fwd_launch_template.h"
BACKWARD_LAUNCH = f"{SRC}/flash_bwd_launch_template.h"

"""Plans of FlashAttention, run on the model of its kernels."""

from __future__ import annotations

from functools import partial

import modelled_run
from fa_model import run_kernel

from fmha_cli.backends.flash_attn.upstream import UPSTREAM

plans_of = partial(modelled_run.plans_of, UPSTREAM)
run_plan = partial(modelled_run.run_plan, UPSTREAM, run_kernel)

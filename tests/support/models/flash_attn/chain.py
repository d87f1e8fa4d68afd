"""Plans of FlashAttention, run on the model of its kernels."""

from __future__ import annotations

from functools import partial

from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from tests.support.models import modelled_run
from tests.support.models.flash_attn.kernels import run_kernel

plans_of = partial(modelled_run.plans_of, UPSTREAM)
run_plan = partial(modelled_run.run_plan, UPSTREAM, run_kernel)

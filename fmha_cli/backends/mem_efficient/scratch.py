"""``Storage``: where a kernel finds the tensors of a problem, and its further needs.

Source: the ``at::empty`` of ``attention_forward_generic.cu`` and ``attention_backward_generic.cu``; ``workspace_size`` of
``kernel_backward.h``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType

from fmha_cli.backends.cuda.scratch import Scratch
from fmha_cli.backends.cuda.sequences import Sequences
from fmha_cli.backends.cuda.staging import Staging
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.codegen.mem_efficient.traits import Traits, traits_of
from fmha_cli.domain.features import Layout
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem

COPIES = MappingProxyType(
    {"q": "query", "k": "key", "v": "value", "do": "grad_output", "bias": "attn_bias", "o": "output"}
    | {"dq": "grad_query", "dk": "grad_key", "dv": "grad_value", "dbias": "grad_bias"}
)
"""Upstream's names of the tensors."""
LSE_STEP = 32
"""Rows of a head in the LSE are a multiple of it (``kAlignLSE``)."""
BUSY, MOST_BLOCKS, LOCK_WORDS = 256, 200, 4
"""Blocks from which few keys are not divided; blocks that may have dK and dV in ``workspace``; words before its tiles of dQ."""


@dataclass(frozen=True)
class Storage(Staging):
    """The storage of one problem for one kernel."""

    traits: Traits

    @cached_property
    def scratch(self) -> Mapping[str, Scratch]:
        """The scratch tensors of a launch by name."""
        return dict((*self.staged(), *self._own()))

    def _own(self) -> Iterator[tuple[str, Scratch]]:
        t, p = self.traits, self.problem
        if t.forward and t.accumulates:
            yield "output_accum", Scratch(self.shape("o"))
        # Without an LSE and with one key head, the kernel would take the heads of a last row for rows: it drops the mask and
        # runs past the last head.
        if not t.forward or p.lse or self.shared:
            yield "logsumexp", Scratch((p.batch, p.heads, next_multiple(p.seqlen_q, LSE_STEP)))
        if not t.forward:
            yield "delta", Scratch((p.heads, self.rows) if self.apart else (p.batch, p.heads, p.seqlen_q))
            yield "workspace", Scratch((p.batch * p.heads * self._words(),))

    def dense_strides(self, name: str) -> tuple[int, int]:
        """Strides of rows and heads of q, k, v or do, in elements, as the kernel sees them if no tensor has gaps."""
        p, (rows, heads, dim) = self.problem, self.shape(name)
        layout = Layout.BSHD if name in self.copied else p.layout_out if name == "do" else p.layout
        of_head = rows if self.apart else rows // p.batch
        row, head = (heads * dim, dim) if layout is Layout.BSHD else (dim, of_head * dim)
        return row, 0 if self.shared and name in ("k", "v") else head

    @cached_property
    def tested_strides(self) -> tuple[int, ...]:
        """The strides that make upstream's host take or pass over the kernel: of tensors without gaps or padded head
        dims.

        It tests those of heads; in a forward pass not V's, whose alignment it takes to be 1. For rows it throws later. The host
        must pad those, and for padded tensors upstream takes an aligned kernel: rows count against the other kernels alone.
        """
        unpadded, a = replace(self, hdims=(self.problem.hdim, self.problem.hdim_v)), self.traits.algorithm
        found = [unpadded.dense_strides(name) for name in ("qk" if self.traits.forward else "qkv")]
        return tuple(head for _, head in found) + (() if a.aligned else tuple(row for row, _ in found))

    @cached_property
    def splits(self) -> int:
        """``num_splits_key`` of a backward kernel: blocks that share the keys of a head. Several add to dQ in no fixed order.

        Unlike upstream, a sequence without rows has one: several take a remainder by its tiles of rows, of which there are
        none (``getQueryStartShift``).
        """
        p, keys = self.problem, self.traits.algorithm.tile[1]
        heads, splits = p.batch * p.heads, -(-p.seqlen_k // keys)
        if p.deterministic or 0 in p.query_lengths() or (heads >= BUSY and p.seqlen_k <= 2 * keys):
            return 1
        return max(1, min(splits, MOST_BLOCKS // heads) if self.traits.accumulates else splits)

    def _words(self) -> int:
        """``workspace`` of one head: dK and dV of each block if the kernel sums them there, and the tiles of dQ with locks."""
        (rows, keys), (d, dv) = self.traits.algorithm.tile, self.hdims
        sums = next_multiple(d, rows) + next_multiple(dv, rows) if self.traits.accumulates else 0
        tiles = -(-self.problem.seqlen_q // rows) * -(-d // keys)
        return next_multiple(self.splits * keys * sums + tiles * (LOCK_WORDS + rows * keys), 4)


@lru_cache(maxsize=256)
def storage_of(p: Problem, kernel: KernelSpec) -> Storage:
    """The storage of a problem for a kernel. Head dims are padded to whole loads and stores.

    Raises:
        InternalError: the kernel is none of the backend's.
    """
    t = traits_of(kernel)
    hdims = next_multiple(p.hdim, t.width), next_multiple(p.hdim_v, t.width)
    return Storage(p, hdims, COPIES, groups=False, traits=t)


def scratch(kernel: KernelSpec, situation: Sequences) -> Mapping[str, Scratch]:
    """The scratch tensors of a launch by name."""
    return storage_of(situation.problem, kernel).scratch

"""What each block of a launch must work on, from the places of the tensors alone: no formula of upstream's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from tests.support.referees.upstream_host.client import FakeTensor
from tests.support.referees.xformers_host.client import Examined, Layout

BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
TOP_LEFT, BOTTOM_RIGHT = 1, 2
"""``CustomMaskType``; 0 is none."""

Fields = Mapping[str, int]


def at(tensor: FakeTensor | None, *index: int) -> int:
    """The address of an element; 0 without a tensor."""
    if tensor is None:
        return 0
    return tensor.address + BYTES[tensor.dtype] * sum(i * s for i, s in zip(index, tensor.strides, strict=True))


@dataclass(frozen=True)
class Inputs:
    """What both directions read. Shapes: q (B, M, H, D), k (B, N, H, D), v (B, N, H, Dv), bias (B, H, M, N).

    Packed sequences have B = 1 in the tensors; ``starts_q`` and ``starts_k`` have one entry more than sequences.
    ``lengths_k`` has the keys of each padded sequence. ``queries`` and ``keys`` are the lengths of the launch, of the
    longest sequence if packed.
    """

    query: FakeTensor
    key: FakeTensor
    value: FakeTensor
    bias: FakeTensor | None
    starts_q: tuple[int, ...] | None
    starts_k: tuple[int, ...] | None
    lengths_k: tuple[int, ...] | None
    queries: int
    keys: int
    mask: int
    window: int

    @property
    def batches(self) -> int:
        return self.query.sizes[0] if self.starts_q is None else len(self.starts_q) - 1

    @property
    def heads(self) -> int:
        return self.query.sizes[2]

    def sequence(self, b: int) -> tuple[int, int, int, int, int]:
        """Index in the tensors, first row, rows, first key, keys of a sequence."""
        if self.starts_q is None or self.starts_k is None:
            return b, 0, self.queries, 0, self.keys
        row, key = self.starts_q[b], self.starts_k[b]
        keys = self.starts_k[b + 1] - key if self.lengths_k is None else self.lengths_k[b]
        return 0, row, self.starts_q[b + 1] - row, key, keys


@dataclass(frozen=True)
class Forward(Inputs):
    """A forward launch. out and accum (B, M, H, Dv), the latter fp32; lse (B, H, rows)."""

    out: FakeTensor
    accum: FakeTensor | None
    lse: FakeTensor | None

    def block(self, facts: Fields, x: int, h: int, b: int) -> Fields | None:
        """The fields of a block after ``advance_to_block``; None if it has no work."""
        tile = facts["kQueriesPerBlock"]
        n, row, rows, key, keys = self.sequence(b)
        first = x * tile
        if first >= rows:
            return None
        out = at(self.out, n, row + first, h, 0)
        lse = at(self.lse, b, h, first)
        found = {
            "query_ptr": at(self.query, n, row + first, h, 0),
            "key_ptr": at(self.key, n, key, h, 0),
            "value_ptr": at(self.value, n, key, h, 0),
            "attn_bias_ptr": at(self.bias, b, h, 0, 0),
            "output_ptr": out,
            "output_accum_ptr": at(self.accum, n, row + first, h, 0) if self.accum else out,
            "logsumexp_ptr": lse,
            "num_queries": rows - first,
            "num_keys": keys,
            "num_keys_absolute": keys,
            "num_heads": self.heads,
            "custom_mask_type": self.mask,
            "dropout_batch_head_rng_offset": (b * self.heads + h) * self.queries * self.keys,
            "q_strideM": self.query.strides[1],
            "o_strideM": self.out.strides[1],
            "bias_strideM": self.bias.strides[2] if self.bias else 0,
        }
        if self.mask:
            shift = keys - rows if self.mask == BOTTOM_RIGHT else 0
            found["causal_diagonal_offset"] = shift % (1 << 32)
            found["num_keys"] = min(first + shift + tile, keys)
        # One row of each head over one head of keys: the heads become rows.
        alone = rows - first == 1 and self.key.strides[2] == 0 == self.value.strides[2] and not lse and not self.window
        if not alone:
            return found
        if h % tile:
            return None
        heads = {"num_queries": self.heads, "num_heads": 1, "custom_mask_type": 0}
        strides = {"q_strideM": self.query.strides[2], "o_strideM": self.out.sizes[3]}
        return found | heads | strides | {"bias_strideM": self.bias.strides[1] if self.bias else 0}


@dataclass(frozen=True)
class Backward(Inputs):
    """A backward launch. out, grad_out (B, M, H, Dv); gradients like their inputs; lse (B, H, rows), delta (B, H, M),
    packed (1, H, total rows)."""

    out: FakeTensor
    grad_out: FakeTensor
    grads: tuple[FakeTensor, FakeTensor, FakeTensor]
    grad_bias: FakeTensor | None
    lse: FakeTensor
    delta: FakeTensor
    workspace: int
    splits: int

    def floats(self, facts: Fields) -> tuple[int, int, int]:
        """Floats of the workspace of a head: those of dK, of dV, and all of them."""
        tile_q, tile_k = facts["kBlockSizeI"], facts["kBlockSizeJ"]
        dims = self.query.sizes[3], self.value.sizes[3]
        own = [self.splits * tile_k * -(-d // tile_q) * tile_q if facts["kNeedsAccumGradK"] else 0 for d in dims]
        rows, columns = -(-self.queries // tile_q), -(-dims[0] // tile_k)
        sums = rows * columns * (4 + tile_q * tile_k)  # a lock, a counter and two words of padding, then the tile
        return own[0], own[1], -(-(sum(own) + sums) // 4) * 4

    def workspace_bytes(self, facts: Fields) -> int:
        """Bytes of the whole workspace."""
        return 4 * self.batches * self.heads * self.floats(facts)[2]

    def block(self, facts: Fields, x: int, h: int, b: int) -> Fields:
        """The fields of a block after ``advance_to_block``, on the host of the first split (``split_key_device``)."""
        n, row, rows, key, keys = self.sequence(b)
        grad_k, grad_v, all_floats = self.floats(facts)
        workspace = self.workspace + 4 * all_floats * (b * self.heads + h)
        return {
            "query_ptr": at(self.query, n, row, h, 0),
            "key_ptr": at(self.key, n, key, h, 0),
            "value_ptr": at(self.value, n, key, h, 0),
            "bias_ptr": at(self.bias, b, h, 0, 0),
            "output_ptr": at(self.out, n, row, h, 0),
            "grad_output_ptr": at(self.grad_out, n, row, h, 0),
            "grad_query_ptr": at(self.grads[0], n, row, h, 0),
            "grad_key_ptr": at(self.grads[1], n, key, h, 0),
            "grad_value_ptr": at(self.grads[2], n, key, h, 0),
            "grad_bias_ptr": at(self.grad_bias, b, h, 0, 0),
            "logsumexp_ptr": at(self.lse, b, h, 0),
            "delta_ptr": at(self.delta, n, h, row),
            "workspace": workspace,
            "workspace_gv": workspace + 4 * grad_k,
            "workspace_gq": workspace + 4 * (grad_k + grad_v),
            "num_queries": rows,
            "num_keys": keys,
            "dropout_batch_head_rng_offset": (b * self.heads + h) * self.queries * self.keys,
        }


def block_faults(case: Forward | Backward, facts: Fields, layout: Layout, found: Examined) -> Iterator[str]:
    """The fields of blocks that differ from what the tensors imply."""
    grid = found.grid
    if len(found.blocks) != grid[0] * grid[1] * grid[2]:
        yield f"{len(found.blocks)} blocks of a grid of {grid}: {found.refused}"
        return
    places = product(range(grid[2]), range(grid[1]), range(grid[0]))
    for (b, h, x), params in zip(places, found.blocks, strict=True):
        expected = case.block(facts, x, h, b)
        if (expected is None) != (params is None):
            yield f"block {x, h, b}: {'no work' if params is None else 'work'}, not so by the tensors"
        elif expected is not None and params is not None:
            for name, value in expected.items():
                size = layout.fields[name][1]
                got = layout.value(params, name)
                if got != value % (1 << 8 * size):
                    yield f"block {x, h, b}: {name} is {got}, by the tensors {value}"

"""The work of a Blackwell kernel: its tiles in the order in which programs take them, and the scales of a tile."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.aggregate
class Tile:
    """256 rows of one head, and its blocks of keys: the end of the visible ones, and of those that every row sees whole."""

    batch: gl.tensor
    head: gl.tensor
    start: gl.tensor
    end: gl.tensor
    whole: gl.tensor


@gluon.aggregate
class Work:
    """The problem, and its constants."""

    rows: gl.tensor
    keys: gl.tensor
    heads: gl.tensor
    group: gl.tensor
    tiles: gl.tensor
    neighbours: gl.tensor
    scale: gl.tensor
    q_scales: gl.tensor
    k_scales: gl.tensor
    v_scales: gl.tensor
    scale_batch: gl.tensor
    scale_head: gl.tensor
    D: gl.constexpr
    BN: gl.constexpr
    HALF: gl.constexpr
    CAUSAL: gl.constexpr
    TURNSTILE: gl.constexpr
    DESCALE: gl.constexpr

    @gluon.jit
    def score_scale(self, tile):
        """What scores are multiplied by: the scale in bits, and the scales of Q and K if there are any."""
        scale = self.scale
        if self.DESCALE:
            at = tile.batch * self.scale_batch + tile.head // self.group * self.scale_head
            scale = scale * gl.load(self.q_scales + at) * gl.load(self.k_scales + at)
        return scale

    @gluon.jit
    def value_scale(self, tile):
        """The scale of V; 1 if there is none."""
        scale = gl.to_tensor(1.0)
        if self.DESCALE:
            scale = gl.load(self.v_scales + tile.batch * self.scale_batch + tile.head // self.group * self.scale_head)
        return scale

    @gluon.jit
    def tile(self, number):
        """The tile of a number. Tiles of ``neighbours`` heads, a divisor of all, alternate; at least one block is visible."""
        blocks = gl.cdiv(self.rows, 2 * self.HALF)
        first = number // (blocks * self.neighbours) * self.neighbours
        inside = number % (blocks * self.neighbours)
        sequence = first + inside % self.neighbours
        start = inside // self.neighbours * (2 * self.HALF)
        end = gl.cdiv(self.keys, self.BN)
        whole = self.keys // self.BN
        if self.CAUSAL:
            end = gl.cdiv(gl.maximum(gl.minimum(start + 2 * self.HALF, self.rows) + self.keys - self.rows, 1), self.BN)
            whole = gl.maximum(start + 1 + self.keys - self.rows, 0) // self.BN
        return Tile(sequence // self.heads, sequence % self.heads, start, end, whole)

"""Layouts of a Blackwell kernel in shared and tensor memory. All follow from the CGA layouts of the descriptors."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

LANES = gl.constexpr(128)
"""Lanes of tensor memory: the rows of a half that one CTA has."""


@gluon.jit
def matrix(tile):
    """A box of one sequence and head as a matrix of its rows."""
    return tile.reshape([tile.shape[2], tile.shape[3]])


@gluon.constexpr_function
def cga_of(layout):
    """The CGA layout of the matrix in a descriptor's box: for each doubling of the CTAs, where (row, column) it takes one."""
    return [basis[2:] for basis in layout.cga_layout]


@gluon.constexpr_function
def products(cga):
    """Products that read a CTA's part of K: those of its own pair, and of all pairs that have the same part."""
    return 1 << sum(not any(basis) for basis in cga)


@gluon.constexpr_function
def in_lanes(columns, cga):
    """The layout of a matrix of fp32 in tensor memory, whose rows are those of the lanes of every CTA. Pairs share their products."""
    return TensorMemoryLayout((LANES.value, columns), col_stride=1, cga_layout=cga, two_ctas=bool(cga))


@gluon.constexpr_function
def one_each(cga):
    """The layout of numbers of rows in shared memory: each CTA has those of its own rows."""
    return gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[basis[:1] for basis in cga])


@gluon.jit
def p_in(scores, dtype: gl.constexpr):
    """P of a block, in the first columns of its scores."""
    BN: gl.constexpr = scores.shape[1]
    wide: gl.constexpr = 32 // dtype.primitive_bitwidth * BN
    return scores.reinterpret(dtype, [scores.shape[0], wide], scores.layout).slice(0, BN)

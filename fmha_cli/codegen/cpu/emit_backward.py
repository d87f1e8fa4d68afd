"""The parts of a backward kernel's source."""

from __future__ import annotations

from fmha_cli.codegen.abi import BACKWARD_PREFIX, VERSION, EntryStatus, FmhaCpuArgs, FmhaCpuBwdArgs
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm
from fmha_cli.codegen.cpu.backward import ROWS, gradient_columns, gradient_tile, product_tile
from fmha_cli.codegen.cpu.blocks import gradient_blocks, product_blocks
from fmha_cli.codegen.cpu.elements import gradient_elements, product_elements
from fmha_cli.codegen.cpu.micro import MIX, transpositions
from fmha_cli.codegen.cpu.parts import (
    EXTREME_FAULTS,
    MAX_HDIM,
    TILE_FAULTS,
    constants,
    element_types,
    source_text,
    vector_math,
)
from fmha_cli.codegen.struct import struct_text, table_text
from fmha_cli.domain.kernel import KernelSpec

TILE_QUERIES = 64
"""The wanted number of queries in a tile: its Q and dO fill half of a first-level cache of 48 KiB at hdim 128, its dQ too."""

MATRIX_QUERIES = 256
"""The same with matrix tiles: dK and dV are loaded and stored once for each tile, which costs as much as products."""

SLABS, MATRIX_SLABS = (4, 16), (2, 4)
"""Tiles in a slab, of one thread and of all: without matrix tiles, and with them."""

SHARED_FAULTS = (
    *("LAST_KEY_DROPPED", "MASK_OFF_BY_ONE", "SCALE_WRONG", "GQA_HEADS_SWAPPED", "WINDOW_SIDE", "LSE_LOG2"),
    *("DROPOUT_INVERTED", "ALIBI_SIGN", "V_COLUMNS"),
)
"""Faults of forward kernels that the shared text can have here too."""

BACKWARD_FAULTS = (
    *("DELTA_MISSING", "DROPOUT_OFFSET", "DQ_CHUNK_LOST", "DK_SCALE_MISSING", "DK_WRONG_HEAD", "DV_KEEP_MISSING"),
    *(
        "SLOPE_MISSING",
        "DBIAS_HEAD_LOST",
        "DBIAS_ROWS_LOST",
        "DV_IN_K_LOST",
        "HIDDEN_LEAKS",
        "ZERO_WEIGHT",
        "EMPTY_ROW",
    ),
)
"""Faults of backward kernels alone, as macros like ``emit.FAULTS``."""


def tile_queries(algorithm: CpuAlgorithm) -> int:
    """Queries in a tile: the multiple of a register tile that is nearest to ``TILE_QUERIES``."""
    strip = algorithm.lanes_q * algorithm.simd.lanes
    return strip * max(1, round((MATRIX_QUERIES if algorithm.simd.tiles else TILE_QUERIES) / strip))


def backward_parts(kernel: KernelSpec, algorithm: CpuAlgorithm) -> list[str]:
    """The parts of the source, in order.

    Raises:
        KeyError: no CPU kernel has the dtype.
    """
    lanes, blocks, tiles = algorithm.simd.lanes, algorithm.blocks, algorithm.simd.tiles
    # The functions that both directions use take the forward block's name; the backward block begins with its fields.
    args = [struct_text(FmhaCpuBwdArgs), f"typedef {FmhaCpuBwdArgs.__name__} {FmhaCpuArgs.__name__};"]
    return [
        f"// {kernel.name}",
        source_text("base.h"),
        _constants(kernel, algorithm),
        *map(source_text, algorithm.simd.headers),
        *vector_math(short=algorithm.pairs),
        *args,
        table_text(FmhaCpuBwdArgs, BACKWARD_PREFIX, VERSION),
        source_text("context.h"),
        source_text("threads.h"),
        source_text("backward_context.h"),
        *((source_text("pack_blocks.h"),) if blocks else ()),
        MIX,
        *_operands(algorithm),
        transpositions(lanes, algorithm.lanes_q if tiles else tile_queries(algorithm) // lanes),
        *(() if blocks else (source_text("pack.h"),)),
        *_products(algorithm),
        *(source_text(f"backward_{name}.h") for name in ("strip", "rows", "block", "exact")),
        source_text("backward_tile_patch.h" if tiles else "backward_patch.h"),
        *(source_text(f"backward_{name}.h") for name in ("slab", "bias")),
        source_text("launch_backward.h"),
        source_text("backward_entry.h"),
    ]


def _operands(algorithm: CpuAlgorithm) -> list[str]:
    """The forms of Q, K, V, dO, P and dS that the products read."""
    if algorithm.simd.tiles:
        names = ["tiles", "backward_tiles", "backward_pair_steps", "backward_words"]
        names += ["round_avx512", "backward_tile_scores"]
        return ["#define TILES_SOFTWARE 0\n", *(source_text(f"{name}.h") for name in names)]
    if algorithm.blocks:
        names = ["backward_blocks", "backward_words", "backward_scores"]
    elif algorithm.pairs:
        names = ["backward_pairs", "backward_pair_steps", "backward_words", "backward_scores"]
    else:
        names = ["backward_plain"]
    return [source_text(f"{name}.h") for name in (*names, "backward_untiled", "untiled")]


def _products(algorithm: CpuAlgorithm) -> list[str]:
    """The register tiles of the products."""
    vectors, pairs, sizes = algorithm.lanes_q, algorithm.pairs, algorithm.rows_o
    if algorithm.simd.tiles:
        return [source_text("backward_tile_keys.h"), source_text("backward_tile_products.h")]
    if algorithm.blocks:
        tiles = [product_blocks(vectors), *map(gradient_blocks, sizes)]
    elif algorithm.simd.by_element:
        tiles = [product_elements(vectors, pairs), *(gradient_elements(n, pairs) for n in sizes)]
    else:
        tiles = [product_tile(vectors, pairs), *(gradient_tile(n, pairs) for n in sizes)]
    return [*tiles, gradient_columns(sizes)]


def _constants(kernel: KernelSpec, algorithm: CpuAlgorithm) -> str:
    own = TILE_FAULTS if algorithm.simd.tiles else ()
    faults = {f"FAULT_{name}": False for name in (*SHARED_FAULTS, *BACKWARD_FAULTS, *EXTREME_FAULTS, *own)}
    queries, (one, every) = tile_queries(algorithm), MATRIX_SLABS if algorithm.simd.tiles else SLABS
    sizes = {
        **{f"STATUS_{s.name}": s.value for s in EntryStatus},
        "MAX_HDIM": MAX_HDIM,
        "BQ": queries,
        "NZ": queries // algorithm.simd.lanes,
        "NS": algorithm.lanes_q,
        "ROWS": ROWS,
        "PRODUCT_ROWS": algorithm.rows_s,
        "BC": algorithm.block_k,
        "OWN_TILES": one,
        "SHARED_TILES": every,
        "COLUMN_ELEMENTS": 2 if algorithm.pairs else 1,
    }
    return "\n".join(
        [
            *constants({"PAIRS": algorithm.pairs, "BYTES": False, **faults}, sizes),
            *element_types(kernel.signature, pairs=algorithm.pairs),
            "",
        ]
    )

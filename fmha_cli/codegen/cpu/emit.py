"""``emit``: KernelSpec to one C++ translation unit. Pure; the text depends on nothing but its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from fmha_cli.codegen.abi import APPEND_PREFIX, PREFIX, VERSION, EntryStatus, FmhaCpuAppendArgs, FmhaCpuArgs
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, LoopKind, Simd
from fmha_cli.codegen.cpu.blocks import block_weights, score_blocks, value_blocks
from fmha_cli.codegen.cpu.elements import WORDS, score_elements, value_elements
from fmha_cli.codegen.cpu.emit_backward import backward_parts
from fmha_cli.codegen.cpu.micro import (
    MIX,
    score_tile,
    square,
    transpositions,
    value_columns,
    value_tile,
    weights,
)
from fmha_cli.codegen.cpu.parts import (
    ELEMENT,
    EXTREME_FAULTS,
    MAX_HDIM,
    TILE_FAULTS,
    constants,
    element_types,
    is_bytes,
    join_parts,
    source_text,
    vector_math,
)
from fmha_cli.codegen.cpu.streams import dot_bytes, dot_codes, dot_tile, mix_bytes, mix_codes, mix_tile, pair_mix_tile
from fmha_cli.codegen.struct import struct_text, table_text
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec

DECODE_ROWS = 128
"""The most query rows of one key/value head in a decode kernel. Its factors are in arrays of this size."""

FAULTS = (
    *(
        "LAST_KEY_DROPPED",
        "TILE_SKIPPED",
        "STALE_MAX",
        "MASK_OFF_BY_ONE",
        "ROW_SUM_SHORT",
        "SCALE_WRONG",
        "V_ROWS_SWAPPED",
    ),
    *("NAN_ROW", "LOW_PRECISION_ACC", "GQA_HEADS_SWAPPED", "WINDOW_SIDE", "LSE_LOG2", "DROPOUT_INVERTED", "ALIBI_SIGN"),
    "V_COLUMNS",
)
"""Faults that can be planted in the source: each is a macro ``FAULT_<NAME>``, which is 0 unless a test sets it to 1."""

QUAD = 4
"""Keys in the register tile for the keys that do not fill a larger one."""

VBMI = ("x86_64_amx", "x86_64_v4_bf16")
"""The architectures whose processors look up 128 bytes in registers: AVX512-VBMI is among their flags."""

BYTE_FAULTS = ("WRONG_ENCODING", "SCALE_BLOCK")
"""Faults of 8-bit keys and values."""

CACHE_FAULTS = ("STALE_PAGE", "PAGE_TABLE_END", "SPLIT_LOST", "ROTARY_OFF_BY_ONE", "ROTARY_STYLE", "APPEND_ROW")
"""Faults of caches and of the stages around attention, as macros like ``FAULTS``."""


@lru_cache(maxsize=8)
def emit(kernel: KernelSpec) -> str:
    """The complete source of a kernel.

    Raises:
        TypeError: the kernel's algorithm is not one of the CPU backend.
        KeyError: no CPU kernel has the dtype.
    """
    algorithm = kernel.algorithm
    if not isinstance(algorithm, CpuAlgorithm):
        raise TypeError(f"{kernel.name} is not a CPU kernel")
    if algorithm.kind is LoopKind.BACKWARD:
        return join_parts(backward_parts(kernel, algorithm))
    block = FmhaCpuAppendArgs if algorithm.kind is LoopKind.APPEND else FmhaCpuArgs
    # The functions that all launches use take the forward block's name; other blocks begin with its fields.
    renamed = [] if block is FmhaCpuArgs else [f"typedef {block.__name__} {FmhaCpuArgs.__name__};"]
    parts = [
        f"// {kernel.name}",
        source_text("base.h"),
        _constants(kernel, algorithm),
        *map(source_text, algorithm.simd.headers),
        *vector_math(short=algorithm.pairs and algorithm.kind is LoopKind.PREFILL),
        *(_files("bytes") if is_bytes(kernel.signature) else []),
        struct_text(block),
        *renamed,
        table_text(block, PREFIX if block is FmhaCpuArgs else APPEND_PREFIX, VERSION),
        source_text("context.h"),
        source_text("key_rows.h"),
        *_files("scales" if is_bytes(kernel.signature) else "scaled"),
        *_loop(kernel, algorithm),
    ]
    return join_parts(parts)


def _loop(kernel: KernelSpec, algorithm: CpuAlgorithm) -> list[str]:
    if algorithm.kind is LoopKind.APPEND:
        return _files("threads", "append", "launch_append")
    kind, shared = algorithm.kind, _files("exact_row", "threads")
    if kind is LoopKind.PREFILL:
        return [*shared, *_prefill(algorithm), *_files("entry")]
    loop = [] if kind is LoopKind.COMBINE else _decode(kernel, algorithm)
    tasks = {
        LoopKind.DECODE: ("attend_task", "merge_task", "launch_decode"),
        LoopKind.SPLIT: ("attend_task", "launch_split"),
        LoopKind.COMBINE: ("merge_task", "launch_combine"),
    }[kind]
    return [*shared, *_files("decode_group"), *loop, *_files("decode_job", *tasks, "entry")]


def _files(*names: str) -> list[str]:
    return [source_text(f"{name}.h") for name in names]


def _constants(kernel: KernelSpec, algorithm: CpuAlgorithm) -> str:
    dtype, narrow = kernel.signature.dtype_out, is_bytes(kernel.signature)
    copied = narrow or dtype is not DType.FP32
    streams = algorithm.kind in (LoopKind.DECODE, LoopKind.SPLIT, LoopKind.COMBINE)
    own = (*(BYTE_FAULTS if narrow else ()), *(TILE_FAULTS if algorithm.simd.tiles else ()))
    flags = {
        "PAIRS": algorithm.pairs,
        "BYTES": narrow,
        "BYTES_Q": kernel.signature.dtype.is_fp8,
        "COPY_K": copied and (narrow or not algorithm.pairs),
        "COPY_V": copied,
        "TILES": algorithm.simd.tiles,
        **({"DIRECT": _direct(kernel, algorithm)} if streams else {}),
        "UPPER": _upper(algorithm),
        "LATE_CAP": not algorithm.blocks,  # blocks have keys in fours
        **{f"FAULT_{name}": False for name in (*FAULTS, *EXTREME_FAULTS, *CACHE_FAULTS, *own)},
    }
    sizes = {
        **{f"STATUS_{s.name}": s.value for s in EntryStatus},
        "MAX_HDIM": MAX_HDIM,
        "MAX_ROWS": DECODE_ROWS,
        "NZ": algorithm.lanes_q,
        "RS": algorithm.rows_s,
        "BC": algorithm.block_k,
        "PREFETCH": algorithm.prefetch,
        "COLUMN_ELEMENTS": 2 if algorithm.pairs else 1,
    }
    lines = constants(flags, sizes)
    lines += [f"#define WIDE_BYTES {_widened(kernel, algorithm)}"] if narrow else []
    lines += element_types(kernel.signature, pairs=algorithm.pairs, direct=_direct(kernel, algorithm))
    lines.append(f"typedef {'bf16' if algorithm.pairs else 'float'} KEY;")
    lines.append(f"typedef {'bf16' if dtype is DType.FP32 else ELEMENT[dtype]} LOW;")
    return "\n".join([*lines, ""])


def _prefill(algorithm: CpuAlgorithm) -> list[str]:
    operands = "blocks" if algorithm.blocks else "pairs" if algorithm.pairs else "plain"
    return [
        f"enum {{ BQ = NZ * NL, QUAD = {QUAD} }};\n#define QUADS {int(_quads(algorithm))}\n",
        *_files(*(("pack_blocks",) if algorithm.blocks else ()), *(("wide_row",) if algorithm.pairs else ())),
        *_files(f"operands_{operands}"),
        *([] if algorithm.simd.tiles else _files("untiled")),
        MIX,
        transpositions(algorithm.simd.lanes, algorithm.lanes_q),
        *(() if algorithm.blocks else (source_text("pack.h"),)),
        *_tiles(algorithm),
        *_files("near_tanh", "capped", *(("sloped",) if algorithm.simd.tiles else ())),
        *_files("prefill", "tile_maximum" if algorithm.simd.tiles else "maximum", "key_blocks", "launch_prefill"),
    ]


def _tiles(algorithm: CpuAlgorithm) -> list[str]:
    """The register tiles of a prefill kernel."""
    vectors, pairs, sizes = algorithm.lanes_q, algorithm.pairs, algorithm.rows_o
    if algorithm.blocks:
        tiles = [score_blocks(vectors, algorithm.rows_s), *(value_blocks(vectors, rows) for rows in sizes)]
        return [block_weights(vectors), *tiles, value_columns(sizes, width=2)]
    if algorithm.simd.tiles:
        return [weights(vectors, pairs), *_tile_products(algorithm)]
    element = algorithm.simd.by_element
    score = score_elements if element else score_tile
    values = {rows: value_elements if element and rows % WORDS == 0 else value_tile for rows in sizes}
    return [
        weights(vectors, pairs),
        score(vectors, algorithm.rows_s, pairs),
        *(tile(vectors, rows, pairs) for rows, tile in values.items()),
        value_columns(sizes),
        *(_upper_tiles(algorithm) if _upper(algorithm) else ()),
        *([score_tile(vectors, QUAD, pairs, "QK_QUAD")] if _quads(algorithm) else ()),
    ]


def _upper(algorithm: CpuAlgorithm) -> bool:
    """Whether keys that only the upper half of a tile's queries sees have their own register tiles."""
    simd = algorithm.simd
    return algorithm.lanes_q >= 4 and not (algorithm.blocks or simd.tiles or simd.by_element)


def _quads(algorithm: CpuAlgorithm) -> bool:
    """Whether the keys that fill no register tile have one of four keys."""
    simd = algorithm.simd
    if _upper(algorithm) or algorithm.blocks or simd.tiles or simd.by_element:
        return False
    many = algorithm.lanes_q > 1  # one vector would wait for its sums
    return many and algorithm.rows_s > QUAD and algorithm.rows_s % QUAD == 0


def _upper_tiles(algorithm: CpuAlgorithm) -> list[str]:
    half, pairs, sizes = algorithm.lanes_q // 2, algorithm.pairs, algorithm.rows_o
    return [
        score_tile(half, algorithm.rows_s, pairs, "QK_UPPER"),
        *(value_tile(half, rows, pairs, "upper") for rows in sizes),
        value_columns(sizes, name="upper_values", tile="upper"),
    ]


def _tile_products(algorithm: CpuAlgorithm) -> list[str]:
    return [
        "#define TILES_SOFTWARE 0\n",
        *_files("tiles", "operands_tiles", "tile_products"),
    ]


def _widened(kernel: KernelSpec, algorithm: CpuAlgorithm) -> int:
    """Bytes that a kernel widens at a time; 0 = one by one."""
    if algorithm.simd in (Simd.AVX512, Simd.AMX) and kernel.arch in VBMI:
        return 64
    return 16 if algorithm.simd in (Simd.AVX512, Simd.AVX2) else 0


WIDE_ROWS = 2
"""Query rows of the decode tile that is as wide as two others."""


def _direct(kernel: KernelSpec, algorithm: CpuAlgorithm) -> bool:
    """Whether the tiles of a decode kernel widen bytes in their own registers."""
    narrow, simd = is_bytes(kernel.signature) and algorithm.kind is LoopKind.DECODE, algorithm.simd
    looked_up = algorithm.pairs and not simd.tiles and _widened(kernel, algorithm) == 64
    return narrow and (looked_up or simd is Simd.AVX2)


def _decode(kernel: KernelSpec, algorithm: CpuAlgorithm) -> list[str]:
    """The loop of the kernels that stream K and V, and its tiles."""
    direct = _direct(kernel, algorithm)
    widened = ("decode_widened",) if is_bytes(kernel.signature) and not direct else ()
    if algorithm.simd.tiles:
        lanes = algorithm.simd.lanes
        tiles = [MIX, square(lanes), "#define TILES_SOFTWARE 0\n", *_files("tiles")]
        return [*_files("decode_tiles"), *tiles, *_files("decode_rows", *widened, "decode_matrix")]
    return [*_decode_tiles(kernel, algorithm), *_files("untiled", "decode_rows", *widened, "decode_products")]


def _decode_tiles(kernel: KernelSpec, algorithm: CpuAlgorithm) -> list[str]:
    """The register tiles of a decode kernel."""
    many, vectors = algorithm.rows_s, algorithm.lanes_q
    names = {
        "MANY": f"{many}",
        "DOT_MANY": f"dot_{many}",
        "MIX_MANY": f"mix_{many}_{vectors}",
        "MIX_MANY_N": f"mix_{many}_n",
        "MIX_ONE": f"mix_1_{vectors}",
        "MIX_ONE_N": "mix_1_n",
        "WIDE_ROWS": f"{WIDE_ROWS}",
        "MIX_WIDE": f"mix_{WIDE_ROWS}_{2 * vectors}",
        "MIX_ONE_WIDE": f"mix_1_{2 * vectors}",
    }
    if not _direct(kernel, algorithm):
        tiles = _wide_tiles(kernel, algorithm)
    else:  # tiles of many rows read bytes, or the rows of a step that were widened before; no row has an end
        names |= {"DOT_BYTES": names["DOT_MANY"], "MIX_BYTES": names["MIX_MANY"], "DOT_MANY": "dot_many"}
        names |= {"MIX_MANY": "mix_many", "MIX_MANY_N": "mix_many", "MIX_ONE_N": names["MIX_ONE"]}
        own, tiles = _pair_tiles(algorithm, names) if algorithm.pairs else _code_tiles(algorithm, names)
        names |= own
        tiles.append(source_text("decode_wide.h"))
    defines = "".join(f"#define {name} {value}\n" for name, value in names.items())
    return [defines, source_text("decode_tiles.h"), MIX, *tiles]


def _pair_tiles(algorithm: CpuAlgorithm, names: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The tiles that look bytes up, and their names next to those of all tiles."""
    lanes, many = algorithm.simd.lanes, algorithm.rows_s
    dots = [dot_bytes(lanes, many, wide=True), *(dot_bytes(lanes, rows) for rows in (many, 1))]
    mixes = [mix_bytes(many, wide=True), *(mix_bytes(rows) for rows in (many, 1))]
    own = {"MIX_WIDE": "mix_many", "MIX_ONE_WIDE": names["MIX_ONE"]}  # none is wider
    own |= {"DOT_WIDENED": "dot_wide", "MIX_WIDENED": "mix_wide"}
    return own, [source_text("decode_bytes.h"), *dots, *mixes]


def _code_tiles(algorithm: CpuAlgorithm, names: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The tiles that convert bytes, and their names next to those of all tiles."""
    lanes, many, vectors = algorithm.simd.lanes, algorithm.rows_s, algorithm.lanes_q
    dots = [dot_codes(lanes, rows) for rows in (many, 1)]
    sizes = ((vectors, many), (vectors, 1), (2 * vectors, WIDE_ROWS), (4 * vectors, 1))
    own = {"MIX_ONE_WIDE": f"mix_1_{4 * vectors}"}
    own |= {f"{name}_WIDENED": f"{names[f'{name}_BYTES']}<false, WideRows>" for name in ("DOT", "MIX")}
    return own, [source_text("decode_codes.h"), *dots, *(mix_codes(lanes, *size) for size in sizes)]


def _wide_tiles(kernel: KernelSpec, algorithm: CpuAlgorithm) -> list[str]:
    lanes, many, pairs = algorithm.simd.lanes, algorithm.rows_s, algorithm.pairs
    half = pairs if is_bytes(kernel.signature) else kernel.signature.dtype is not DType.FP32
    sizes = [(n, rows, n == 1) for rows in (many, 1) for n in (algorithm.lanes_q, 1)]
    sizes += [(2 * algorithm.lanes_q, rows, False) for rows in (WIDE_ROWS, 1)]
    tiles = [pair_mix_tile(*size) if pairs else mix_tile(*size, half=half) for size in sizes]
    return [*(dot_tile(lanes, rows, pairs, half and not pairs) for rows in (many, 1)), *tiles]

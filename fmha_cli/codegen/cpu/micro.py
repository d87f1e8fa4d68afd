"""Register tiles and transpositions as C++ text, with one scalar name for each register.

GCC 12 keeps an array of accumulators in memory even if every index is a constant, which costs more than half of the
speed. Separately named variables stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.codegen.cpu.parts import source_text


def score_tile(vectors: int, rows: int, pairs: bool, name: str = "QK_FULL") -> str:
    """``name``: computes and stores S of ``rows`` keys and the packed queries, and updates the maximum of each lane.

    Rows are addressed as base + {0, 1, 2} * stride, so twelve rows need four pointers and one stride.
    """
    bases = range(0, rows, 3)
    acc = [[f"s{r}_{z}" for z in range(vectors)] for r in range(rows)]
    names = ", ".join(f"{a} = vset(0)" for row in acc for a in row)

    def element(r: int, at: str) -> str:
        return f"b{r - r % 3} + {at} + {r % 3} * stride" if r % 3 else f"b{r} + {at}"

    def step(scalar: str) -> list[str]:
        lines = [f"    const vf q{z} = vload(q + {z} * NL);" for z in range(vectors)]
        for r in range(rows):
            lines.append(f"    const vf k{r} = {scalar.format(element(r, 't'))};")
            lines += [
                f"    {acc[r][z]} = {'vdot' if pairs else 'vfma'}("
                + (f"{acc[r][z]}, k{r}, q{z});" if pairs else f"k{r}, q{z}, {acc[r][z]});")
                for z in range(vectors)
            ]
        return lines

    out = [
        f"static void {name}(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {{",
        *(f"  const char* b{b} = b0 + {b} * stride;" for b in bases if b),
        f"  vf {names};",
    ]
    size, whole = (4, "columns / 2 * 4") if pairs else (4, "columns * 4")
    scalar = "vpair(load32({}))" if pairs else "vset(*(const float*)({}))"
    out += [f"  const i64 end = {whole};", f"  for (i64 t = 0; t < end; t += {size}, q += BQ) {{", *step(scalar), "  }"]
    if pairs:  # an odd last column: the next element in memory does not belong to the row
        out += ["  if (columns & 1) {", "    const i64 t = end;", *step("vpair(*(const uint16_t*)({}))"), "  }"]
    for z in range(vectors):
        out.append(f"  vf top{z} = vload(top + {z} * NL);")
    for r in range(rows):
        for z in range(vectors):
            out.append(f"  vstore(s + {r} * BQ + {z} * NL, {acc[r][z]});")
            out.append(f"  top{z} = vmax({acc[r][z]}, top{z});")
    out += [f"  vstore(top + {z} * NL, top{z});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def weights(vectors: int, pairs: bool) -> str:
    """``weigh``: turns the scores of n keys into weights, at out, and sums them for each lane. ``out`` is at or before the scores.
    The overload of ``exponent`` says what the exponent of a score is.

    Paired weights need half the space. Each pair of keys is written at or before the place from which it was read.
    """
    zs = range(vectors)

    def weight(name: str, at: str, z: int) -> str:
        return f"    vf {name}{z} = vexp2(exponent(of, vload({at} + {z} * NL), floor{z}));"

    both = [line for z in zs for line in (weight("a", "s", z), weight("b", "s + BQ", z))]
    for z in zs:
        both.append(f"    sum{z} += a{z} + b{z};")
        both.append(f"    if (BYTES && by) a{z} *= vset(by[j]), b{z} *= vset(by[j + 1]);")
        if pairs:
            both.append(f"    vstore(out + {z} * NL, vjoin(a{z}, b{z}));")
        else:
            both += [f"    vstore(out + {z} * NL, a{z});", f"    vstore(out + BQ + {z} * NL, b{z});"]
    one = []
    for z in zs:
        last = f"vjoin(a{z}, vset(0))" if pairs else f"a{z}"
        factor = f"    if (BYTES && by) a{z} *= vset(by[j]);"
        one += [weight("a", "s", z), f"    sum{z} += a{z};", factor, f"    vstore(out + {z} * NL, {last});"]
    return "\n".join(
        [
            "// by: factors of the keys, after the sum; null, or always null without 8-bit values.",
            "template <class Exponent>",
            "static void weigh(const float* s, float* out, i64 n, const Exponent of, const float* floor, float* sum,",
            "                  const float* shrink, bool keep, const float* by) {",
            *(f"  const vf floor{z} = vload(floor + {z} * NL);" for z in zs),
            f"  vf {', '.join(f'sum{z} = vset(0)' for z in zs)};",
            "  i64 j = 0;",
            f"  for (; j + 1 < n; j += 2, s += 2 * BQ, out += {'BQ' if pairs else '2 * BQ'}) {{",
            *both,
            "  }",
            "  if (j < n) {",
            *one,
            "  }",
            "  const vf on = vset(keep ? 0.0f : 1.0f);",
            *(
                f"  vstore(sum + {z} * NL, vfma(vload(sum + {z} * NL), vload(shrink + {z} * NL), sum{z} * on));"
                for z in zs
            ),
            "}",
            "",
        ]
    )


def value_tile(vectors: int, rows: int, pairs: bool, name: str = "pv") -> str:
    """``<name>_<rows>``: loads O for ``rows`` columns of V, rescales it by ``shrink``, and adds V times the weights."""
    acc = [[f"o{r}_{z}" for z in range(vectors)] for r in range(rows)]
    out = [
        f"static void {name}_{rows}(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,",
        "                 bool first) {",
        f"  vf {', '.join(f'{a} = vset(0)' for row in acc for a in row)};",
        "  if (!first) {",
        *(f"    const vf f{z} = vload(shrink + {z} * NL);" for z in range(vectors)),
    ]
    for r in range(rows):
        out += [f"    {acc[r][z]} = vload(o + {r} * BQ + {z} * NL) * f{z};" for z in range(vectors)]
    out += ["  }", "  for (i64 n = 0; n < steps; ++n, p += BQ, v += stride) {"]
    out += [f"    const vf p{z} = vload(p + {z} * NL);" for z in range(vectors)]
    for r in range(rows):
        out.append(f"    const vf v{r} = vset(v[{r}]);")
        for z in range(vectors):
            product = f"vdot({acc[r][z]}, v{r}, p{z})" if pairs else f"vfma(v{r}, p{z}, {acc[r][z]})"
            out.append(f"    {acc[r][z]} = {product};")
    out.append("  }")
    for r in range(rows):
        out += [f"  vstore(o + {r} * BQ + {z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def value_columns(sizes: Sequence[int], width: int = 1, name: str = "values", tile: str = "pv") -> str:
    """``name``: processes all columns of V by register tiles of the given sizes, largest first.

    A size is skipped if exactly one or two tiles of the next size cover the remaining columns. 64 columns are therefore
    4 x 12 + 2 x 8 and not 5 x 12 + 4, because small tiles wait for their own sums.

    Args:
        width: words of a prepared column.
    """
    lines, at = [], "d" if width == 1 else f"{width} * d"
    for size, below in zip(sizes, [*sizes[1:], 0], strict=True):
        keep = f"columns - d >= {size}"
        if below > 1 and size % below:
            keep += f" && (columns - d > {2 * below} || (columns - d) % {below})"
        lines.append(
            f"  for (; {keep}; d += {size}) {tile}_{size}(v + {at}, stride, p, steps, o + d * BQ, shrink, first);"
        )
    return "\n".join(
        [
            f"static void {name}(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, i64 columns,",
            "                   const float* shrink, bool first) {",
            "  i64 d = 0;",
            *lines,
            "}",
            "",
        ]
    )


MIX = """#if defined(__clang__) || __GNUC__ > 11
#define MIX(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define MIX(x, y, ...) __builtin_shuffle(x, y, (vu){__VA_ARGS__})
#endif
"""


def butterfly(lanes: int, name: str, total: bool = False) -> list[str]:
    """Statements that transpose the registers ``name``0, ``name``1 ... in place.

    With ``total`` they instead leave a vector in ``name``0 whose lane i is the sum of register i."""
    out, width = [], lanes // 2
    while width:
        for i in range(width if total else lanes):
            if i & width:
                continue
            low: list[int] = []
            high: list[int] = []
            for block in range(0, lanes, 2 * width):
                ours = [*range(block, block + width), *range(lanes + block, lanes + block + width)]
                low += ours
                high += [x + width for x in ours]
            a, b = f"{name}{i}", f"{name}{i + width}"
            first, second = (f"MIX(x, y, {', '.join(map(str, lanes_))})" for lanes_ in (low, high))
            result = f"{a} = {first} + {second};" if total else f"{a} = {first}; {b} = {second};"
            out.append(f"  {{ const vf x = {a}, y = {b}; {result} }}")
        width //= 2
    return out


def square(lanes: int) -> str:
    """``transpose_square``: lanes x lanes words. A source has few transpositions, because their shuffles take long to compile."""
    return _transpose(
        lanes, "transpose_square(float* out, i64 stride, const float* in, i64 in_stride)", "vload(in + {} * in_stride)"
    )


def transpositions(lanes: int, filled: int) -> str:
    """``transpose_in`` and ``transpose_out``. Of the rows of a tile, so many vectors are filled together, with zeros behind the last row."""
    scaled = "vload(in + {0} * BQ) * factor, bad = vfma(r{0}, vset(0), bad)"
    out = _transpose(lanes, "scale_square(T* out, i64 stride, const float* in, vf factor, vf& bad)", scaled)
    return "\n".join([square(lanes), out, f"enum {{ FILLED = {filled} }};", source_text("transpose.h")])


def _transpose(lanes: int, function: str, load: str) -> str:
    """A function that loads lanes x lanes words, transposes them, and stores rows that are ``stride`` elements apart. It may work in place.

    Args:
        function: its name and parameters.
        load: what is loaded as row ``{}``.
    """
    rs = range(lanes)
    loads = [f"  r{i} = {load.format(i)};" for i in rs]
    stores = [f"  vstore(out + {i} * stride, r{i});" for i in rs]
    vectors = f"  vf {', '.join(f'r{i}' for i in rs)};"
    return "\n".join([f"NOINLINE void {function} {{", vectors, *loads, *butterfly(lanes, "r"), *stores, "}", ""])

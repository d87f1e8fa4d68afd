"""Register tiles of the decode kernels as C++ text: lanes are columns, K and V are read row by row."""

from __future__ import annotations

from fmha_cli.codegen.cpu.micro import butterfly

UNROLLED = 4
"""Keys whose code stands one behind the other: in a loop over single keys, the next row is begun late."""


def dot_tile(lanes: int, rows: int, pairs: bool, half: bool) -> str:
    """``dot_<rows>``: computes the scores of ``rows`` queries and ``lanes // rows`` keys as one vector.

    Lane r * keys + n holds the score of query r and key n. Keys past the last one repeat it. A row of K is read whole before the
    next one: the processor prefetches a run of lines by itself, and several interleaved rows do not form one. Each read
    of a cache line asks for lines that follow. With ``half``, two vectors share a line.
    """
    keys = lanes // rows
    get, product = ("vload_pairs", "vdot({a}, k, {q})") if pairs else ("vload_n", "vfma(k, {q}, {a})")
    width = "QUERY_STEP"

    def body(left: str, ahead: bool) -> list[str]:
        products = [product.format(a=f"a{r}", q=f"vload(query + {r} * q_stride + at)") for r in range(rows)]
        return [
            *(["      ask<FORM>(lines, row + c, next);"] if ahead else []),
            f"      {{ const vf k = {get if left else 'load_keys'}(row + c{left});",
            *(f"        a{r} = {text};" for r, text in enumerate(products)),
            f"      }} c += {width}, at += NL;",
        ]

    twice = [f"    while (c + 2 * {width} <= columns) {{", *body("", True), *body("", False), "    }"] if half else []

    def key(n: int) -> list[str]:
        """One key: n of the unrolled ones, behind the first ``done``."""
        return [
            f"  {{ const ROW* row = lines.first + min64(done + {n}, last) * lines.stride;",
            f"    vf {', '.join(f'a{r} = vset(0)' for r in range(rows))};",
            "    i64 c = 0, at = 0;",
            *twice,
            f"    while (c + {width} <= columns) {{",
            *body("", True),
            "    }",
            "    if (c < columns) {",
            *body(", columns - c", True),
            "    }",
            *(f"    vstore(sums + ({r * keys + n} + done) * NL, a{r});" for r in range(rows)),
            "  }",
        ]

    some = min(keys, UNROLLED)
    return "\n".join(
        [
            "template <bool FORM>",
            f"NOINLINE vf dot_{rows}(const float* query, i64 q_stride, const Lines& lines, i64 last, i64 columns) {{",
            "  alignas(64) float sums[NL * NL];",
            "  const ROW* next = lines.far_at;",
            f"  for (i64 done = 0; done < {keys}; done += {some}) {{",
            *(line for n in range(some) for line in key(n)),
            "  }",
            f"  vf {', '.join(f'a{n} = vload(sums + {n} * NL)' for n in range(lanes))};",
            *butterfly(lanes, "a", total=True),
            "  return a0;",
            "}",
            "",
        ]
    )


def mix_tile(vectors: int, rows: int, partial: bool, half: bool) -> str:
    """``mix_<rows>_<vectors>``: loads O of ``rows`` queries, rescales it, and adds the weighted rows of V.

    It handles ``vectors`` vectors of columns from c on. ``mix_<rows>_n`` handles n columns, at most one vector."""
    acc = [[f"o{r}_{z}" for z in range(vectors)] for r in range(rows)]
    out = [
        "template <bool FORM>",
        f"static void mix_{rows}_{'n' if partial else vectors}(float* o, i64 o_stride, const float* p, i64 p_stride,",
        "                    const Lines& lines, i64 c, i64 keys, const float* shrink, i64 n) {",
    ]
    for r in range(rows):
        out += [f"  vf {acc[r][z]} = vload(o + {r} * o_stride + {z} * NL) * vset(shrink[{r}]);" for z in range(vectors)]
    out += ["  const ROW* next = lines.far_at + c * keys;"]
    out += ["  for (i64 j = 0; j < keys; ++j) {", "    const ROW* v = lines.first + j * lines.stride + c;"]
    for z in range(vectors):
        out += [f"    ask<FORM>(lines, v + {z} * NL, next);"] if not (half and z % 2) else []
        out.append(f"    const vf v{z} = {'vload_n(v, n)' if partial else f'vload(v + {z} * NL)'};")
    for r in range(rows):
        out.append(f"    const vf p{r} = vset(p[{r} * p_stride + j]);")
        out += [f"    {acc[r][z]} = vfma(p{r}, v{z}, {acc[r][z]});" for z in range(vectors)]
    out.append("  }")
    for r in range(rows):
        out += [f"  vstore(o + {r} * o_stride + {z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def pair_mix_tile(vectors: int, rows: int, partial: bool) -> str:
    """``mix_tile`` by dot products of bf16 pairs: two keys at a time, whose weights are bf16 and neighbours.

    Behind an odd last key, its row is read again, with a weight of 0."""
    acc = [[f"o{r}_{z}" for z in range(vectors)] for r in range(rows)]
    out = [
        "template <bool FORM>",
        f"static void mix_{rows}_{'n' if partial else vectors}(float* o, i64 o_stride, const float* p, i64 p_stride,",
        "                    const Lines& lines, i64 c, i64 keys, const float* shrink, i64 n) {",
    ]
    for r in range(rows):
        out += [f"  vf {acc[r][z]} = vload(o + {r} * o_stride + {z} * NL) * vset(shrink[{r}]);" for z in range(vectors)]
    out += [
        "  const ROW* next = lines.far_at + c * keys;",
        "  for (i64 j = 0; j < keys; j += 2, ++p) {",
        "    const ROW *a = lines.first + j * lines.stride + c, *b = j + 1 < keys ? a + lines.stride : a;",
    ]
    if partial:
        out += [
            "    ask<FORM>(lines, a, next), ask<FORM>(lines, b, next);",
            "    const vf v0 = vzip(vload_n(a, n), vload_n(b, n));",
        ]
    both = range(0, 0 if partial else vectors, 2)
    for row in "ab":
        for z in both:
            out.append(f"    ask<FORM>(lines, {row} + {z} * NL, next);")
            out.append(f"    const vf {row}{z} = vload((const float*)({row} + {z} * NL));")
    out += [f"    const vf v{z} = vweave_low(a{z}, b{z}), v{z + 1} = vweave_high(a{z}, b{z});" for z in both]
    for r in range(rows):
        out.append(f"    const vf p{r} = vpair(load32(p + {r} * p_stride));")
        out += [f"    {acc[r][z]} = vdot({acc[r][z]}, v{z}, p{r});" for z in range(vectors)]
    out.append("  }")
    for r in range(rows):
        out += [f"  vstore(o + {r} * o_stride + {z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])

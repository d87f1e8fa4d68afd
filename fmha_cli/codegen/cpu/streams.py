"""Register tiles of the decode kernels as C++ text: lanes are columns, K and V are read row by row.

Where 64 bytes are looked up at once (AVX512-VBMI) and bf16 is multiplied in pairs, tiles of bytes (``dot_bytes``) widen 8-bit
keys and values in their own registers. Unpacking stays inside 128 bits, so columns come in another order: that of queries and
of O is changed instead (``decode_bytes.h``), once for a group.

Elsewhere tiles of codes (``dot_codes``) widen them vector by vector (``decode_codes.h``), for rows of bytes and for rows that were
widened before (``class Rows``). Rows have no ends: shorter ones were copied, with zeros behind. A tile that saw a byte which it
cannot convert begins again, by the table.
"""

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


VECTORS = 4
"""Vectors of O for the 64 columns that are widened at once."""


def dot_bytes(lanes: int, rows: int, *, wide: bool = False) -> str:
    """``dot_<rows>``, as ``streams.dot_tile``: a row is widened once for all ``rows`` queries.

    All keys are read together: a row of bytes is too short for its own loop, which takes a tenth longer. With ``wide``
    it is ``dot_wide``, whose keys ``widen_keys`` has widened.
    """
    keys = lanes // rows
    acc = [[f"a{r * keys + n}" for n in range(keys)] for r in range(rows)]

    def products(r: int, n: int) -> str:
        return f"{acc[r][n]} = vdot(vdot({acc[r][n]}, e{n}, q), f{n}, s);"

    def key(n: int) -> list[str]:
        if wide:
            return [f"    const vf e{n} = vload(r{n} + at), f{n} = vload(r{n} + at + NL);"]
        return [
            f"    ask<FORM>(k, r{n} + c, next);",
            f"    vf e{n}, f{n};",
            f"    widen_columns<FORM>(by, load_codes(r{n} + c, some), e{n}, f{n});",
        ]

    queries = "const vf q = vload(query + {r} * q_stride + at), s = vload(query + {r} * q_stride + at + NL);"
    if rows == 1:
        body = [f"    {queries.format(r=0)}"]
        body += [line for n in range(keys) for line in (*key(n), f"    {products(0, n)}")]
    else:
        body = [line for n in range(keys) for line in key(n)]
        for r in range(rows):
            body.append("    { " + queries.format(r=r) + " " + " ".join(products(r, n) for n in range(keys)) + " }")
    name, lines, row = (
        ("dot_wide", "const WideRows&", "const float*") if wide else (f"dot_{rows}", "const Lines&", "const ROW*")
    )
    return "\n".join(
        [
            *(() if wide else ("template <bool FORM>",)),
            f"NOINLINE vf {name}(const float* query, i64 q_stride, {lines} k, i64 last, i64 columns) {{",
            *(() if wide else ("  const Widener by = widener_of(*k.by);", "  const ROW* next = k.far_at;")),
            f"  vf {', '.join(f'a{n} = vset(0)' for n in range(lanes))};",
            *(f"  {row} r{n} = k.first + min64({n}, last) * k.stride;" for n in range(keys)),
            "  for (i64 c = 0, at = 0; c < columns; c += CODES, at += 2 * NL) {",
            *(() if wide else ("    const __mmask64 some = first_codes(columns - c);",)),
            *body,
            "  }",
            *butterfly(lanes, "a", total=True),
            "  return a0;",
            "}",
            "",
        ]
    )


def mix_bytes(rows: int, *, wide: bool = False) -> str:
    """``mix_<rows>_4``, as ``streams.pair_mix_tile``, for 64 columns or the n last ones.

    With ``wide`` it is ``mix_wide``, whose pairs ``widen_values`` has made.
    """
    acc = [[f"o{r}_{z}" for z in range(VECTORS)] for r in range(rows)]
    name, lines = ("mix_wide", "const WideRows&") if wide else (f"mix_{rows}_{VECTORS}", "const Lines&")
    out = [
        *(() if wide else ("template <bool FORM>",)),
        f"static void {name}(float* o, i64 o_stride, const float* p, i64 p_stride, {lines} lines, i64 c, i64 keys,",
        "                    const float* shrink, i64 n) {",
    ]
    if not wide:
        out += [
            "  const Widener by = widener_of(*lines.by);",
            "  const __mmask64 some = first_codes(n);",
            "  const ROW* next = lines.far_at + c * keys;",
        ]
    for r in range(rows):
        out += [f"  vf {a} = vload(o + {r} * o_stride + {z} * NL) * vset(shrink[{r}]);" for z, a in enumerate(acc[r])]
    out.append("  for (i64 j = 0; j < keys; j += 2, ++p) {")
    if wide:
        out.append("    const float* v = lines.first + j * lines.stride + c;")
        out += [f"    const vf v{z} = vload(v + {z} * NL);" for z in range(VECTORS)]
    else:
        names = ", ".join(f"v{z}" for z in range(VECTORS))
        out += [
            "    const ROW *a = lines.first + j * lines.stride + c, *b = j + 1 < keys ? a + lines.stride : a;",
            "    ask<FORM>(lines, a, next), ask<FORM>(lines, b, next);",
            f"    vf {names};",
            f"    widen_pairs<FORM>(by, load_codes(a, some), load_codes(b, some), {names});",
        ]
    for r in range(rows):
        out.append(f"    const vf p{r} = vset(p[{r} * p_stride]);")
        out += [f"    {a} = vdot({a}, v{z}, p{r});" for z, a in enumerate(acc[r])]
    out.append("  }")
    for r in range(rows):
        out += [f"  vstore(o + {r} * o_stride + {z} * NL, {a});" for z, a in enumerate(acc[r])]
    return "\n".join([*out, "}", ""])


LINE = 64
"""Bytes of a cache line, for which a tile asks once."""

UNROLLED_CODES = 2
"""Keys whose code stands one behind the other where a tile has several rows of queries, as ``UNROLLED``. For one row it is one
key: that is a line long, and a second one behind it gains nothing in a launch and takes 4 % of the compile."""

SUMS = 8
"""Vectors that add up the products of a key. Converting takes many instructions, so the next key begins late: one chain would be waited for."""

TEMPLATE = "template <bool FORM, class Rows = Lines>"


def dot_codes(lanes: int, rows: int) -> str:
    """``dot_<rows>``, as ``streams.dot_tile``."""
    keys, run = lanes // rows, LINE // lanes
    chains = max(1, min(run, SUMS // rows))

    def step(chain: int, first: bool) -> list[str]:
        return [
            *(["      ask<FORM>(lines, row + c, next);"] if first else []),
            "      { const vf k = load_codes<FORM>(by, row + c);",
            *(f"        a{r + chain * rows} = vfma(k, vload(query + {r} * q_stride + c), a{r + chain * rows});" for r in range(rows)),
            "      } c += NL;",
        ]  # fmt: skip

    def key(n: int) -> list[str]:
        """One key: n of the unrolled ones, behind the first ``done``."""
        return [
            f"  {{ const auto* row = lines.first + min64(done + {n}, last) * lines.stride;",
            f"    vf {', '.join(f'a{r} = vset(0)' for r in range(rows * chains))};",
            "    i64 c = 0;",
            f"    while (c + {run} * NL <= columns) {{",
            f"      see<FORM, {run} * NL>(seen, row + c);",
            *(line for n in range(run) for line in step(n % chains, not n)),
            "    }",
            "    while (c < columns) {",
            "      see<FORM, NL>(seen, row + c);",
            *step(0, True),
            "    }",
            *(f"    a{r} += a{r + chain * rows};" for chain in range(1, chains) for r in range(rows)),
            *(f"    vstore(sums + ({r * keys + n} + done) * NL, a{r});" for r in range(rows)),
            "  }",
        ]

    some = min(keys, UNROLLED_CODES) if rows > 1 else 1
    return "\n".join(
        [
            TEMPLATE,
            f"NOINLINE vf dot_{rows}(const float* query, i64 q_stride, const Rows& lines, i64 last, i64 columns) {{",
            "  alignas(64) float sums[NL * NL];",
            "  const auto by = codes_of(lines);",
            "  auto seen = nothing_seen(lines);",
            "  const auto* next = far_of(lines);",
            f"  for (i64 done = 0; done < {keys}; done += {some}) {{",
            *(line for n in range(some) for line in key(n)),
            "  }",
            f"  if (are_odd<FORM>(lines, seen)) return dot_odd(query, q_stride, lines, last, columns, {rows});",
            f"  vf {', '.join(f'a{n} = vload(sums + {n} * NL)' for n in range(lanes))};",
            *butterfly(lanes, "a", total=True),
            "  return a0 * vset(by.unit);",
            "}",
            "",
        ]
    )


def mix_codes(lanes: int, vectors: int, rows: int) -> str:
    """``mix_<rows>_<vectors>``, as ``streams.mix_tile``; n is all of its columns. O is in the units of the codes meanwhile."""
    acc, run = [[f"o{r}_{z}" for z in range(vectors)] for r in range(rows)], LINE // lanes
    out = [
        TEMPLATE,
        f"static void mix_{rows}_{vectors}(float* o, i64 o_stride, const float* p, i64 p_stride,",
        "                    const Rows& lines, i64 c, i64 keys, const float* shrink, i64 n) {",
        "  const auto by = codes_of(lines);",
        "  auto seen = nothing_seen(lines);",
    ]
    for r in range(rows):
        factor = f"vset(shrink[{r}] * by.inverse)"
        out += [f"  vf {a} = vload(o + {r} * o_stride + {z} * NL) * {factor};" for z, a in enumerate(acc[r])]
    out += [
        "  const auto* next = far_of(lines) + c * keys;",
        "  for (i64 j = 0; j < keys; ++j) {",
        "    const auto* v = lines.first + j * lines.stride + c;",
        f"    see<FORM, {vectors} * NL>(seen, v);",
    ]
    loads = [f"    const vf v{z} = load_codes<FORM>(by, v + {z} * NL);" for z in range(vectors)]
    for z in range(0, vectors, run):
        loads[z] = f"    ask<FORM>(lines, v + {z} * NL, next);\n{loads[z]}"
    words = [f"    const vf p{r} = vset(p[{r} * p_stride + j]);" for r in range(rows)]
    # Whichever are fewer are read first, and stay in registers.
    held, read = (words, loads) if rows < vectors else (loads, words)
    out += held
    for n, text in enumerate(read):
        pairs = [(r, n) if rows < vectors else (n, r) for r in range(len(held))]
        out += [text, *(f"    {acc[r][z]} = vfma(p{r}, v{z}, {acc[r][z]});" for r, z in pairs)]
    out.append("  }")
    out.append(
        f"  if (are_odd<FORM>(lines, seen)) return mix_odd(o, o_stride, p, p_stride, lines, c, keys, shrink, {rows}, n);"
    )
    for r in range(rows):
        out += [f"  vstore(o + {r} * o_stride + {z} * NL, {a} * vset(by.unit));" for z, a in enumerate(acc[r])]
    return "\n".join([*out, "}", ""])

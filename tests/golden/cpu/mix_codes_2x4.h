template <bool FORM, class Rows = Lines>
static void mix_2_4(float* o, i64 o_stride, const float* p, i64 p_stride,
                    const Rows& lines, i64 c, i64 keys, const float* shrink, i64 n) {
  const auto by = codes_of(lines);
  auto seen = nothing_seen(lines);
  vf o0_0 = vload(o + 0 * o_stride + 0 * NL) * vset(shrink[0] * by.inverse);
  vf o0_1 = vload(o + 0 * o_stride + 1 * NL) * vset(shrink[0] * by.inverse);
  vf o0_2 = vload(o + 0 * o_stride + 2 * NL) * vset(shrink[0] * by.inverse);
  vf o0_3 = vload(o + 0 * o_stride + 3 * NL) * vset(shrink[0] * by.inverse);
  vf o1_0 = vload(o + 1 * o_stride + 0 * NL) * vset(shrink[1] * by.inverse);
  vf o1_1 = vload(o + 1 * o_stride + 1 * NL) * vset(shrink[1] * by.inverse);
  vf o1_2 = vload(o + 1 * o_stride + 2 * NL) * vset(shrink[1] * by.inverse);
  vf o1_3 = vload(o + 1 * o_stride + 3 * NL) * vset(shrink[1] * by.inverse);
  const auto* next = far_of(lines) + c * keys;
  for (i64 j = 0; j < keys; ++j) {
    const auto* v = lines.first + j * lines.stride + c;
    see<FORM, 4 * NL>(seen, v);
    const vf p0 = vset(p[0 * p_stride + j]);
    const vf p1 = vset(p[1 * p_stride + j]);
    ask<FORM>(lines, v + 0 * NL, next);
    const vf v0 = load_codes<FORM>(by, v + 0 * NL);
    o0_0 = vfma(p0, v0, o0_0);
    o1_0 = vfma(p1, v0, o1_0);
    const vf v1 = load_codes<FORM>(by, v + 1 * NL);
    o0_1 = vfma(p0, v1, o0_1);
    o1_1 = vfma(p1, v1, o1_1);
    const vf v2 = load_codes<FORM>(by, v + 2 * NL);
    o0_2 = vfma(p0, v2, o0_2);
    o1_2 = vfma(p1, v2, o1_2);
    const vf v3 = load_codes<FORM>(by, v + 3 * NL);
    o0_3 = vfma(p0, v3, o0_3);
    o1_3 = vfma(p1, v3, o1_3);
  }
  if (are_odd<FORM>(lines, seen)) return mix_odd(o, o_stride, p, p_stride, lines, c, keys, shrink, 2, n);
  vstore(o + 0 * o_stride + 0 * NL, o0_0 * vset(by.unit));
  vstore(o + 0 * o_stride + 1 * NL, o0_1 * vset(by.unit));
  vstore(o + 0 * o_stride + 2 * NL, o0_2 * vset(by.unit));
  vstore(o + 0 * o_stride + 3 * NL, o0_3 * vset(by.unit));
  vstore(o + 1 * o_stride + 0 * NL, o1_0 * vset(by.unit));
  vstore(o + 1 * o_stride + 1 * NL, o1_1 * vset(by.unit));
  vstore(o + 1 * o_stride + 2 * NL, o1_2 * vset(by.unit));
  vstore(o + 1 * o_stride + 3 * NL, o1_3 * vset(by.unit));
}

template <bool FORM>
static void mix_4_4(float* o, i64 o_stride, const float* p, i64 p_stride, const Lines& lines, i64 c, i64 keys,
                    const float* shrink, i64 n) {
  const Widener by = widener_of(*lines.by);
  const __mmask64 some = first_codes(n);
  const ROW* next = lines.far_at + c * keys;
  vf o0_0 = vload(o + 0 * o_stride + 0 * NL) * vset(shrink[0]);
  vf o0_1 = vload(o + 0 * o_stride + 1 * NL) * vset(shrink[0]);
  vf o0_2 = vload(o + 0 * o_stride + 2 * NL) * vset(shrink[0]);
  vf o0_3 = vload(o + 0 * o_stride + 3 * NL) * vset(shrink[0]);
  vf o1_0 = vload(o + 1 * o_stride + 0 * NL) * vset(shrink[1]);
  vf o1_1 = vload(o + 1 * o_stride + 1 * NL) * vset(shrink[1]);
  vf o1_2 = vload(o + 1 * o_stride + 2 * NL) * vset(shrink[1]);
  vf o1_3 = vload(o + 1 * o_stride + 3 * NL) * vset(shrink[1]);
  vf o2_0 = vload(o + 2 * o_stride + 0 * NL) * vset(shrink[2]);
  vf o2_1 = vload(o + 2 * o_stride + 1 * NL) * vset(shrink[2]);
  vf o2_2 = vload(o + 2 * o_stride + 2 * NL) * vset(shrink[2]);
  vf o2_3 = vload(o + 2 * o_stride + 3 * NL) * vset(shrink[2]);
  vf o3_0 = vload(o + 3 * o_stride + 0 * NL) * vset(shrink[3]);
  vf o3_1 = vload(o + 3 * o_stride + 1 * NL) * vset(shrink[3]);
  vf o3_2 = vload(o + 3 * o_stride + 2 * NL) * vset(shrink[3]);
  vf o3_3 = vload(o + 3 * o_stride + 3 * NL) * vset(shrink[3]);
  for (i64 j = 0; j < keys; j += 2, ++p) {
    const ROW *a = lines.first + j * lines.stride + c, *b = j + 1 < keys ? a + lines.stride : a;
    ask<FORM>(lines, a, next), ask<FORM>(lines, b, next);
    vf v0, v1, v2, v3;
    widen_pairs<FORM>(by, load_codes(a, some), load_codes(b, some), v0, v1, v2, v3);
    const vf p0 = vset(p[0 * p_stride]);
    o0_0 = vdot(o0_0, v0, p0);
    o0_1 = vdot(o0_1, v1, p0);
    o0_2 = vdot(o0_2, v2, p0);
    o0_3 = vdot(o0_3, v3, p0);
    const vf p1 = vset(p[1 * p_stride]);
    o1_0 = vdot(o1_0, v0, p1);
    o1_1 = vdot(o1_1, v1, p1);
    o1_2 = vdot(o1_2, v2, p1);
    o1_3 = vdot(o1_3, v3, p1);
    const vf p2 = vset(p[2 * p_stride]);
    o2_0 = vdot(o2_0, v0, p2);
    o2_1 = vdot(o2_1, v1, p2);
    o2_2 = vdot(o2_2, v2, p2);
    o2_3 = vdot(o2_3, v3, p2);
    const vf p3 = vset(p[3 * p_stride]);
    o3_0 = vdot(o3_0, v0, p3);
    o3_1 = vdot(o3_1, v1, p3);
    o3_2 = vdot(o3_2, v2, p3);
    o3_3 = vdot(o3_3, v3, p3);
  }
  vstore(o + 0 * o_stride + 0 * NL, o0_0);
  vstore(o + 0 * o_stride + 1 * NL, o0_1);
  vstore(o + 0 * o_stride + 2 * NL, o0_2);
  vstore(o + 0 * o_stride + 3 * NL, o0_3);
  vstore(o + 1 * o_stride + 0 * NL, o1_0);
  vstore(o + 1 * o_stride + 1 * NL, o1_1);
  vstore(o + 1 * o_stride + 2 * NL, o1_2);
  vstore(o + 1 * o_stride + 3 * NL, o1_3);
  vstore(o + 2 * o_stride + 0 * NL, o2_0);
  vstore(o + 2 * o_stride + 1 * NL, o2_1);
  vstore(o + 2 * o_stride + 2 * NL, o2_2);
  vstore(o + 2 * o_stride + 3 * NL, o2_3);
  vstore(o + 3 * o_stride + 0 * NL, o3_0);
  vstore(o + 3 * o_stride + 1 * NL, o3_1);
  vstore(o + 3 * o_stride + 2 * NL, o3_2);
  vstore(o + 3 * o_stride + 3 * NL, o3_3);
}

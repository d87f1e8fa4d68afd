template <bool FORM>
static void mix_4_4(float* o, i64 o_stride, const float* p, i64 p_stride,
                    const Lines& lines, i64 c, i64 keys, const float* shrink, i64 n) {
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
  const ROW* next = lines.far_at + c * keys;
  for (i64 j = 0; j < keys; ++j) {
    const ROW* v = lines.first + j * lines.stride + c;
    ask<FORM>(lines, v + 0 * NL, next);
    const vf v0 = vload(v + 0 * NL);
    ask<FORM>(lines, v + 1 * NL, next);
    const vf v1 = vload(v + 1 * NL);
    ask<FORM>(lines, v + 2 * NL, next);
    const vf v2 = vload(v + 2 * NL);
    ask<FORM>(lines, v + 3 * NL, next);
    const vf v3 = vload(v + 3 * NL);
    const vf p0 = vset(p[0 * p_stride + j]);
    o0_0 = vfma(p0, v0, o0_0);
    o0_1 = vfma(p0, v1, o0_1);
    o0_2 = vfma(p0, v2, o0_2);
    o0_3 = vfma(p0, v3, o0_3);
    const vf p1 = vset(p[1 * p_stride + j]);
    o1_0 = vfma(p1, v0, o1_0);
    o1_1 = vfma(p1, v1, o1_1);
    o1_2 = vfma(p1, v2, o1_2);
    o1_3 = vfma(p1, v3, o1_3);
    const vf p2 = vset(p[2 * p_stride + j]);
    o2_0 = vfma(p2, v0, o2_0);
    o2_1 = vfma(p2, v1, o2_1);
    o2_2 = vfma(p2, v2, o2_2);
    o2_3 = vfma(p2, v3, o2_3);
    const vf p3 = vset(p[3 * p_stride + j]);
    o3_0 = vfma(p3, v0, o3_0);
    o3_1 = vfma(p3, v1, o3_1);
    o3_2 = vfma(p3, v2, o3_2);
    o3_3 = vfma(p3, v3, o3_3);
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

static void weigh(const float* s, float* out, i64 n, vf c, const float* floor, float* sum, const float* shrink,
                  bool keep, const float* by) {
  const vf floor0 = -vload(floor + 0 * NL);
  vf sum0 = vset(0);
  i64 j = 0;
  for (; j + 3 < n; j += 4, s += 4 * BQ, out += 2 * BQ) {
    vf a0 = vexp2(vfma(vload(s + 0 * BQ + 0 * NL), c, floor0));
    vf b0 = vexp2(vfma(vload(s + 1 * BQ + 0 * NL), c, floor0));
    vf c0 = vexp2(vfma(vload(s + 2 * BQ + 0 * NL), c, floor0));
    vf d0 = vexp2(vfma(vload(s + 3 * BQ + 0 * NL), c, floor0));
    sum0 += (a0 + b0) + (c0 + d0);
    if (BYTES && by) a0 *= vset(by[j + 0]);
    if (BYTES && by) b0 *= vset(by[j + 1]);
    if (BYTES && by) c0 *= vset(by[j + 2]);
    if (BYTES && by) d0 *= vset(by[j + 3]);
    const vf low0 = vjoin(a0, b0), high0 = vjoin(c0, d0);
    vstore(out + 0 * NL, words_low(low0, high0));
    vstore(out + 1 * NL, words_high(low0, high0));
  }
  if (j < n) {
    vf a0 = vexp2(vfma(vload(s + 0 * BQ + 0 * NL), c, floor0));
    vf b0 = j + 1 < n ? vexp2(vfma(vload(s + 1 * BQ + 0 * NL), c, floor0)) : vset(0);
    vf c0 = j + 2 < n ? vexp2(vfma(vload(s + 2 * BQ + 0 * NL), c, floor0)) : vset(0);
    vf d0 = j + 3 < n ? vexp2(vfma(vload(s + 3 * BQ + 0 * NL), c, floor0)) : vset(0);
    sum0 += (a0 + b0) + (c0 + d0);
    if (BYTES && by) a0 *= vset(by[j + 0]);
    if (BYTES && by) b0 *= vset(j + 1 < n ? by[j + 1] : 0);
    if (BYTES && by) c0 *= vset(j + 2 < n ? by[j + 2] : 0);
    if (BYTES && by) d0 *= vset(j + 3 < n ? by[j + 3] : 0);
    const vf low0 = vjoin(a0, b0), high0 = vjoin(c0, d0);
    vstore(out + 0 * NL, words_low(low0, high0));
    vstore(out + 1 * NL, words_high(low0, high0));
  }
  const vf on = vset(keep ? 0.0f : 1.0f);
  vstore(sum + 0 * NL, vfma(vload(sum + 0 * NL), vload(shrink + 0 * NL), sum0 * on));
}

static void weigh(const float* s, float* out, i64 n, vf c, const float* floor, float* sum, const float* shrink,
                  bool keep, const float*) {
  const vf floor0 = -vload(floor + 0 * NL);
  vf sum0 = vset(0);
  i64 j = 0;
  for (; j + 3 < n; j += 4, s += 4 * BQ, out += 2 * BQ) {
    const vf a0 = vexp2(vfma(vload(s + 0 * BQ + 0 * NL), c, floor0));
    const vf b0 = vexp2(vfma(vload(s + 1 * BQ + 0 * NL), c, floor0));
    const vf c0 = vexp2(vfma(vload(s + 2 * BQ + 0 * NL), c, floor0));
    const vf d0 = vexp2(vfma(vload(s + 3 * BQ + 0 * NL), c, floor0));
    sum0 += (a0 + b0) + (c0 + d0);
    const vf low0 = vjoin(a0, b0), high0 = vjoin(c0, d0);
    vstore(out + 0 * NL, words_low(low0, high0));
    vstore(out + 1 * NL, words_high(low0, high0));
  }
  if (j < n) {
    const vf a0 = vexp2(vfma(vload(s + 0 * BQ + 0 * NL), c, floor0));
    const vf b0 = j + 1 < n ? vexp2(vfma(vload(s + 1 * BQ + 0 * NL), c, floor0)) : vset(0);
    const vf c0 = j + 2 < n ? vexp2(vfma(vload(s + 2 * BQ + 0 * NL), c, floor0)) : vset(0);
    const vf d0 = j + 3 < n ? vexp2(vfma(vload(s + 3 * BQ + 0 * NL), c, floor0)) : vset(0);
    sum0 += (a0 + b0) + (c0 + d0);
    const vf low0 = vjoin(a0, b0), high0 = vjoin(c0, d0);
    vstore(out + 0 * NL, words_low(low0, high0));
    vstore(out + 1 * NL, words_high(low0, high0));
  }
  const vf on = vset(keep ? 0.0f : 1.0f);
  vstore(sum + 0 * NL, vfma(vload(sum + 0 * NL), vload(shrink + 0 * NL), sum0 * on));
}

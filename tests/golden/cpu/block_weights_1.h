template <class Exponent>
static void weigh(const float* s, float* out, i64 n, const Exponent of, const float* floor, float* sum,
                  const float* shrink, bool keep, const float* by) {
  const vf floor0 = vload(floor + 0 * NL);
  vf sum0 = vset(0);
  i64 j = 0;
  for (; j + 3 < n; j += 4, s += 4 * BQ, out += 2 * BQ) {
    vf low0;
    {
      vf x = vexp2(exponent(of, vload(s + 0 * BQ + 0 * NL), floor0));
      vf y = vexp2(exponent(of, vload(s + 1 * BQ + 0 * NL), floor0));
      sum0 += x + y;
      if (BYTES && by) x *= vset(by[j + 0]), y *= vset(by[j + 1]);
      low0 = vjoin(x, y);
    }
    {
      vf x = vexp2(exponent(of, vload(s + 2 * BQ + 0 * NL), floor0));
      vf y = vexp2(exponent(of, vload(s + 3 * BQ + 0 * NL), floor0));
      sum0 += x + y;
      if (BYTES && by) x *= vset(by[j + 2]), y *= vset(by[j + 3]);
      const vf high = vjoin(x, y);
      vstore(out + 0 * NL, words_low(low0, high));
      vstore(out + 1 * NL, words_high(low0, high));
    }
  }
  if (j < n) {
    vf low0;
    {
      vf x = vexp2(exponent(of, vload(s + 0 * BQ + 0 * NL), floor0));
      vf y = j + 1 < n ? vexp2(exponent(of, vload(s + 1 * BQ + 0 * NL), floor0)) : vset(0);
      sum0 += x + y;
      if (BYTES && by) x *= vset(by[j + 0]), y *= vset(j + 1 < n ? by[j + 1] : 0);
      low0 = vjoin(x, y);
    }
    {
      vf x = j + 2 < n ? vexp2(exponent(of, vload(s + 2 * BQ + 0 * NL), floor0)) : vset(0);
      vf y = j + 3 < n ? vexp2(exponent(of, vload(s + 3 * BQ + 0 * NL), floor0)) : vset(0);
      sum0 += x + y;
      if (BYTES && by) x *= vset(j + 2 < n ? by[j + 2] : 0), y *= vset(j + 3 < n ? by[j + 3] : 0);
      const vf high = vjoin(x, y);
      vstore(out + 0 * NL, words_low(low0, high));
      vstore(out + 1 * NL, words_high(low0, high));
    }
  }
  const vf on = vset(keep ? 0.0f : 1.0f);
  vstore(sum + 0 * NL, vfma(vload(sum + 0 * NL), vload(shrink + 0 * NL), sum0 * on));
}

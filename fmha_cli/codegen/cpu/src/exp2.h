// 2^f for f in [0, 1]: minimax of degree 5 with value 1 at 0, relative error below 1.5e-7 in fp32.
INLINE vf exp2_fraction(vf f) {
  vf p = vfma(vset(0.0018671301659196615f), f, vset(0.009017029777169228f));
  p = vfma(p, f, vset(0.05579990893602371f));
  p = vfma(p, f, vset(0.24016445875167847f));
  p = vfma(p, f, vset(0.6931512951850891f));
  return vfma(p, f, vset(1.0f));
}

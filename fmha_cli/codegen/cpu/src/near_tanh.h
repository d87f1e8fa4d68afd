// tanh(x) = x * P(x^2) near 0, minimax: of degree 4 on |x| <= 0.6 (7.4e-8 before rounding), and of degree 2 on |x| <= 0.4, relative
// error 6.3e-6, where weights are rounded to bf16.
struct NearTanh {
  float end, p[5];
};
const NearTanh NEAR_TANH = {
    0.6f, {0.9999999403953552f, -0.33332312107086182f, 0.1331017315387726f, -0.0521014817059040f, 0.01547542773187161f}};
const NearTanh SHORT_NEAR_TANH = {0.4f, {0.9999937415122986f, -0.3326258063316345f, 0.12127786874771118f, 0, 0}};

// The factor of x.
template <bool SHORT, class V>
INLINE V near_tanh_by(V x, const NearTanh& by) {
  const V z = x * x;
  V p = vset_like(x, by.p[2]);
  if (!SHORT) p = vfma(vfma(vset_like(x, by.p[4]), z, vset_like(x, by.p[3])), z, p);
  return vfma(vfma(p, z, vset_like(x, by.p[1])), z, vset_like(x, by.p[0]));
}

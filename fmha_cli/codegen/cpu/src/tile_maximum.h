// New maximum, the factor for what was summed before, and the floor that is subtracted from scores. A maximum that rises by
// no more than SLACK powers of 2 is not taken: weights are then above 1, and O need not be scaled. The first one is always taken.
const float SLACK = 8;
// Floors in exponents of 2 up to which their rounding, 3e-5, does not show in weights of bf16.
const float FUSED = 1024;
static void raise_top(Tile& t) {
  const vf c = vset(t.scaled.exponent);
  vf most_floor = vset(0);
  for (int z = 0; z < NZ; ++z) {
    const vf base = vload(t.base + z * NL), old = vload(t.top + z * NL), most = vmax(vload(t.peak + z * NL) + base, old);
    const vf top = FAULT_STALE_MAX ? most : vpick(vabove((most - old) * c, vset(SLACK)), most, old);
    const vf floor = vpick(vabove(top, vset(NEG_INF)), top, vset(0));  // nothing seen yet: scores stay -inf
    vstore(t.top + z * NL, top);
    vstore(t.floor + z * NL, floor - base);
    most_floor = vmax(vabs(floor - base), most_floor);
    vstore(t.shrink + z * NL, vexp2((old - floor) * c));
  }
  t.fused = vtop(most_floor) * t.scaled.exponent < FUSED;
}

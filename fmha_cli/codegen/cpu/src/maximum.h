// New maximum, the factor for what was summed before, and the floor that is subtracted from scores.
static void raise_top(Tile& t) {
  const vf c = vset(t.scaled.exponent);
  for (int z = 0; z < NZ; ++z) {
    const vf old = vload(t.top + z * NL), top = vmax(vload(t.peak + z * NL), old);
    const vf floor = vpick(vabove(top, vset(NEG_INF)), top, vset(0));  // nothing seen yet: scores stay -inf
    vstore(t.top + z * NL, top);
    vstore(t.floor + z * NL, floor);
    vstore(t.shrink + z * NL, vexp2((old - floor) * c));
  }
}

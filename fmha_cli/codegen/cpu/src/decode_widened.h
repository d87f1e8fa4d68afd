// A step of keys of K or V of an item's heads: each head's rows are widened in turn, and stay in the first-level cache.
struct StepRows {
  const Context& x;
  const KeyRows& from;
  i64 columns, head_stride, last, ahead;
  alignas(64) ROW room[STEP * ((MAX_HDIM + 63) / 64 * 64)];  // whole lines: no store is torn

  StepRows(const Context& context, const KeyRows& rows, i64 width, i64 apart, i64 end)
      : x(context), from(rows), columns(width), head_stride(apart), last(end) {
    const FmhaCpuArgs& a = *x.a;
    const i64 bytes = a.prefetch_far > 0 ? a.prefetch_far : a.prefetch_near < 0 ? PREFETCH : a.prefetch_near;
    ahead = from.pages ? STEPS_AHEAD * STEP : rows_ahead(bytes, columns);
  }

  template <bool FORM>
  Lines widened(i64 j, i64 n, i64 h) {
    const i64 stride = ceil_div(columns, 64) * 64;
    const bool torn = from.pages && from.page % STEP;
    const KT *at = row_at(from, j), *later = row_at(from, min64(j + ahead, last));
    const Widener by = widener_of(x.keys);
    for (i64 t = 0; t < n; ++t) {
      const KT* row = (torn ? row_at(from, j + t) : at + t * from.stride) + h * head_stride;
      const KT* ask = (torn ? row_at(from, min64(j + t + ahead, last)) : later + t * from.stride) + h * head_stride;
      for (i64 c = 0; c < columns; c += 64) FORM ? __builtin_prefetch(ask + c, 0, 2) : __builtin_prefetch(ask + c, 0, 3);
      widen(by, room + t * stride, row, columns);
    }
    return {room, stride, 0, room, 0};
  }
};

// The rows of K or V of one sequence and head: `stride` apart from `first` on, or `page` rows on each of its pages.
struct KeyRows {
  const KT* first;
  i64 stride;
  const int32_t* pages;  // null: linear
  i64 page, page_stride;
};

INLINE KeyRows key_rows(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 hk) {
  if (!a.block_table) return {k_rows(a, s, hk), a.k_row_stride, nullptr, 0, 0};
  return {(const KT*)a.k + hk * a.k_head_stride, a.k_row_stride, a.block_table + b * a.block_table_stride, a.page, a.k_page_stride};
}
INLINE KeyRows value_rows(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 hk) {
  if (!a.block_table) return {v_rows(a, s, hk), a.v_row_stride, nullptr, 0, 0};
  return {v_base(a) + hk * a.v_head_stride, a.v_row_stride, a.block_table + b * a.block_table_stride, a.page, a.v_page_stride};
}
INLINE const KT* page_at(const KeyRows& r, i64 n) {
  if (FAULT_STALE_PAGE && n) --n;
  if (FAULT_PAGE_TABLE_END && r.pages[n + 1] >= 0) ++n;
  return r.first + r.pages[n] * r.page_stride;
}
INLINE const KT* row_at(const KeyRows& r, i64 j) {
  return r.pages ? page_at(r, j / r.page) + j % r.page * r.stride : r.first + j * r.stride;
}

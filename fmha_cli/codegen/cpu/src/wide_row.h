// A row of K or V in bf16: as it lies in memory, or bytes widened into a room of MAX_HDIM elements.
#if BYTES
INLINE const bf16* wide_row(const Context& x, bf16* room, const KT* in, i64 columns) {
  widen(widener_of(x.keys), room, in, columns);
  return room;
}
#else
INLINE const bf16* wide_row(const Context&, bf16*, const KT* in, i64) { return in; }
#endif

// Keys and values of 8 bits, fp8 or int8: a table says what each byte means. Every meaning is exact in bf16.
struct Meaning {
  float value[256];
};

static void read_table(Meaning& out, const float* table) {
  for (int n = 0; table && n < 256; ++n) out.value[n] = FAULT_WRONG_ENCODING ? table[n] * 0.5f : table[n];
}

static void widen(const Meaning& by, float* out, const byte8* in, i64 n) {
  for (i64 d = 0; d < n; ++d) out[d] = by.value[in[d].bits];
}
static void widen(const Meaning& by, bf16* out, const byte8* in, i64 n) {
  for (i64 d = 0; d < n; ++d) out[d].bits = (uint16_t)(as_bits(by.value[in[d].bits]) >> 16);
}

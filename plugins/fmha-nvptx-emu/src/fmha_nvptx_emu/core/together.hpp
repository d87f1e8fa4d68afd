// The books of shared memory for a warp's access: pieces that its lanes use as wholes, four at once.
#pragma once

#include "block.hpp"
#include "widened.hpp"

namespace ptx {

inline uint32_t owner(uint32_t stamp) { return stamp & 0xff; }
inline uint32_t time_of(uint32_t stamp) { return stamp >> 8 & 0x7fffff; }
constexpr uint32_t kOwn = 0x800000ff;  // of a plain access: the warp alone
// Before what the warp does next, or its own. An asynchronous access never is: whoever waits for it gives it another stamp.
inline bool earlier(const Warp& w, uint32_t stamp) { return ((stamp & kOwn) == w.index) | (stamp >> 8 <= w.known[owner(stamp)]); }
inline bool four_same(const uint32_t* at) { return ((at[0] ^ at[1]) | (at[0] ^ at[2]) | (at[0] ^ at[3])) == 0; }
inline uint32_t four_bytes(const uint8_t* at) {
  uint32_t out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
inline uint8_t mask_of(uint32_t at, uint32_t bytes) { return uint8_t(((1u << bytes) - 1) << (at & 3)); }  // of a word
inline bool holds(uint32_t state) { return (state & 0xf) == 0xf; }  // a value
template <class Books> void note_reader(Books& books, uint32_t mine) {
  books.before = owner(books.reader ^ mine) ? books.reader : books.before;
  books.reader = mine;
}

// The pieces of an access whose lanes use whole ones: each its own, or neighbours one together. None, if a lane uses a part alone.
// Their number is a multiple of four: the last one is repeated.
struct Together {
  unsigned count = 0, each = 1, used = 0;  // lanes a piece; `used`: without the repeated ones
  bool turned = false;                     // the lanes of a piece are four apart
  uint32_t lanes = kAll;
  alignas(64) uint32_t piece[32];

  Together() = default;
  Together(uint32_t lanes, const uint64_t* at, uint32_t bytes) : lanes(lanes) {
    if (bytes == 16 && lanes != kAll) {
      for (uint32_t left = lanes; left; left &= left - 1) piece[used++] = uint32_t(at[__builtin_ctz(left)] / 16);
      for (count = used; count % 4; ++count) piece[count] = piece[used - 1];
      return;
    }
    if (lanes != kAll) return;
    if (bytes == 16) take<1>(at);
    else if (bytes == 8 && !apart<2>(at)) take<2>(at);
    else if (bytes == 4 && !apart<4>(at)) take<4>(at);
    else if (bytes == 4 && !apart<4, 4>(at)) turned = true, take<4, 4>(at);
  }
  Together(const uint32_t* at, unsigned pieces) : used(pieces) {
    for (unsigned k = 0; k < pieces; ++k) piece[k] = at[k] / 16;
    for (count = used; count % 4; ++count) piece[count] = piece[used - 1];
  }
  // The first lane of a piece, if its lanes are `step` apart.
  template <unsigned n, unsigned step> static constexpr unsigned first(unsigned piece) { return step == 1 ? piece * n : piece / 4 * 16 + piece % 4; }
  // 0 if the lanes of each piece have the parts of 16 bytes, in order.
  template <unsigned n, unsigned step = 1> static uint64_t apart(const uint64_t* at) {
    uint64_t out = 0;
    for (unsigned piece = 0; piece < 32 / n; ++piece) out |= at[first<n, step>(piece)] & 15;
    for (unsigned piece = 0; piece < 32 / n; ++piece)
      for (unsigned k = 1; k < n; ++k) out |= at[first<n, step>(piece)] + 16 / n * k ^ at[first<n, step>(piece) + k * step];
    return out;
  }
  template <unsigned n, unsigned step = 1> void take(const uint64_t* at) {
    each = n, used = count = 32 / n;
    for (unsigned k = 0; k < 32 / n; ++k) piece[k] = uint32_t(at[first<n, step>(k)] / 16);
  }

#ifdef PTX_AVX512
  // Takes a piece for each lane from addresses in `bytes` bytes; false if one is not a piece's. `apart`: no eight lanes meet in a bank.
  bool take_pieces(const uint32_t* base, uint32_t offset, uint32_t bytes, bool& apart) {
    if (bytes < 16) return false;
    for (unsigned z = 0; z < 2; ++z) {
      const __m512i at = _mm512_add_epi32(_mm512_loadu_si512(base + 16 * z), _mm512_set1_epi32(int(offset)));
      if (_mm512_test_epi32_mask(at, _mm512_set1_epi32(15)) | _mm512_cmpgt_epu32_mask(at, _mm512_set1_epi32(int(bytes - 16)))) return false;
      const __m512i pieces = _mm512_srli_epi32(at, 4), one = _mm512_set1_epi32(1);
      _mm512_store_si512(piece + 16 * z, pieces);
      __m512i banks = _mm512_sllv_epi32(one, _mm512_and_si512(pieces, _mm512_set1_epi32(7)));
      banks = _mm512_or_si512(banks, _mm512_shuffle_epi32(banks, _MM_PERM_ENUM(0xb1)));
      banks = _mm512_or_si512(banks, _mm512_shuffle_epi32(banks, _MM_PERM_ENUM(0x4e)));
      banks = _mm512_or_si512(banks, _mm512_shuffle_i64x2(banks, banks, 0xb1));
      apart &= _mm512_cmpeq_epi32_mask(banks, _mm512_set1_epi32(255)) == 0xffff;
    }
    used = count = 32;
    return true;
  }
#endif

  // The lanes of pieces.
  uint32_t lanes_of(uint32_t pieces) const {
    if (each == 1 && lanes == kAll) return pieces;
    const uint32_t every = used == 32 ? kAll : (1u << used) - 1;
    if ((pieces & every) == every) return lanes;
    uint32_t out = 0, left = lanes;
    for (unsigned n = 0; n < used; ++n) {
      const uint32_t here = each == 1 ? left & -left : turned ? 0x1111u << first<4, 4>(n) : ((1u << each) - 1) << n * each;
      out |= pieces >> n & 1 ? here : 0, left &= left - 1;
    }
    return out;
  }
};

// Whether accesses of the warp are plain: nobody else's has to be compared with it.
class Judged {
 public:
  Judged(const Warp& w, bool writes, uint32_t stamp) : w_(w), looked_at_(writes ? 0xffff : 0x9999) {
#ifdef PTX_AVX512
    before_ = every(w.early, w.early, w.early, kByWords), own_ = every(w.index, w.index, w.index, kNever);
    sound_ = every(writes ? stamp : 0, 0, 0, kNever);
#endif
  }
#ifdef PTX_AVX512
  // Four pieces: their stamps are early, the warp's own, or like those of a piece that was found to be.
  bool four(Books* all, const uint32_t* piece) const {
    __m512i books = load(all, piece);
    bool settles = false;
    if (!plain(books, settles)) return false;
    if (settles) store(all, piece, books);
    return true;
  }
  // 32 pieces, which the warp reads and whose bytes all hold values. False: their books are as they were, but for reads of the warp.
  bool read_all(Books* all, const uint32_t* piece, uint32_t mine) const {
    __m512i held = _mm512_set1_epi32(int(kNever));
    bool settles = false;
#pragma GCC unroll 8
    for (unsigned n = 0; n < 32; n += 4) {
      __m512i books = load(all, piece + n);
      if (!plain(books, settles)) return false;
      store(all, piece + n, noted_by(books, mine)), held = _mm512_and_si512(held, books);
    }
    return Judged::held(held) == 0xf;
  }
  bool write_all(Books* all, const uint32_t* piece, uint32_t stamp, uint32_t state) const {
    const __m512i put = every(stamp, 0, 0, state);
    return change_all(all, piece, [&](__m512i books) { return _mm512_mask_mov_epi32(books, 0x9999, put); });
  }
  // A piece was found to be plain.
  void found(const Books& piece) { sound_ = every(piece.writer, piece.reader, piece.before, kNever); }

  static __m512i noted_by(__m512i books, uint32_t mine) {
    const __m512i me = _mm512_set1_epi32(int(mine)), reader = _mm512_shuffle_epi32(books, _MM_PERM_ENUM(0x55));
    const __mmask16 others = _mm512_mask_test_epi32_mask(0x4444, _mm512_xor_si512(reader, me), _mm512_set1_epi32(0xff));
    return _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(books, others, reader), 0x2222, me);
  }
  static uint32_t held(__m512i books) {
    const __m512i value = _mm512_set1_epi32(0xf);
    return _pext_u32(_mm512_cmpeq_epi32_mask(_mm512_and_si512(books, value), value), 0x8888);
  }
  static __m512i load(const Books* all, const uint32_t* piece) {
    const auto one = [&](unsigned k) { return _mm_load_si128(reinterpret_cast<const __m128i*>(all + piece[k])); };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(one(0)), one(1), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_inserti128_si256(_mm256_castsi128_si256(one(2)), one(3), 1), 1);
  }
  static void store(Books* all, const uint32_t* piece, __m512i books) {
    const auto one = [&](unsigned k, __m128i part) { _mm_store_si128(reinterpret_cast<__m128i*>(all + piece[k]), part); };
    one(0, _mm512_castsi512_si128(books)), one(1, _mm512_extracti32x4_epi32(books, 1));
    one(2, _mm512_extracti32x4_epi32(books, 2)), one(3, _mm512_extracti32x4_epi32(books, 3));
  }
  static __m512i every(uint32_t writer, uint32_t reader, uint32_t before, uint32_t state) {
    return _mm512_broadcast_i32x4(_mm_setr_epi32(int(writer), int(reader), int(before), int(state)));
  }

 private:
  template <class F> [[gnu::always_inline]] bool change_all(Books* all, const uint32_t* piece, F changed) const {
    __m512i books[8];
    bool settles = false;
#pragma GCC unroll 8
    for (unsigned n = 0; n < 8; ++n) {
      books[n] = load(all, piece + 4 * n);
      if (!plain(books[n], settles)) return false;
    }
#pragma GCC unroll 8
    for (unsigned n = 0; n < 8; ++n) store(all, piece + 4 * n, changed(books[n]));
    return true;
  }
  bool plain(__m512i& books, bool& settles) const {
    __mmask16 late = _mm512_mask_cmpge_epu32_mask(__mmask16(looked_at_), books, before_);
    late = _mm512_mask_cmpneq_epi32_mask(late, _mm512_and_si512(books, _mm512_set1_epi32(int(kOwn))), own_);
    if (!late) return true;
    late = _mm512_mask_cmpneq_epi32_mask(late, books, sound_);
    if (!late) return true;
    const __mmask16 settled = 0x1111 & _mm512_mask_cmpeq_epi32_mask(late, books, _mm512_permutexvar_epi32(books, _mm512_loadu_si512(w_.later)));
    if (late & ~settled) return false;
    books = _mm512_mask_permutexvar_epi32(books, settled, books, _mm512_loadu_si512(w_.settled));
    return settles = true;
  }

  __m512i before_, own_, sound_;
#else
  bool four(Books*, const uint32_t*) const { return false; }
  bool read_all(Books*, const uint32_t*, uint32_t) const { return false; }
  bool write_all(Books*, const uint32_t*, uint32_t, uint32_t) const { return false; }
  void found(const Books&) {}

 private:
#endif
  const Warp& w_;
  unsigned looked_at_;
};

// A warp reads four pieces: bit k, whether all bytes of the k-th hold a value.
inline uint32_t note_four(Books* all, const uint32_t* piece, uint32_t mine) {
#ifdef PTX_AVX512
  const __m512i books = Judged::load(all, piece), noted = Judged::noted_by(books, mine);
  if (_mm512_cmpneq_epi32_mask(noted, books)) Judged::store(all, piece, noted);
  return Judged::held(books);
#else
  uint32_t out = 0;
  for (unsigned k = 0; k < 4; ++k) note_reader(all[piece[k]], mine), out |= uint32_t(holds(all[piece[k]].state)) << k;
  return out;
#endif
}

inline void put_four(Books* all, const uint32_t* piece, uint32_t stamp, uint32_t state) {
  for (unsigned k = 0; k < 4; ++k) all[piece[k]].writer = stamp, all[piece[k]].state = state;
}

// A warp reads 32 pieces at these addresses, two of which are neighbours each, if a write with this stamp was the last one of all
// and all of their bytes hold values. False: nothing was done.
inline bool read_pairs([[maybe_unused]] Books* all, [[maybe_unused]] const uint32_t* at, [[maybe_unused]] uint32_t stamp, [[maybe_unused]] uint32_t mine) {
#ifdef PTX_AVX512
  const __m512i low = _mm512_loadu_si512(at), high = _mm512_loadu_si512(at + 16), one = _mm512_set1_epi32(16);
  const auto apart = [&](__m512i some) {
    return _mm512_cmpneq_epi32_mask(_mm512_xor_si512(some, _mm512_shuffle_epi32(some, _MM_PERM_ENUM(0xb1))), one) | _mm512_test_epi32_mask(some, _mm512_set1_epi32(15));
  };
  if (apart(low) | apart(high)) return false;
  const auto pair = [&](unsigned k) { return reinterpret_cast<__m256i*>(all + at[2 * k] / 32 * 2); };
  __m512i books[8], late = _mm512_setzero_si512(), held = _mm512_set1_epi32(int(kNever));
  const __m512i writer = _mm512_set1_epi32(int(stamp));
#pragma GCC unroll 8
  for (unsigned n = 0; n < 8; ++n) {
    books[n] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(pair(2 * n))), _mm256_loadu_si256(pair(2 * n + 1)), 1);
    late = _mm512_or_si512(late, _mm512_xor_si512(books[n], writer)), held = _mm512_and_si512(held, books[n]);
  }
  if (_mm512_mask_test_epi32_mask(0x1111, late, late) || Judged::held(held) != 0xf) return false;  // by words, a piece holds none
#pragma GCC unroll 8
  for (unsigned n = 0; n < 8; ++n) {
    const __m512i noted = Judged::noted_by(books[n], mine);
    _mm256_storeu_si256(pair(2 * n), _mm512_castsi512_si256(noted)), _mm256_storeu_si256(pair(2 * n + 1), _mm512_extracti64x4_epi64(noted, 1));
  }
  return true;
#else
  return false;
#endif
}

}  // namespace ptx

// Keeps the books of LDS (lds_words.hpp: its words, and what can be wrong with them). tracking.hpp says what orders accesses. Nearly all accesses are
// of whole pieces of 16 bytes with nothing to report, and those are looked at here, many at once.
#include <cstddef>

#include "lds_words.hpp"

namespace emu {

namespace {

// ---- whole pieces where nothing is to report; false: nothing was done, look at their words ----

// Some entries together.
class Together {
 public:
  void add(const LdsBooks::Word& entry) {
    const Four last = four(reinterpret_cast<const uint32_t*>(&entry));
    any_ |= last, all_ &= last, most_ = last > most_ ? last : most_;
  }

  bool none_apart() const { return !(any_[1] >> 16 & LdsBooks::kApart); }
  bool all_written() const { return (all_[1] >> 16 & 0xff) == 0xf; }

  // Whether even the last of the writes, by whichever wave, is complete when the wave's next access comes. Mostly it is.
  bool all_after(const Wave& w) const {
    const auto& before = w.track.all_before;
    const uint32_t of_loads = std::min(before[1], w.track.done_to_lds), loaded = any_[1] >> 8 & 1, stored = ~all_[1] >> 8 & 1;
    return (!stored || most_[0] <= before[0]) && (!loaded || most_[0] <= of_loads);
  }

 private:
  static_assert(sizeof(LdsBooks::Word) == 16 && offsetof(LdsBooks::Word, to_lds) == 5 && offsetof(LdsBooks::Word, written) == 6);
  Four any_{}, all_ = ~Four{}, most_{};  // of the first: when it was written, then writer, to_lds and what was written
};

template <class Piece> bool all_readable(const Wave& w, Piece piece, uint32_t count) {
  const LdsBooks::Word* const of = w.group->books.pieces.data();
  Together all;
  for (uint32_t k = 0; k < count; ++k) all.add(of[piece(k)]);
  if (!all.all_written()) return false;
  if (all.all_after(w)) [[likely]] return true;
  bool sound = true;
  for (uint32_t k = 0; k < count; ++k) sound &= readable(w, of[piece(k)]);
  return sound;
}

template <class Piece> bool write_all(Wave& w, Piece piece, uint32_t count, const Issued& op) {
  LdsBooks::Word* const of = w.group->books.pieces.data();
  Together all;
  Four late{};
  for (uint32_t k = 0; k < count; ++k) all.add(of[piece(k)]), late |= late_readers(w, piece(k));
  if (!all.none_apart() || (late[0] | late[1] | late[2] | late[3])) return false;
  bool sound = all.all_after(w);
  if (!sound) [[unlikely]] {
    sound = true;
    for (uint32_t k = 0; k < count; ++k) sound &= after(w, of[piece(k)], op);
  }
  if (!sound) return false;
  const LdsBooks::Word mine{op.sequence, uint8_t(w.index), op.to_lds, 0xf, 0xf, false, 0};
  for (uint32_t k = 0; k < count; ++k) std::memcpy(of + piece(k), &mine, sizeof mine);  // at once: assigned, it goes byte by byte
  return true;
}

bool read_pieces(const Wave& w, uint32_t piece, uint32_t count) {
  return all_readable(w, [=](uint32_t k) { return piece + k; }, count);
}

bool write_pieces(Wave& w, uint32_t piece, uint32_t count, const Issued& op) {
  return write_all(w, [=](uint32_t k) { return piece + k; }, count, op);
}

bool rewrite_pieces(Wave& w, uint32_t piece, uint32_t count, const Issued& op) {
  LdsBooks::Word* const of = w.group->books.pieces.data() + piece;
  if (count > 1) return false;
  if (of->written != 0xf || of->writer == w.index) return write_pieces(w, piece, 1, op);
  if (!op.to_lds) of->same |= 1u << w.index;
  return true;
}

// The lanes whose bytes begin where those of the lane before them end.
inline uint64_t followers(uint64_t mask, const uint32_t* addresses, uint32_t bytes) {
  uint64_t out = 0;
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16) {
    const __m512i before = _mm512_maskz_loadu_epi32(k ? 0xffff : 0xfffe, addresses + k - 1);
    const __m512i wanted = _mm512_add_epi32(before, _mm512_set1_epi32(int(bytes)));
    out |= uint64_t(_mm512_cmpeq_epi32_mask(wanted, _mm512_loadu_si512(addresses + k))) << k;
  }
#else
  for (int l = 1; l < kLanes; ++l) out |= uint64_t(addresses[l] == addresses[l - 1] + bytes) << l;
#endif
  return out & mask & mask << 1;
}

inline bool aligned(uint64_t mask, const uint32_t* addresses, uint32_t bytes) {
  uint32_t low[kLanes];
  for (int l = 0; l < kLanes; ++l) low[l] = addresses[l] & (bytes - 1);
  return !(nonzero(low) & mask);
}

// Takes lanes whose bytes follow one another together. whole(piece, count) looks at pieces that they cover. Where it
// answers false, and for the rest, one(stretch, covered) looks at each lane's stretch, and then after(piece) is called
// where the piece is covered.
template <class Whole, class One, class After>
inline void each_piece(uint64_t mask, const uint32_t* addresses, uint32_t bytes, Whole whole, One one, After after) {
  const uint64_t follow = followers(mask, addresses, bytes);
  while (mask) {
    const int first = std::countr_zero(mask);
    const int behind = first + 1 + std::countr_one(follow >> first >> 1);
    mask &= behind < kLanes ? ~0ull << behind : 0;
    const uint32_t start = addresses[first];
    const uint32_t end = start + uint32_t(behind - first) * bytes;
    uint32_t at = start;
    if (!emulation::careful && start % 16 == 0 && end - start >= 16 && whole(start / 16, (end - start) / 16)) [[likely]] {
      if (end % 16 == 0) continue;
      at = end / 16 * 16;
    }
    while (at < end) {
      const uint32_t piece = at / 16, to = std::min(end, 16 * piece + 16);
      const bool covered = to - at == 16 && !emulation::careful;
      if (covered && whole(piece, 1)) [[likely]] {
        at = to;
        continue;
      }
      for (int lane = first + int((at - start) / bytes); at < to; ++lane) {
        const uint32_t lane_end = std::min(start + uint32_t(lane - first + 1) * bytes, to);
        one(Stretch{lane, at, lane_end}, covered);
        at = lane_end;
      }
      if (covered) after(piece);
    }
  }
}

// all_readable for lanes that each have whole words, all in one piece.
inline bool all_words_readable(const Wave& w, uint64_t mask, const uint32_t* addresses, uint32_t words) {
  const LdsBooks& books = w.group->books;
  bool sound = true;
  each_lane(mask, [&](int l) {
    for (uint32_t word = addresses[l] / 4; word < addresses[l] / 4 + words; ++word) {
      const LdsBooks::Word& last = entry(books, word);
      sound &= last.written == 0xf && readable(w, last);
    }
  });
  return sound;
}

inline bool tracked(const Wave& w) { return w.group && !w.group->books.pieces.empty(); }

}  // namespace

void track_begin(Group& group) {
  LdsBooks& books = group.books;
  const size_t waves = std::max(group.waves.size(), size_t(group.waves.back()->index) + 1), pieces = (group.lds.size() + 15) / 16;
  books.size = uint32_t(4 * pieces);
  books.waves = uint32_t(waves + 3) / 4 * 4;
  books.pieces.assign(pieces, {});
  books.words.resize(4 * pieces);
  books.readers.assign(pieces * books.waves, 0);
  books.word_readers.resize(4 * pieces * waves);
  books.read_apart.assign(pieces, 0);
  for (const auto& wave : group.waves) {
    track_begin(*wave);
    if (group.waves.size() == 1) wave->track.all_before = {~0u, ~0u};
  }
}

uint32_t pieces_of(uint64_t mask, const uint32_t* addresses, uint32_t bytes, const uint32_t*& at, uint32_t (&room)[kLanes]) {
  if (emulation::careful || (bytes != 4 && bytes != 8 && bytes != 16)) return 0;
  const uint64_t firsts = bytes == 4 ? 0x1111111111111111 : bytes == 8 ? 0x5555555555555555 : ~0ull, of = mask & firsts;
  const uint32_t count = uint32_t(std::popcount(of));
  if (!aligned(of, addresses, 16) || std::popcount(mask) != int(count * 16 / bytes)) return 0;
  if (bytes == 16 && !(mask & (mask + 1))) return at = addresses, count;
  if (bytes != 16 && (followers(mask, addresses, bytes) & ~firsts) != (mask & ~firsts)) return 0;
  at = room;
  each_lane(of, [&, next = 0](int l) mutable { room[next++] = addresses[l]; });
  return count;
}

uint32_t lds_access_begins(Wave& w) { return ++w.track.sequence; }

void lds_read(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence) {
  if (!tracked(w)) return;
  LdsBooks& books = w.group->books;
  uint32_t* const mine = books.readers.data() + w.index;
  const auto mark = [=, of_piece = size_t(books.waves)](uint32_t piece) { mine[piece * of_piece] = sequence << 4 | 0xf; };
  uint32_t room[kLanes];
  const uint32_t* at = nullptr;
  if (const uint32_t count = pieces_of(mask, addresses, bytes, at, room);
      count && all_readable(w, [=](uint32_t k) { return at[k] / 16; }, count)) {
    for (uint32_t k = 0; k < count; ++k) mark(at[k] / 16);
    return;
  }
  if ((bytes == 4 || bytes == 8) && !emulation::careful && !(followers(mask, addresses, bytes)) && aligned(mask, addresses, bytes) &&
      all_words_readable(w, mask, addresses, bytes / 4))
    return each_lane(mask, [&](int l) {
      for (uint32_t word = addresses[l] / 4; word < (addresses[l] + bytes) / 4; ++word) mark_read(books, w.index, word, sequence, 0xf);
    });
  each_piece(
      mask, addresses, bytes,
      [&](uint32_t piece, uint32_t count) {
        if (!read_pieces(w, piece, count)) return false;
        for (uint32_t k = 0; k < count; ++k) mark(piece + k);
        return true;
      },
      [&](const Stretch& stretch, bool covered) {
        each_word(stretch, [&](uint32_t word, uint32_t bits) {
          check_read(w, i, stretch.lane, word, bits);
          if (!covered) mark_read(books, w.index, word, sequence, bits);
        });
      },
      mark);
}

void lds_written(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence,
                 bool to_lds) {
  if (!mask || !tracked(w)) return;
  const Issued op{sequence, to_lds};
  each_piece(
      mask, addresses, bytes, [&](uint32_t piece, uint32_t count) { return write_pieces(w, piece, count, op); },
      [&](const Stretch& stretch, bool) { one_write(w, i, stretch, op); }, [&](uint32_t piece) { join(w.group->books, piece); });
}

bool lds_pieces_written(Wave& w, const uint32_t* at, uint32_t count, uint32_t sequence) {
  return tracked(w) && write_all(w, [=](uint32_t k) { return at[k] / 16; }, count, {sequence});
}

void lds_rewritten(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes,
                   uint32_t sequence, bool to_lds) {
  if (!mask || !tracked(w)) return;
  const Issued op{sequence, to_lds};
  each_piece(
      mask, addresses, bytes, [&](uint32_t piece, uint32_t count) { return rewrite_pieces(w, piece, count, op); },
      [&](const Stretch& stretch, bool) { one_rewrite(w, i, stretch, op); }, [&](uint32_t piece) { join(w.group->books, piece); });
}

void lds_changed(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence) {
  if (!tracked(w)) return;
  each_piece(
      mask, addresses, bytes, [](uint32_t, uint32_t) { return false; },
      [&](const Stretch& stretch, bool) { one_change(w, i, stretch, {sequence}); }, [](uint32_t) {});
}

}  // namespace emu

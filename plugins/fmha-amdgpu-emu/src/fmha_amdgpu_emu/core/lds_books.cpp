// Finds reads of LDS words that nobody wrote, and words that two waves touch without a barrier in between. tracking.hpp
// says what orders accesses. The bytes of a word count separately, because two waves may hold its halves.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "access.hpp"
#include "launch.hpp"

namespace emu {

namespace {

// The bytes of dword `word` that lie in [address, address + bytes).
inline uint32_t bytes_in(uint32_t word, uint32_t address, uint32_t end) {
  const uint32_t first = address > 4 * word ? address - 4 * word : 0;
  const uint32_t behind = end < 4 * word + 4 ? end - 4 * word : 4;
  return ((1u << behind) - 1) & ~((1u << first) - 1);
}

std::string at(uint32_t word) { return "the LDS word at " + std::to_string(4 * word); }

template <class F> void report(Finding kind, Wave& w, const Inst& i, int lane, F text) {
  if (w.launch && w.launch->report) w.launch->report->add(kind, w, i, lane, text);
}

void report_unwritten(Wave& w, const Inst& i, int lane, uint32_t word) {
  report(Finding::UninitialisedLds, w, i, lane, [&] {
    return at(word) + " is read in lane " + std::to_string(lane) + ", and nothing was ever written there";
  });
}

[[gnu::noinline, gnu::cold]] void report_writer(Wave& w, const Inst& i, int lane, uint32_t word,
                                                const LdsBooks::Word& last, bool write) {
  const char* what = write ? " is written again" : " is read";
  if (last.writer == w.index)
    return report(Finding::MissingWait, w, i, lane, [&] {
      return at(word) + what + " in lane " + std::to_string(lane) + " while a load into it is still outstanding";
    });
  report(Finding::LdsRace, w, i, lane, [&] {
    return at(word) + what + " by wave " + std::to_string(w.index) + ", lane " + std::to_string(lane) + "; wave " +
           std::to_string(last.writer) + (last.to_lds ? " loaded into it" : " wrote it") +
           " with no wait and barrier between";
  });
}

[[gnu::noinline, gnu::cold]] void report_reader(Wave& w, const Inst& i, int lane, uint32_t word, size_t reader) {
  report(Finding::LdsRace, w, i, lane, [&] {
    return at(word) + " is written by wave " + std::to_string(w.index) + ", lane " + std::to_string(lane) + "; wave " +
           std::to_string(reader) + " read it with no barrier between";
  });
}

struct Issued {
  uint32_t sequence;
  bool to_lds = false;
};

// Whether the last write of a word is complete when this access comes. A wave's loads into LDS are in order among
// themselves.
inline bool after(const Wave& w, const LdsBooks::Word& last, const Issued& op) {
  return last.writer_sequence <= w.track.written_before[last.to_lds][last.writer] || (op.to_lds && last.writer == w.index);
}

inline bool readable(const Wave& w, const LdsBooks::Word& last) {
  return after(w, last, {}) || (last.same >> w.index & 1);
}

// ---- words and pieces ----

inline bool apart(const LdsBooks& books, uint32_t piece) { return books.pieces[piece].written == LdsBooks::kApart; }

inline const LdsBooks::Word& entry(const LdsBooks& books, uint32_t word) {
  return apart(books, word / 4) ? books.words[word] : books.pieces[word / 4];
}

// For a word that will differ from the others of its piece.
LdsBooks::Word& own_entry(LdsBooks& books, uint32_t word) {
  const uint32_t piece = word / 4;
  if (!apart(books, piece)) {
    std::fill_n(books.words.begin() + 4 * piece, 4, books.pieces[piece]);
    books.pieces[piece].written = LdsBooks::kApart;
  }
  return books.words[word];
}

// After a write of the whole piece.
void join(LdsBooks& books, uint32_t piece) {
  if (!apart(books, piece)) return;
  const LdsBooks::Word* four = books.words.data() + 4 * piece;
  for (int k = 1; k < 4; ++k)
    if (!(four[k] == *four)) return;
  books.pieces[piece] = *four;
}

void mark_read(LdsBooks& books, int wave, uint32_t word, uint32_t sequence, uint32_t mask) {
  const uint32_t first = word & ~3u;
  if (!books.read_apart[word / 4]) {
    for (uint32_t* of_wave = books.word_readers.data() + first; of_wave < books.word_readers.data() + books.word_readers.size();
         of_wave += books.size)
      std::fill_n(of_wave, 4, 0);
    books.read_apart[word / 4] = 1;
  }
  uint32_t& mine = books.word_readers[size_t(wave) * books.size + word];
  mine = sequence << 4 | mask | (mine >> 4 == sequence ? mine & 15 : 0);
}

inline uint32_t last_read(const LdsBooks& books, size_t wave, uint32_t word) {
  const uint32_t of_piece = books.readers[size_t(word / 4) * books.waves + wave];
  return books.read_apart[word / 4] ? std::max(of_piece, books.word_readers[wave * books.size + word]) : of_piece;
}

void check_readers(Wave& w, const Inst& i, int lane, uint32_t word, uint32_t mask) {
  const LdsBooks& books = w.group->books;
  for (size_t other = 0; other < w.group->waves.size(); ++other) {
    const uint32_t read = last_read(books, other, word);
    if (read > w.track.read_before[other] && read & mask) [[unlikely]] report_reader(w, i, lane, word, other);
  }
}

using Four = uint32_t __attribute__((vector_size(16), aligned(4), may_alias));
inline Four four(const uint32_t* at) { return *reinterpret_cast<const Four*>(at); }

// Not zero where a read of a word of the piece came not before.
inline Four late_readers(const Wave& w, uint32_t piece) {
  const LdsBooks& books = w.group->books;
  const uint32_t* const before = w.track.read_before.data();
  const uint32_t* const read = books.readers.data() + size_t(piece) * books.waves;
  Four late{};
  for (uint32_t k = 0; k < books.waves; k += 4) late |= Four(four(read + k) > four(before + k));
  if (books.read_apart[piece])
    for (size_t k = 0; k < books.word_readers.size() / books.size; ++k)
      late |= Four(four(books.word_readers.data() + k * books.size + 4 * piece) > Four{} + before[k]);
  return late;
}

// ---- single words: the definition of each access ----

struct Stretch {
  int lane;
  uint32_t address, end;  // within one piece
};

template <class F> inline void each_word(const Stretch& stretch, F f) {
  for (uint32_t word = stretch.address / 4; 4 * word < stretch.end; ++word) f(word, bytes_in(word, stretch.address, stretch.end));
}

inline void check_read(Wave& w, const Inst& i, int lane, uint32_t word, uint32_t mask) {
  LdsBooks& books = w.group->books;
  if (mask & ~entry(books, word).written) [[unlikely]] {
    report_unwritten(w, i, lane, word);
    own_entry(books, word).written |= uint8_t(mask);
  }
  const LdsBooks::Word& last = entry(books, word);
  if ((last.last & mask) && !readable(w, last)) [[unlikely]] report_writer(w, i, lane, word, last, false);
}

void one_write(Wave& w, const Inst& i, const Stretch& stretch, const Issued& op) {
  each_word(stretch, [&](uint32_t word, uint32_t mask) {
    LdsBooks::Word& last = own_entry(w.group->books, word);
    if ((last.last & mask) && !after(w, last, op)) [[unlikely]] report_writer(w, i, stretch.lane, word, last, true);
    check_readers(w, i, stretch.lane, word, mask);
    const bool same = last.writer == w.index && last.writer_sequence == op.sequence;
    const uint8_t bits = uint8_t(same ? last.last | mask : mask);
    last = {op.sequence, uint8_t(w.index), op.to_lds, uint8_t(last.written | mask), bits, false, 0};
  });
}

// A write of the bytes that are there already. Compilers let several waves store the same values (rows that two waves
// hold). Any order of such writes gives the same result, so they are no race, and the first writer stays the writer.
// The same holds for loads straight to LDS. But a wave that reads what it loaded that way has to wait, so such loads do
// not enter `same`.
void one_rewrite(Wave& w, const Inst& i, const Stretch& stretch, const Issued& op) {
  each_word(stretch, [&](uint32_t word, uint32_t mask) {
    const LdsBooks::Word& last = entry(w.group->books, word);
    if ((mask & ~last.written) || last.writer == w.index) {
      const uint32_t from = std::max(stretch.address, 4 * word), end = std::min(stretch.end, 4 * word + 4);
      one_write(w, i, {stretch.lane, from, end}, op);
    } else if (!op.to_lds) {
      own_entry(w.group->books, word).same |= 1u << w.index;
    }
  });
}

void one_change(Wave& w, const Inst& i, const Stretch& stretch, const Issued& op) {
  each_word(stretch, [&](uint32_t word, uint32_t) {
    LdsBooks::Word& last = own_entry(w.group->books, word);
    if (last.written != 0xf) report_unwritten(w, i, stretch.lane, word), last.written = 0xf;
    if (!last.atomic && !after(w, last, op)) [[unlikely]] report_writer(w, i, stretch.lane, word, last, true);
    check_readers(w, i, stretch.lane, word, 0xf);
    last = {op.sequence, uint8_t(w.index), false, 0xf, 0xf, true, 0};
  });
}

// ---- whole pieces one after another, where nothing is to report; false: nothing was done, look at their words ----

bool read_pieces(const Wave& w, uint32_t piece, uint32_t count) {
  const LdsBooks::Word* const of = w.group->books.pieces.data() + piece;
  bool sound = true;
  for (uint32_t k = 0; k < count; ++k) sound &= of[k].written == 0xf && readable(w, of[k]);
  return sound;
}

bool write_pieces(Wave& w, uint32_t piece, uint32_t count, const Issued& op) {
  LdsBooks::Word* const of = w.group->books.pieces.data() + piece;
  bool sound = true;
  Four late{};
  for (uint32_t k = 0; k < count; ++k)
    sound &= of[k].written != LdsBooks::kApart && after(w, of[k], op), late |= late_readers(w, piece + k);
  if (!sound || (late[0] | late[1] | late[2] | late[3])) return false;
  const LdsBooks::Word mine{op.sequence, uint8_t(w.index), op.to_lds, 0xf, 0xf, false, 0};
  for (uint32_t k = 0; k < count; ++k) std::memcpy(of + k, &mine, sizeof mine);  // at once: assigned, it goes byte by byte
  return true;
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

// The addresses of the pieces that the lanes of the mask have as wholes, each its own or neighbours one together; their number, 0: other parts.
inline int pieces_of(uint64_t mask, const uint32_t* addresses, uint32_t bytes, const uint32_t*& at, uint32_t (&room)[kLanes]) {
  if (emulation::careful || (bytes != 4 && bytes != 8 && bytes != 16)) return 0;
  const uint64_t firsts = bytes == 4 ? 0x1111111111111111 : bytes == 8 ? 0x5555555555555555 : ~0ull, of = mask & firsts;
  const int count = std::popcount(of);
  if (!aligned(of, addresses, 16) || std::popcount(mask) != count * int(16 / bytes)) return 0;
  if (bytes == 16 && !(mask & (mask + 1))) return at = addresses, count;
  if (bytes != 16 && (followers(mask, addresses, bytes) & ~firsts) != (mask & ~firsts)) return 0;
  at = room;
  each_lane(of, [&, next = 0](int l) mutable { room[next++] = addresses[l]; });
  return count;
}

// read_pieces for some anywhere. Mostly all of them were written before what the wave knows of the last wave.
inline bool all_readable(const Wave& w, const uint32_t* at, int count) {
  const auto* const pieces = reinterpret_cast<const uint8_t*>(w.group->books.pieces.data());
  static_assert(sizeof(LdsBooks::Word) == 16 && offsetof(LdsBooks::Word, to_lds) == 5 && offsetof(LdsBooks::Word, written) == 6);
  Four any{}, all = ~any, most{};  // of the first: when it was written, then writer, to_lds and what was written
  for (int k = 0; k < count; ++k) {
    const Four last = four(reinterpret_cast<const uint32_t*>(pieces + at[k]));
    any |= last, all &= last, most = last > most ? last : most;
  }
  if ((all[1] >> 16 & 0xff) != 0xf) return false;
  uint32_t before = ~0u;
  for (const bool to_lds : {false, true})
    for (size_t k = 0; (to_lds ? any : ~all)[1] >> 8 & 1 && k < w.group->waves.size(); ++k)
      before = std::min(before, w.track.written_before[to_lds][w.group->waves[k]->index]);
  if (most[0] <= before) return true;
  return std::all_of(at, at + count, [&](uint32_t one) { return after(w, w.group->books.pieces[one / 16], {}); });
}

// The same for lanes that each have whole words, all in one piece.
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
  for (const auto& wave : group.waves) track_begin(*wave);
}

uint32_t lds_access_begins(Wave& w) { return ++w.track.sequence; }

void lds_read(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence) {
  if (!tracked(w)) return;
  LdsBooks& books = w.group->books;
  uint32_t* const mine = books.readers.data() + w.index;
  const auto mark = [=, of_piece = size_t(books.waves)](uint32_t piece) { mine[piece * of_piece] = sequence << 4 | 0xf; };
  uint32_t room[kLanes];
  const uint32_t* at = nullptr;
  if (const int count = pieces_of(mask, addresses, bytes, at, room); count && all_readable(w, at, count)) {
    for (int k = 0; k < count; ++k) mark(at[k] / 16);
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
  if (!tracked(w)) return;
  const Issued op{sequence, to_lds};
  each_piece(
      mask, addresses, bytes, [&](uint32_t piece, uint32_t count) { return write_pieces(w, piece, count, op); },
      [&](const Stretch& stretch, bool) { one_write(w, i, stretch, op); }, [&](uint32_t piece) { join(w.group->books, piece); });
}

void lds_rewritten(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes,
                   uint32_t sequence, bool to_lds) {
  if (!tracked(w)) return;
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

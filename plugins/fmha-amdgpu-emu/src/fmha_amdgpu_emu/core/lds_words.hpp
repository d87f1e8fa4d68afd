// The books of LDS: entries of words and of pieces, what orders accesses to them, and the accesses to single words. These find
// reads of words that nobody wrote, and words that two waves touch without a barrier in between. The bytes of a word count
// separately, because two waves may hold its halves. Only lds_books.cpp includes this.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "access.hpp"
#include "launch.hpp"

namespace emu {

namespace {

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

// The bytes of dword `word` that lie in [address, address + bytes).
inline uint32_t bytes_in(uint32_t word, uint32_t address, uint32_t end) {
  const uint32_t first = address > 4 * word ? address - 4 * word : 0;
  const uint32_t behind = end < 4 * word + 4 ? end - 4 * word : 4;
  return ((1u << behind) - 1) & ~((1u << first) - 1);
}

struct Stretch {
  int lane;
  uint32_t address, end;  // within one piece
};

template <class F> inline void each_word(const Stretch& stretch, F f) {
  for (uint32_t word = stretch.address / 4; 4 * word < stretch.end; ++word) f(word, bytes_in(word, stretch.address, stretch.end));
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

void check_readers(Wave& w, const Inst& i, int lane, uint32_t word, uint32_t mask) {
  const LdsBooks& books = w.group->books;
  for (size_t other = 0; other < w.group->waves.size(); ++other) {
    const uint32_t read = last_read(books, other, word);
    if (read > w.track.read_before[other] && read & mask) [[unlikely]] report_reader(w, i, lane, word, other);
  }
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

}  // namespace

}  // namespace emu

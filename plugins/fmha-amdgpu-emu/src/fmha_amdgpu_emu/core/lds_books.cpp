// Finds reads of LDS words that nobody wrote, and words that two waves touch without a barrier in between. tracking.hpp
// says what orders accesses. The bytes of a word count separately, because two waves may hold its halves.
#include <algorithm>
#include <bit>
#include <string>

#include "launch.hpp"

namespace emu {

namespace {

constexpr uint8_t kNobody = 0xff;

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

// Whether the last write of these bytes is complete when this access comes.
inline bool after_writer(const Wave& w, const LdsBooks::Word& last, bool to_lds, bool write) {
  const Tracker& t = w.track;
  // A wave's own LDS operations are in order. Its loads into LDS are in order among themselves.
  if (last.writer == w.index) return !last.to_lds || to_lds || last.writer_sequence <= t.done_to_lds;
  if (last.writer_sequence <= (last.to_lds ? t.seen_to_lds : t.seen)[last.writer]) return true;
  return !write && (last.same >> w.index & 1);
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

inline void check_writer(Wave& w, const Inst& i, int lane, uint32_t word, const LdsBooks::Word& last, bool to_lds, bool write) {
  if (!after_writer(w, last, to_lds, write)) [[unlikely]] report_writer(w, i, lane, word, last, write);
}

[[gnu::noinline, gnu::cold]] void report_reader(Wave& w, const Inst& i, int lane, uint32_t word, size_t reader) {
  report(Finding::LdsRace, w, i, lane, [&] {
    return at(word) + " is written by wave " + std::to_string(w.index) + ", lane " + std::to_string(lane) + "; wave " +
           std::to_string(reader) + " read it with no barrier between";
  });
}

// What an access is checked against: which reads came before it, wave by wave, and words whose equals were found in
// order.
struct Order {
  explicit Order(const Wave& w) : waves(w.track.seen.size()), words(w.group->books.words.size()) {}

  // For writes: reads up to these sequence numbers came before. All of the wave's own reads did.
  void look_at_readers(const Wave& w) {
    std::copy(w.track.seen_issued.begin(), w.track.seen_issued.end(), seen);
    if (size_t(w.index) < waves) seen[w.index] = ~0u;
  }

  const size_t waves, words;
  uint64_t good = 0;  // the first 8 bytes of such a word; 0 is the like of none, for it says that nothing was written
  uint32_t seen[64];
};

inline uint64_t like(const LdsBooks::Word& word) {
  uint64_t out;
  __builtin_memcpy(&out, &word, sizeof out);
  return out;
}

// In order by the writer's sequence alone, so that every byte of a word like it is.
inline bool wholly_in_order(const Wave& w, const LdsBooks::Word& last, bool to_lds) {
  if (emulation::careful || last.written != 0xf) return false;
  if (last.writer == kNobody) return true;
  LdsBooks::Word plain = last;
  plain.same = 0;
  return after_writer(w, plain, to_lds, true);
}

[[gnu::noinline, gnu::cold]] void check_each_reader(Wave& w, const Inst& i, int lane, uint32_t word, uint32_t mask,
                                                    const Order& order) {
  const uint32_t* read = w.group->books.readers.data() + word;
  for (size_t other = 0; other < order.waves; ++other, read += order.words)
    if (*read >> 4 > order.seen[other] && *read & mask) report_reader(w, i, lane, word, other);
}

inline void check_readers(Wave& w, const Inst& i, int lane, uint32_t word, uint32_t mask, const Order& order) {
  const uint32_t* read = w.group->books.readers.data() + word;
  uint32_t late = 0;
  for (size_t other = 0; other < order.waves; ++other, read += order.words)
    late |= *read >> 4 > order.seen[other] ? *read & mask : 0;
  if (late || emulation::careful) [[unlikely]] check_each_reader(w, i, lane, word, mask, order);
}

inline bool outside(const LdsBooks& books, uint32_t address, uint32_t bytes) {
  return uint64_t(address) + bytes > 4ull * books.words.size();
}

inline void check_read(Wave& w, const Inst& i, int lane, uint32_t word, uint32_t mask, Order& order) {
  LdsBooks::Word& last = w.group->books.words[word];
  if (like(last) == order.good) [[likely]] return;
  if (mask & ~last.written) [[unlikely]] {
    report_unwritten(w, i, lane, word);
    last.written |= uint8_t(mask);
  }
  if (last.writer != kNobody && (last.last & mask)) check_writer(w, i, lane, word, last, false, false);
  if (wholly_in_order(w, last, false)) order.good = like(last);
}

inline void one_read(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence, Order& order) {
  const uint32_t end = address + bytes;
  uint32_t* const mine = w.group->books.readers.data() + size_t(w.index) * order.words;
  if (((address | bytes) & 3) == 0) [[likely]] {
    for (uint32_t word = address / 4; 4 * word < end; ++word) {
      check_read(w, i, lane, word, 0xf, order);
      mine[word] = sequence << 4 | 0xf;
    }
    return;
  }
  for (uint32_t word = address / 4; 4 * word < end; ++word) {
    const uint32_t mask = bytes_in(word, address, end);
    check_read(w, i, lane, word, mask, order);
    mine[word] = sequence << 4 | mask | (mine[word] >> 4 == sequence ? mine[word] & 15 : 0);
  }
}

inline void one_write(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence,
                      bool to_lds, Order& order) {
  LdsBooks& books = w.group->books;
  const uint32_t end = address + bytes;
  for (uint32_t word = address / 4; 4 * word < end; ++word) {
    const uint32_t mask = bytes_in(word, address, end);
    LdsBooks::Word& last = books.words[word];
    if (like(last) != order.good) {
      if (last.writer != kNobody && (last.last & mask)) check_writer(w, i, lane, word, last, to_lds, true);
      if (wholly_in_order(w, last, to_lds)) order.good = like(last);
    }
    check_readers(w, i, lane, word, mask, order);
    const bool same = last.writer == w.index && last.writer_sequence == sequence;
    const uint8_t bits = uint8_t(same ? last.last | mask : mask);
    last = {sequence, uint8_t(w.index), uint8_t(last.written | mask), bits, to_lds, false, 0};
  }
}

// A write of the bytes that are there already. Compilers let several waves store the same values (rows that two waves
// hold). Any order of such writes gives the same result, so they are no race, and the first writer stays the writer.
// The same holds for loads straight to LDS. But a wave that reads what it loaded that way has to wait, so such loads do
// not enter `same`.
inline void one_rewrite(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence,
                        bool to_lds, Order& order) {
  LdsBooks& books = w.group->books;
  for (uint32_t word = address / 4; 4 * word < address + bytes; ++word) {
    const uint32_t mask = bytes_in(word, address, address + bytes);
    LdsBooks::Word& last = books.words[word];
    if ((mask & ~last.written) || last.writer == w.index) {
      const uint32_t from = std::max(address, 4 * word), end = std::min(address + bytes, 4 * word + 4);
      one_write(w, i, lane, from, end - from, sequence, to_lds, order);
    } else if (!to_lds) {
      last.same |= 1u << w.index;
    }
  }
}

inline void one_change(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence,
                       const Order& order) {
  LdsBooks& books = w.group->books;
  for (uint32_t word = address / 4; 4 * word < address + bytes; ++word) {
    LdsBooks::Word& last = books.words[word];
    if (last.written != 0xf) report_unwritten(w, i, lane, word), last.written = 0xf;
    if (last.writer != kNobody && !last.atomic) check_writer(w, i, lane, word, last, false, true);
    check_readers(w, i, lane, word, 0xf, order);
    last = {sequence, uint8_t(w.index), 0xf, 0xf, false, true, 0};
  }
}

}  // namespace

void track_begin(Group& group) {
  const size_t words = (group.lds.size() + 3) / 4, waves = group.waves.size();
  group.books.words.assign(words, {});
  group.books.readers.assign(words * waves, 0);
  for (const auto& wave : group.waves) {
    track_begin(*wave);
    Tracker& t = wave->track;
    for (std::vector<uint32_t>* seen : {&t.seen, &t.seen_to_lds, &t.seen_issued}) seen->assign(waves, 0);
  }
}

uint32_t lds_access_begins(Wave& w) { return ++w.track.sequence; }

void lds_read(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence) {
  if (!w.group || outside(w.group->books, address, bytes)) return;
  Order order(w);
  one_read(w, i, lane, address, bytes, sequence, order);
}

void lds_written(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence, bool to_lds) {
  if (!w.group || outside(w.group->books, address, bytes)) return;
  Order order(w);
  order.look_at_readers(w);
  one_write(w, i, lane, address, bytes, sequence, to_lds, order);
}

void lds_read(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence) {
  if (!w.group || w.group->books.words.empty() || !mask) return;
  Order order(w);
  for (; mask; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    if (!outside(w.group->books, addresses[lane], bytes)) one_read(w, i, lane, addresses[lane], bytes, sequence, order);
  }
}

void lds_written(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence,
                 bool to_lds) {
  if (!w.group || w.group->books.words.empty() || !mask) return;
  Order order(w);
  order.look_at_readers(w);
  for (; mask; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    if (!outside(w.group->books, addresses[lane], bytes))
      one_write(w, i, lane, addresses[lane], bytes, sequence, to_lds, order);
  }
}

void lds_rewritten(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes,
                   uint32_t sequence, bool to_lds) {
  if (!w.group || w.group->books.words.empty() || !mask) return;
  Order order(w);
  order.look_at_readers(w);
  for (; mask; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    if (!outside(w.group->books, addresses[lane], bytes))
      one_rewrite(w, i, lane, addresses[lane], bytes, sequence, to_lds, order);
  }
}

void lds_changed(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence) {
  if (!w.group || w.group->books.words.empty() || !mask) return;
  Order order(w);
  order.look_at_readers(w);
  for (; mask; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    if (!outside(w.group->books, addresses[lane], bytes)) one_change(w, i, lane, addresses[lane], bytes, sequence, order);
  }
}

void barrier_arrived(Wave& w) {
  Tracker& t = w.track;
  if (!t.on) return;
  ++t.arrivals;
  t.done_at_arrival.push_back(t.done);
  t.to_lds_at_arrival.push_back(t.done_to_lds);
  const bool strict = w.launch && w.launch->options.strict;
  t.issued_at_arrival.push_back(strict ? t.done : t.sequence);
}

void barrier_passed(Wave& w) {
  Tracker& t = w.track;
  if (!t.on || !w.group) return;
  ++t.waits;
  for (size_t k = 0; k < w.group->waves.size() && k < t.seen.size(); ++k) {
    const Tracker& other = w.group->waves[k]->track;
    // A wave that has fewer arrivals ended before this barrier was complete. Everything that it did came before.
    const bool ended = other.arrivals < t.waits;
    t.seen[k] = ended ? ~0u : other.done_at_arrival[t.waits];
    t.seen_to_lds[k] = ended ? ~0u : other.to_lds_at_arrival[t.waits];
    t.seen_issued[k] = ended ? ~0u : other.issued_at_arrival[t.waits];
  }
}

}  // namespace emu

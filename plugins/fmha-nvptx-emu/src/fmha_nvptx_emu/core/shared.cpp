#include "shared.hpp"

#include <algorithm>
#include <cstring>

#include "block.hpp"
#include "together.hpp"

namespace ptx {

namespace {
uint32_t stamp_of(const Warp& w) { return w.time << 8 | w.index; }
std::string word_text(uint32_t word) { return "shared word " + hex(uint64_t(word) * 4); }

template <uint32_t bytes> void copy_each(uint8_t* to, uint32_t lanes, const uint64_t* at, const uint8_t (*values)[32]) {
  for (uint32_t left = lanes; left; left &= left - 1) std::memcpy(to + at[__builtin_ctz(left)], values[__builtin_ctz(left)], bytes);
}
void copy_lanes(uint8_t* to, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32]) {
  if (bytes == 4) copy_each<4>(to, lanes, at, values);
  else if (bytes == 8) copy_each<8>(to, lanes, at, values);
  else copy_each<16>(to, lanes, at, values);
}
}  // namespace

void SharedMemory::begin(uint32_t bytes) {
  bytes_ = bytes;
  const size_t pieces = (size_t(bytes) + 15) / 16 + 1;
  data_.assign(pieces * 16, 0xA5);
  room_.assign(pieces + 3, {0, 0, 0, 0});
  pieces_ = room_.data() + (64 - reinterpret_cast<uintptr_t>(room_.data()) % 64) % 64 / sizeof(Books);
  words_.resize(pieces);
  landings_.clear();
}

// The books of a word, apart from those of its piece.
SharedMemory::Word SharedMemory::word(uint32_t at) {
  Books& piece = pieces_[at / 4];
  Words& own = words_[at / 4];
  if (piece.state != kByWords) {
    std::fill_n(own.writer, 4, piece.writer), std::fill_n(own.reader, 4, piece.reader), std::fill_n(own.before, 4, piece.before);
    std::fill_n(own.state, 4, uint8_t(piece.state)), std::fill_n(own.atomic, 4, uint8_t(0));
    piece.state = kByWords;
  }
  const uint32_t k = at % 4;
  return {own.writer[k], own.reader[k], own.before[k], own.state[k], own.atomic[k]};
}

// Whether the four words have the same books, which from now on are the piece's.
inline bool SharedMemory::one(uint32_t at) { return !emulation::careful && (pieces_[at].state != kByWords || join(at)); }
bool SharedMemory::join(uint32_t at) {
  Books& piece = pieces_[at];
  const Words& own = words_[at];
  if (!four_same(own.writer) || !four_same(own.reader) || !four_same(own.before) || four_bytes(own.state) != own.state[0] * 0x01010101u || four_bytes(own.atomic))
    return false;
  piece = {own.writer[0], own.reader[0], own.before[0], own.state[0]};
  return true;
}

// A stamp in terms of its warp's time, also of a cp.async: when the warp waited for it, which the stamp becomes, or, for those who
// waited for the phase, when it arrived at an mbarrier. 0: the copy is outstanding.
uint32_t SharedMemory::plain(const Warp& w, uint32_t& stamp) {
  if (!(stamp & kLater)) return stamp;
  const uint32_t from = owner(stamp), number = time_of(stamp);
  const CopyBatches& copies = w.block->warps[from]->copies;
  const CopyBatches::Batch& batch = copies.batches[number % CopyBatches::kKept];
  if (number <= copies.complete) return stamp = batch.completed_at << 8 | from;
  return batch.agent && w.known[batch.agent] >= batch.phase ? batch.arrived_at << 8 | from : 0;
}

// Whether a piece is one, and its last write plainly lies before a read.
inline bool SharedMemory::readable(Warp& w, uint32_t at) {
  if (!one(at)) return false;
  Books& piece = pieces_[at];
  if (earlier(w, piece.writer)) return true;
  if (!(piece.writer & kLater)) return false;
  uint32_t kept = piece.writer;
  if (const uint32_t stamp = plain(w, kept); !stamp || !earlier(w, stamp)) return false;
  if (kept != piece.writer) w.later[owner(kept) % 16] = piece.writer, w.settled[owner(kept) % 16] = kept;
  piece.writer = kept;
  return true;
}

// Whether a read lies before a write of the warp; an asynchronous one does from when it was over.
inline bool SharedMemory::read_before(const Warp& w, uint32_t stamp) {
  if (earlier(w, stamp) || !(stamp & kLater)) return earlier(w, stamp);
  const uint32_t from = owner(stamp), group = time_of(stamp);
  const AsyncGroups& groups = w.block->warps[from]->bulk;
  return group <= groups.complete && (from == w.index || groups.completed_at[group % AsyncGroups::kKept] <= w.known[from]);
}

// Whether a piece is one, and nobody else's access has to be compared with a write with this stamp.
inline bool SharedMemory::writable(const Warp& w, uint32_t at, uint32_t stamp) {
  if (!one(at)) return false;
  const Books& piece = pieces_[at];
  return ((piece.writer == stamp) | earlier(w, piece.writer)) && read_before(w, piece.reader) && read_before(w, piece.before);
}

// Writes pieces, if all of them are writable.
bool SharedMemory::write_together(Warp& w, const Together& all, uint32_t stamp, uint32_t state) {
  if (emulation::careful || !all.count) return false;
  Judged judged(w, true, stamp);
  if (all.count == 32 && judged.write_all(pieces_, all.piece, stamp, state)) return true;
  for (unsigned n = 0; n < all.count; n += 4)
    for (unsigned k = n; k < n + 4 && !judged.four(pieces_, all.piece + n); ++k) {
      if (!writable(w, all.piece[k], stamp)) return false;
      judged.found(pieces_[all.piece[k]]);
    }
  for (unsigned n = 0; n < all.count; n += 4) put_four(pieces_, all.piece + n, stamp, state);
  return true;
}

// Goes over the words of an access: four at once by `whole`, where that returns true, else one by one.
template <class Whole, class Each> [[gnu::always_inline]] inline void SharedMemory::over(uint32_t at, uint32_t bytes, const Whole& whole, const Each& each) {
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end;) {
    if (word % 4 == 0 && word + 4 <= end && whole(word / 4)) word += 4;
    else each(word++);
  }
}

// The last write of a word is not plainly before this access: outstanding, another warp's, or this warp's own.
void SharedMemory::settle(Warp& w, const Inst& i, int lane, uint32_t word, bool reads, bool same) {
  uint32_t& kept = this->word(word).writer;
  const uint32_t from = owner(kept), stamp = plain(w, kept);
  if (!stamp) {
    w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
      return of_lane(lane) + (reads ? " reads " : " writes ") + word_text(word) + " while a cp.async of warp " +
             std::to_string(from) + " to it is outstanding";
    });
    return;
  }
  if (from == w.index || time_of(stamp) <= w.known[from] || same) return;
  if (from >= kWarps) {
    w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
      return of_lane(lane) + (reads ? " reads " : " writes ") + word_text(word) + ", and no wait for the mbarrier of the bulk copy to it lies before";
    });
    return;
  }
  w.block->launch->report->add(Finding::SharedRace, w, i, lane, [&] {
    return of_lane(lane) + (reads ? " reads " : " writes ") + word_text(word) + ", which warp " + std::to_string(from) +
           " wrote, with no barrier between";
  });
}

void SharedMemory::readers(Warp& w, const Inst& i, int lane, uint32_t word) {
  const Word books = this->word(word);
  for (const uint32_t found : {books.reader, books.before}) {
    const uint32_t stamp = found & kLater ? settled_reader(w, i, lane, word, found) : found;
    if (owner(stamp) == w.index || time_of(stamp) <= w.known[owner(stamp)]) continue;
    if (owner(stamp) >= kPeerPipes) {
      w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
        return of_lane(lane) + " writes " + word_text(word) + ", a product of the other block of the pair reads it, and no wait for its tcgen05.commit lies between";
      });
      return;
    }
    if (owner(stamp) >= kWarps) {
      w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
        return of_lane(lane) + " writes " + word_text(word) + (w.block->kernel->tensor_memory ? ", the tensor pipe of warpgroup " : ", a wgmma of warpgroup ") + std::to_string(owner(stamp) - kWarps) +
               (w.block->kernel->tensor_memory ? " reads it, and no wait for a tcgen05.commit lies between" : " reads it, and no wgmma.wait_group lies between");
      });
      return;
    }
    w.block->launch->report->add(Finding::SharedRace, w, i, lane, [&] {
      return of_lane(lane) + " writes " + word_text(word) + ", which warp " + std::to_string(owner(stamp)) +
             " read, with no barrier between";
    });
    return;
  }
}

// When an asynchronous read was over: 0, with a finding, if it is not.
uint32_t SharedMemory::settled_reader(Warp& w, const Inst& i, int lane, uint32_t word, uint32_t stamp) {
  const Warp& other = *w.block->warps[owner(stamp)];
  const AsyncGroups& groups = other.bulk;
  const uint32_t group = time_of(stamp);
  if (group <= groups.complete) return groups.completed_at[group % AsyncGroups::kKept] << 8 | owner(stamp);
  w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
    return of_lane(lane) + " writes " + word_text(word) + " while a bulk copy of warp " + std::to_string(owner(stamp)) +
           " that reads it is outstanding";
  });
  return owner(stamp);
}

// Whether it lies before what the asynchronous proxy does next, with a fence.
inline bool fenced_off(const Warp& w, uint32_t stamp) {
  const uint32_t from = owner(stamp);
  return !stamp | ((stamp >> 8 <= w.known[from]) & ((from >= kWarps) | (time_of(stamp) <= w.fenced[from])));
}

bool SharedMemory::read_later(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, bool copies) {
  const uint32_t mine = copies ? kLater | (w.bulk.committed + 1) << 8 | w.index : (w.wgmma_committed + 1) << 8 | (kWarps + w.index / 4);
  bool whole = true;
  over(at, bytes, [&](uint32_t piece) {
    if (!one(piece) || !fenced_off(w, pieces_[piece].writer)) return false;
    note_reader(pieces_[piece], mine);
    whole &= holds(pieces_[piece].state);
    return true;
  }, [&](uint32_t at_word) {
    const Word books = word(at_word);
    if (!fenced_off(w, books.writer)) {
      if (!earlier(w, books.writer)) settle(w, i, lane, at_word, true, false);
      const uint32_t from = owner(books.writer), last = plain(w, books.writer);
      if (last && from < kWarps && time_of(last) > w.fenced[from])
        w.block->launch->report->add(Finding::MissingFence, w, i, lane, [&] {
          return of_lane(lane) + " reads " + word_text(at_word) + " in the asynchronous proxy, warp " + std::to_string(from) +
                 " wrote it, and there is no fence.proxy.async between";
        });
    }
    note_reader(books, mine);
    whole &= holds(books.state);
  });
  return whole;
}

void SharedMemory::read_pieces(Warp& w, const Inst& i, int lane, const uint32_t* at, uint32_t count, bool* whole) {
  const uint32_t mine = (w.wgmma_committed + 1) << 8 | (kWarps + w.index / 4);
  uint32_t sound = 0, some = 0;  // sound: the stamp of a write that is fenced off
  for (uint32_t n = 0; n < count; n += some) {
    if (const uint32_t writer = pieces_[at[n] / 16].writer; writer != sound && fenced_off(w, writer)) sound = writer;
    some = std::min(count - n, 32u);
    if (some < 32 || !read_pairs(pieces_, at + n, sound, mine))
      for (uint32_t k = n; k < n + some; ++k) whole[k] = read_later(w, i, lane, at[k], 16, false);
  }
}

void SharedMemory::write_pieces(Warp& w, const Inst& i, int lane, const uint32_t* at, uint32_t count, uint32_t stamp) {
  for (uint32_t n = 0; n < count; n += 32) {
    const uint32_t some = std::min(count - n, 32u);
    if (!write_together(w, Together(at + n, some), stamp, 0xff))
      for (uint32_t k = n; k < n + some; ++k) write_bulk(w, i, lane, at[k], 16, stamp, false);
  }
}

void SharedMemory::write_bulk(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, uint32_t stamp, bool remote) {
  over(at, bytes, [&](uint32_t piece) {
    if (!one(piece) || (!remote && !writable(w, piece, stamp))) return false;
    pieces_[piece].writer = stamp, pieces_[piece].state = 0xff;
    return true;
  }, [&](uint32_t at_word) {
    const Word books = word(at_word);
    if (!remote && books.writer != stamp && !earlier(w, books.writer)) settle(w, i, lane, at_word, false, false);
    if (!remote && !(earlier(w, books.reader) & earlier(w, books.before))) readers(w, i, lane, at_word);
    books.writer = stamp, books.atomic = false;
    books.state = 0xff;
  });
}

bool SharedMemory::read_peer(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  const uint32_t mine = (w.wgmma_committed + 1) << 8 | (kPeerPipes + w.index / 4);
  for (uint32_t piece = at / 16; piece < landings_.size() && piece * 16 < at + bytes; ++piece)
    if (const Landing& one = landings_[piece]; one.counts == w.block && w.known[owner(one.stamp)] < time_of(one.stamp))
      w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
        return of_lane(lane) + " reads " + word_text(at / 4) + " of the other block of the pair, and no wait for the mbarrier of the bulk copy to it lies before";
      });
  bool whole = true;
  over(at, bytes, [&](uint32_t piece) {
    if (!one(piece)) return false;
    note_reader(pieces_[piece], mine);
    whole &= holds(pieces_[piece].state);
    return true;
  }, [&](uint32_t at_word) {
    const Word books = word(at_word);
    note_reader(books, mine);
    whole &= holds(books.state);
  });
  return whole;
}

bool SharedMemory::read(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  const uint32_t mine = stamp_of(w);
  const uint8_t wanted = bytes >= 4 ? 0xf : mask_of(at, bytes);
  bool whole = true;
  over(at, bytes, [&](uint32_t piece) {
    if (!readable(w, piece)) return false;
    note_reader(pieces_[piece], mine);
    whole &= holds(pieces_[piece].state);
    return true;
  }, [&](uint32_t at_word) {
    const Word books = word(at_word);
    if (!earlier(w, books.writer)) settle(w, i, lane, at_word, true, false);
    note_reader(books, mine);
    whole &= (books.state & wanted) == wanted;
  });
  return whole;
}

// What a warp reads of pieces, if all of them are readable: else some may have been noted, as reading them again does.
bool SharedMemory::read_together(Warp& w, const Together& all, uint32_t& held) {
  const uint32_t mine = stamp_of(w);
  Judged judged(w, false, mine);
  held = kAll;
  if (all.count == 32 && judged.read_all(pieces_, all.piece, mine)) return true;
  held = 0;
  for (unsigned n = 0; n < all.count; n += 4) {
    for (unsigned k = n; k < n + 4 && !judged.four(pieces_, all.piece + n); ++k) {
      if (!readable(w, all.piece[k])) return false;
      judged.found(pieces_[all.piece[k]]);
    }
    held |= note_four(pieces_, all.piece + n, mine) << n;
  }
  return all.count;
}

// Whether the last writes of the words of a piece plainly lie before: a read of them reports nothing.
bool SharedMemory::written_earlier(const Warp& w, uint32_t at, uint32_t bytes) const {
  const Books& piece = pieces_[at / 16];
  if (emulation::careful || at % 16 + bytes > 16) return false;
  if (piece.state != kByWords) return earlier(w, piece.writer);
  bool out = true;
  for (uint32_t k = at % 16 / 4; 4 * k < at % 16 + bytes; ++k) out &= earlier(w, words_[at / 16].writer[k]);
  return out;
}

uint32_t SharedMemory::read_lanes(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes) {
  uint32_t whole = 0;
  if (const Together all(lanes, at, bytes); !emulation::careful && read_together(w, all, whole)) return all.lanes_of(whole);
  whole = 0;
  bool held = false, again = false;  // whether a lane's read finds nothing that it did not find for the lane before
  for (uint32_t left = lanes, last = 0; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const uint32_t from = uint32_t(at[lane]);
    if (!again || from != last) held = read(w, i, lane, last = from, bytes), again = written_earlier(w, from, bytes);
    whole |= uint32_t(held) << lane;
  }
  return whole;
}

void SharedMemory::write_lanes(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32], uint32_t defined) {
  const uint32_t mine = stamp_of(w);
  const bool whole = (defined & lanes) == lanes;
  if (const Together all(lanes, at, bytes); (whole || !(defined & lanes)) && write_together(w, all, mine, whole ? 0xff : 0xf0))
    return copy_lanes(data_.data(), lanes, at, bytes, values);
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    write(w, i, lane, uint32_t(at[lane]), bytes, values[lane], defined >> lane & 1);
    std::memcpy(data_.data() + at[lane], values[lane], bytes);
  }
}

void SharedMemory::write(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, const uint8_t* values, bool defined) {
  const uint32_t mine = stamp_of(w), here = bytes < 4 ? bytes : 4;
  const uint8_t wanted = bytes >= 4 ? 0xf : mask_of(at, bytes);
  over(at, bytes, [&](uint32_t piece) {
    if (!writable(w, piece, mine)) return false;
    pieces_[piece].writer = mine, pieces_[piece].state = defined ? 0xff : 0xf0;
    return true;
  }, [&](uint32_t at_word) {
    const Word books = word(at_word);
    bool joins = false;  // another warp wrote other bytes of the word
    if (books.writer >= w.floor && (books.writer & kOwn) != w.index) {
      joins = !(books.state >> 4 & wanted);
      const uint32_t from = (at_word - at / 4) * 4;
      const bool same = joins || !std::memcmp(data_.data() + at_word * 4 + (bytes >= 4 ? 0 : at & 3), values + from, here);
      settle(w, i, lane, at_word, false, same);
    }
    if (!(earlier(w, books.reader) & earlier(w, books.before))) readers(w, i, lane, at_word);
    books.writer = mine, books.atomic = false;
    const uint8_t known = defined ? (books.state & 0xf) | wanted : (books.state & 0xf) & ~wanted;
    books.state = uint8_t((joins ? (books.state & 0xf0) | wanted << 4 : wanted << 4) | known);
  });
}

SharedMemory::Held SharedMemory::update(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, bool defined) {
  Held held = Held::Value;
  for (uint32_t at_word = at / 4, end = (at + bytes + 3) / 4; at_word < end; ++at_word) {
    const Word books = word(at_word);
    if (!books.atomic && !earlier(w, books.writer)) settle(w, i, lane, at_word, false, false);
    if (!(earlier(w, books.reader) & earlier(w, books.before))) readers(w, i, lane, at_word);
    books.writer = stamp_of(w), books.atomic = true;
    if (!holds(books.state)) held = std::max(held, books.state >> 4 == 0xf ? Held::Undefined : Held::Nothing);
    books.state |= 0xf0;
    if (!defined) books.state &= 0xf0;
  }
  return held;
}

bool SharedMemory::write_later(Warp& w, const Together& all) { return write_together(w, all, kLater | w.copies.open() << 8 | w.index, 0xff); }

void SharedMemory::write_later(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes) {
  const uint32_t stamp = kLater | w.copies.open() << 8 | w.index;
  if (write_later(w, Together(lanes, at, bytes))) return;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    write_bulk(w, i, lane, uint32_t(at[lane]), bytes, stamp, false);
  }
}

}  // namespace ptx

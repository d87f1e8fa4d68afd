#include "shared.hpp"

#include <algorithm>
#include <cstring>

#include "block.hpp"

namespace ptx {

namespace {
uint32_t owner(uint32_t stamp) { return stamp & 0xff; }
uint32_t time_of(uint32_t stamp) { return stamp >> 8 & 0x7fffff; }
uint32_t stamp_of(const Warp& w) { return w.time << 8 | w.index; }
uint8_t mask_of(uint32_t at, uint32_t bytes) { return uint8_t(((1u << bytes) - 1) << (at & 3)); }
std::string word_text(uint32_t word) { return "shared word " + hex(uint64_t(word) * 4); }

// Four words at once, where nothing is to report. The loops over single words are the definition.
using Four = uint32_t __attribute__((vector_size(16)));
constexpr uint32_t kOwn = 0x800000ff;  // of a plain access: the warp alone
Four four(const uint32_t* at) {
  Four out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
void put(uint32_t* at, Four value) { std::memcpy(at, &value, sizeof value); }
template <class V> bool any(V v) {
  uint64_t halves[2];
  std::memcpy(halves, &v, sizeof halves);
  return halves[0] | halves[1];
}
bool all_hold(const uint8_t* state) {  // a value
  uint32_t four_states;
  std::memcpy(&four_states, state, sizeof four_states);
  return (four_states & 0x0f0f0f0f) == 0x0f0f0f0f;
}
void join_readers(uint32_t* reader, uint32_t* before, uint32_t mine) {
  const Four now = four(reader), others = Four(((now ^ mine) & 0xff) != 0);
  if (!any(now ^ mine)) return;
  put(before, (now & others) | (four(before) & ~others));
  put(reader, Four{} + mine);
}
// Before what the warp knows, or its own.
bool earlier(const Warp& w, uint32_t stamp) { return !emulation::careful && (stamp < w.floor || (stamp & kOwn) == w.index); }
// The same for four words, which mostly have one stamp.
bool four_earlier(const Warp& w, const uint32_t* at) {
  const Four last = four(at);
  if (!any((last >= w.floor) & ((last & kOwn) != w.index))) return true;
  const uint32_t stamp = last[0];
  return !any(last != stamp) && !(stamp >> 31) && time_of(stamp) <= w.known[owner(stamp)];
}
// Nobody else's access that a write with this stamp must be compared with.
bool free_to_write(const Warp& w, const uint32_t* writer, const uint32_t* reader, const uint32_t* before, uint32_t stamp) {
  return !emulation::careful && (!any(four(writer) != stamp) || four_earlier(w, writer)) && four_earlier(w, reader) && four_earlier(w, before);
}
}  // namespace

void SharedMemory::begin(uint32_t bytes) {
  bytes_ = bytes;
  const size_t words = (size_t(bytes) + 3) / 4 + 4;
  data_.assign(words * 4, 0xA5);
  state_.assign(words, 0);
  writer_.assign(words, 0);
  reader_.assign(words, 0);
  reader_before_.assign(words, 0);
  atomic_.assign(words, 0);
  landings_.clear();
}

// The last write of a word is not plainly before this access: outstanding, another warp's, or this warp's own.
void SharedMemory::settle(Warp& w, const Inst& i, int lane, uint32_t word, bool reads, bool same) {
  uint32_t& stamp = writer_[word];
  const uint32_t from = owner(stamp);
  if (stamp & kLater) {
    const Warp& other = *w.block->warps[from];
    const uint32_t group = time_of(stamp);
    if (group > other.complete) {
      w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
        return of_lane(lane) + (reads ? " reads " : " writes ") + word_text(word) + " while a cp.async of warp " +
               std::to_string(from) + " to it is outstanding";
      });
      return;
    }
    stamp = other.completed_at[group % Warp::kGroups] << 8 | from;
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
  for (const uint32_t found : {reader_[word], reader_before_[word]}) {
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

bool SharedMemory::read_later(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, bool copies) {
  const uint32_t mine = copies ? kLater | (w.bulk.committed + 1) << 8 | w.index : (w.wgmma_committed + 1) << 8 | (kWarps + w.index / 4);
  bool whole = true;
  uint32_t sound = 0;  // a stamp that lies before, with a fence; 0: never written
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    for (; !emulation::careful && word + 4 <= end && !any(four(&writer_[word]) != sound); word += 4) {
      join_readers(&reader_[word], &reader_before_[word], mine);
      whole &= all_hold(&state_[word]);
    }
    if (word == end) break;
    const uint32_t stamp = writer_[word], from = owner(stamp);
    if (stamp == sound || (!(stamp & kLater) && time_of(stamp) <= w.known[from] && (from >= kWarps || time_of(stamp) <= w.fenced[from])))
      sound = stamp;
    else if (stamp >= w.floor && (stamp & kOwn) != w.index) settle(w, i, lane, word, true, false);
    if (stamp != sound && !(writer_[word] & kLater) && from < kWarps && time_of(writer_[word]) > w.fenced[from])
      w.block->launch->report->add(Finding::MissingFence, w, i, lane, [&] {
        return of_lane(lane) + " reads " + word_text(word) + " in the asynchronous proxy, warp " + std::to_string(from) +
               " wrote it, and there is no fence.proxy.async between";
      });
    if (reader_[word] != mine) {
      if (owner(reader_[word]) != owner(mine)) reader_before_[word] = reader_[word];
      reader_[word] = mine;
    }
    whole &= (state_[word] & 0xf) == 0xf;
  }
  return whole;
}

void SharedMemory::read_pieces(Warp& w, const Inst& i, int lane, const uint32_t* at, uint32_t count, bool* whole) {
  const uint32_t mine = (w.wgmma_committed + 1) << 8 | (kWarps + w.index / 4);
  uint32_t sound = 0;  // as in read_later
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t word = at[n] / 4, stamp = writer_[word], from = owner(stamp);
    if (stamp != sound && !(stamp & kLater) && time_of(stamp) <= w.known[from] && (from >= kWarps || time_of(stamp) <= w.fenced[from]))
      sound = stamp;
    if (any(four(&writer_[word]) != sound)) {
      whole[n] = read_later(w, i, lane, at[n], 16, false);
      continue;
    }
    join_readers(&reader_[word], &reader_before_[word], mine);
    whole[n] = all_hold(&state_[word]);
  }
}

void SharedMemory::write_bulk(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, uint32_t stamp, bool remote) {
  uint32_t word = at / 4;
  const uint32_t end = (at + bytes + 3) / 4;
  for (; !remote && word + 4 <= end && free_to_write(w, &writer_[word], &reader_[word], &reader_before_[word], stamp); word += 4) {
    put(&writer_[word], Four{} + stamp);
    std::memset(&atomic_[word], 0, 4);
    std::memset(&state_[word], 0xff, 4);
  }
  for (; word < end; ++word) {
    if (!remote && writer_[word] >= w.floor && writer_[word] != stamp && (writer_[word] & kOwn) != w.index)
      settle(w, i, lane, word, false, false);
    if (!remote && (reader_[word] >= w.floor || reader_before_[word] >= w.floor)) readers(w, i, lane, word);
    writer_[word] = stamp, atomic_[word] = false;
    state_[word] = 0xff;
  }
}

void SharedMemory::expect_peer(const Block& counts, uint32_t at, uint32_t bytes, uint32_t stamp) {
  landings_.resize(bytes_ / 16 + 1);
  for (uint32_t piece = at / 16; piece < landings_.size() && piece * 16 < at + bytes; ++piece) landings_[piece] = {&counts, stamp};
}

bool SharedMemory::read_peer(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  const uint32_t mine = (w.wgmma_committed + 1) << 8 | (kPeerPipes + w.index / 4);
  for (uint32_t piece = at / 16; piece < landings_.size() && piece * 16 < at + bytes; ++piece)
    if (const Landing& one = landings_[piece]; one.counts == w.block && w.known[owner(one.stamp)] < time_of(one.stamp))
      w.block->launch->report->add(Finding::MissingWait, w, i, lane, [&] {
        return of_lane(lane) + " reads " + word_text(at / 4) + " of the other block of the pair, and no wait for the mbarrier of the bulk copy to it lies before";
      });
  bool whole = true;
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if (owner(reader_[word]) != owner(mine)) reader_before_[word] = reader_[word];
    reader_[word] = mine;
    whole &= (state_[word] & 0xf) == 0xf;
  }
  return whole;
}

void SharedMemory::store_remote(uint32_t at, uint32_t bytes, const uint8_t* values) {
  std::memcpy(data_.data() + at, values, bytes);
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    writer_[word] = 0, atomic_[word] = false;
    state_[word] |= bytes >= 4 ? 0xff : mask_of(at, bytes);
  }
}

// Whether the last writes of four words plainly lie before a read.
inline bool SharedMemory::written_before(const Warp& w, uint32_t word) {
  if (emulation::careful) return false;
  const Four last = four(&writer_[word]);
  if (!any((last >= w.floor) & ((last & kOwn) != w.index))) return true;
  uint32_t stamp = last[0];
  const uint32_t from = owner(stamp);
  if (any(last != stamp)) return false;
  if (stamp & kLater) {  // by cp.async: when its wait was
    const Warp& other = *w.block->warps[from];
    if (time_of(stamp) > other.complete) return false;
    stamp = other.completed_at[time_of(stamp) % Warp::kGroups] << 8 | from;
    put(&writer_[word], Four{} + stamp);
  }
  return from == w.index || time_of(stamp) <= w.known[from];
}

bool SharedMemory::read(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  const uint32_t mine = stamp_of(w), end = (at + bytes + 3) / 4;
  bool whole = true;
  uint32_t word = at / 4;
  for (; word + 4 <= end && written_before(w, word); word += 4) {
    join_readers(&reader_[word], &reader_before_[word], mine);
    whole &= all_hold(&state_[word]);
  }
  for (; word < end; ++word) {
    if (writer_[word] >= w.floor && (writer_[word] & kOwn) != w.index) settle(w, i, lane, word, true, false);
    if (reader_[word] != mine) {
      if (owner(reader_[word]) != w.index) reader_before_[word] = reader_[word];
      reader_[word] = mine;
    }
    const uint8_t wanted = bytes >= 4 ? 0xf : mask_of(at, bytes);
    whole &= (state_[word] & wanted) == wanted;
  }
  return whole;
}

uint32_t SharedMemory::read_lanes(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes) {
  const uint32_t mine = stamp_of(w);
  uint32_t whole = 0;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const uint32_t word = uint32_t(at[lane]) / 4;
    if (bytes == 16) {
      if (written_before(w, word)) {
        join_readers(&reader_[word], &reader_before_[word], mine);
        whole |= uint32_t(all_hold(&state_[word])) << lane;
        continue;
      }
    } else if (bytes == 4 && earlier(w, writer_[word])) {
      if (reader_[word] != mine) {
        if (owner(reader_[word]) != w.index) reader_before_[word] = reader_[word];
        reader_[word] = mine;
      }
      whole |= uint32_t((state_[word] & 0xf) == 0xf) << lane;
      continue;
    }
    whole |= uint32_t(read(w, i, lane, uint32_t(at[lane]), bytes)) << lane;
  }
  return whole;
}

void SharedMemory::write_lanes(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32], uint32_t defined) {
  const uint32_t mine = stamp_of(w);
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const uint32_t word = uint32_t(at[lane]) / 4;
    const uint8_t state = defined >> lane & 1 ? 0xff : 0xf0;
    if (bytes == 16 && free_to_write(w, &writer_[word], &reader_[word], &reader_before_[word], mine)) {
      put(&writer_[word], Four{} + mine);
      std::memset(&atomic_[word], 0, 4), std::memset(&state_[word], state, 4);
    } else if (bytes == 4 && earlier(w, writer_[word]) && earlier(w, reader_[word]) && earlier(w, reader_before_[word])) {
      writer_[word] = mine, atomic_[word] = 0, state_[word] = state;
    } else write(w, i, lane, uint32_t(at[lane]), bytes, values[lane], defined >> lane & 1);
    std::memcpy(data_.data() + at[lane], values[lane], bytes);
  }
}

void SharedMemory::write(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, const uint8_t* values, bool defined) {
  const uint32_t mine = stamp_of(w);
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4, from = 0; word < end; ++word, from += 4) {
    const uint32_t here = bytes < 4 ? bytes : 4;
    const uint8_t wanted = bytes >= 4 ? 0xf : mask_of(at, bytes);
    bool joins = false;  // another warp wrote other bytes of the word
    if (writer_[word] >= w.floor && (writer_[word] & kOwn) != w.index) {
      joins = !(state_[word] >> 4 & wanted);
      const bool same = joins || !std::memcmp(data_.data() + word * 4 + (bytes >= 4 ? 0 : at & 3), values + from, here);
      settle(w, i, lane, word, false, same);
    }
    if (reader_[word] >= w.floor || reader_before_[word] >= w.floor) readers(w, i, lane, word);
    writer_[word] = mine, atomic_[word] = false;
    uint8_t& state = state_[word];
    const uint8_t known = defined ? (state & 0xf) | wanted : (state & 0xf) & ~wanted;
    state = uint8_t((joins ? (state & 0xf0) | wanted << 4 : wanted << 4) | known);
  }
}

SharedMemory::Held SharedMemory::update(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, bool defined) {
  Held held = Held::Value;
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if (!atomic_[word] && writer_[word] >= w.floor && (writer_[word] & kOwn) != w.index) settle(w, i, lane, word, false, false);
    if (reader_[word] >= w.floor || reader_before_[word] >= w.floor) readers(w, i, lane, word);
    writer_[word] = stamp_of(w), atomic_[word] = true;
    if (const uint8_t state = state_[word]; (state & 0xf) != 0xf) held = std::max(held, state >> 4 == 0xf ? Held::Undefined : Held::Nothing);
    state_[word] |= 0xf0;
    if (!defined) state_[word] &= 0xf0;
  }
  return held;
}

SharedMemory::Held SharedMemory::update_remote(uint32_t at, uint32_t bytes, uint32_t stamp) {
  Held held = Held::Value;
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if ((state_[word] & 0xf) != 0xf) held = std::max(held, state_[word] >> 4 == 0xf ? Held::Undefined : Held::Nothing);
    writer_[word] = stamp, atomic_[word] = true;
    state_[word] |= 0xf0;
  }
  return held;
}

void SharedMemory::write_later(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes) {
  const uint32_t stamp = kLater | (w.committed + 1) << 8 | w.index;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    write_bulk(w, i, lane, uint32_t(at[lane]), bytes, stamp, false);
  }
}

}  // namespace ptx

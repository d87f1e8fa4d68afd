#include "shared.hpp"

#include <cstring>

#include "block.hpp"

namespace ptx {

namespace {
uint32_t owner(uint32_t stamp) { return stamp & 0xff; }
uint32_t time_of(uint32_t stamp) { return stamp >> 8 & 0x7fffff; }
uint32_t stamp_of(const Warp& w) { return w.time << 8 | w.index; }
uint8_t mask_of(uint32_t at, uint32_t bytes) { return uint8_t(((1u << bytes) - 1) << (at & 3)); }
std::string word_text(uint32_t word) { return "shared word " + hex(uint64_t(word) * 4); }
}  // namespace

void SharedMemory::begin(uint32_t bytes) {
  bytes_ = bytes;
  const size_t words = (size_t(bytes) + 3) / 4 + 4;
  data_.assign(words * 4, 0xA5);
  state_.assign(words, 0);
  writer_.assign(words, 0);
  reader_.assign(words, 0);
  reader_before_.assign(words, 0);
  atomic_.assign(words, false);
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
    const uint32_t stamp = writer_[word], from = owner(stamp);
    if (stamp == sound || (!(stamp & kLater) && time_of(stamp) <= w.known[from] && (from >= kWarps || time_of(stamp) <= w.fenced[from])))
      sound = stamp;
    else if (stamp >= w.floor && (stamp & 0x800000ff) != w.index) settle(w, i, lane, word, true, false);
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

void SharedMemory::write_bulk(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, uint32_t stamp, bool remote) {
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if (!remote && writer_[word] >= w.floor && writer_[word] != stamp && (writer_[word] & 0x800000ff) != w.index)
      settle(w, i, lane, word, false, false);
    if (!remote && (reader_[word] >= w.floor || reader_before_[word] >= w.floor)) readers(w, i, lane, word);
    writer_[word] = stamp, atomic_[word] = false;
    state_[word] = 0xff;
  }
}

void SharedMemory::store_remote(uint32_t at, uint32_t bytes, const uint8_t* values) {
  std::memcpy(data_.data() + at, values, bytes);
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    writer_[word] = 0, atomic_[word] = false;
    state_[word] |= bytes >= 4 ? 0xff : mask_of(at, bytes);
  }
}

bool SharedMemory::read(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  const uint32_t mine = stamp_of(w);
  bool whole = true;
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if (writer_[word] >= w.floor && (writer_[word] & 0x800000ff) != w.index) settle(w, i, lane, word, true, false);
    if (reader_[word] != mine) {
      if (owner(reader_[word]) != w.index) reader_before_[word] = reader_[word];
      reader_[word] = mine;
    }
    const uint8_t wanted = bytes >= 4 ? 0xf : mask_of(at, bytes);
    whole &= (state_[word] & wanted) == wanted;
  }
  return whole;
}

void SharedMemory::write(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, const uint8_t* values, bool defined) {
  const uint32_t mine = stamp_of(w);
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4, from = 0; word < end; ++word, from += 4) {
    const uint32_t here = bytes < 4 ? bytes : 4;
    const uint8_t wanted = bytes >= 4 ? 0xf : mask_of(at, bytes);
    bool joins = false;  // another warp wrote other bytes of the word
    if (writer_[word] >= w.floor && (writer_[word] & 0x800000ff) != w.index) {
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

bool SharedMemory::update(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  bool whole = true;
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if (!atomic_[word] && writer_[word] >= w.floor && (writer_[word] & 0x800000ff) != w.index) settle(w, i, lane, word, false, false);
    if (reader_[word] >= w.floor || reader_before_[word] >= w.floor) readers(w, i, lane, word);
    writer_[word] = stamp_of(w), atomic_[word] = true;
    whole &= (state_[word] & 0xf) == 0xf;
    state_[word] |= 0xf0;
  }
  return whole;
}

void SharedMemory::write_later(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes) {
  const uint32_t stamp = kLater | (w.committed + 1) << 8 | w.index;
  for (uint32_t word = at / 4, end = (at + bytes + 3) / 4; word < end; ++word) {
    if (writer_[word] >= w.floor && writer_[word] != stamp && (writer_[word] & 0x800000ff) != w.index)
      settle(w, i, lane, word, false, false);
    if (reader_[word] >= w.floor || reader_before_[word] >= w.floor) readers(w, i, lane, word);
    writer_[word] = stamp, atomic_[word] = false;
    state_[word] = 0xff;
  }
}

}  // namespace ptx

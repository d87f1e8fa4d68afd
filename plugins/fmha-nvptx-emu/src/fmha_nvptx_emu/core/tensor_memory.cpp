#include "tensor_memory.hpp"

#include <algorithm>
#include <cstring>

namespace ptx {

namespace {
constexpr uint32_t kLater = uint32_t(1) << 31;
uint32_t agent_of(uint32_t stamp) { return stamp & 0xff; }
uint32_t time_of(uint32_t stamp) { return stamp >> 8 & 0x7fffff; }
uint32_t pipe_of(const Warp& w) { return kWarps + w.index / 4; }

uint32_t stamp_of(const Warp& w, TensorMemory::By by) {
  if (by == TensorMemory::By::Peer) return (w.wgmma_committed + 1) << 8 | (kPeerPipes + w.index / 4);
  return by == TensorMemory::By::Pipe ? (w.wgmma_committed + 1) << 8 | pipe_of(w) : w.time << 8 | w.index;
}
// Whether an access of the stamp lies before what the warp, or the pipe that it issues to, does now.
bool before(const Warp& w, uint32_t stamp, TensorMemory::By by) {
  const uint32_t agent = agent_of(stamp);
  const bool peer = by == TensorMemory::By::Peer;
  if (!stamp || (peer && agent >= kWarps)) return true;
  if (stamp & kLater) return false;
  if (peer) return std::max(w.known[kPeerWarps + agent], w.fenced_tensor[kPeerWarps + agent]) >= time_of(stamp);
  if (agent == w.index || (by == TensorMemory::By::Pipe && agent == pipe_of(w))) return true;
  return std::max(w.known[agent], w.fenced_tensor[agent]) >= time_of(stamp);
}
// Whether the fences are missing that a synchronisation needs, in a kernel that has any (9.7.16.6.4).
bool unfenced(const Warp& w, uint32_t stamp, TensorMemory::By by) {
  const uint32_t agent = agent_of(stamp);
  if (!w.block->kernel->tensor_fences || !stamp || by == TensorMemory::By::Peer || stamp & kLater) return false;
  return agent != w.index && !(by == TensorMemory::By::Pipe && agent == pipe_of(w)) && w.fenced_tensor[agent] < time_of(stamp);
}

// Neither unordered nor unfenced: nothing to report.
bool in_order(const Warp& w, uint32_t stamp, TensorMemory::By by) { return before(w, stamp, by) && !unfenced(w, stamp, by); }

void misuse(Warp& w, const Inst& i, const std::string& text) {
  if (!w.block->checks) return;
  w.block->launch->report->add(Finding::TensorMemoryMisuse, w, i, -1, [&] { return text; });
}
std::string columns_text(uint32_t at, uint32_t count) {
  return std::to_string(count) + " columns of tensor memory from column " + std::to_string(at);
}
}  // namespace

TensorMemory::TensorMemory()
    : data_(kLanes * kColumns, 0xA5A5A5A5), writer_(kLanes * kColumns), reader_(kLanes * kColumns), defined_(kLanes * kColumns) {}

bool TensorMemory::allocate(Warp& w, const Inst& i, uint32_t columns, uint32_t& at) {
  if (relinquished_) misuse(w, i, "it allocates tensor memory, and tcgen05.relinquish_alloc_permit was executed before");
  for (at = 0; at + columns <= kColumns; at += columns)
    if (std::none_of(taken_ + at, taken_ + at + columns, [](bool taken) { return taken; })) {
      std::fill(taken_ + at, taken_ + at + columns, true);
      allocations_.push_back({at, columns, w.index, &i});
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        std::fill_n(defined_.begin() + ptrdiff_t(place(lane, at)), columns, uint8_t(0));
        std::fill_n(row(lane) + at, columns, 0xA5A5A5A5);
      }
      return true;
    }
  return false;
}

void TensorMemory::free(Warp& w, const Inst& i, uint32_t at, uint32_t columns) {
  const auto found = std::find_if(allocations_.begin(), allocations_.end(), [&](const Allocation& a) { return a.at == at && a.columns == columns; });
  if (found == allocations_.end()) return misuse(w, i, "it frees " + columns_text(at, columns) + ", which are not allocated like this");
  std::fill(taken_ + at, taken_ + at + columns, false);
  allocations_.erase(found);
}

bool TensorMemory::inside(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t count) {
  const bool there = lane < kLanes && column + count <= kColumns && std::all_of(taken_ + column, taken_ + column + count, [](bool taken) { return taken; });
  if (!there)
    w.block->launch->report->add(Finding::TensorMemoryMisuse, w, i, -1, [&] {
      return "it uses " + columns_text(column, count) + " in lane " + std::to_string(lane) + ", and not all of them are allocated";
    });
  return there;
}

void TensorMemory::unordered(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t stamp, By by, bool reads, bool written) const {
  const uint32_t agent = agent_of(stamp);
  const std::string whose = by == By::Peer ? " of the other block" : "";
  const std::string what = std::string(reads ? "it reads" : "it writes") + " lane " + std::to_string(lane) + ", column " + std::to_string(column) + " of tensor memory" + whose;
  const auto add = [&](Finding kind, const std::string& why) { w.block->launch->report->add(kind, w, i, -1, [&] { return what + ", " + why; }); };
  if (stamp & kLater && !written) return add(Finding::MissingWait, "which a tcgen05.ld of warp " + std::to_string(agent) + " reads, with no tcgen05.wait::ld between");
  if (stamp & kLater) return add(Finding::MissingWait, "which a tcgen05.st of warp " + std::to_string(agent) + " wrote, with no tcgen05.wait::st between");
  if (agent >= kPeerPipes)
    return add(Finding::MissingWait, std::string(written ? "which a product of the other block of the pair wrote" : "which a product of the other block of the pair reads") + ", and no wait for its tcgen05.commit lies between");
  if (agent >= kWarps)
    return add(Finding::MissingWait, std::string(written ? "which the tensor pipe of warpgroup " : "which is read by the tensor pipe of warpgroup ") +
                                         std::to_string(agent - kWarps) + (written ? " wrote" : "") + ", and no wait for a tcgen05.commit lies between");
  add(Finding::SharedRace, "which warp " + std::to_string(agent) + whose + (written ? " wrote" : " read") + ", and nothing orders the two");
}

void TensorMemory::ordered(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t stamp, By by, bool reads, bool written) const {
  if (!before(w, stamp, by)) return unordered(w, i, lane, column, stamp, by, reads, written);
  if (unfenced(w, stamp, by))
    w.block->launch->report->add(Finding::MissingFence, w, i, -1, [&] {
      const uint32_t agent = agent_of(stamp);
      const std::string who = agent >= kPeerPipes ? "a product of the other block of the pair" : agent >= kWarps ? "a product" : "warp " + std::to_string(agent);
      return std::string(reads ? "it reads" : "it writes") + " lane " + std::to_string(lane) + ", column " + std::to_string(column) + " of tensor memory, which " + who +
             (written ? " wrote" : " read") + ", and between the two lies no tcgen05.fence::" + (w.received[agent] >= time_of(stamp) ? "after_thread_sync" : "before_thread_sync");
    });
}

bool TensorMemory::defined_row(uint32_t lane, uint32_t column, uint32_t count) const {
  return !std::memchr(defined_.data() + place(lane, column), 0, count);
}

// Where the columns end, from `at`, that have the same stamps as it.
size_t TensorMemory::alike(size_t at, size_t end) const {
  if (emulation::careful) return at + 1;
  const uint32_t writer = writer_[at], reader = reader_[at];
  for (++at; at + 16 <= end; at += 16) {
    uint32_t other = 0;
    for (size_t k = at; k < at + 16; ++k) other |= (writer_[k] ^ writer) | (reader_[k] ^ reader);
    if (other) break;
  }
  while (at < end && writer_[at] == writer && reader_[at] == reader) ++at;
  return at;
}

bool TensorMemory::read(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t count, By by) {
  const uint32_t mine = stamp_of(w, by);
  bool whole = true;
  const bool later = by == By::Warp;
  bool fresh = false;
  for (size_t at = place(lane, column), end = at + count, next; at < end; at = next) {
    next = alike(at, end);
    const uint32_t writer = writer_[at], reader = reader_[at];
    if (writer != mine && !in_order(w, writer, by))
      for (size_t k = at; k < next; ++k) ordered(w, i, lane, uint32_t(k % kColumns), writer, by, true, true);
    fresh |= !(reader & kLater) || agent_of(reader) != w.index;
    std::fill(reader_.begin() + ptrdiff_t(at), reader_.begin() + ptrdiff_t(next), later ? mine | kLater : mine);
    whole &= !std::memchr(defined_.data() + at, 0, next - at);
  }
  if (later && fresh) pending_.push_back({w.index, lane, column, count, true});
  return whole;
}

void TensorMemory::write(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t count, By by) {
  const uint32_t mine = stamp_of(w, by) | (by == By::Warp ? kLater : 0);
  for (size_t at = place(lane, column), end = at + count, next; at < end; at = next) {
    next = alike(at, end);
    const uint32_t writer = writer_[at], reader = reader_[at];
    const bool own = writer == mine || (by == By::Warp && agent_of(writer) == w.index);
    if ((!own && !in_order(w, writer, by)) || !in_order(w, reader, by))
      for (size_t k = at; k < next; ++k) {
        if (!own) ordered(w, i, lane, uint32_t(k % kColumns), writer, by, false, true);
        ordered(w, i, lane, uint32_t(k % kColumns), reader, by, false, false);
      }
    std::fill(writer_.begin() + ptrdiff_t(at), writer_.begin() + ptrdiff_t(next), mine);
    std::fill(reader_.begin() + ptrdiff_t(at), reader_.begin() + ptrdiff_t(next), 0u);
    std::memset(defined_.data() + at, 1, next - at);
  }
  if (by == By::Warp) pending_.push_back({w.index, lane, column, count, false});
}

void TensorMemory::waited(const Warp& w, bool loads) {
  const uint32_t stamp = w.time << 8 | w.index;
  std::erase_if(pending_, [&](const Piece& piece) {
    if (piece.warp != w.index || piece.load != loads) return false;
    std::vector<uint32_t>& of = loads ? reader_ : writer_;
    for (size_t at = place(piece.lane, piece.column), end = at + piece.count; at < end; ++at)
      if (of[at] & kLater && agent_of(of[at]) == w.index) of[at] = stamp;
    return true;
  });
}

void TensorMemory::end(Block& block) const {
  for (const Allocation& a : allocations_)
    misuse(*block.warps[a.warp], *a.by, "the block ended, and " + columns_text(a.at, a.columns) + " were not freed");
}

}  // namespace ptx

#include "mbarrier.hpp"

#include <algorithm>
#include <utility>

#include "block.hpp"
#include "cluster.hpp"
#include "tensor_memory.hpp"

namespace ptx {

namespace {
constexpr uint32_t kOnlyLater = uint32_t(1) << 31;  // below it lies every stamp of a plain access
constexpr int64_t kMostBytes = (1 << 20) - 1;       // 9.7.13.15.2

unsigned agents_of(const Block& b) {
  const unsigned others = std::max(b.mbarriers.agents(), b.kernel->asynchronous_matrix || b.kernel->tensor_pair ? kFirstMbarrier : 0u);
  return std::max(unsigned(b.warps.size()), std::min(others, kAgents));
}

void misuse(Warp& w, const Inst& i, int lane, const std::string& text) {
  if (!w.block->checks) return;
  w.block->launch->report->add(Finding::MbarrierMisuse, w, i, lane, [&] { return of_lane(lane) + ": " + text; });
}
std::string at_text(uint32_t at) { return "the mbarrier at " + hex(at); }

// Whether the last arrival from another block may still be on its way, as far as the warp knows.
bool remote_open(const Warp& w, const Mbarrier& m) {
  if (!m.remote_phase || w.known[m.agent] >= m.remote_phase) return false;
  if (m.remote_commit) return w.known[m.remote_commit & 0xff] < m.remote_commit >> 8;
  return w.cluster_passed <= m.remote_cluster;
}
}  // namespace

void set_floor(Warp& w) {
  const unsigned warps = unsigned(w.block->warps.size()), groups = (warps + 3) / 4;
  constexpr unsigned kTogether = 16;  // agents that the compiler compares in one vector
  static_assert(kAgents % kTogether == 0);
  uint32_t least[kTogether];
  std::fill_n(least, kTogether, kOnlyLater >> 8);
  const auto over = [&](unsigned first, unsigned end) {
    for (unsigned at = first / kTogether * kTogether; at < end; at += kTogether)
      for (unsigned k = 0; k < kTogether; ++k) {
        const uint32_t time = w.known[at + k] + 1;
        least[k] = std::min(least[k], at + k - first < end - first ? time : kOnlyLater);
      }
  };
  const auto all = [&] { return *std::min_element(least, least + kTogether); };
  const Kernel& kernel = *w.block->kernel;
  const uint32_t own = std::exchange(w.known[w.index], kOnlyLater);
  over(0, warps), over(kFirstMbarrier, agents_of(*w.block));
  w.known[w.index] = own;
  if (kernel.tensor_pair) over(kPeerPipes, kPeerPipes + groups);
  const uint32_t plain = all();
  over(kWarps, kWarps + groups);
  w.floor = std::min(all() << 8, kOnlyLater);
  w.early = kernel.asynchronous_matrix || kernel.tensor_memory ? w.floor : std::min(plain << 8, kOnlyLater);
}

void Order::gather(const Warp& w) {
  for (unsigned k = 0, end = agents_of(*w.block); k < end; ++k)
    known[k] = std::max(known[k], w.known[k]), fenced[k] = std::max(fenced[k], w.fenced[k]);
  known[w.index] = std::max(known[w.index], w.time);
  gather_tensor(w);
}

void Order::gather_tensor(const Warp& w) {
  if (!w.block->kernel->tensor_fences) return;
  for (unsigned k = 0; k < kAgents; ++k) sent[k] = std::max({sent[k], w.sent[k], w.received[k]});
}

void Order::give_tensor(Warp& w) const {
  if (!w.block->kernel->tensor_fences) return;
  for (unsigned k = 0; k < kAgents; ++k) w.received[k] = std::max(w.received[k], sent[k]);
}

void Order::give(Warp& w) const {
  for (unsigned k = 0, end = agents_of(*w.block); k < end; ++k)
    w.known[k] = std::max(w.known[k], known[k]), w.fenced[k] = std::max(w.fenced[k], fenced[k]);
  give_tensor(w);
  set_floor(w);
}

void Order::clear() { *this = {}; }

void Mbarriers::init(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t count) {
  if (count < 1 || count > kMostBytes) misuse(w, i, lane, "a count of " + std::to_string(count) + "; it is 1 to 2^20 - 1");
  const auto [place, fresh] = all_.try_emplace(at);
  Mbarrier& m = place->second;
  if (fresh) m.agent = uint32_t(kFirstMbarrier + all_.size() - 1);
  if (m.agent >= kAgents) throw Fault{"line " + std::to_string(i.at->line) + ": more than " + std::to_string(kAgents - kFirstMbarrier) + " mbarriers of a block are not implemented"};
  else if (m.valid) misuse(w, i, lane, at_text(at) + " is initialised again without mbarrier.inval");
  const uint32_t agent = m.agent, phase = m.phase;
  m = {};
  m.agent = agent, m.phase = fresh ? 0 : phase + (phase & 1);  // times of an agent never go back; parity starts at 0
  m.count = m.pending = count, m.valid = true, m.by = w.index, m.since = w.time;
  ++w.block->events;
}

void Mbarriers::invalidate(Warp& w, const Inst& i, int lane, uint32_t at) {
  Mbarrier* m = find(w, i, lane, at);
  if (!m) return;
  if (remote_open(w, *m))
    misuse(w, i, lane, at_text(at) + " is invalidated, and nothing orders this behind an arrival from block " + std::to_string(m->remote_rank) + " of the cluster");
  m->valid = false;
}

void Mbarriers::order_inits(const Warp& w, uint32_t phase) {
  for (auto& [at, m] : all_)
    if (m.by == w.index && m.since <= w.inits_fenced && !m.cluster_phase) m.cluster_phase = phase;
}

void Mbarriers::note_remote(const Warp& from, Mbarrier& m, uint32_t commit) const {
  m.remote_phase = m.phase + 1, m.remote_commit = commit;
  m.remote_cluster = from.block->cluster->phase(), m.remote_rank = from.block->rank;
}

bool Mbarriers::known(const Warp& w, const Mbarrier& m) {
  return m.by == w.index || w.known[m.by] >= m.since || (m.cluster_phase && w.cluster_passed >= m.cluster_phase);
}

Mbarrier* Mbarriers::find(Warp& w, const Inst& i, int lane, uint32_t at, bool remote) {
  const auto found = all_.find(at);
  if (found != all_.end() && found->second.valid) {
    const Mbarrier& m = found->second;
    if (!remote && !known(w, m))
      misuse(w, i, lane, "warp " + std::to_string(m.by) + " initialised " + at_text(at) + ", with no barrier between");
    return &found->second;
  }
  misuse(w, i, lane, "there is no initialised mbarrier at " + hex(at));
  return nullptr;
}

void Mbarriers::arrive(Warp& w, const Inst& i, int lane, Mbarrier& m, uint32_t count, bool drop, bool releases) {
  if (count > m.pending) {
    misuse(w, i, lane, std::to_string(count) + " arrivals, and the phase waits for " + std::to_string(m.pending) + " of " + std::to_string(m.count));
    count = m.pending;
  }
  if (releases) m.arriving.gather(w), ++w.time;
  m.pending -= count;
  if (drop) m.count -= std::min(count, m.count);
  settle(w, i, lane, m);
}

void Mbarriers::expect(Warp& w, const Inst& i, int lane, Mbarrier& m, int64_t bytes) {
  m.bytes += bytes, m.last = &i, m.warp = w.index;
  if (m.bytes > kMostBytes || m.bytes < -kMostBytes) misuse(w, i, lane, "a count of " + std::to_string(m.bytes) + " bytes; its limit is 2^20 - 1");
  settle(w, i, lane, m);
}

void Mbarriers::settle(Warp& w, const Inst& i, int lane, Mbarrier& m) {
  ++w.block->events;
  if (m.pending) return;
  if (m.bytes < 0) misuse(w, i, lane, "all arrived, and " + std::to_string(-m.bytes) + " bytes more came than were expected");
  if (m.bytes) return;
  ++m.phase;
  m.pending = m.count;
  m.complete = m.arriving;
  m.complete.known[m.agent] = m.complete.fenced[m.agent] = m.complete.sent[m.agent] = m.phase;
  m.arriving.clear();
}

std::string Mbarriers::state(uint64_t at) const {
  if (at == kForWarpgroup) return "other warps of its warpgroup have not committed that group";
  if (at == kForTensorMemory) return "too few columns of tensor memory are free";
  if (at == kForRegisters) return "other warps of the block have not released as many registers";
  if (at == kForCluster) return "other warps of the cluster have not arrived";
  const auto found = all_.find(uint32_t(at));
  if (found == all_.end()) return "no mbarrier at " + hex(at);
  const Mbarrier& m = found->second;
  return "mbarrier " + hex(at) + ", phase " + std::to_string(m.phase) + ": " + std::to_string(m.pending) + " of " + std::to_string(m.count) +
         " arrivals and " + std::to_string(m.bytes) + " bytes are missing";
}

void Mbarriers::end(Block& block) const {
  for (const auto& [at, m] : all_)
    if (m.valid && m.bytes && m.last)
      misuse(*block.warps[m.warp], *m.last, 0, "the block ended, and " + std::to_string(m.bytes) + " bytes of " + at_text(at) + " never came");
  for (const auto& [at, m] : all_) {
    const auto open = [&m = m](const auto& w) { return remote_open(*w, m); };
    if (!block.checks || !m.valid || !std::all_of(block.warps.begin(), block.warps.end(), open)) continue;
    const Warp& w = *block.warps[m.by];
    block.launch->report->add(Finding::ClusterMisuse, w, *w.inst, -1, [&, at = at, &m = m] {
      return "the block ended, and nothing orders this behind an arrival from block " + std::to_string(m.remote_rank) + " of the cluster at " + at_text(at);
    });
  }
  for (const auto& w : block.warps)
    if (block.checks && w->bulk.last && w->bulk.complete < w->bulk.newest)
      block.launch->report->add(Finding::MissingWait, *w, *w->bulk.last, -1, [] {
        return std::string("the block ended while this bulk copy still read its shared memory");
      });
}

}  // namespace ptx

#include "cluster.hpp"

#include <algorithm>

#include "emu_random.hpp"
#include "tensor_memory.hpp"

namespace ptx {

namespace {
constexpr uint64_t kLongRun = 1 << 22;  // instructions after which other clusters have a turn: one may wait for what a later one stores
constexpr unsigned kMostIdle = 1000;  // turns in which warps only ask again for mbarriers that do not change

[[noreturn]] void stop(const Warp& w, const Inst& i, const std::string& why) {
  throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + " in " + w.block->kernel->name + ": " + why};
}
}  // namespace

uint64_t seen_from(const Block& block, uint64_t at) {
  const uint64_t window = at & ~(kWindow - 1);
  if (!block.clustered || (window && window != kSharedWindow)) return at;
  const uint64_t rank = (at & (kWindow - 1)) >> kRankBit;
  return rank == block.rank ? at - (rank << kRankBit) : at + (uint64_t(1) << kRankBit);
}

Block& block_of(Warp& w, const Inst& i, uint64_t& at) {
  const uint64_t rank = at >> kRankBit;
  if (!rank) return *w.block;
  Block* found = rank <= 16 ? w.block->cluster->at(uint32_t(rank - 1)) : nullptr;
  if (!found) stop(w, i, "the address " + hex(at) + " lies in no block of the cluster");
  at &= (uint64_t(1) << kRankBit) - 1;
  return *found;
}

bool note_signal(Warp& w, const Inst& i, int lane, const Block& to) {
  const auto ended = [](const auto& warp) { return warp->going == Going::Done; };
  if (&to == w.block || !std::all_of(to.warps.begin(), to.warps.end(), ended)) return true;
  w.block->launch->report->add(Finding::ClusterMisuse, w, i, lane, [&] {
    return of_lane(lane) + " reaches block " + std::to_string(to.rank) + " of the cluster, which has ended; a barrier.cluster keeps it until then";
  });
  return false;
}

void no_such_block(Warp& w, const Inst& i, int lane, uint32_t rank) {
  w.block->launch->report->add(Finding::ClusterMisuse, w, i, lane, [&] { return of_lane(lane) + ": the cluster has no block " + std::to_string(rank); });
}

bool partners(const Block& a, const Block& b) { return a.cluster == b.cluster && (a.rank ^ 1) == b.rank; }

namespace {
// Agents of this block in the other's terms, and the other's own.
void pass(uint32_t* to, const uint32_t* from) {
  const auto swap = [&](unsigned mine, unsigned theirs, unsigned count) {
    for (unsigned k = 0; k < count; ++k) {
      to[theirs + k] = std::max(to[theirs + k], from[mine + k]);
      to[mine + k] = std::max(to[mine + k], from[theirs + k]);
    }
  };
  swap(0, kPeerWarps, kWarps), swap(kWarps, kPeerPipes, kWarps / 4);
}
}  // namespace

void tell_partner(const Warp& w, Order& order, bool releases) {
  pass(order.sent, w.sent), pass(order.sent, w.received);
  if (!releases) return;
  pass(order.known, w.known), pass(order.fenced, w.fenced);
  uint32_t& own = order.known[kPeerWarps + w.index];
  own = std::max(own, w.time);
}

Cluster::Cluster(const Launch& launch) : launch_(launch) {
  for (uint32_t rank = 0, size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]; rank < size; ++rank) {
    blocks_.push_back(std::make_unique<Block>(launch));
    if (size > 1) blocks_.back()->join(*this, rank);
    else blocks_.back()->cluster = this;
  }
}

void Cluster::begin(uint32_t number) {
  phase_ = 0, late_ = false, idle_ = 0;
  random_ = emulation::mixed(launch_.options.seed ^ emulation::mixed(~uint64_t(number)));
  const uint32_t *grid = launch_.grid, *size = launch_.cluster, across[2] = {grid[0] / size[0], grid[1] / size[1]};
  const uint32_t at[3] = {number % across[0], number / across[0] % across[1], number / across[0] / across[1]};
  for (uint32_t rank = 0; rank < blocks_.size(); ++rank) {
    const uint32_t x = at[0] * size[0] + rank % size[0], y = at[1] * size[1] + rank / size[0] % size[1];
    const uint32_t z = at[2] * size[2] + rank / size[0] / size[1];
    blocks_[rank]->begin(x + grid[0] * (y + grid[1] * z));
  }
}

bool Cluster::run() {
  std::vector<Block*> order;
  for (const auto& block : blocks_) order.push_back(block.get()), block->spent = 0;
  for (;;) {
    uint64_t spent = 0;
    bool done = true, on = false, polls = false;
    for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[(random_ = emulation::mixed(random_)) % k]);
    for (Block* block : order) {
      const Turn turn = block->turn();
      done &= turn == Turn::Done, on |= turn == Turn::On, polls |= turn == Turn::Polls;
      spent += block->spent;
    }
    if (done) break;
    late_ = !on;
    if (on) idle_ = 0;
    else if (!polls || ++idle_ == kMostIdle) {
      std::string who;
      for (const auto& block : blocks_)
        who += (who.empty() ? "" : "; ") + (blocks_.size() > 1 ? "block " + std::to_string(block->rank) + " of the cluster: " : "") + block->waiting();
      throw Fault{"deadlock in " + launch_.kernel->name + ": " + who};
    }
    if (spent > kLongRun) return false;
  }
  for (const auto& block : blocks_) {
    block->mbarriers.end(*block);
    if (block->tensor) block->tensor->end(*block);
  }
  return true;
}

void Cluster::arrive(Warp& w, const Inst& i, bool releases) {
  if (w.cluster_arrived) stop(w, i, "it arrives twice, with no barrier.cluster.wait between");
  w.cluster_arrived = true, w.cluster_phase = phase_ + 1;
  if (Block* other = w.block->kernel->tensor_pair ? at(w.block->rank ^ 1) : nullptr) tell_partner(w, other->cluster_arriving, releases);
  if (releases) w.block->cluster_arriving.gather(w), ++w.time;
  else w.block->cluster_arriving.gather_tensor(w), w.block->mbarriers.order_inits(w, w.cluster_phase);
  settle();
}

bool Cluster::passed(Warp& w) {
  settle();
  if (phase_ < w.cluster_phase) return false;
  w.block->cluster_complete.give(w);
  w.cluster_passed = w.cluster_phase;
  return true;
}

// The phase is over when every warp that has not ended arrived.
void Cluster::settle() {
  bool any = false;
  for (const auto& block : blocks_)
    for (const auto& w : block->warps) {
      if (w->going != Going::Done && !w->cluster_arrived) return;
      any |= w->cluster_arrived;
    }
  if (!any) return;
  ++phase_;
  for (const auto& block : blocks_) {
    block->cluster_complete = block->cluster_arriving;
    block->cluster_arriving.clear();
    ++block->events;
    for (const auto& w : block->warps) w->cluster_arrived = false;
  }
}

}  // namespace ptx

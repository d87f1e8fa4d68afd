// Order between warps, and mbarriers. Source: PTX ISA 9.1, 9.7.13.15. The eight bytes of an mbarrier are opaque, so its
// state is kept beside shared memory.
//
// A clock has a time for each agent: warps 0 to 31, behind them the warpgroups, the warpgroups and the warps of the other block of
// a pair (cta_group::2), then the mbarriers. The time of a warpgroup is the number of its wgmma groups or tcgen05 commits, that of an
// mbarrier the number of its phases. Words that a wgmma reads or a bulk copy
// writes carry such a stamp, so whoever has not waited for that group or phase uses a word that is outstanding.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ptx {

struct Warp;
struct Inst;
struct Block;

constexpr unsigned kWarps = 32, kPeerPipes = kWarps + kWarps / 4, kPeerWarps = kPeerPipes + kWarps / 4, kFirstMbarrier = kPeerWarps + kWarps,
                   kAgents = 256;

struct Order {
  uint32_t known[kAgents] = {}, fenced[kAgents] = {}, sent[kAgents] = {};  // sent: behind it is a tcgen05.fence::before_thread_sync
  void gather(const Warp& w);         // what the warp did and knows comes before
  void give(Warp& w) const;           // ... what this warp does next
  void gather_tensor(const Warp& w);  // the part that a .relaxed operation passes on
  void give_tensor(Warp& w) const;
  void clear();
};
constexpr uint64_t kForWarpgroup = ~uint64_t(0);  // in place of an address: what a warp waits for is its warpgroup
constexpr uint64_t kForCluster = ~uint64_t(1);    // ... its cluster
constexpr uint64_t kForRegisters = ~uint64_t(3);  // ... registers; 2: tensor_memory.hpp
void set_floor(Warp& w);          // every stamp below it is before what the warp does next; `early`: among those that the kernel leaves

struct Mbarrier {
  uint32_t count = 0, pending = 0, agent = 0, phase = 0;  // phase: how many are complete
  int64_t bytes = 0;                                      // expected, less those that came
  bool valid = false;
  uint32_t by = 0, since = 0;                             // the warp that initialised it, and when
  uint32_t cluster_phase = 0;                             // of barrier.cluster, which orders the initialisation too; 0: none
  Order arriving, complete;                               // of the phase that runs, and of the last one that ended
  const Inst* last = nullptr;                             // what last changed the bytes, for the block's end
  uint32_t warp = 0;
  // The last arrival from another block: in which phase, counted from 1 (0: none), and what would order it before this block's
  // warps: the commit of a tensor pipe (a stamp), or a phase of barrier.cluster behind this one.
  uint32_t remote_phase = 0, remote_commit = 0, remote_cluster = 0, remote_rank = 0;
};

class Mbarriers {
 public:
  void begin() { all_.clear(); }
  void init(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t count);
  void invalidate(Warp& w, const Inst& i, int lane, uint32_t at);
  // The warp arrives .relaxed for a phase of barrier.cluster: its initialisations before its last fence.mbarrier_init lie before it.
  void order_inits(const Warp& w, uint32_t phase);
  // nullptr, with a finding, if there is none at the address. Also reports one whose initialisation does not lie before.
  Mbarrier* find(Warp& w, const Inst& i, int lane, uint32_t at, bool remote = false);  // remote: of another block
  static bool known(const Warp& w, const Mbarrier& m);  // its initialisation lies before
  void arrive(Warp& w, const Inst& i, int lane, Mbarrier& m, uint32_t count, bool drop, bool releases);
  void expect(Warp& w, const Inst& i, int lane, Mbarrier& m, int64_t bytes);  // negative: complete_tx
  // Before an arrival by a warp of another block; `commit`: the stamp of a commit as this block knows it, or 0.
  void note_remote(const Warp& from, Mbarrier& m, uint32_t commit) const;
  uint32_t stamp(const Mbarrier& m) const { return (m.phase + 1) << 8 | m.agent; }  // of words that a copy writes
  uint32_t agents() const { return all_.empty() ? 0 : kFirstMbarrier + uint32_t(all_.size()); }
  std::string state(uint64_t at) const;
  void end(Block& block) const;  // bytes that never came

 private:
  void settle(Warp& w, const Inst& i, int lane, Mbarrier& m);
  std::map<uint32_t, Mbarrier> all_;
};

}  // namespace ptx

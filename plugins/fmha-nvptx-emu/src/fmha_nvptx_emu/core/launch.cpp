// A launch: several threads take clusters in their order. A cluster that runs for long lets others begin, as many as the device
// holds at once, because it may wait for one of them.
#include "launch.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "cluster.hpp"

namespace ptx {

int64_t Writers::write(uint32_t block, uint64_t address, uint64_t bytes, const uint8_t* values) {
  std::lock_guard lock(mutex_);
  return write_one(block, address, bytes, values);
}

uint32_t Writers::write_lanes(uint32_t block, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32], int64_t (&other)[32]) {
  for (uint32_t left = lanes; left; left &= left - 1) __builtin_prefetch(reinterpret_cast<const void*>(at[__builtin_ctz(left)]), 1);
  std::lock_guard lock(mutex_);
  uint32_t found = 0;
  for (uint32_t left = lanes; left;) {
    const unsigned lane = unsigned(__builtin_ctz(left));
    unsigned end = lane + 1;  // of lanes whose bytes lie one behind the other
    while (end < 32 && left >> end & 1 && at[end] == at[end - 1] + bytes) ++end;
    const bool plain = write_pieces(block, at[lane], (end - lane) * bytes);
    for (unsigned l = lane; l < end; ++l) {
      if (plain) std::memcpy(reinterpret_cast<void*>(at[l]), values[l], bytes);
      else other[l] = write_one(block, at[l], bytes, values[l]), found |= uint32_t(other[l] >= 0) << l;
    }
    left = end < 32 ? left >> end << end : 0;
  }
  return found;
}

// The block becomes the writer of whole pieces, if it is the first of all; false: some may be its own now, as when it writes them one by one.
bool Writers::write_pieces(uint32_t block, uint64_t address, uint64_t bytes) {
  if (emulation::careful || (address | bytes) % 16) return false;
  for (uint64_t first = address / 16, end = first + bytes / 16, stop; first < end; first = stop) {
    stop = std::min(end, (first / 256 + 1) * 256);
    if (!page_ || page_number_ != first / 256) page_ = &pages_[first / 256], page_number_ = first / 256;
    uint32_t *const piece = page_->pieces + first % 256, others = 0;
    for (uint64_t k = 0; k < stop - first; ++k) others |= uint32_t(piece[k] && piece[k] != block + 1);
    if (others) return false;
    std::fill_n(piece, stop - first, block + 1);
  }
  return true;
}

int64_t Writers::write_one(uint32_t block, uint64_t address, uint64_t bytes, const uint8_t* values) {
  int64_t other = -1;
  const auto meet_one = [&](uint32_t writer) {
    if (writer && writer - 1 != block && !known_[block].count(writer - 1)) other = writer - 1;
  };
  for (uint64_t half = address / 2, end = (address + bytes + 1) / 2, stop; half < end; half = stop) {
    stop = std::min(end, (half / 8 + 1) * 8);
    if (!page_ || page_number_ != half >> 11) page_ = &pages_[half >> 11], page_number_ = half >> 11;
    uint32_t& piece = page_->pieces[half / 8 % 256];
    if (piece == block + 1) continue;
    if (stop - half == 8 && piece != kByHalves && !emulation::careful) {
      meet_one(piece);
      piece = block + 1;
      continue;
    }
    if (page_->halves.empty()) page_->halves.resize(1 << 11);
    uint32_t* halves = page_->halves.data() + (half & 0x7ff & ~uint64_t(7));
    if (piece != kByHalves) std::fill_n(halves, 8, piece), piece = kByHalves;
    for (uint64_t k = half; k < stop; ++k) meet_one(halves[k % 8]), halves[k % 8] = block + 1;
    if (!emulation::careful && std::all_of(halves, halves + 8, [&](uint32_t writer) { return writer == block + 1; })) piece = block + 1;
  }
  uint8_t* to = reinterpret_cast<uint8_t*>(address);
  if (other >= 0 && !std::memcmp(to, values, bytes)) other = -1;
  if (bytes == 16) std::memcpy(to, values, 16);
  else std::memcpy(to, values, bytes);
  return other;
}

void Writers::meet(uint32_t block, uint64_t address) {
  std::lock_guard lock(mutex_);
  std::set<uint32_t>& met = met_[address];
  known_[block].insert(met.begin(), met.end());
  met.insert(known_[block].begin(), known_[block].end());
  met.insert(block);
}

namespace {

constexpr const char* kClassNames[size_t(Class::Count)] = {"integer", "float", "convert", "special", "move", "matrix", "shared",
                                                           "global", "local", "param", "async", "atomic", "barrier",
                                                           "shuffle", "branch"};

std::string executed_json(const Kernel& kernel, const std::vector<uint64_t>& executed, const Counts& c) {
  uint64_t classes[size_t(Class::Count)] = {}, total = 0, flops = c.matrix_flops;
  for (size_t k = 0; k < executed.size(); ++k) {
    classes[size_t(kernel.code[k].cls)] += executed[k];
    total += executed[k];
    flops += executed[k] * kernel.code[k].flops;
  }
  emulation::Executed e{kernel.name, 1, total, {}, flops, c.global_read, c.global_written, c.local_read, c.local_written,
                        c.param_read, c.shared_read, c.shared_written, c.shared_accesses, c.conflicts, 0, c.barriers, c.sectors};
  for (size_t k = 0; k < size_t(Class::Count); ++k) e.classes.push_back({kClassNames[k], classes[k]});
  return emulation::executed_json(e);
}

}  // namespace

void run(Launch& launch) {
  const uint32_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
  const uint32_t clusters = launch.clusters = blocks / (launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
  launch.writers = launch.options.checks ? std::make_unique<Writers>(blocks) : nullptr;
  launch.next = std::make_unique<std::atomic<uint32_t>>(0);
  std::atomic<uint32_t>& next = *launch.next;
  std::mutex mutex;
  Counts counts;
  std::vector<uint64_t> executed(launch.kernel->code.size());
  std::atomic<bool> stopped = false;
  const unsigned threads = std::min<uint32_t>(uint32_t(std::max(1, launch.options.threads)), clusters);
  launch.alone = threads == 1;
  const uint32_t together = std::max(1u, launch.resident / threads);
  const auto work = [&] {
    std::vector<std::unique_ptr<Cluster>> made;
    std::deque<Cluster*> begun, free;
    try {
      for (uint32_t at; !stopped;) {
        Cluster* cluster;
        if (begun.size() < together && next < clusters && (at = next.fetch_add(1)) < clusters) {
          if (free.empty()) made.push_back(std::make_unique<Cluster>(launch)), free.push_back(made.back().get());
          cluster = free.front(), free.pop_front();
          cluster->begin(at);
        } else if (!begun.empty()) cluster = begun.front(), begun.pop_front();
        else break;
        (cluster->run() ? free : begun).push_back(cluster);
      }
    } catch (const Fault& fault) {
      next = clusters, stopped = true;
      std::lock_guard lock(mutex);
      if (launch.fault.empty()) launch.fault = fault.why;
    }
    std::lock_guard lock(mutex);
    for (const auto& cluster : made)
      for (const auto& block : cluster->blocks()) {
        counts.add(block->counts);
        for (size_t k = 0; k < executed.size(); ++k) executed[k] += block->executed[k];
      }
  };
  std::vector<std::thread> others;
  for (unsigned k = 1; k < threads; ++k) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  launch.json = executed_json(*launch.kernel, executed, counts);
}

}  // namespace ptx

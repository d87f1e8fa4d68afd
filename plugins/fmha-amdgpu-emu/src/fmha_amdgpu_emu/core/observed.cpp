#include "observed.hpp"

#include "json.hpp"

namespace emu {

namespace {

constexpr const char* kClassNames[int(Class::Count)] = {
    "valu", "salu", "matrix", "transcendental", "lds", "global", "scratch", "scalar-memory", "atomic", "barrier",
    "wait", "branch", "message"};

std::string counts_json(const std::string& kernel, uint64_t launches, const Counts& c) {
  emulation::Executed e{kernel, launches, c.instructions, {}, c.matrix_flops, c.global_read, c.global_written, c.scratch_read,
                        c.scratch_written, c.scalar_read, c.lds_read, c.lds_written, c.lds_accesses, c.lds_conflict_cycles,
                        c.buffer_out_of_range, c.barriers};
  for (int k = 0; k < int(Class::Count); ++k) e.classes.push_back({kClassNames[k], c.classes[k]});
  return emulation::executed_json(e);
}

}  // namespace

void Observed::add(const std::string& kernel, const Counts& counts, const std::vector<Found>& findings,
                   const std::string& fault) {
  if (!executed_.count(kernel)) order_.push_back(kernel);
  Sum& sum = executed_[kernel];
  ++sum.launches;
  sum.counts.add(counts);
  for (const Found& found : findings) {
    const std::string place = std::to_string(int(found.kind)) + ' ' + std::to_string(found.address) + ' ' + found.kernel;
    const auto [known, fresh] = places_.insert({place, findings_.size()});
    if (fresh) findings_.push_back(found);
    else findings_[known->second].count += found.count;
  }
  if (!fault.empty()) fault_ = fault;
}

std::string Observed::json() const {
  std::vector<std::string> executed;
  for (const std::string& kernel : order_) {
    const Sum& sum = executed_.at(kernel);
    executed.push_back(counts_json(kernel, sum.launches, sum.counts));
  }
  return emulation::observed_json(executed, fault_, to_json(findings_));
}

}  // namespace emu

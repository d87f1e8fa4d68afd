#include "observed.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "json.hpp"

namespace emu {

namespace {

constexpr const char* kClassNames[int(Class::Count)] = {
    "valu", "salu", "matrix", "transcendental", "lds", "global", "scratch", "scalar-memory", "atomic", "barrier",
    "wait", "branch", "message"};

std::string pair(const char* name, uint64_t value) { return std::string("\"") + name + "\":" + std::to_string(value); }

std::string counts_json(const std::string& kernel, uint64_t launches, const Counts& c) {
  std::string classes;
  for (int k = 0; k < int(Class::Count); ++k)
    if (c.classes[k]) classes += (classes.empty() ? "" : ",") + pair(kClassNames[k], c.classes[k]);
  const std::string parts[] = {
      "\"kernel\":" + json_string(kernel), pair("launches", launches), pair("instructions", c.instructions),
      "\"classes\":{" + classes + "}", pair("matrix_flops", c.matrix_flops),
      pair("global_read_bytes", c.global_read), pair("global_written_bytes", c.global_written),
      pair("scratch_read_bytes", c.scratch_read), pair("scratch_written_bytes", c.scratch_written),
      pair("scalar_read_bytes", c.scalar_read), pair("lds_read_bytes", c.lds_read),
      pair("lds_written_bytes", c.lds_written), pair("lds_accesses", c.lds_accesses),
      pair("lds_conflict_cycles", c.lds_conflict_cycles), pair("buffer_out_of_range", c.buffer_out_of_range),
      pair("barriers", c.barriers)};
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "{" : ",") + part;
  return out + "}";
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
  std::string executed;
  for (const std::string& kernel : order_) {
    const Sum& sum = executed_.at(kernel);
    executed += (executed.empty() ? "" : ",") + counts_json(kernel, sum.launches, sum.counts);
  }
  return "{\"executed\":[" + executed + "],\"fault\":" + (fault_.empty() ? "null" : json_string(fault_)) +
         ",\"findings\":" + to_json(findings_) + "}";
}

void report_line(const std::string& json) {
  const char* path = std::getenv("FMHA_EMU_REPORT");
  if (!path || !*path) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string line = json + "\n";
  // A single write, so that lines of several processes do not mix.
  const bool whole = file >= 0 && write(file, line.data(), line.size()) == ssize_t(line.size());
  if (file >= 0) close(file);
  if (!whole) std::fprintf(stderr, "fmha-emu: the report %s cannot be written\n", path);
}

}  // namespace emu

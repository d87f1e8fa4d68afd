// What launches did and what was found, until somebody takes it; and the report file of a program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch.hpp"

namespace emu {

// The results of one launch or several.
class Observed {
 public:
  void add(const std::string& kernel, const Counts& counts, const std::vector<Found>& findings, const std::string& fault);
  // {"executed": [...], "fault": ..., "findings": [...]}: the JSON form of fmha_cli.domain.emulation.Observed.
  std::string json() const;
  const std::string& fault() const { return fault_; }

 private:
  struct Sum {
    uint64_t launches = 0;
    Counts counts;
  };
  std::vector<std::string> order_;  // kernels, by their first launches
  std::map<std::string, Sum> executed_;
  std::vector<Found> findings_;
  std::map<std::string, size_t> places_;
  std::string fault_;
};

using emulation::report_line;

}  // namespace emu

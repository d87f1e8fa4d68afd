// The host's rounding mode, for binary64 in modes other than nearest even. Values computed under it must pass through
// volatile variables, because compilers assume the default mode.
#pragma once

#include <cfenv>

#include "formats.hpp"

namespace emu {

class HostRounding {
 public:
  explicit HostRounding(int round) : before_(std::fegetround()) {
    constexpr int kModes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    std::fesetround(kModes[round & 3]);
  }
  ~HostRounding() { std::fesetround(before_); }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  int before_;
};

}  // namespace emu

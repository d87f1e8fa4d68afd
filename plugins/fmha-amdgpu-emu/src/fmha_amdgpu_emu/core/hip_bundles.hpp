// Which code object of an image a device runs.
#pragma once

#include <string>
#include <vector>

#include "hip_types.hpp"

namespace fmha::hip {

struct Chosen {
  std::string why;           // empty: chosen
  bool none_fits = false;    // the image is sound, but holds nothing for the device
  const char* data = nullptr;
  size_t bytes = 0;
  std::vector<char> owned;   // where it had to be unpacked
};

// The code object in an image: an AMDGPU ELF itself, or the fitting entry of an offload bundle.
//   bytes: of the image; 0: not known, as for a registered fat binary
//   target: the device's, with its feature flags: gfx942:sramecc+:xnack-
// A packed bundle is unpacked by clang-offload-bundler (FMHA_EMU_BUNDLER, else from PATH).
Chosen choose_code(const void* image, size_t bytes, const std::string& target);

// Whether code for one target runs on a device of another: same processor, and no feature flag that contradicts.
bool fits(const std::string& code, const std::string& device);

}  // namespace fmha::hip

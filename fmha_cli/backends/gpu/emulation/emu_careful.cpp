#include "emu_careful.hpp"

#include <cstdlib>

namespace emulation {

namespace {

struct FromEnvironment {
  FromEnvironment() {
    const char* text = std::getenv("FMHA_EMU_CAREFUL");
    careful = text && *text && *text != '0';
  }
} from_environment;

}  // namespace

}  // namespace emulation

extern "C" __attribute__((visibility("default"))) void emu_careful(int on) { emulation::careful = on != 0; }

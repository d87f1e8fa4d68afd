// Upstream's run_flash_fwd for one instance (FMHA_INSTANCE: its template arguments; FMHA_WORDS: those that are numbers).
#include <cstring>

#include "host/text.h"

#include "host/device.h"
#include "launch.inc"

// prepare.inc is upstream's prepare_varlen_num_blocks, whose launch is a call of note_prepare.
namespace {
std::string prepared;
uint64_t number(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }
uint64_t number(const cutlass::FastDivmod &divmod) { return divmod.divisor; }
uint64_t number(int value) { return value; }
template <typename First, typename... Rest>
void note_prepare(const First &first, const Rest &...rest) {
    prepared = text_of("[", number(first));
    ((prepared += text_of(", ", number(rest))), ...);
    prepared += "]";
}
}  // namespace
#include "prepare.inc"

std::string launch_instance(const int *words, const char *dtype, Flash_fwd_params &p) {
    static const int own[] = {FMHA_WORDS};
    if (std::memcmp(words, own, sizeof own) || std::strcmp(dtype, FMHA_DTYPE)) return "";
    launched.clear();
    maps.clear();
    prepared.clear();
    run_flash_fwd<FMHA_INSTANCE>(p, nullptr);
    return prepared.empty() ? launched : launched + ", \"prepare\": " + prepared;
}

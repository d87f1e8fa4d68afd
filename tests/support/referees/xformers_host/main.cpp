// Reads one call per line, makes it with upstream's host code, and writes one JSON object per line (``host/call.h``).
#include "torch_host.h"
#include "ways.h"

namespace at {
PhiloxCudaState CUDAGeneratorImpl::philox_cuda_state(uint64_t increment) {
    host::note(host::text_of("philox ", increment));
    return {host::record().seed, host::record().offset};
}

CUDAGeneratorImpl *cuda::detail::getDefaultCUDAGenerator() {
    static CUDAGeneratorImpl found;
    return &found;
}
}  // namespace at

namespace {
std::string answer(const host::Call &c) {
    const auto what = c.text("call");
    if (what == "forward") return host::effects(c, host::forward);
    if (what == "backward") return host::effects(c, host::backward);
    const bool forward = c.text("way") == "forward";
    if (what == "kernels") return forward ? host::forward_kernels(c) : host::backward_kernels(c);
    if (what == "examine") return forward ? host::forward_examine(c) : host::backward_examine(c);
    if (what == "layout") return forward ? host::forward_layout() : host::backward_layout();
    throw std::invalid_argument("unknown call " + what);
}
}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(host::Call(line)) << '\n';
}

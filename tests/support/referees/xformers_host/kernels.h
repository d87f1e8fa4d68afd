// What a test asks of one of upstream's kernels, forward or backward alike.
#pragma once
#include <cstring>
#include <typeinfo>

#include "fields.h"
#include "host/call.h"

namespace host {
// A fact, if the kernel has it under this name.
#define FACT(NAME) \
    if constexpr (requires { Kernel::NAME; }) out += text_of(", \"" #NAME "\": ", static_cast<int64_t>(Kernel::NAME));

// Name, template-id, and the numbers that follow from the template's arguments.
template <typename Kernel, typename Function>
std::string facts(Function *function) {
    const auto name = name_of(reinterpret_cast<const void *>(function));
    auto out = text_of("{\"name\": ", host::quoted(name.substr(0, name.find('('))), ", \"shared\": ",
                       sizeof(typename Kernel::SharedStorage), ", \"params\": ", sizeof(typename Kernel::Params));
    FACT(kNumThreads) FACT(kMinBlocksPerSm) FACT(kMaxK) FACT(kIsAligned) FACT(kQueriesPerBlock) FACT(kKeysPerBlock)
    FACT(kKeepOutputInRF) FACT(kNeedsOutputAccumulatorBuffer) FACT(kAlignmentQ) FACT(kAlignmentK) FACT(kAlignmentV)
    FACT(kAlignLSE) FACT(kSupportsDropout) FACT(kSupportsBias) FACT(kBlockSizeI) FACT(kBlockSizeJ) FACT(kOutputInRF)
    FACT(kNeedsAccumGradQ) FACT(kNeedsAccumGradK) FACT(kNeedsAccumGradV) FACT(kKernelComputesDelta)
    FACT(kMinimumAlignment) FACT(kOptimalAlignement) FACT(kApplyDropout) FACT(kPreload)
    FACT(kKeysQueriesAlignedToBlockSize)
    return out + "}";
}
#undef FACT

// Bytes of a parameter struct, and [name, offset, size] of every field that this copy of upstream has.
template <typename Params>
std::string layout() {
    std::string out;
#define FIELD(NAME)                                                                                            \
    if constexpr (requires { &Params::NAME; })                                                                 \
        out += text_of(out.empty() ? "" : ", ", "[\"" #NAME "\", ", offsetof(Params, NAME), ", ",              \
                       sizeof(Params::NAME), "]");
    if constexpr (requires { &Params::attn_bias_ptr; }) {
        FORWARD_FIELDS(FIELD)
    } else {
        BACKWARD_FIELDS(FIELD)
    }
#undef FIELD
    return text_of("{\"bytes\": ", sizeof(Params), ", \"fields\": [", out, "]}");
}

inline std::vector<unsigned char> bytes_of(const std::string &hex) {
    std::vector<unsigned char> out;
    for (size_t at = 0; at < hex.size(); at += 2) out.push_back(std::stoi(hex.substr(at, 2), nullptr, 16));
    return out;
}

// Small arrays that blocks read: they must be at a real address.
template <typename Pointer>
void place(const Call &call, const char *name, std::vector<int32_t> &values, Pointer &field) {
    if (!call.values.contains(name)) return;
    for (auto value : Call::numbers(call.text(name))) values.push_back(static_cast<int32_t>(value));
    field = values.data();
}

inline std::string text_of(dim3 extents) { return text_of("[", extents.x, ", ", extents.y, ", ", extents.z, "]"); }

// What upstream's kernel makes of a packed parameter struct: its check, its extents, its workspace, and the struct of
// every block after advance_to_block, in the order of the grid (x fastest), null for one without work.
template <typename Kernel>
std::string examine(const Call &call) {
    using Params = typename Kernel::Params;
    const auto packed = bytes_of(call.text("params"));
    if (packed.size() != sizeof(Params)) throw std::invalid_argument("the parameters have another size");
    Params given;
    std::memcpy(&given, packed.data(), sizeof(Params));
    std::vector<int32_t> first, second, third;
    std::string more;
    if constexpr (requires { &Params::attn_bias_ptr; }) {
        place(call, "seqstart_q", first, given.seqstart_q_ptr);
        place(call, "seqstart_k", second, given.seqstart_k_ptr);
        place(call, "seqlen_k", third, given.seqlen_k_ptr);
    } else {
        place(call, "cu_seqlens_q", first, given.cu_seqlens_q_ptr);
        place(call, "cu_seqlens_k", second, given.cu_seqlens_k_ptr);
        more = text_of(", \"workspace\": ", given.workspace_size(), ", \"zero\": ",
                       given.should_zero_workspace() ? "true" : "false");
    }
    std::string refused, blocks;
    try {
        if (!Kernel::check_supported(given)) refused = "not supported";
    } catch (const std::runtime_error &fault) {
        refused = fault.what();
    }
    const dim3 grid = given.getBlocksGrid();
    if (refused.empty() && call.flag("blocks")) {
        for (unsigned z = 0; z < grid.z; ++z)
            for (unsigned y = 0; y < grid.y; ++y)
                for (unsigned x = 0; x < grid.x; ++x) {
                    blockIdx = {x, y, z};
                    auto moved = given;
                    const bool works = moved.advance_to_block();
                    const auto *bytes = reinterpret_cast<const unsigned char *>(&moved);
                    blocks += blocks.empty() ? "" : ", ";
                    blocks += works ? hex({bytes, bytes + sizeof(Params)}) : "null";
                }
    }
    return text_of("{\"refused\": ", host::quoted(refused), ", \"grid\": ", text_of(grid), ", \"block\": ",
                   text_of(given.getThreadsGrid()), more, ", \"blocks\": [", blocks, "]}");
}

// The asked element type's kernels of one compute capability, in the order in which upstream tries them.
template <typename Dispatch>
void for_type(const Call &call, Dispatch dispatch) {
    const auto type = call.text("dtype");
    if (type == "fp32") return dispatch(float{});
    if (type == "fp16") return dispatch(cutlass::half_t{});
    if (type == "bf16") return dispatch(cutlass::bfloat16_t{});
    throw std::invalid_argument("unknown type " + type);
}
}  // namespace host

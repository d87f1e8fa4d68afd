// What upstream's dispatch of a backward pass takes: the template arguments of run_flash_bwd, and the host's parameters.
//
// gradients.inc is flash_bwd_launch_template.h from run_mha_bwd_dispatch on.
#pragma once
#include "host/choice.h"

// A kernel that is linked to the program launches; without one nothing does.
__attribute__((weak)) std::string launch_gradients(const int *words, const char *dtype, Flash_bwd_params &p) { return ""; }

inline void record_backward(std::initializer_list<int> words, const char *dtype, Flash_bwd_params &p) {
    static const char *names[] = {"arch", "hdim", "rows", "keys", "causal", "local", "softcap", "varlen", "fixed_order", "gqa",
                                  "stages_do", "stages_ds", "sdp", "dkv", "dq", "groups", "msdp", "ndkv", "mdq", "v_in_regs"};
    std::ostringstream out;
    const char **name = names;
    for (int word : words) out << '"' << *name++ << "\": " << word << ", ";
    out << "\"dtype\": \"" << dtype << "\", \"left\": " << p.window_size_left << ", \"right\": " << p.window_size_right
        << ", \"hdim_v\": " << p.dv_rounded;
    chosen = out.str() + launch_gradients(words.begin(), dtype, p);
}

template <int Arch, int kHeadDim, int kBlockM, int kBlockN, typename Element, bool Is_causal, bool Is_local, bool Has_softcap,
          bool Varlen, bool Deterministic, bool GQA, int... Traits>
void run_flash_bwd(Flash_bwd_params &p, cudaStream_t) {
    record_backward({Arch, kHeadDim, kBlockM, kBlockN, Is_causal, Is_local, Has_softcap, Varlen, Deterministic, GQA, Traits...},
                    type_name<Element>(), p);
}
#include "gradients.inc"

template <int Arch, typename T, int kHeadDim, bool Has_softcap>
void run_mha_bwd_(Flash_bwd_params &p, cudaStream_t stream) {
    if constexpr (kHeadDim == 64) run_mha_bwd_hdim64<Arch, T, Has_softcap>(p, stream);
    else if constexpr (kHeadDim == 96) run_mha_bwd_hdim96<Arch, T, Has_softcap>(p, stream);
    else if constexpr (kHeadDim == 128) run_mha_bwd_hdim128<Arch, T, Has_softcap>(p, stream);
    else if constexpr (kHeadDim == 192) run_mha_bwd_hdim192<Arch, T, Has_softcap>(p, stream);
    else run_mha_bwd_hdim256<Arch, T, Has_softcap>(p, stream);
}

// The tensors that the host allocated since the last call: address, elements, and whether they are zero.
inline std::string allocations() {
    std::string out;
    for (const auto &made : allocated)
        out += text_of(out.empty() ? "" : ", ", "[", made.address, ", ", made.count, ", ", int(made.zero), "]");
    return ", \"allocated\": [" + out + "]";
}

// What upstream's dispatch takes: the template arguments of run_flash_fwd, and what the host has put into the parameters.
#pragma once
#include <sstream>
#include <string>

inline std::string chosen;

template <typename T>
constexpr const char *type_name() {
    if constexpr (std::is_same_v<T, cutlass::half_t>) return "fp16";
    else if constexpr (std::is_same_v<T, cutlass::bfloat16_t>) return "bf16";
    else if constexpr (std::is_same_v<T, float>) return "fp32";
    else return "fp8_e4m3";
}

// An instance that is linked to the program launches; without one nothing does.
__attribute__((weak)) std::string launch_instance(const int *words, const char *dtype, Flash_fwd_params &p) { return ""; }
__attribute__((weak)) std::string launch_combine(Flash_fwd_params &p, const char *dtype, int columns, bool dependent) { return ""; }

// Not a template: there are 2,380 instances of the one below.
inline void record(std::initializer_list<int> words, const char *dtype, Flash_fwd_params &p) {
    static const char *names[] = {"arch", "hdim", "hdim_v", "cluster", "causal", "local", "softcap", "varlen", "paged",
                                  "append", "qv", "pack", "split", "v_colmajor", "rows", "keys", "in_regs", "overlap"};
    std::ostringstream out;
    const char **name = names;
    for (int word : words) out << '"' << *name++ << "\": " << word << ", ";
    out << "\"dtype\": \"" << dtype << "\", \"num_splits\": " << p.num_splits << ", \"left\": " << p.window_size_left
        << ", \"right\": " << p.window_size_right << ", \"semaphore\": " << (p.tile_count_semaphore != nullptr)
        << ", \"dynamic\": " << (p.num_splits_dynamic_ptr != nullptr) << ", \"sort\": " << p.varlen_sort_batches
        << ", \"swizzle\": " << p.head_swizzle << ", \"pdl\": " << p.prepare_varlen_pdl << ", \"tma\": " << p.pagedkv_tma;
    chosen = out.str() + launch_instance(words.begin(), dtype, p);
}

template <int Arch, int kHeadDim, int kHeadDimV, int ClusterM, typename Element, typename ElementOut, bool Is_causal,
          bool Is_local, bool Has_softcap, bool Varlen, bool PagedKVNonTMA, bool AppendKV, bool HasQv, bool PackGQA,
          bool Split, bool V_colmajor>
void run_flash_fwd(Flash_fwd_params &p, cudaStream_t stream) {
    constexpr auto tile = tile_size_fwd_sm90(kHeadDim, kHeadDimV, Is_causal, Is_local, sizeof(Element), V_colmajor,
                                             PagedKVNonTMA, Has_softcap);
    record({Arch, kHeadDim, kHeadDimV, ClusterM, Is_causal, Is_local, Has_softcap, Varlen, PagedKVNonTMA, AppendKV, HasQv,
            PackGQA, Split, V_colmajor, std::get<0>(tile), std::get<1>(tile), std::get<2>(tile), std::get<3>(tile)},
           type_name<Element>(), p);
}

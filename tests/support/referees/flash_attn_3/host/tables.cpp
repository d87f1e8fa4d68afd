// Prints the tables that upstream's templates hold, one row a line: the tile of every forward kernel, the traits of every
// backward kernel, and the sizes of the kernels before and after a split.
//
// backward.inc is flash_bwd_launch_template.h from run_mha_bwd_hdim64 on, combine.inc is run_mha_fwd_combine_ of
// flash_fwd_combine_launch_template.h. The functions that they call print their template arguments.
#include "host/torch.h"

#include "host/plain.h"
#include "flash.h"
#include "static_switch.h"
#include "tile_size.h"

#include <cstdio>
#include <cstdlib>

template <int... Numbers>
void line(const char *name) {
    std::printf("%s", name);
    ((std::printf(" %d", Numbers)), ...);
    std::printf("\n");
}

template <int Arch, typename T, int kBlockM, int kBlockN, int kHeadDim, bool Is_causal, bool Is_local, bool Has_softcap,
          int... Traits>
void run_mha_bwd_dispatch(Flash_bwd_params &, cudaStream_t) {
    line<kHeadDim, Is_causal, Is_local, Has_softcap, kBlockM, kBlockN, Traits...>("backward");
}
#include "backward.inc"

template <int Arch, int kBlockM, int kBlockK, int kLogMaxSplits, bool IsEvenK, bool Varlen, typename T, typename Partial>
void run_flash_fwd_combine(Flash_fwd_params &, cudaStream_t, bool) {
    line<kBlockM, kBlockK, kLogMaxSplits>("combine");
}
#include "combine.inc"

template <bool Softcap>
void backward(Flash_bwd_params &p) {
    using T = cutlass::bfloat16_t;
    run_mha_bwd_hdim64<90, T, Softcap>(p, nullptr);
    run_mha_bwd_hdim96<90, T, Softcap>(p, nullptr);
    run_mha_bwd_hdim128<90, T, Softcap>(p, nullptr);
    run_mha_bwd_hdim192<90, T, Softcap>(p, nullptr);
    run_mha_bwd_hdim256<90, T, Softcap>(p, nullptr);
}

// Arguments: triples of element bytes and the head dims of Q and V.
int main(int count, char **words) {
    for (int at = 1; at + 2 < count; at += 3) {
        int size = std::atoi(words[at]), hdim = std::atoi(words[at + 1]), hdim_v = std::atoi(words[at + 2]);
        for (int mask = 0; mask < 3; ++mask)
            for (int paged = 0; paged < 2; ++paged)
                for (int softcap = 0; softcap < 2; ++softcap) {
                    auto [m, n, rs, overlap] =
                        tile_size_fwd_sm90(hdim, hdim_v, mask == 1, mask == 2, size, false, paged, softcap);
                    std::printf("tile %d %d %d %d %d %d %d %d %d %d\n", size, hdim, hdim_v, mask, paged, softcap, m, n, int(rs),
                                int(overlap));
                }
    }
    for (int mask = 0; mask < 3; ++mask) {
        Flash_bwd_params p{};
        p.is_causal = mask == 1;
        p.is_local = mask == 2;
        backward<false>(p);
        backward<true>(p);
    }
    for (int warps = 1; warps <= 32; ++warps) NUM_WARP_SWITCH(warps, NumWarps, [&] { line<NumWarps>("prepare"); });
    for (int splits : {1, 16, 17, 32, 33, 64, 65, 128, 129, 256}) {
        Flash_fwd_params p{};
        p.arch = 90;
        p.num_splits = splits;
        run_mha_fwd_combine_<float, float, 64>(p, nullptr, false);
        run_mha_fwd_combine_<float, float, 128>(p, nullptr, false);
    }
}

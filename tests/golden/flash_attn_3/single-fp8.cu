// flash_attn_3:fwd_splitkv:sm_90a:dtype=fp8_e4m3,dtype_out=bf16,hdim=128,hdim_v=128,mask=causal,lse=any,gqa=any,split=yes,qscale=any,deterministic=any:tile=128x224,p_in_regs=yes,overlap=yes,pack_gqa=yes
// run_flash_fwd<90, 128, 128, 1, cutlass::float_e4m3_t, cutlass::bfloat16_t, true, false, false, false, false, false, false, true, true, false>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/kernel_hardware_info.h>
#include <tile_size.h>
#include <tile_scheduler.hpp>
#include <flash_fwd_kernel_sm90.h>
#include <mainloop_fwd_sm90_tma_gmma_ws.hpp>
#include <epilogue_fwd.hpp>

using Cluster = cute::Shape<cute::Int<1>, cute::_1, cute::_1>;
using Mainloop = flash::CollectiveMainloopFwdSm90<2, Cluster, cute::Shape<cute::Int<128>, cute::Int<224>, cute::Int<128>>, 128, cutlass::float_e4m3_t, float, cutlass::arch::Sm90, true, false, false, false, false, false, false, true, true, true, true, false>;
using Epilogue = flash::CollectiveEpilogueFwd<cute::Shape<cute::Int<128>, cute::Int<128>, cute::Int<224>>, Cluster, cutlass::bfloat16_t, cutlass::arch::Sm90, Mainloop::NumMmaThreads, false, true, true, true>;
using Scheduler = flash::SingleTileScheduler<false, true, true, 128>;
using Kernel = flash::FlashAttnFwdSm90<Mainloop, Epilogue, Scheduler>;
using Params = Kernel::Params;

constexpr auto tile = tile_size_fwd_sm90(128, 128, true, false, 1, false, false, false);
static_assert(tile == std::tuple<int, int, bool, bool>(128, 224, true, true),
              "tile_size.h has another tile than the one that the host knows");

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Mainloop::kBlockM, (uint32_t)Mainloop::kBlockN, (uint32_t)Mainloop::kHeadDim, (uint32_t)Epilogue::kHeadDimV, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};

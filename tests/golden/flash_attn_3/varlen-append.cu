// flash_attn_3:fwd_splitkv:sm_90a:dtype=fp16,dtype_out=fp16,hdim=192,hdim_v=128,mode=any,mask=window,softcap=yes,lse=any,gqa=any,cache=paged,append=yes,rotary=any,split=yes,deterministic=any:tile=128x96,p_in_regs=yes,overlap=yes,pack_gqa=yes,varlen=yes,paged=yes
// run_flash_fwd<90, 192, 128, 1, cutlass::half_t, cutlass::half_t, false, true, true, true, true, true, false, true, true, false>

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
using Mainloop = flash::CollectiveMainloopFwdSm90<2, Cluster, cute::Shape<cute::Int<128>, cute::Int<96>, cute::Int<192>>, 128, cutlass::half_t, float, cutlass::arch::Sm90, false, true, true, true, true, true, false, true, true, true, true, false>;
using Epilogue = flash::CollectiveEpilogueFwd<cute::Shape<cute::Int<128>, cute::Int<128>, cute::Int<96>>, Cluster, cutlass::half_t, cutlass::arch::Sm90, Mainloop::NumMmaThreads, true, true, true, false>;
using Scheduler = flash::VarlenDynamicPersistentTileScheduler<128, 96, Mainloop::NumMmaThreads, Mainloop::NumProducerThreads, true, true, true, true, false, true>;
using Kernel = flash::FlashAttnFwdSm90<Mainloop, Epilogue, Scheduler>;
using Params = Kernel::Params;

constexpr auto tile = tile_size_fwd_sm90(192, 128, false, true, 2, false, true, true);
static_assert(tile == std::tuple<int, int, bool, bool>(128, 96, true, true),
              "tile_size.h has another tile than the one that the host knows");

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Mainloop::kBlockM, (uint32_t)Mainloop::kBlockN, (uint32_t)Mainloop::kHeadDim, (uint32_t)Epilogue::kHeadDimV, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};

// flash_attn_3:bwd_dq_dk_dv:sm_90a:dtype=fp16,dtype_out=fp16,hdim=192,hdim_v=192,mode=any,mask=causal,lse=any,gqa=yes,deterministic=any:tile=64x96,varlen=yes,fixed_order=yes,gqa=yes,stages=1x1,swapped=0x1x0,groups=3,atoms=1x1x1
// run_flash_bwd<90, 192, 64, 96, cutlass::half_t, true, false, false, true, true, true, 1, 1, false, true, false, 3, 1, 1, 1, false>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/arch/arch.h>
#include <cutlass/kernel_hardware_info.h>
#include <tile_scheduler.hpp>
#include <mainloop_bwd_sm90_tma_gmma_ws.hpp>
#include <epilogue_bwd.hpp>
#include <flash_bwd_kernel_sm90.h>

using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
using Tile = cute::Shape<cute::Int<64>, cute::Int<96>, cute::Int<192>>;
using Mainloop = flash::CollectiveMainloopBwdSm90<2, 1, 1, Cluster, Tile, cutlass::half_t, float, cutlass::arch::Sm90, true, false, false, true, true, false, true, false, 3, 1, 1, 1, false>;
using Epilogue = flash::CollectiveEpilogueBwdGQA<Tile, float, cutlass::arch::Sm90, Mainloop::NumMmaThreads, true, true>;
using Scheduler = flash::SingleTileBwdLPTScheduler<true, 96, true>;
using Kernel = flash::FlashAttnBwdSm90<Mainloop, Epilogue, Scheduler>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Mainloop::kBlockM, (uint32_t)Mainloop::kBlockN, (uint32_t)Mainloop::kHeadDim, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};

// flash_attn_3:bwd_dq_dk_dv:sm_90a:dtype=fp16,dtype_out=fp16,hdim=96,hdim_v=96,mode=any,mask=window,softcap=yes,lse=any,deterministic=any:tile=64x128,varlen=yes,fixed_order=yes,stages=2x2,swapped=1x0x0,groups=2,atoms=1x2x1,v_in_regs=yes
// run_flash_bwd<90, 96, 64, 128, cutlass::half_t, false, true, true, true, true, false, 2, 2, true, false, false, 2, 1, 2, 1, true>

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
using Tile = cute::Shape<cute::Int<64>, cute::Int<128>, cute::Int<96>>;
using Mainloop = flash::CollectiveMainloopBwdSm90<2, 2, 2, Cluster, Tile, cutlass::half_t, float, cutlass::arch::Sm90, false, true, true, true, true, true, false, false, 2, 1, 2, 1, true>;
using Epilogue = flash::CollectiveEpilogueBwd<Tile, cutlass::half_t, cutlass::arch::Sm90, Mainloop::NumMmaThreads, true, false, 1>;
using Scheduler = flash::SingleTileScheduler<true, false, false, 128>;
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

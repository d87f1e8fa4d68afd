// flash_attn_3:bwd_convert_dq:sm_90a:dtype=bf16,dtype_out=bf16,hdim=64,hdim_v=64,mode=any,mask=any,softcap=any,lse=any,gqa=any,deterministic=any:tile=96x128,stages=2x2,swapped=1x0x1,groups=2,atoms=1x2x2,of_keys=yes
// PostprocessKerneldKV of run_flash_bwd<90, 64, 96, 128, cutlass::bfloat16_t, false, false, false, false, false, false, 2, 2, true, false, true, 2, 1, 2, 2, false>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/arch/arch.h>
#include <cutlass/kernel_hardware_info.h>
#include <tile_scheduler.hpp>
#include <mainloop_bwd_sm90_tma_gmma_ws.hpp>
#include <flash_bwd_postprocess_kernel.h>

using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
using Tile = cute::Shape<cute::Int<96>, cute::Int<128>, cute::Int<64>>;
using Mainloop = flash::CollectiveMainloopBwdSm90<2, 2, 2, Cluster, Tile, cutlass::bfloat16_t, float, cutlass::arch::Sm90, false, false, false, false, false, true, false, true, 2, 1, 2, 2, false>;
using Kernel = flash::FlashAttnBwdPostprocessConvertdQ<cute::Shape<cute::Int<128>, cute::Int<64>>, cutlass::bfloat16_t, float, cutlass::arch::Sm90, Mainloop::NumMmaThreads, Mainloop::TiledMmadKV, Mainloop::dKV_swapAB>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Kernel::kBlockM, (uint32_t)Kernel::kHeadDim, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};

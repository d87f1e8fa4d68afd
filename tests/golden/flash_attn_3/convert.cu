// flash_attn_3:bwd_convert_dq:sm_90a:dtype=fp16,dtype_out=fp16,hdim=256,hdim_v=256,mode=any,mask=any,softcap=any,lse=any,gqa=any,deterministic=any:tile=64x80,stages=1x1,swapped=0x1x1,groups=2,atoms=1x1x1
// PostprocessKernel of run_flash_bwd<90, 256, 64, 80, cutlass::half_t, false, false, false, false, false, false, 1, 1, false, true, true, 2, 1, 1, 1, false>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/arch/arch.h>
#include <cutlass/kernel_hardware_info.h>
#include <tile_scheduler.hpp>
#include <mainloop_bwd_sm90_tma_gmma_ws.hpp>
#include <flash_bwd_postprocess_kernel.h>

using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
using Tile = cute::Shape<cute::Int<64>, cute::Int<80>, cute::Int<256>>;
using Mainloop = flash::CollectiveMainloopBwdSm90<2, 1, 1, Cluster, Tile, cutlass::half_t, float, cutlass::arch::Sm90, false, false, false, false, false, false, true, true, 2, 1, 1, 1, false>;
using Kernel = flash::FlashAttnBwdPostprocessConvertdQ<cute::Shape<cute::Int<64>, cute::Int<256>>, cutlass::half_t, float, cutlass::arch::Sm90, Mainloop::NumMmaThreads, Mainloop::TiledMmadQ, Mainloop::dQ_swapAB>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Kernel::kBlockM, (uint32_t)Kernel::kHeadDim, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};

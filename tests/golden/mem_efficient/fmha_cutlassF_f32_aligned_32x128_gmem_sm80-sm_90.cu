// mem_efficient:fwd:sm_90:dtype=fp32,dtype_out=fp32,hdim=65536,hdim_v=65536,mode=any,mask=any,bias=any,dropout=any,lse=any,gqa=any,cache=any,deterministic=any:tag=80,aligned=yes,tile=32x128,max_k=65536
// AttentionKernel<float, cutlass::arch::Sm80, true, 32, 128, 65536, true, true>

#include <fmha_memeff.h>
#include <kernel_forward.h>

using Kernel = AttentionKernel<float, cutlass::arch::Sm80, true, 32, 128, 65536, true, true>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::kNumThreads, Kernel::kMinBlocksPerSm)
fmha_cutlassF_f32_aligned_32x128_gmem_sm80(Params p)
{
  if (!p.advance_to_block()) {
    return;
  }
  Kernel::attention_kernel(p);
}

FMHA_EXPORT uint32_t fmha_cutlassF_f32_aligned_32x128_gmem_sm80_facts[] = {(uint32_t)Kernel::kNumThreads, (uint32_t)Kernel::kMaxK, (uint32_t)Kernel::kIsAligned, (uint32_t)Kernel::kQueriesPerBlock, (uint32_t)Kernel::kKeysPerBlock, (uint32_t)Kernel::kKeepOutputInRF, (uint32_t)Kernel::kNeedsOutputAccumulatorBuffer, (uint32_t)Kernel::kAlignmentQ, (uint32_t)Kernel::kAlignmentK, sizeof(Kernel::SharedStorage)};

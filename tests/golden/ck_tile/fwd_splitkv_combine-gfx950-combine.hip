// ck_tile:fwd_splitkv_combine:gfx950:dtype=bf16,dtype_out=bf16,hdim=32,hdim_v=32,mode=group,mask=any,sink=any,bias=any,softcap=any,dropout=any,lse=yes,gqa=any,cache=any,append=any,rotary=any,split=yes,deterministic=any:pipeline=combine,tile=32,pad_s=yes,pad_dv=1

struct Types {
  using QDataType = ck_tile::bf16_t;
  using KDataType = ck_tile::bf16_t;
  using VDataType = ck_tile::bf16_t;
  using BiasDataType = ck_tile::bf16_t;
  using RandValOutputDataType = uint8_t;
  using LSEDataType = float;
  using SaccDataType = float;
  using SMPLComputeDataType = float;
  using PDataType = ck_tile::bf16_t;
  using OaccDataType = float;
  using ODataType = ck_tile::bf16_t;
};
using EpilogueProblem = ck_tile::Default2DEpilogueProblem<
    Types::OaccDataType,
    Types::ODataType,
    false,
    false>;
using Epilogue = ck_tile::Default2DEpilogue<EpilogueProblem>;
template <ck_tile::index_t kLogMaxSplits>
struct Instance {
using Traits = ck_tile::TileFmhaFwdSplitKVCombineTraits<
    true,
    true,
    true,
    false,
    kLogMaxSplits,
    -1>;
using Problem = ck_tile::BlockFmhaSplitKVCombinePipelineProblem<
    Types::LSEDataType,
    Types::OaccDataType,
    Types::ODataType,
    32,
    true,
    32,
    Traits>;
using Pipeline = ck_tile::BlockFmhaFwdSplitKVCombinePipeline<Problem>;
using Kernel = ck_tile::FmhaFwdSplitKVCombineKernel<Pipeline, Epilogue>;
};
using Kernel = Instance<6>::Kernel;

static void check(const Args& a, Checks& checks) {
  REQUIRE(lse_acc_ptr, a.lse_acc_ptr != nullptr);
  REQUIRE(o_acc_ptr, a.o_acc_ptr != nullptr);
  REQUIRE(o_ptr, a.o_ptr != nullptr);
  REQUIRE(lse_ptr, a.lse_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(max_seqlen_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(num_splits, 1);
  EXTENT(seqlen_q, 0);
  REQUIRE(num_splits, a.num_splits <= 128);
  REQUIRE(hdim_v, a.hdim_v <= 32);
  REQUIRE(scale_o, a.scale_o == 1);
  if (checks.status != STATUS_OK) return;
  PRODUCT(split_stride_lse_acc, a.num_splits - 1, a.split_stride_lse_acc);
  PRODUCT(split_stride_o_acc, a.num_splits - 1, a.split_stride_o_acc);
  PRODUCT(max_seqlen_q, (a.max_seqlen_q / 8 + 1), (a.hdim_v / 32 + 1));
}

template <typename Kernel>
struct Prepared {
  typename Kernel::Kargs kargs;
  dim3 grid;
};

template <typename Kernel>
Prepared<Kernel> prepare(const Args& a, Checks& checks) {
  return {Kernel::MakeKargs(
          a.lse_acc_ptr,
          a.o_acc_ptr,
          a.lse_ptr,
          a.o_ptr,
          IN(batch),
          a.seqstart_q_ptr,
          IN(hdim_v),
          IN(num_splits),
          a.scale_o,
          IN(stride_o_acc),
          IN(stride_o),
          IN(nhead_stride_lse_acc),
          IN(nhead_stride_o_acc),
          IN(nhead_stride_lse),
          IN(nhead_stride_o),
          IN(split_stride_lse_acc),
          IN(split_stride_o_acc)),
      dim3((a.max_seqlen_q + 7) / 8 * ((a.hdim_v + 31) / 32),
           a.nhead_q, a.batch)};
}

template <typename Use>
int choose(const Args& a, Use use) {
  if (a.num_splits <= 8) return use(std::type_identity<typename Instance<3>::Kernel>{});
  if (a.num_splits <= 16) return use(std::type_identity<typename Instance<4>::Kernel>{});
  if (a.num_splits <= 32) return use(std::type_identity<typename Instance<5>::Kernel>{});
  if (a.num_splits <= 64) return use(std::type_identity<typename Instance<6>::Kernel>{});
  return use(std::type_identity<typename Instance<7>::Kernel>{});
}

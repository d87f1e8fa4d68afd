// ck_tile:bwd_convert_dq:gfx950:dtype=fp16,dtype_out=fp16,hdim=128,hdim_v=128,mode=group,mask=any,sink=any,bias=any,softcap=any,dropout=any,lse=any,gqa=any,deterministic=yes,dbias=any:pipeline=convert_dq,tile=64x128,occupancy=2,pad_s=yes,pad_d=1

struct Types {
  using QDataType = ck_tile::half_t;
  using KDataType = ck_tile::half_t;
  using VDataType = ck_tile::half_t;
  using GemmDataType = ck_tile::half_t;
  using BiasDataType = ck_tile::half_t;
  using ODataType = ck_tile::half_t;
  using OGradDataType = ck_tile::half_t;
  using QGradDataType = ck_tile::half_t;
  using KGradDataType = ck_tile::half_t;
  using VGradDataType = ck_tile::half_t;
  using BiasGradDataType = ck_tile::half_t;
  using LSEDataType = float;
  using AccDataType = float;
  using DDataType = float;
  using RandValOutputDataType = uint8_t;
};
using Traits = ck_tile::TileFmhaBwdConvertQGradTraits<
    true,
    true,
    2>;
using Problem = ck_tile::BlockFmhaBwdConvertQGradPipelineProblem<
    Types::AccDataType,
    Types::QGradDataType,
    256,
    64,
    128,
    128,
    true,
    true,
    Traits>;
using Pipeline = ck_tile::BlockFmhaBwdConvertQGrad<Problem>;
using Kernel = ck_tile::FmhaBwdConvertQGradKernel<Pipeline>;

static void check(const Args& a, Checks& checks) {
  REQUIRE(dq_acc_ptr, a.dq_acc_ptr != nullptr);
  REQUIRE(dq_ptr, a.dq_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  REQUIRE(seqstart_k_ptr, a.seqstart_k_ptr != nullptr);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(max_seqlen_q, 1);
  EXTENT(hdim_q, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_k, 0);
  REQUIRE(hdim_q, a.hdim_q <= 128);
}

template <typename Kernel>
struct Prepared {
  typename Kernel::Kargs kargs;
  dim3 grid;
};

template <typename Kernel>
Prepared<Kernel> prepare(const Args& a, Checks& checks) {
  return {Kernel::MakeKargs(
          a.dq_acc_ptr,
          a.dq_ptr,
          a.seqstart_q_ptr,
          a.seqstart_k_ptr,
          a.seqlen_q_ptr,
          a.seqlen_k_ptr,
          a.cu_seqlen_q_ptr,
          a.cu_seqlen_k_ptr,
          IN(hdim_q),
          IN(stride_dq),
          IN(stride_dq_acc),
          IN(nhead_stride_dq),
          IN(nhead_stride_dq_acc),
          IN(split_stride_dq_acc)),
      Kernel::GridSize(
          IN(batch),
          IN(nhead_q),
          IN(max_seqlen_q))};
}

template <typename Use>
int choose(const Args& a, Use use) {
  (void)a;
  return use(std::type_identity<Kernel>{});
}

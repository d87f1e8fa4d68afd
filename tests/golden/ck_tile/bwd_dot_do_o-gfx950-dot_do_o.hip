// ck_tile:bwd_dot_do_o:gfx950:dtype=bf16,dtype_out=bf16,hdim=256,hdim_v=256,mode=group,mask=any,sink=any,bias=any,softcap=any,dropout=any,lse=any,gqa=any,deterministic=any,dbias=any:pipeline=dot_do_o,tile=64,occupancy=2,pad_s=yes,pad_dv=1

struct Types {
  using QDataType = ck_tile::bf16_t;
  using KDataType = ck_tile::bf16_t;
  using VDataType = ck_tile::bf16_t;
  using GemmDataType = ck_tile::bf16_t;
  using BiasDataType = ck_tile::bf16_t;
  using ODataType = ck_tile::bf16_t;
  using OGradDataType = ck_tile::bf16_t;
  using QGradDataType = ck_tile::bf16_t;
  using KGradDataType = ck_tile::bf16_t;
  using VGradDataType = ck_tile::bf16_t;
  using BiasGradDataType = ck_tile::bf16_t;
  using LSEDataType = float;
  using AccDataType = float;
  using DDataType = float;
  using RandValOutputDataType = uint8_t;
};
using Traits = ck_tile::TileFmhaBwdOGradDotOTraits<
    true,
    true,
    2>;
using Problem = ck_tile::BlockFmhaBwdOGradDotOPipelineProblem<
    Types::ODataType,
    Types::OGradDataType,
    Types::DDataType,
    64,
    256,
    true,
    Traits>;
using Pipeline = ck_tile::BlockFmhaBwdOGradDotO<Problem>;
using Kernel = ck_tile::FmhaBwdOGradDotOKernel<Pipeline>;

static void check(const Args& a, Checks& checks) {
  REQUIRE(o_ptr, a.o_ptr != nullptr);
  REQUIRE(do_ptr, a.do_ptr != nullptr);
  REQUIRE(d_ptr, a.d_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(max_seqlen_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_k, 0);
  REQUIRE(p_undrop, a.p_undrop > 0 && a.p_undrop <= 1);
  REQUIRE(hdim_v, a.hdim_v <= 256);
}

template <typename Kernel>
struct Prepared {
  typename Kernel::Kargs kargs;
  dim3 grid;
};

template <typename Kernel>
Prepared<Kernel> prepare(const Args& a, Checks& checks) {
  return {Kernel::MakeKargs(
          a.o_ptr,
          a.do_ptr,
          a.d_ptr,
          a.p_undrop,
          a.seqstart_q_ptr,
          a.seqlen_q_ptr,
          a.cu_seqlen_q_ptr,
          IN(hdim_v),
          IN(stride_do),
          IN(stride_o),
          IN(nhead_stride_do),
          IN(nhead_stride_o),
          IN(nhead_stride_lsed)),
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

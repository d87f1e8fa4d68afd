// Upstream's run_mha_fwd_combine_ for one type of O and one width (FMHA_TYPE, FMHA_DTYPE, FMHA_COLUMNS).
#include <cstring>

#include "host/text.h"

#include "host/device.h"
#include "flash_fwd_combine_launch_template.h"

std::string launch_combine(Flash_fwd_params &p, const char *dtype, int columns, bool dependent) {
    if (std::strcmp(dtype, FMHA_DTYPE) || columns != FMHA_COLUMNS) return "";
    launched.clear();
    run_mha_fwd_combine_<FMHA_TYPE, float, FMHA_COLUMNS>(p, nullptr, dependent);
    return launched;
}

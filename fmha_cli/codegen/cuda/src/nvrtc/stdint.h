// In the prelude.
#pragma once

#include <fmha_std.h>

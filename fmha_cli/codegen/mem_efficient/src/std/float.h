// Nothing of it is used by kernels.
#pragma once

// In place of CUTLASS's header, which needs <mma.h> of the toolkit. No kernel here uses nvcuda::wmma.
#pragma once

// NVRTC declares assert itself; the flag -DNDEBUG makes it nothing.
#pragma once

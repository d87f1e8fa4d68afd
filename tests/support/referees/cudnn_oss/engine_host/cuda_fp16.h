// The size of half is all that upstream's engines need.
#pragma once

struct half {
  unsigned short bits;
};

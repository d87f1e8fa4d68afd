// Upstream's helpers for graphs. Its engines need none of them.
#pragma once

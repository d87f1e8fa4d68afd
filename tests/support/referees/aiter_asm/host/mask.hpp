#pragma once
enum class mask_enum { no_mask = 0, mask_top_left, mask_bottom_right, window_generic };

// No host code: nothing of the driver API is used.
#pragma once

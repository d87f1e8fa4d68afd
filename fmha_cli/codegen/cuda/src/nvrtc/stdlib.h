// No host code: nothing of it is used.
#pragma once

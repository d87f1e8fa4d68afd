#include "binding.hpp"
namespace ptx {
extern const Table kLaunchControlOpcodes{nullptr, 0};
}

// Takes the place of the front end and the interpreter in a library that only records.
#include "program.hpp"
#include "launch.hpp"

namespace ptx {

Program::~Program() = default;
std::unique_ptr<Program> load(std::string, bool) { throw Unusable{"this build records launches of cubins; it reads no PTX"}; }
void run(Launch& launch) { launch.fault = "this build executes no PTX"; }

}  // namespace ptx

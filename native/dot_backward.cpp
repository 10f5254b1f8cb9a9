#include "scores.h"
namespace regard::REGARD_ISA {
void dot_backward(const DotBackward&, Crew&) {}
}

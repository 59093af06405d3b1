// Decides: which row of `fp4sim list accumulators` rounds sums as a chip does. A profile says it for classes of
// operands, each with its kind and source; what no one measured, fitted or published is absent, and asking for it is an
// Error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/text/json_reader.h"

namespace fp4 {
struct QuantSpec;
}

namespace fp4::cost {

struct Hardware;

/// How an entry of a profile is known; `given` where it does not say.
const std::vector<std::string>& profile_kinds();  // stated fitted measured estimate given

struct Adder {
  std::string row;
  std::string kind = "given", source;  // as a Quantity's
};
using Adders = std::map<std::string, Adder, std::less<>>;

/// Operands as adders tell them apart: FP4 under UE4M3 and under E8M0 scales, 4 to 8 bits, 16 bits, fp32 as tf32.
const std::vector<std::string>& adder_classes();  // nvfp4 mxfp4 fp8 16bit tf32

/// `adders` of a hardware profile: {"nvfp4": {"value": "b200_nvf4", "kind", "source"}}, or the row alone.
Adders adders_from(JsonReader& profile);

/// The row of the adder that multiplies such operands on the chip; throws Error where its matrix unit does not take
/// them, and where no adder of them is known.
std::string adder_of(const Hardware& hardware, const QuantSpec& a, const QuantSpec& b);

}  // namespace fp4::cost

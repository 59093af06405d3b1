// Decides: what the cost model knows of a chip. A profile is a JSON file (sweeps/hardware/NAME.json, or a path given by
// the user); every quantity carries where it comes from, so that each number of a result can be traced to a data sheet,
// a fit or an estimate. A chip whose rate for a format is missing and not declared as emulated is an error, never zero.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/json_reader.h"

namespace fp4 {
struct QuantSpec;
}

namespace fp4::cost {

using fp4::Json;

/// A figure, or words, and its origin. kind: stated (data sheet, price list), fitted, measured, estimate, given (no
/// source told).
template <class T>
struct Known {
  T value = {};
  std::string kind = "given";
  std::string source;
};
using Quantity = Known<double>;
/// What a matrix unit takes of a class: block scales as SCALE/BLOCK, "e8m0/32"; elements by name, "nf4".
using UnitWords = Known<std::vector<std::string>>;
/// Rows of `fp4sim list accumulators`: how the chip rounds sums, by class of operands. What no one measured, fitted or
/// published is absent, and asking for it is an Error.
using Adders = std::map<std::string, Known<std::string>, std::less<>>;

/// How an entry of a profile is known; `given` where it does not say.
const std::vector<std::string>& profile_kinds();  // stated fitted measured estimate given

/// What `other` is, wherever it stands: group of terms, field of a profile, weight.
inline constexpr const char* other_doc =
    "norms, activations, residual adds, the loss and launches: all that is neither product, quantiser, attention, "
    "head, "
    "optimizer nor communication; the same under every recipe";

/// Operand formats as matrix units see them; rates and emulation are keyed by these words.
const std::vector<std::string>& format_classes();  // fp32 bf16 fp8 fp6 fp4 int8 int4

struct Hardware {
  std::string name, doc, source;                       // source: in one line, for lists
  std::map<std::string, Quantity, std::less<>> rates;  // dense FLOP/s by format class
  // FLOP/s of products with a sparse operand, the zeros counted, by mask ("2:4", "4:8") and format class.
  std::map<std::string, std::map<std::string, Quantity, std::less<>>, std::less<>> sparse_rates;
  std::map<std::string, std::string, std::less<>> emulate;       // "fp4" -> "bf16": runs at that class' rate
  std::map<std::string, UnitWords, std::less<>> block_scales;    // by class; absent: nothing is known, all count
  std::map<std::string, UnitWords, std::less<>> elements;        // by class; absent: those of OCP MX and OFP8
  std::map<std::string, UnitWords, std::less<>> undocumented;    // elements that it takes, which no manual says
  Quantity efficiency;                                           // share of the rate that GEMMs reach
  std::map<std::string, Quantity, std::less<>> efficiency_of;    // of a class, "fp8", or "fp4 ue4m3/16"
  Quantity issue_per_s;                                          // vector instruction slots: lanes x clock
  Quantity issue_efficiency;                                     // share of them that a quantiser reaches
  Quantity memory_bandwidth, memory_bytes, quantiser_bandwidth;  // the last: share of the first that quantisers reach
  bool hardware_random = false;                                  // stochastic conversions bring their own generator
  std::string random_kind, random_source;                        // origin of the line above
  std::optional<Quantity> link_bandwidth, network_bandwidth;     // bytes/s, one direction, per accelerator
  int node_size = 1;                                             // accelerators that the links join
  bool has_node = false;                                         // node_size is said
  std::optional<Quantity> link_shared;                           // accelerators that share link_bandwidth
  std::string node_source;
  bool rented_whole = false;  // clouds: an instance's accelerators are rented together, node_size of them
  std::optional<Quantity> board_w, idle_w, system_w;  // system: whole system's share per accelerator
  std::optional<Quantity> price_per_hour;
  Quantity other_s_per_token;  // other_doc; left out: by the bandwidth
  std::string other_model;     // the model it was fitted on; "" with 0
  double other_size = 1;       // that model's layers x width
  Adders adders;               // how sums are rounded, by operands: `fp4sim gemm --hardware` alone reads it

  /// FLOP/s of a class after emulation; throws Error naming the profile and the class.
  double rate(std::string_view format_class) const;
  /// The share of the rate that products of a class reach, under block scales "ue4m3/16" or "".
  const Quantity& efficiency_at(std::string_view format_class, std::string_view scales) const;
  /// The class whose rate that is: "bf16" for fp4 on a chip that emulates it so.
  std::string executed_class(std::string_view format_class) const;
  /// The block scales, "ue4m3/16", as which the matrix unit takes operands of the class with such a scale for so many
  /// elements along K; "" where it does not. A longer block is read as several of one scale.
  std::string taken_scales(std::string_view format_class, std::string_view scale, double scale_block) const;
  bool multiplies(std::string_view format_class, std::string_view scale, double scale_block) const {
    return !block_scales.contains(format_class) || !taken_scales(format_class, scale, scale_block).empty();
  }
  /// Whether it takes the codes of an element, a row's name or that of a list of values, as operands of the class.
  bool takes(std::string_view format_class, std::string_view element) const;
};

/// Elements that every chip takes whose profile lists none: e2m1; e2m3, e3m2; e4m3, e5m2.
const std::vector<std::string>& usual_elements(std::string_view format_class);

/// Strict: a misspelt rate would otherwise be a chip that silently costs nothing.
Hardware parse_hardware(const Json& object, const std::string& place, FieldNotes* notes = nullptr);
/// A built-in name, or a path ending in .json. `place`: where the word stands, if it stands in a file.
Hardware load_hardware(std::string_view word, std::string_view place = "");
std::vector<std::string> hardware_names();
Json to_json(const Hardware& hardware);
/// {"value", "kind", "source"}.
Json known_json(const Json& value, const std::string& kind, const std::string& source);
template <class T>
Json known_json(const Known<T>& known) {
  return known_json(known.value, known.kind, known.source);
}

/// Chips with a native FP4 rate: the profiles on which FP4 recipes are worth comparing.
bool has_fp4(const Hardware& hardware);
/// The chip with its undocumented elements among those that it takes.
Hardware with_undocumented(Hardware hardware);
/// Fields whose numbers are estimates: "idle_w", "efficiency".
std::vector<std::string> estimated_fields(const Hardware& hardware);
/// What accelerators beyond the first need and the profile lacks: of link_bandwidth, network_bandwidth, node_size.
std::vector<std::string> missing_links(const Hardware& hardware, int devices);

/// Operands as adders tell them apart: FP4 under UE4M3 and under E8M0 scales, 4 to 8 bits, 16 bits, fp32 as tf32.
const std::vector<std::string>& adder_classes();  // nvfp4 mxfp4 fp8 16bit tf32

/// `adders` of a hardware profile: {"nvfp4": {"value": "b200_nvf4", "kind", "source"}}, or the row alone.
Adders adders_from(JsonReader& profile);

/// The row of the adder that multiplies such operands on the chip; throws Error where its matrix unit does not take
/// them, and where no adder of them is known.
std::string adder_of(const Hardware& hardware, const QuantSpec& a, const QuantSpec& b);

/// What a profile of one's own says where its author says nothing: every derived figure is an estimate and names what
/// it comes from, so that `fp4sim cost explain` shows which numbers of a result are the author's.
struct ChipFacts {
  std::string name;
  std::map<std::string, double> rates;  // dense FLOP/s by format class; bf16 is needed
  double memory_bandwidth = 0;          // bytes/s
  double memory_bytes = 0;
  std::vector<std::string> block_scales;  // of fp4, as SCALE/BLOCK; empty: E8M0 for 32 alone, OCP MX
  std::vector<std::string> elements;      // of fp4, by name; empty: e2m1
  std::optional<double> issue_per_s, board_w, price_per_hour, link_bandwidth, network_bandwidth, node_size;
  bool hardware_random = false;
};

/// Throws Error for a missing bf16 rate, bandwidth or memory.
Hardware new_chip(const ChipFacts& facts);

}  // namespace fp4::cost

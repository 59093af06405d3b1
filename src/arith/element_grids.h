// Elements that users describe (include/fp4/element_grid.h): a JSON object where the name of a row may stand,
//   {"name": "half_s", "signed": true, "values": [0, 0.5, 1, 1.5, 2, 3, 3.5, "0x1.8p2"]}
//   {"name": "mine", "base": "s1p2", "micro": [{"per": 8, "bits": 1}, {"per": 4, "bits": 1}]}
// or the name of a .json file that holds one. The same object twice is one element. They stay for the process.
#pragma once

#include <string>
#include <vector>

#include "fp4/float_format.h"
#include "src/text/json_reader.h"

namespace fp4 {

/// The element of these values by code (of magnitudes, when signed), rounded to fp32; NaN where a code is never
/// written. An empty name becomes one of the values' bits ("grid_0123abcd"). `calls`, if any, must outlive the process'
/// use of the element. Throws Error, with `place` first, for values that are no grid and for the name of a row.
Element add_element(std::string name, const std::vector<float>& values, bool is_signed, const std::string& place,
                    const ElementCalls* calls = nullptr);
/// Makes calls known under a number, which stands as "calls" beside the values of an element of this process.
int register_calls(const ElementCalls& calls);
/// The element of `base` under micro-exponents.
Element add_micro_element(std::string name, Element base, const MicroLevel (&micro)[most_micro_levels],
                          const std::string& place);

/// The name of a row, or the object.
Json element_json(Element element);
Element element_from(const JsonReader& from);
/// The same for a word of a command line.
Element element_from_word(const std::string& word, const std::string& place);

}  // namespace fp4

#include "src/golden/probe_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "fp4/gemm.h"
#include "src/text/byte_source.h"
#include "src/text/named_rows.h"

namespace fp4::golden {
namespace {

std::vector<DecodedCode> decoded(const ProbeSection& s, Element element, const std::vector<uint32_t>& codes,
                                 const std::vector<uint32_t>& scales) {
  const FloatFormat& format = format_of(element);
  std::vector<DecodedCode> out;
  out.reserve(codes.size());
  for (size_t k = 0; k < codes.size(); ++k) {
    // Codes of fp32 as they are: a unit that cuts them sees the payload of a NaN.
    const bool is_float = format.code_bits() == 32;
    DecodedCode d;
    d.element = is_float ? float_of(codes[k]) : decode(format, codes[k]);
    d.scale = s.has_scale() ? decode(format_of(s.scale), scales[k / static_cast<size_t>(s.block)]) : 1.0f;
    d.scaled = is_float ? d.element : d.element * d.scale;
    d.fixed = format.max_exponent() - format.quantum_log2() < 62 ? decode_fixed(format, codes[k]) : 0;
    out.push_back(d);
  }
  return out;
}

// One operand of a sum in the shape that accumulate.h reads, in a model's order.
class CodesReader {
 public:
  CodesReader(const ProbeSection& s, Element element, const std::vector<DecodedCode>& codes,
              const std::vector<int64_t>& order)
      : section_(s), format_(format_of(element)), codes_(codes), order_(order) {}
  int64_t fixed(int64_t k) const { return at(k).fixed; }
  float scale(int64_t k) const { return at(k).scale; }
  float scaled(int64_t k) const { return at(k).scaled; }
  float value(int64_t k) const { return at(k).scaled; }
  float unscaled(int64_t k) const { return at(k).element; }
  int64_t block() const { return has_scale() ? section_.block : 0; }
  const FloatFormat& format() const { return format_; }
  int scale_min_exponent() const { return format_of(section_.scale).min_exponent(); }
  bool has_scale() const { return section_.has_scale(); }

 private:
  const DecodedCode& at(int64_t k) const { return codes_[static_cast<size_t>(order_[static_cast<size_t>(k)])]; }
  const ProbeSection& section_;
  const FloatFormat& format_;
  const std::vector<DecodedCode>& codes_;
  const std::vector<int64_t>& order_;
};

std::vector<int64_t> order_of(const ProbeModel& m, int64_t k_end) {
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(k_end));
  for (int64_t first = 0; first < m.stride; ++first)
    for (int64_t k = first; k < k_end; k += m.stride) order.push_back(k);
  if (m.descending) std::reverse(order.begin(), order.end());
  return order;
}

float c_of(const ProbeSection& s, uint32_t c) { return s.is_half ? decode(format_of(Element::fp16), c) : float_of(c); }

class LineReader {
 public:
  LineReader(const std::string& path, size_t line, const std::string& text)
      : place_(fmt::format("{}: line {}", path, line)), words_(text) {}
  std::string word(const char* what) {
    std::string w;
    if (!(words_ >> w)) throw Error(fmt::format("{}: {} is missing", place_, what));
    return w;
  }
  std::string rest() {
    std::string text;
    std::getline(words_ >> std::ws, text);
    return text;
  }
  // key=value
  std::string field(const std::string& key) {
    const std::string w = word(key.c_str());
    if (!w.starts_with(key + "=")) throw Error(fmt::format("{}: '{}' where {}=.. is expected", place_, w, key));
    return w.substr(key.size() + 1);
  }
  std::vector<uint32_t> codes(const char* what, int bits, size_t count) {
    const std::string w = word(what);
    const auto digits = static_cast<size_t>((bits + 3) / 4);
    if (w.size() != digits * count || w.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      throw Error(fmt::format("{}: {} '{}' is not {} codes of {} hexadecimal digits", place_, what, w, count, digits));
    std::vector<uint32_t> out;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(static_cast<uint32_t>(std::stoul(w.substr(i * digits, digits), nullptr, 16)));
      if (bits < 32 && out.back() >> bits != 0)
        throw Error(fmt::format("{}: {} has the code {:x} of more than {} bits", place_, what, out.back(), bits));
    }
    return out;
  }
  size_t digits_ahead() {
    const auto at = words_.tellg();
    std::string w;
    words_ >> w;
    words_.clear();
    words_.seekg(at);
    return w.size();
  }
  void finish() {
    if (const std::string more = rest(); !more.empty())
      throw Error(fmt::format("{}: '{}' after the last word", place_, more));
  }
  const std::string& place() const { return place_; }

 private:
  std::string place_;
  std::istringstream words_;
};

ProbeSection section_of(LineReader& line) {
  ProbeSection s;
  s.instruction = line.word("the instruction's name");
  std::string formats[2] = {line.field("a"), line.field("b")};
  s.tf32 = formats[0] == "tf32";
  for (std::string& f : formats)
    if (f == "tf32") f = "fp32";
  s.a = named_row(line.place(), formats[0], element_table).id;
  s.b = named_row(line.place(), formats[1], element_table).id;
  s.scale = named_row(line.place(), line.field("scale"), scale_table).id;
  const std::string block = line.field("block");
  if (block.empty() || block.size() > 4 || block.find_first_not_of("0123456789") != std::string::npos)
    throw Error(fmt::format("{}: block={} is no number", line.place(), block));
  s.block = std::stoi(block);
  if (is_real(s.scale) && s.has_scale()) throw Error(fmt::format("{}: scale: codes of 8 bits only", line.place()));
  if (s.has_scale() != (s.block > 0))
    throw Error(fmt::format("{}: block must be 0 with scale=none and more than 0 with another", line.place()));
  const std::string d = line.field("d");
  if (d != "fp32" && d != "fp16") throw unknown_word(line.place() + ": d", d, {"fp32", "fp16"});
  s.is_half = d == "fp16";
  line.finish();
  return s;
}

ProbeSum sum_of(LineReader& line, const ProbeSection& s) {
  const int bits = format_of(s.a).code_bits();
  const size_t digits = line.digits_ahead(), per_code = static_cast<size_t>((bits + 3) / 4);
  const size_t k = digits / per_code;
  if (k == 0 || digits % per_code != 0 || k > 4096)
    throw Error(fmt::format("{}: A has {} digits, {} a code", line.place(), digits, per_code));
  ProbeSum sum;
  sum.a = line.codes("A", bits, k);
  sum.b = line.codes("B", format_of(s.b).code_bits(), k);
  if (s.has_scale()) {
    const auto block = static_cast<size_t>(s.block);
    const int scale_bits = format_of(s.scale).code_bits();
    sum.sa = line.codes("SA", scale_bits > 4 ? scale_bits : 8, (k + block - 1) / block);
    sum.sb = line.codes("SB", scale_bits > 4 ? scale_bits : 8, (k + block - 1) / block);
  } else if (line.word("SA") != "-" || line.word("SB") != "-") {
    throw Error(fmt::format("{}: SA and SB are - without scales", line.place()));
  }
  sum.c = line.codes("C", s.is_half ? 16 : 32, 1)[0];
  sum.d = line.codes("D", s.is_half ? 16 : 32, 1)[0];
  line.finish();
  return sum;
}

}  // namespace

ProbeDump read_probe(const std::string& path) {
  std::istringstream in(read_file(path));
  ProbeDump dump;
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    if (text.empty() || text[0] == '#') continue;
    LineReader line(path, number, text);
    if (dump.device.empty()) {
      if (line.word("probe") != "probe" || line.word("1") != "1")
        throw Error(fmt::format("{}: a dump of a probe begins with `probe 1 DEVICE`", line.place()));
      dump.device = line.rest();
      if (dump.device.empty()) throw Error(fmt::format("{}: the device's name is missing", line.place()));
    } else if (text.starts_with("instruction ")) {
      line.word("instruction");
      dump.sections.push_back(section_of(line));
    } else if (dump.sections.empty()) {
      throw Error(fmt::format("{}: a sum before the first `instruction` line", line.place()));
    } else {
      dump.sections.back().sums.push_back(sum_of(line, dump.sections.back()));
    }
  }
  if (dump.sections.empty()) throw Error(path + ": no `instruction` line");
  return dump;
}

DecodedSum decoded(const ProbeSection& s, const ProbeSum& sum) {
  return {decoded(s, s.a, sum.a, sum.sa), decoded(s, s.b, sum.b, sum.sb), sum.c};
}

uint32_t probe_word(const ProbeSection& s, const ProbeSum& sum, const ProbeModel& model) {
  return probe_word(s, decoded(s, sum), model);
}

uint32_t probe_word(const ProbeSection& s, const DecodedSum& sum, const ProbeModel& model) {
  const auto k_end = static_cast<int64_t>(sum.a.size());
  const std::vector<int64_t> order = order_of(model, k_end);
  const CodesReader a(s, s.a, sum.a, order), b(s, s.b, sum.b, order);
  const float c = c_of(s, sum.c);
  float d = s.has_scale() ? special_sum(a, b, 0, k_end, c) : 0.0f;
  if (is_nan(c)) {
    d = c;
  } else if (d == 0.0f) {
    d = dot(model.row, a, b, 0, k_end, model.adds_c_last ? 0.0f : c);
    if (model.adds_c_last) d = c + d;
  }
  if (!s.is_half) return bits_of(canonical(d));
  const FloatFormat& half = format_of(Element::fp16);
  if (is_nan(d)) return half.nan_code;
  const uint32_t code = is_finite(d) ? encode(half, exact_magnitude(d), is_negative(d), {model.row.rounding, 0, 0})
                                     : half.infinity_code();
  return code | (is_negative(d) ? half.sign_code() : 0u);
}

}  // namespace fp4::golden

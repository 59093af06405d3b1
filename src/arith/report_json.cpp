#include "src/arith/report_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "src/text/error.h"

namespace fp4 {
namespace {

using nlohmann::ordered_json;

struct ReportNumber {
  const char* name;
  ordered_json (*of)(const QuantizeReport&);
};

constexpr ReportNumber report_numbers[] = {
    {"rows", [](const QuantizeReport& r) -> ordered_json { return r.rows; }},
    {"cols", [](const QuantizeReport& r) -> ordered_json { return r.cols; }},
    {"elements", [](const QuantizeReport& r) -> ordered_json { return r.rows * r.cols; }},
    {"nmse", [](const QuantizeReport& r) -> ordered_json { return r.nmse(); }},
    {"decibels",
     [](const QuantizeReport& r) { return r.error_squares > 0 ? ordered_json(r.decibels()) : ordered_json(nullptr); }},
    {"largest_error", [](const QuantizeReport& r) -> ordered_json { return r.largest_error; }},
    {"clipped", [](const QuantizeReport& r) -> ordered_json { return r.share(r.clipped); }},
    {"zeros", [](const QuantizeReport& r) -> ordered_json { return r.share(r.zeros); }},
    {"underflows", [](const QuantizeReport& r) -> ordered_json { return r.share(r.underflows); }},
    {"nonfinite", [](const QuantizeReport& r) -> ordered_json { return r.nonfinite; }},
    {"bits_per_element", [](const QuantizeReport& r) -> ordered_json { return r.bits_per_element(); }},
    {"bytes", [](const QuantizeReport& r) -> ordered_json { return r.bytes; }},
    {"backend", [](const QuantizeReport& r) -> ordered_json { return r.backend; }},
};

}  // namespace

nlohmann::ordered_json report_json(const QuantizeReport& report, std::initializer_list<const char*> names) {
  ordered_json out = ordered_json::object();
  for (const std::string name : names) {
    const auto* row = std::begin(report_numbers);
    while (row != std::end(report_numbers) && name != row->name) ++row;
    if (row == std::end(report_numbers)) throw Error("report of a tensor: no number is called " + name, Error::failed);
    out[name] = row->of(report);
  }
  return out;
}

}  // namespace fp4

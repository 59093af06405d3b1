// Decides: how a service is described in a JSON file: members, instances, targets and arrivals.
//   {"members": [{"checkpoint": "a.ck", "recipe": "nvfp4@fprop"}, ..], "targets": [{"accuracy": .9, "latency_ms": 20}],
//    "trace": {"arrivals": "diurnal", "rate": 200}}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/text/json_reader.h"
#include "sweeps/serve/service.h"

namespace fp4::serve {

struct MemberFile {
  std::string checkpoint;
  Json recipe;  // null: the training's own
  std::string name, group, model;
  std::vector<std::optional<uint64_t>> rounding_seeds;  // a member each; empty: the checkpoint's own
};

struct ServiceFile {
  std::string name = "service", doc, hardware = "b200";
  std::vector<MemberFile> members;
  int64_t request_tokens = 1;
  double instance_share = 1, overhead_ms = 0;
  int64_t batch = 32;
  double losses_per_hour = 0;
  double tolerance = 0.005;  // of a window's accuracy
  std::vector<Target> targets;
  TraceSettings trace;
  ServiceRules rules;  // without lifetimes and mean rate, which each trace has its own
};

/// Throws Error naming the place. Paths of files are taken from `folder`.
ServiceFile parse_service(const Json& object, const std::string& place, const std::string& folder = "",
                          FieldNotes* notes = nullptr);

/// Judges every member on the validation set and prices its batches. Throws Error for a checkpoint that cannot be read,
/// for members of several validation sets, and for a task without classes.
Pool make_pool(const ServiceFile& file, const std::string& backend);

/// A trace of one seed under a policy.
struct ServiceRun {
  Served served;
  Figures figures;
  std::vector<Request> requests;
};
ServiceRun run_seed(const ServiceFile& file, const Pool& pool, const PolicyRow& policy, uint64_t seed);

}  // namespace fp4::serve

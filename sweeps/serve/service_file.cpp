// See service_file.h.
#include "sweeps/serve/service_file.h"

#include <cmath>
#include <filesystem>

namespace fp4::serve {

namespace {

double number(JsonReader& reader, const char* key, double fallback, const char* doc, double low = 0,
              double high = huge) {
  const auto value = reader.find(key, {doc, fallback});
  return value ? value->number(low, high) : fallback;
}

int64_t whole(JsonReader& reader, const char* key, int64_t fallback, const char* doc, int64_t low, int64_t high) {
  const auto value = reader.find(key, {doc, fallback});
  return value ? value->integer(low, high) : fallback;
}

Nanoseconds nanoseconds(double seconds) { return static_cast<Nanoseconds>(std::llround(seconds * second)); }

std::string in_folder(const std::string& folder, const std::string& path) {
  return folder.empty() ? path : (std::filesystem::path(folder) / path).string();
}

MemberFile parse_member(JsonReader reader, const std::string& folder, const std::string& model) {
  MemberFile member;
  member.checkpoint =
      in_folder(folder, reader.at("checkpoint", {"of `fp4sim train --checkpoint`, from the file's folder"}).text());
  member.name = std::filesystem::path(member.checkpoint).stem().string();
  std::string recipe = "own";
  if (const auto value =
          reader.find("recipe", {"that it is used under: a name, NAME@fprop, NAME@weights, or an object", "own"})) {
    if (value->notes() != nullptr) {
      value->note_words({"own"});
      value->note_words(named_json("recipes"));
      value->notes()->say_form({{"type", "object"}});
    }
    const Json& json = value->json();
    const auto named = json.is_object() ? json.find("name") : json.end();
    recipe = !json.is_object()                           ? value->text()
             : named != json.end() && named->is_string() ? named->get<std::string>()
                                                         : "recipe";
    if (recipe != "own") member.recipe = value->json();
  }
  member.model = model;
  if (const auto value = reader.find("model", {"whose size its time and price are; the service's where none is named"}))
    member.model = value->name_in("models");
  if (const auto value =
          reader.find("rounding_seeds", {"members that differ in the random bits of stochastic rounding"}))
    for (const JsonReader& seed : value->list(1))
      member.rounding_seeds.emplace_back(static_cast<uint64_t>(seed.integer(0, INT64_MAX)));
  if (recipe != "own") member.name += " " + recipe;
  if (const auto value = reader.find("name", {"its word in tables; left out: checkpoint and recipe"}))
    member.name = value->text();
  member.group = recipe;
  if (const auto value = reader.find("group", {"members whose votes `--votes` adds up; left out: those of a recipe"}))
    member.group = value->text();
  reader.finish();
  return member;
}

TraceSettings parse_trace(JsonReader reader, const std::string& folder) {
  TraceSettings s;
  if (const auto kind = reader.find("arrivals", {"how requests arrive", "poisson"}))
    s.kind = kind->row(arrivals_table).kind;
  s.rate = number(reader, "rate", s.rate, "requests a second", tiny, 1e7);
  s.seconds = number(reader, "seconds", s.seconds, "requests arrive until then", tiny, 1e7);
  s.period = number(reader, "period", s.period, "s; of diurnal and bursts", tiny, 1e7);
  s.depth = number(reader, "depth", s.depth, "of diurnal, a share of the rate", 0, 1);
  s.length = number(reader, "length", s.length, "s of each period with more requests; of bursts", 0, 1e7);
  s.factor = number(reader, "factor", s.factor, "times the rate; of bursts", 1, 1e4);
  const auto file = reader.find("file", {"of csv, from the service file's folder; columns arrival_s and target"});
  if (file) s.file = in_folder(folder, file->text());
  if ((s.kind == Arrivals::csv) != file.has_value())
    reader.fail("arrivals csv and file belong together; accepted: both, or neither");
  constexpr double most = 5e7;
  if (s.rate * s.factor * s.seconds > most)
    reader.fail("more than 5e7 requests; accepted: fewer seconds or a lower rate");
  reader.finish();
  return s;
}

void parse_instance(JsonReader reader, ServiceFile& file) {
  ServiceRules& rules = file.rules;
  file.instance_share = number(reader, "share", 1, "of a chip: so much slower and cheaper", 1e-9, 1);
  file.overhead_ms = number(reader, "overhead_ms", 0, "of each batch beyond the model's time", 0, 1e6);
  file.batch = whole(reader, "batch", file.batch, "most requests of a batch", 1, 4096);
  rules.start_up = nanoseconds(number(reader, "start_up_s", 10, "from launch to first batch", 0, 1e6));
  rules.tick = nanoseconds(number(reader, "tick_s", 5, "between decisions to scale", 1e-3, 1e6));
  rules.utilisation = number(reader, "utilisation", rules.utilisation, "busy share that scaling aims at", 0.01, 1);
  rules.transient_price =
      number(reader, "transient_price", rules.transient_price, "of transient instances, a share of the price", 0, 1);
  file.losses_per_hour = number(reader, "losses_per_hour", 0, "of each transient instance", 0, 1e6);
  reader.finish();
}

Target parse_target(JsonReader reader) {
  Target target;
  target.accuracy = reader.at("accuracy", {"share of right answers"}).number(0, 1);
  target.latency = nanoseconds(reader.at("latency_ms", {"from arrival to answer"}).number(tiny, 1e9) / 1e3);
  target.share = number(reader, "share", 1, "of the requests, in proportion to the other targets' shares", tiny, 1e6);
  reader.finish();
  return target;
}

}  // namespace

ServiceFile parse_service(const Json& object, const std::string& place, const std::string& folder, FieldNotes* notes) {
  JsonReader reader(object, place, notes);
  ServiceFile file;
  if (const auto name = reader.find("name", {"the service's word in tables", "service"})) file.name = name->text();
  if (const auto doc = reader.find("doc", {"the service in a line", ""})) file.doc = doc->text();
  if (const auto chip = reader.find("hardware", {"of the instances, with a price", file.hardware}))
    file.hardware = chip->name_in("hardware");
  std::string model = "llama_1b";
  if (const auto value = reader.find("model", {"whose size a member's time and price are", model}))
    model = value->name_in("models");
  file.request_tokens = whole(reader, "request_tokens", 1, "tokens (images) of a request", 1, 1 << 20);
  const JsonReader members = reader.at("members", {"networks that answer, each under a recipe"});
  for (const JsonReader& member : members.list(1)) file.members.push_back(parse_member(member, folder, model));
  for (const JsonReader& target : reader.at("targets", {"kinds of requests"}).list(1))
    file.targets.push_back(parse_target(target));
  const Json empty = Json::object();
  const auto trace = reader.find("trace", {"when requests arrive"});
  file.trace = parse_trace(trace ? *trace : JsonReader(empty, place + ": trace"), folder);
  const auto instance = reader.find("instance", {"what a member runs on"});
  parse_instance(instance ? *instance : JsonReader(empty, place + ": instance"), file);
  PolicyRules& policy = file.rules.policy;
  policy.window =
      static_cast<size_t>(whole(reader, "window", 500, "requests over which accuracy is measured", 1, 1 << 20));
  policy.margin =
      number(reader, "margin", policy.margin, "of accuracy above a target, from which cocktail drops a member", 0, 1);
  file.tolerance =
      number(reader, "tolerance", file.tolerance, "of accuracy below a target that still counts as met", 0, 1);
  reader.finish();
  return file;
}

ServiceRun run_seed(const ServiceFile& file, const Pool& pool, const PolicyRow& policy, uint64_t seed) {
  ServiceRun run;
  run.requests = draw_requests(file.trace, file.targets, static_cast<uint32_t>(pool.calibration),
                               static_cast<uint32_t>(pool.labels.size()), seed);
  if (run.requests.empty()) throw Error("trace: no request arrives in " + std::to_string(file.trace.seconds) + " s");
  ServiceRules rules = file.rules;
  rules.mean_rate = mean_rate(file.trace, run.requests);
  if (file.losses_per_hour > 0)
    rules.lifetime = [&](size_t number) { return drawn_lifetime(file.losses_per_hour, number, seed); };
  run.served = run_service(policy, pool, file.targets, run.requests, rules);
  run.figures = figures_of(run.served, run.requests, file.targets, rules.policy.window, file.tolerance);
  return run;
}

}  // namespace fp4::serve

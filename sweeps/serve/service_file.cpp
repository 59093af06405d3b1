#include "sweeps/serve/service_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "src/text/read_field.h"
#include "src/text/words.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "tasks/run.h"

namespace fp4::serve {

namespace {

Nanoseconds nanoseconds(double seconds) { return static_cast<Nanoseconds>(std::llround(seconds * second)); }

std::string in_folder(const std::string& folder, const std::string& path) {
  return folder.empty() ? path : (std::filesystem::path(folder) / path).string();
}

MemberFile parse_member(JsonReader reader, const std::string& folder, const std::string& model) {
  MemberFile member;
  member.checkpoint = in_folder(
      folder, reader.at("checkpoint", {"file that `fp4sim train --checkpoint` wrote, from this file's folder"}).text());
  member.name = std::filesystem::path(member.checkpoint).stem().string();
  std::string recipe = "own";
  if (const auto value = reader.find("recipe", {"recipe that the network is used under: own (its training's), a name, "
                                                "NAME@fprop, NAME@weights, or an object",
                                                "own"})) {
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
  if (const auto value = reader.find("model", {"model whose size this member costs; left out: the service's"}))
    member.model = value->name_in("models");
  if (const auto value =
          reader.find("rounding_seeds", {"a member for each seed of stochastic rounding, of the same network"}))
    for (const JsonReader& seed : value->list(1)) {
      const auto number = static_cast<uint64_t>(seed.integer(0, INT64_MAX));
      if (contains(member.rounding_seeds, number)) seed.fail("stands twice: one member would vote twice");
      member.rounding_seeds.emplace_back(number);
    }
  if (recipe != "own") member.name += " " + recipe;
  if (const auto value = reader.find("name", {"the member's word in tables; left out: checkpoint and recipe"}))
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
  read_field(reader, "rate", "requests a second", s.rate, tiny, 1e7);
  read_field(reader, "seconds", "s for which requests arrive", s.seconds, tiny, 1e7);
  read_field(reader, "period", "s from one peak of diurnal, or burst, to the next", s.period, tiny, 1e7);
  read_field(reader, "depth", "share of the rate by which diurnal rises and falls", s.depth, 0, 1);
  read_field(reader, "length", "s of each period in which bursts has more requests", s.length, 0, 1e7);
  read_field(reader, "factor", "how many times the rate arrives within a burst", s.factor, 1, 1e4);
  const auto file =
      reader.find("file", {"CSV for arrivals csv, from this file's folder; columns arrival_s and target"});
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
  double start_up_s = 10, tick_s = 5;
  read_field(reader, "share", "share of a chip that an instance is: so much slower and cheaper", file.instance_share,
             1e-9, 1);
  read_field(reader, "overhead_ms", "ms that each batch takes beyond the modelled time", file.overhead_ms, 0, 1e6);
  read_field(reader, "batch", "most requests of a batch", file.batch, 1, 4096);
  read_field(reader, "start_up_s", "s from the launch of an instance to its first batch", start_up_s, 0, 1e6);
  read_field(reader, "tick_s", "s between two decisions on the number of instances", tick_s, 1e-3, 1e6);
  read_field(reader, "utilisation", "busy share of the instances that scaling aims at", rules.utilisation, 0.01, 1);
  read_field(reader, "transient_price", "price of a transient instance, as a share of the usual one",
             rules.transient_price, 0, 1);
  read_field(reader, "losses_per_hour", "how often an hour a transient instance is lost, on average",
             file.losses_per_hour, 0, 1e6);
  rules.start_up = nanoseconds(start_up_s), rules.tick = nanoseconds(tick_s);
  reader.finish();
}

Target parse_target(JsonReader reader) {
  Target target;
  target.accuracy = reader.at("accuracy", {"share of right answers asked for"}).number(0, 1);
  target.latency = nanoseconds(reader.at("latency_ms", {"ms from arrival to answer, at most"}).number(tiny, 1e9) / 1e3);
  read_field(reader, "share", "weight of this kind among the requests; those of all kinds are divided by their sum",
             target.share, tiny, 1e6);
  reader.finish();
  return target;
}

std::vector<Nanoseconds> batch_times(const ServiceFile& file, const cost::RecipeFacts& recipe, const cost::Model& model,
                                     const cost::Hardware& chip) {
  std::vector<Nanoseconds> times;
  for (int64_t n = 1; n <= file.batch; ++n) {
    const double seconds = cost::inference_seconds(recipe, model, chip, n * file.request_tokens) / file.instance_share +
                           file.overhead_ms / 1e3;
    if (!(seconds < 1e6))
      throw Error("a batch of " + std::to_string(n) +
                  " requests takes more than 1e6 s; accepted: a larger share of a chip");
    times.push_back(std::max<Nanoseconds>(1, std::llround(seconds * second)));
  }
  return times;
}

// Members answer the same questions.
void check_labels(const Pool& pool, const std::vector<int32_t>& labels, const std::string& checkpoint,
                  const std::string& first) {
  if (labels.empty()) throw Error(checkpoint + ": its task names no classes; a service answers classifier or lm");
  if (labels != pool.labels)
    throw Error(checkpoint + ": another validation set than " + first +
                "'s; train all members with one task.data_seed, such as --set data_seed=1");
}

}  // namespace

ServiceFile parse_service(const Json& object, const std::string& place, const std::string& folder, FieldNotes* notes) {
  JsonReader reader(object, place, notes);
  ServiceFile file;
  read_field(reader, "name", "the service's word in tables", file.name);
  read_field(reader, "doc", "the service in a line", file.doc);
  if (const auto chip = reader.find("hardware", {"chip of the instances; its profile needs a price", file.hardware}))
    file.hardware = chip->name_in("hardware");
  std::string model = "llama_1b";
  if (const auto value =
          reader.find("model", {"model whose size the members cost; need not be the network that answers", model}))
    model = value->name_in("models");
  read_field(reader, "request_tokens", "tokens (images) of a request", file.request_tokens, 1, 1 << 20);
  const JsonReader members = reader.at("members", {"networks that answer, each under a recipe"});
  for (const JsonReader& member : members.list(1)) file.members.push_back(parse_member(member, folder, model));
  for (const JsonReader& target : reader.at("targets", {"kinds of requests, by what they ask for"}).list(1))
    file.targets.push_back(parse_target(target));
  const Json empty = Json::object();
  const auto trace = reader.find("trace", {"when requests arrive"});
  file.trace = parse_trace(trace ? *trace : JsonReader(empty, place + ": trace"), folder);
  const auto instance = reader.find("instance", {"machine that a member runs on"});
  parse_instance(instance ? *instance : JsonReader(empty, place + ": instance"), file);
  PolicyRules& policy = file.rules.policy;
  read_field(reader, "window", "successive requests of a kind over which accuracy is measured", policy.window, 1,
             1 << 20);
  read_field(reader, "margin", "accuracy above a target from which cocktail drops a member", policy.margin, 0, 1);
  read_field(reader, "tolerance", "accuracy below a target that still counts as met", file.tolerance, 0, 1);
  reader.finish();
  return file;
}

Pool make_pool(const ServiceFile& file, const std::string& backend) {
  const cost::Hardware chip = cost::load_hardware(file.hardware);
  if (!chip.price_per_hour) throw Error("hardware " + chip.name + ": no price; a service costs what chips cost");
  Pool pool;
  std::map<std::string, std::vector<Nanoseconds>> known_times;  // members of a recipe and model share them
  for (const MemberFile& row : file.members) {
    std::vector<std::optional<uint64_t>> seeds = row.rounding_seeds;
    if (seeds.empty()) seeds.emplace_back();
    for (const std::optional<uint64_t>& seed : seeds) {
      sim::RunOptions options;
      options.backend = backend;
      options.rounding_seed = seed;
      tasks::Evaluated judged = tasks::evaluate(row.checkpoint, row.recipe, options);
      sim::Answers& answers = judged.result.answers;
      if (pool.members.empty()) pool.labels = answers.labels;
      check_labels(pool, answers.labels, row.checkpoint, file.members.front().checkpoint);
      const Json& recipe = judged.config.at("recipe");
      std::vector<Nanoseconds>& times = known_times[row.model + recipe.dump()];
      if (times.empty())
        times = batch_times(file, cost::facts_of(sim::recipe_from_json(recipe)), cost::load_model(row.model), chip);
      Member member;
      member.name = row.name + (seed ? " #" + std::to_string(*seed) : "");
      member.group = row.group;
      member.answers = std::move(answers.chosen);
      member.batch = times;
      member.price_per_hour = chip.price_per_hour->value * file.instance_share;
      pool.members.push_back(std::move(member));
    }
  }
  pool.calibration = pool.labels.size() / 2;
  learn(pool);
  return pool;
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

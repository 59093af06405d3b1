// `fp4sim random`: the draws of positions I..I+N-1, so that a kernel's stochastic rounding can be replayed elsewhere.
#include <fmt/format.h>

#include "fp4/random_words.h"
#include "src/files/tensor_writer.h"
#include "src/text/json_reader.h"
#include "src/text/member_json.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct RandomOptions {
  int bits = 0;
  std::string packing = "stream";
  uint64_t first = 0;
  uint64_t count = 0;
  PlaceOptions place;
  std::string out;
  bool force = false, json = false;
};

void run_random(const RandomOptions& o) {
  const nlohmann::json word = o.packing;
  const JsonReader reader(word, "random --packing");
  const RandomPackingInfo& packing = reader.row(random_packing_table);
  if (packing.group == 0 && o.bits == 0) throw Error("random --bits: missing; accepted: 1, 2, 4, 8, 16, 32");
  if (packing.group > 0 && o.bits != 0 && o.bits != packing.bits)
    throw Error(fmt::format("random --bits: draws of {} have {} bits", packing.name, packing.bits));
  const int bits = packing.group > 0 ? packing.bits : o.bits;
  check_draws(packing.group > 0 ? 32 : bits, o.first, o.count);
  const RandomPlace place = o.place.place();
  const auto draw_at = [&](uint64_t i) { return packed_draw(packing.id, place, o.first + i, bits); };
  if (!o.out.empty()) {
    TensorWriter writer(o.out, Dtype::u32, {o.count}, o.force);
    for (uint64_t i = 0; i < o.count; ++i) {
      const uint32_t draw = draw_at(i);
      writer.write(&draw, sizeof draw);
    }
    writer.commit();
    return;
  }
  if (o.json) {
    auto draws = nlohmann::ordered_json::array();
    for (uint64_t i = 0; i < o.count; ++i) draws.push_back(draw_at(i));
    return print_json(joined_json({{{"bits", bits}, {"packing", packing.name}},
                                   FP4_NAMED(o.first, o.count, place.seed, place.stream, place.step),
                                   {{"draws", draws}}}));
  }
  const int digits = (bits + 3) / 4;
  Table table = {{">position", ">draw", ">hex"}, {}};
  for (uint64_t i = 0; i < o.count; ++i) {
    const uint32_t draw = draw_at(i);
    table.rows.push_back(
        {fmt::format("{}", o.first + i), fmt::format("{}", draw), fmt::format("{:0{}x}", draw, digits)});
  }
  print_table(table);
}

}  // namespace

void command_random(CLI::App& app, Invocation&) {
  auto o = std::make_shared<RandomOptions>();
  option(app, "--bits n", o->bits, "Width of a draw: 1, 2, 4, 8, 16 or 32; a packing has its own");
  option(app, "--count N", o->count, "Number of draws")->required();
  defaulted(app, "--packing NAME", o->packing,
            "Draws as an instruction takes them out of 32-bit words: a word of `fp4sim list packings`");
  option(app, "--first I", o->first, "Position of the first draw (default 0)");
  add_place_options(app, o->place);
  option(app, "-o,--out FILE", o->out, "Write uint32 draws to a .npy instead of printing them");
  add_force_option(app, o->force);
  add_json_option(app, o->json);
  app.callback([o] { run_random(*o); });
  set_example(app, "fp4sim random --bits 8 --count 4 --seed 5 --stream 3 --step 2");
}

}  // namespace fp4::tools

#include "sweeps/report/page.h"

#include "src/text/embedded.h"
#include "src/text/error.h"
#include "sweeps/carried_files.h"
#include "sweeps/report/report_pack.h"

namespace fp4 {
namespace {

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

std::string packed_library() {
  for (const EmbeddedFile& file : chart_library_data()) return base64(deflate_bytes(file.content));
  throw Error(
      "report: this fp4sim was built without the chart library; run tools/setup.sh (it installs node_modules) and "
      "build again",
      Error::failed);
}

}  // namespace

std::string make_page(const std::string& file, std::string_view title, std::string_view data) {
  const std::string_view page = embedded(file);
  std::string out;
  std::size_t place = 0;
  while (true) {
    const std::size_t open = page.find("{{", place);
    out += page.substr(place, open - place);
    if (open == std::string_view::npos) return out;
    const std::size_t close = page.find("}}", open);
    if (close == std::string_view::npos) throw Error(file + ": {{ without }}", Error::failed);
    const std::string_view word = page.substr(open + 2, close - open - 2);
    if (word == "title")
      out += html_text(title);
    else if (word == "library")
      out += packed_library();
    else if (word == "notices")
      out += html_text(notices_data().front().content);
    else if (word == "data")
      out += base64(deflate_bytes(data));
    else if (word.starts_with("file:"))
      out += embedded("report/" + std::string(word.substr(5)));
    else
      throw unknown_word(file, word, {"title", "library", "notices", "data", "file:NAME"});
    place = close + 2;
  }
}

}  // namespace fp4

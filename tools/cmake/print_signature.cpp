// Writes the source of fp4sim_built_signature (src/backends/signature.cpp) to the file that is its one argument.
#include <cstdio>

#include "src/backends/signature.h"

int main(int count, char** words) {
  std::FILE* file = count == 2 ? std::fopen(words[1], "w") : nullptr;
  if (file == nullptr) return 2;
  const std::string name = "extern \"C\" const char* fp4sim_built_signature()";
  const std::string text = name + ";\n" + name + " { return \"" + fp4::computed_signature() + "\"; }\n";
  const bool is_whole = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && is_whole ? 0 : 1;
}

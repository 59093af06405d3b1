// Writes the source of fp4sim_built_signature (src/backends/signature.cpp) and fp4sim_built_train_signature
// (tasks/run.cpp) to the file that is its one argument.
#include <cstdio>
#include <string>

#include "src/backends/signature.h"
#include "tasks/run.h"

int main(int count, char** words) {
  std::FILE* file = count == 2 ? std::fopen(words[1], "w") : nullptr;
  if (file == nullptr) return 2;
  const std::string name = "extern \"C\" const char* fp4sim_built_signature()";
  const std::string of_task = "extern \"C\" const char* fp4sim_built_train_signature(const char* task)";
  std::string text =
      "#include <cstring>\n" + name + ";\n" + name + " { return \"" + fp4::computed_signature() + "\"; }\n";
  text += of_task + ";\n" + of_task + " {\n";
  for (const std::string& task : fp4::tasks::task_names())
    text += "  if (std::strcmp(task, \"" + task + "\") == 0) return \"" + fp4::tasks::computed_train_signature(task) +
            "\";\n";
  text += "  return nullptr;\n}\n";
  const bool is_whole = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && is_whole ? 0 : 1;
}

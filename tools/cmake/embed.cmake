# fp4_embed(TARGET FUNCTION ROOT folder PREFIX prefix FILES path...): compiles data files into TARGET and defines
#   std::span<const fp4::EmbeddedFile> fp4::FUNCTION()          (src/text/embedded.h; declare it in a header of the folder)
# with names PREFIX/<path relative to ROOT>. May be called several times for one target with different functions.
#
# The bytes go in by the assembler's .incbin: a 1.2 MB chart library takes milliseconds, where an array of 1.2 million
# literals costs g++ seconds and a string literal has length limits. It is written as top-level asm in a generated C++
# file, so no second language needs a compiler and a sanitizer build works unchanged. OBJECT_DEPENDS names every file: a
# changed file assembles again, and the caller's CONFIGURE_DEPENDS glob picks up a new one.
function(fp4_embed target function)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ROOT;PREFIX" "FILES")
  set(assembly "")
  set(declarations "")
  set(rows "")
  set(index 0)
  list(SORT arg_FILES)
  foreach(file IN LISTS arg_FILES)
    file(RELATIVE_PATH path "${arg_ROOT}" "${file}")
    if(arg_PREFIX)
      set(path "${arg_PREFIX}/${path}")
    endif()
    set(symbol "fp4_embed_${function}_${index}")
    # A zero byte follows each file, so that its view can also be handed to functions that want a C string.
    string(APPEND assembly
           "    \".globl ${symbol}\\n.globl ${symbol}_end\\n.balign 16\\n\"\n"
           "    \"${symbol}:\\n.incbin \\\"${file}\\\"\\n${symbol}_end:\\n.byte 0\\n\"\n")
    string(APPEND declarations "extern \"C\" const char ${symbol}[];\nextern \"C\" const char ${symbol}_end[];\n")
    string(APPEND rows "      {\"${path}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
  if(index EQUAL 0)
    set(body "  return {};\n")
  else()
    set(body "  static const EmbeddedFile table[] = {\n${rows}  };\n  return table;\n")
    set(assembly "asm(\".pushsection .rodata\\n\"\n${assembly}    \".popsection\\n\");\n")
  endif()
  file(CONFIGURE OUTPUT "${generated}" @ONLY CONTENT
"// Made by tools/cmake/embed.cmake.
#include <cstddef>
#include <span>

#include \"src/text/embedded.h\"

@assembly@@declarations@
namespace fp4 {
std::span<const EmbeddedFile> @function@();
std::span<const EmbeddedFile> @function@() {
@body@}
}  // namespace fp4
")
  # Not in a unity source: that would be compiled without these dependencies, and an edited file would stay as it was.
  set_source_files_properties("${generated}" PROPERTIES OBJECT_DEPENDS "${arg_FILES}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE "${generated}")
endfunction()

# Which program holds a test file. FP4_TEST_BATCHES=OFF: each its own, so that an edit compiles one file. ON: thirty files
# are one source, which reads their headers once and instantiates their templates once: twenty take 22 seconds of the
# compiler as one source, 29 as two, some 60 as twenty. Within it each file stands in a namespace of its name, so two files may name their
# helpers alike. The target test_NAME is there either way.
option(FP4_TEST_BATCHES "Compile thirty test files at a time" OFF)
set(files_of_a_batch 30)
set(heavy_tags "\\[(exhaustive|loops)\\]") # of files with long loops over the headers of the arithmetic
set(batched "")

function(fp4_test_program name source)
  add_executable(${name} "${source}" $<TARGET_OBJECTS:fp4_test_data> ${built_signature})
  target_link_libraries(${name} PRIVATE fp4_test_support Catch2::Catch2WithMain)
  if(name MATCHES "^test_gpu_")
    target_link_libraries(${name} PRIVATE fp4_gpu_cases)
  endif()
  file(STRINGS "${source}" heavy REGEX "${heavy_tags}")
  if(heavy) # optimised as the libraries are
    target_link_libraries(${name} PRIVATE fp4_flags)
    return()
  endif()
  target_link_libraries(${name} PRIVATE fp4_test_flags)
  if(FP4_PCH)
    target_precompile_headers(${name} REUSE_FROM fp4_test_headers)
  endif()
endfunction()

# Adds FILE to a program and sets ${name}_command to what runs its tests, but for the label.
macro(fp4_test_file name file)
  # A file that adds to a namespace, defines a macro, replaces a function of the program or loops for long has one alone.
  file(STRINGS "${file}" alone REGEX "^(namespace fp4|extern \"C\"|template <>|#define)|operator new|${heavy_tags}")
  if(FP4_TEST_BATCHES AND NOT alone)
    list(LENGTH batched count)
    math(EXPR number "${count} / ${files_of_a_batch}")
    list(APPEND batched "${file}")
    add_custom_target(${name} DEPENDS tests_${number})
    set(${name}_command tests_${number} -\# "[#${name}]")
  else()
    fp4_test_program(${name} "${file}")
    set(${name}_command ${name} "")
  endif()
endmacro()

# Writes the sources of all batches: first every header of their files, so that within the namespaces no header is left to read.
function(fp4_finish_batches)
  set(number 0)
  while(batched)
    list(SUBLIST batched 0 ${files_of_a_batch} files)
    list(REMOVE_ITEM batched ${files})
    set(headers "")
    set(bodies "")
    foreach(file IN LISTS files)
      get_filename_component(name "${file}" NAME_WE)
      file(STRINGS "${file}" lines REGEX "^#include ")
      list(APPEND headers ${lines})
      string(APPEND bodies "namespace ${name} {\n#include \"${file}\"\n}\n")
    endforeach()
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" headers)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/tests_${number}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "${headers}\n${bodies}" @ONLY)
    fp4_test_program(tests_${number} "${source}")
    math(EXPR number "${number} + 1")
  endwhile()
endfunction()

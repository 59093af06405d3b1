# fp4_folder(NAME LIBRARY...): one static library from all sources below the current folder, linked to the folder on its
# left and to outside libraries. A folder without sources still gets its library, from an empty file.
function(fp4_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "*.cpp")
  if(NOT sources)
    set(sources "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${ARGN} PRIVATE fp4_flags)
  if(FP4_FUZZ) # counters for what reads files; commands and tests go without, in a third less of the compiler's time
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

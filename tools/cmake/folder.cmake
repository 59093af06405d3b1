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
  # Counters of branches for what reads files: without them clang takes a quarter less time.
  if(FP4_FUZZ STREQUAL "ALL" OR (FP4_FUZZ AND name STREQUAL "fp4_src"))
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# fp4_apart(NAME LIBRARY REGEX [OPTION...]): the sources of LIBRARY whose paths match REGEX become objects NAME, with
# these compiler options too; the library holds them as before.
function(fp4_apart name library regex)
  get_target_property(rest ${library} SOURCES)
  set(sources ${rest})
  list(FILTER sources INCLUDE REGEX "${regex}")
  list(FILTER rest EXCLUDE REGEX "${regex}")
  add_library(${name} OBJECT ${sources})
  foreach(property INCLUDE_DIRECTORIES LINK_LIBRARIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    get_target_property(values ${library} ${property})
    if(values)
      set_property(TARGET ${name} PROPERTY ${property} ${values})
    endif()
  endforeach()
  target_compile_options(${name} PRIVATE ${ARGN})
  set_property(TARGET ${library} PROPERTY SOURCES ${rest} $<TARGET_OBJECTS:${name}>)
endfunction()

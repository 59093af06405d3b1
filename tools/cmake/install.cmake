# What `cmake --install` gives beside the targets' own rules: the CMake package (fp4sim::core, the headers; fp4sim::c, the
# C library), the same library for pkg-config, man page, shell completions, JSON Schemas for editors, and the licence.
# Man page, completions and schemas are printed by the program itself from its rows.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/fp4sim")
install(EXPORT fp4sim NAMESPACE fp4sim:: DESTINATION "${package_dir}" FILE fp4simTargets.cmake)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/fp4simConfig.cmake" @ONLY CONTENT
"include(\"\${CMAKE_CURRENT_LIST_DIR}/fp4simTargets.cmake\")
")
# Before version 1 a minor version may change the headers.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/fp4simConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/fp4simConfig.cmake" "${PROJECT_BINARY_DIR}/fp4simConfigVersion.cmake"
        DESTINATION "${package_dir}")
# Paths from the file's own place, so that an installed tree can be moved.
file(RELATIVE_PATH to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/fp4sim.pc" @ONLY CONTENT
"prefix=\${pcfiledir}/@to_prefix@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: fp4sim
Description: @PROJECT_DESCRIPTION@, C library
Version: @PROJECT_VERSION@
Libs: -L\${libdir} -lfp4sim
Cflags: -I\${includedir}
")
install(FILES "${PROJECT_BINARY_DIR}/fp4sim.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(TARGETS fp4sim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES LICENSE CHANGELOG.md "${PROJECT_BINARY_DIR}/sweeps/notices/THIRD_PARTY_NOTICES.txt"
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(generated "${PROJECT_BINARY_DIR}/share")
file(MAKE_DIRECTORY "${generated}/schema")
add_custom_command(
  OUTPUT "${generated}/fp4sim.bash" "${generated}/_fp4sim" "${generated}/fp4sim.fish" "${generated}/fp4sim.1"
  COMMAND fp4sim completion bash > "${generated}/fp4sim.bash"
  COMMAND fp4sim completion zsh > "${generated}/_fp4sim"
  COMMAND fp4sim completion fish > "${generated}/fp4sim.fish"
  COMMAND fp4sim completion man > "${generated}/fp4sim.1"
  DEPENDS fp4sim
  VERBATIM)
set(schemas "")
foreach(kind recipe spec accumulator grid hardware model weights service)
  set(schema "${generated}/schema/${kind}.schema.json")
  add_custom_command(OUTPUT "${schema}" COMMAND fp4sim help --schema ${kind} > "${schema}" DEPENDS fp4sim VERBATIM)
  list(APPEND schemas "${schema}")
endforeach()
add_custom_target(fp4_share ALL DEPENDS "${generated}/fp4sim.1" ${schemas})
install(FILES ${schemas} DESTINATION "${CMAKE_INSTALL_DATADIR}/fp4sim/schema")
# What an installation needs to be built.
add_custom_target(fp4_installed)
add_dependencies(fp4_installed fp4sim fp4sim_c fp4_share)
install(FILES "${generated}/fp4sim.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME fp4sim)
install(FILES "${generated}/_fp4sim" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${generated}/fp4sim.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES "${generated}/fp4sim.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")

# `cpack --config build/CPackConfig.cmake`: a Debian package (and, by -G TGZ, an archive) of the same files.
set(CPACK_GENERATOR DEB)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/tools/cmake/deb.cmake")
set(CPACK_PACKAGE_NAME fp4sim)
set(CPACK_PACKAGE_VENDOR "The fp4sim maintainers")
set(CPACK_PACKAGE_CONTACT "${CPACK_PACKAGE_VENDOR} <fp4sim@localhost.invalid>") # a .deb must have an address: there is none
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "MXFP4, NVFP4 and UE5M3 arithmetic bit by bit, golden outputs for kernel
authors, small training tasks, sweeps over recipes and what they cost on a
chip; a command, headers and a C library.") # lines of a .deb have up to 80 characters
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # by dpkg-shlibdeps: Depends names what the program is linked to
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
file(WRITE "${PROJECT_BINARY_DIR}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/triggers")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)

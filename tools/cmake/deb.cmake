# What Debian asks of a package beside the installed files; cpack runs it on them before they are packed.
set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share")
set(doc "${root}/doc/fp4sim")
file(REMOVE "${doc}/LICENSE")
file(WRITE "${doc}/copyright" "fp4sim ${CPACK_PACKAGE_VERSION}
Copyright 2026 ${CPACK_PACKAGE_VENDOR}
License: Apache-2.0, see /usr/share/common-licenses/Apache-2.0
Compiled in, under licences of their own: THIRD_PARTY_NOTICES.txt beside this file.
")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH where it is set
file(WRITE "${doc}/changelog" "fp4sim (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What changed is in CHANGELOG.md beside this file.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9n "${doc}/changelog" "${root}/man/man1/fp4sim.1" COMMAND_ERROR_IS_FATAL ANY)

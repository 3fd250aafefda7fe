# Packages of the programs, by CPack:
#
#   cmake --build build/release && (cd build/release && cpack -G DEB && cpack -G TGZ)
#
# The .deb needs the distribution's libraries and has the units of systemd where they belong. The .tar.gz brings its libraries along, as
# `cmake --install` does, and has the units in share/lockstep/systemd. Both need python3-jinja2.
install(FILES deploy/systemd/lockstep-router.service deploy/systemd/lockstep-worker@.service
        DESTINATION lib/systemd/system COMPONENT system EXCLUDE_FROM_ALL)
install(FILES deploy/systemd/lockstep.env DESTINATION /etc/lockstep COMPONENT system EXCLUDE_FROM_ALL)
install(DIRECTORY deploy/systemd DESTINATION share/lockstep COMPONENT portable EXCLUDE_FROM_ALL)
install(DIRECTORY deploy/prometheus deploy/grafana DESTINATION share/lockstep COMPONENT documents EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.yml" PATTERN "*.json")
install(FILES LICENSE README.md DESTINATION share/doc/lockstep COMPONENT documents EXCLUDE_FROM_ALL)
install(DIRECTORY docs/ DESTINATION share/doc/lockstep/docs COMPONENT documents EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.md")
install(DIRECTORY docs/examples docs/images DESTINATION share/doc/lockstep/docs USE_SOURCE_PERMISSIONS COMPONENT documents EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "The Lockstep project")
set(CPACK_PACKAGE_CONTACT "The Lockstep project <lockstep@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Server of large language models that gives the same bits however a request was scheduled")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
# useradd, for postinst, and what renders chat templates; the libraries come on top.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd, python3-jinja2")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
    ${CMAKE_SOURCE_DIR}/deploy/debian/prerm ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/common/cmake/LockstepPackageKinds.cmake)
include(CPack)

# minja (Jinja templates, headers only) as the target minja::minja.
#
# LOCKSTEP_MINJA_SOURCE:
#   system   the distribution's libminja-dev (default; deploy/install-dependencies installs it)
#   fetch    the pinned commit below, the one that the package holds, from the project's repository
#   FOLDER   a source tree that is already there, with include/minja/minja.hpp in it
set(LOCKSTEP_MINJA_SOURCE "system" CACHE STRING "Where minja comes from: system, fetch or a source folder")

if(LOCKSTEP_MINJA_SOURCE STREQUAL "system")
  find_package(minja CONFIG QUIET)
  if(NOT minja_FOUND)
    message(FATAL_ERROR "libminja-dev is not installed. Run deploy/install-dependencies, or configure with "
                        "-DLOCKSTEP_MINJA_SOURCE=fetch (needs git and a network) or =FOLDER (a source tree).")
  endif()
else()
  if(LOCKSTEP_MINJA_SOURCE STREQUAL "fetch")
    include(FetchContent)
    # SOURCE_SUBDIR names a folder that is not there: the tree is fetched, its own build is not used.
    FetchContent_Declare(minja GIT_REPOSITORY https://github.com/google/minja.git
                         GIT_TAG 021c2293c187789ef13d56c6cfd89c9b134fd80f SOURCE_SUBDIR headers-only)
    FetchContent_MakeAvailable(minja)
    set(LOCKSTEP_MINJA_FOLDER ${minja_SOURCE_DIR})
  else()
    set(LOCKSTEP_MINJA_FOLDER ${LOCKSTEP_MINJA_SOURCE})
  endif()
  if(NOT EXISTS ${LOCKSTEP_MINJA_FOLDER}/include/minja/minja.hpp)
    message(FATAL_ERROR "LOCKSTEP_MINJA_SOURCE=${LOCKSTEP_MINJA_SOURCE}: "
                        "${LOCKSTEP_MINJA_FOLDER}/include/minja/minja.hpp does not exist")
  endif()
  add_library(lockstep_minja INTERFACE)
  target_include_directories(lockstep_minja SYSTEM INTERFACE ${LOCKSTEP_MINJA_FOLDER}/include)
  target_link_libraries(lockstep_minja INTERFACE nlohmann_json::nlohmann_json)
  add_library(minja::minja ALIAS lockstep_minja)
endif()

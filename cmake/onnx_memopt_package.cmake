# `cmake --install build/release --component cxx --prefix FOLDER`: the library for
# other projects, by find_package(onnx_memopt). Installed are the headers of the
# public API alone, and the archives that they need.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(public_headers estimate.h estimate_report.h optimize.h options.h report.h
    suggest_student.h train.h grad/recomputed_segment.h grad/step_options.h)
set(report_headers csv diff dot gates html json read_json text trace)
list(TRANSFORM report_headers PREPEND report/)
list(TRANSFORM report_headers APPEND .h)
foreach(header IN LISTS public_headers report_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/include/onnx_memopt/${header}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onnx_memopt/${folder}
          COMPONENT cxx)
endforeach()

# What users link: onnx_memopt::onnx_memopt.
add_library(onnx_memopt INTERFACE)
target_link_libraries(onnx_memopt INTERFACE memopt_driver memopt_estimate
                      memopt_report)
target_include_directories(onnx_memopt INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(onnx_memopt INTERFACE cxx_std_20)

install(TARGETS onnx_memopt llvm_adt memopt_analysis memopt_driver
        memopt_estimate memopt_grad memopt_io memopt_ir memopt_pass
        memopt_passes memopt_plan memopt_report memopt_rewrite memopt_support
        EXPORT onnx_memopt
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/onnx_memopt COMPONENT cxx)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/onnx_memopt)
install(EXPORT onnx_memopt NAMESPACE onnx_memopt::
        FILE onnx_memopt-targets.cmake
        DESTINATION ${package_folder} COMPONENT cxx)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/onnx_memopt-config.cmake.in
  ${PROJECT_BINARY_DIR}/onnx_memopt-config.cmake
  INSTALL_DESTINATION ${package_folder}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/onnx_memopt-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/onnx_memopt-config.cmake
        ${PROJECT_BINARY_DIR}/onnx_memopt-config-version.cmake
        DESTINATION ${package_folder} COMPONENT cxx)

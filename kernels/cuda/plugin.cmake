# The CUDA plugin, where nvcc is found: build/lib/libcornstarch-cuda.so, opened by the worker only.
# Nothing else links CUDA, so one set of binaries serves machines with and without it.
if(CORNSTARCH_CUDA)
  # 80: cards of 8.x, 90a: Hopper, 90-virtual: later cards. Before enable_language.
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual")
  check_language(CUDA)
endif()
if(CORNSTARCH_CUDA AND CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/*.cu")
  # wgmma and setmaxnreg exist in sm_90a alone, not in PTX for later cards: *_sm90*.cu apart.
  set(cuda_sources_sm90 ${cuda_sources})
  list(FILTER cuda_sources_sm90 INCLUDE REGEX "_sm90[^/]*\\.cu$")
  list(FILTER cuda_sources EXCLUDE REGEX "_sm90[^/]*\\.cu$")
  add_library(cornstarch-cuda MODULE ${cuda_sources})
  set(cuda_targets cornstarch-cuda)
  if(cuda_sources_sm90)
    add_library(cornstarch-cuda-sm90 OBJECT ${cuda_sources_sm90})
    set_target_properties(cornstarch-cuda-sm90 PROPERTIES
      CUDA_ARCHITECTURES 90a-real
      CUDA_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON
      POSITION_INDEPENDENT_CODE ON)
    target_sources(cornstarch-cuda PRIVATE $<TARGET_OBJECTS:cornstarch-cuda-sm90>)
    list(APPEND cuda_targets cornstarch-cuda-sm90)
  endif()
  foreach(target IN LISTS cuda_targets)
    target_include_directories(${target} PRIVATE daemon .)
    target_compile_options(${target} PRIVATE -std=c++20 -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers)
    if(CORNSTARCH_WERROR)
      target_compile_options(${target} PRIVATE -Werror all-warnings -Xcompiler -Werror)
    endif()
  endforeach()
  target_link_directories(cornstarch-cuda PRIVATE ${CUDAToolkit_LIBRARY_DIR})
  target_link_libraries(cornstarch-cuda PRIVATE CUDA::cublasLt)
  target_link_options(cornstarch-cuda PRIVATE LINKER:--disable-new-dtags LINKER:-z,defs
    LINKER:--exclude-libs,ALL
    LINKER:--as-needed)
  set_target_properties(cornstarch-cuda PROPERTIES
    CUDA_RUNTIME_LIBRARY Static
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib"
    BUILD_RPATH "\$ORIGIN;/usr/local/cuda/lib64"
    INSTALL_RPATH "\$ORIGIN;/usr/local/cuda/lib64")
  install(TARGETS cornstarch-cuda LIBRARY DESTINATION lib COMPONENT cuda)
endif()

# Tests that need a GPU (scripts/gpu-test): C programs that open the plugin. attention_*: a program of
# their own, with naive kernels to compare with.
file(GLOB gpu_test_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/*.c")
file(GLOB gpu_attention_sources CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/attention_*.c"
  "${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/attention_*.cu")
list(FILTER gpu_test_sources EXCLUDE REGEX "/attention_[a-z_]*\\.c$")
if(TARGET cornstarch-cuda AND BUILD_TESTING AND gpu_test_sources)
  add_executable(gpu_test_ops ${gpu_test_sources})
  target_link_libraries(gpu_test_ops PRIVATE cs_flags cs_kernels_cpu cs_mask dl)
  target_include_directories(gpu_test_ops PRIVATE tests)
  add_dependencies(gpu_test_ops cornstarch-cuda)
endif()
if(TARGET cornstarch-cuda AND BUILD_TESTING AND gpu_attention_sources)
  add_executable(gpu_test_attention ${gpu_attention_sources})
  target_link_libraries(gpu_test_attention PRIVATE cs_flags cs_kernels_cpu cs_mask dl)
  target_include_directories(gpu_test_attention PRIVATE tests)
  target_compile_options(gpu_test_attention PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  set_target_properties(gpu_test_attention PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  add_dependencies(gpu_test_attention cornstarch-cuda)
endif()

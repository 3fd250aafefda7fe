lockstep_cuda_library(lockstep_kernels_decoder_cuda
  SOURCES ${CMAKE_SOURCE_DIR}/kernels/decoder/decode_layers_cuda.cc
          ${CMAKE_SOURCE_DIR}/kernels/decoder/decode_layers_cuda.cu)

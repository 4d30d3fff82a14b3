/* Messages and collectives between devices: the table of the plugin (kernels/device.h). */
#ifndef CS_CUDA_COMM_NCCL_CUH
#define CS_CUDA_COMM_NCCL_CUH

#include "kernels/cuda/check.cuh"

extern const struct cs_device_comm_ops cs_cuda_comm_ops;

#endif

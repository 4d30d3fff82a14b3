/* What NCCL's result codes mean: whether a peer is gone, or what this host lacks and what to do about it. */
#ifndef CS_CUDA_COMM_NCCL_TROUBLE_CUH
#define CS_CUDA_COMM_NCCL_TROUBLE_CUH

#include <nccl.h>
#include <string.h>

#include "kernels/cuda/check.cuh"

struct cs_nccl_trouble {
    const char *sign; /* part of what the library last said */
    enum cs_status status;
    const char *advice; /* "": none */
};

/* A call of the system failed, or one of CUDA: the code does not say which. Whose peer has closed a connection says
 * ncclRemoteError, but for those that could not be made. */
static const struct cs_nccl_trouble cs_nccl_troubles[] = {
    {"No space left on device", CS_NO_SPACE,
     "make /dev/shm larger (of a container: --shm-size), or remove what is left in it "
     "(/dev/shm/nccl-*)"                                                                       },
    {"Too many open files",     CS_LIMIT,
     "raise the limit of open files (ulimit -n) of the shell that starts cornstarchd"          },
    {"pthread_create failed",   CS_LIMIT,
     "raise the limit of threads (ulimit -u; of a container: its limit of pids)"               },
    {"Failed to malloc",        CS_NO_MEMORY, "the host's memory has run out"                  },
    {"Cannot allocate memory",  CS_NO_MEMORY,
     "the host's memory has run out, or the limit of what may be locked (ulimit -l)"           },
    {"out of memory",           CS_NO_MEMORY,
     "leave more of the GPU's memory free: nothing else on it, or a smaller plan"              },
    {"Permission denied",       CS_REFUSED,   "/dev/shm and the GPUs must be open to this user"},
    {"Connection refused",      CS_PEER_GONE, ""                                               },
    {"Connection reset",        CS_PEER_GONE, ""                                               },
    {"Connection closed",       CS_PEER_GONE, ""                                               },
    {"Broken pipe",             CS_PEER_GONE, ""                                               },
};

static inline struct cs_nccl_trouble cs_nccl_trouble_of(ncclResult_t code, const char *last)
{
    const bool is_system = code == ncclSystemError;
    if (code == ncclRemoteError)
        return {"", CS_PEER_GONE, ""};
    for (const struct cs_nccl_trouble &t : cs_nccl_troubles)
        if ((is_system || code == ncclUnhandledCudaError) && strstr(last, t.sign) != nullptr)
            return t;
    return {"", is_system ? CS_IO : CS_INTERNAL, ""};
}

#endif

/* For tests of what waits for ranks (nccl.cc): as much of cuBLASLt's header as they name. */
typedef struct cublasLtContext *cublasLtHandle_t;

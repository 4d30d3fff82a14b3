/* Plans by measurement: the candidates of cuBLASLt's heuristic are timed on random numbers (zeros
 * would draw less power and run faster) with the L2 emptied before every run, in turns. Of short
 * products the one with the least median stays. Long ones make a card draw all the power that it is
 * allowed, and then the candidate is best that takes the least of it for a product, which a single
 * run does not tell: those near the best run one after the other for as long as the clock takes to
 * settle. Choices can be kept in a file of lines
 *
 *     gemm2 CUBLASLT_VERSION key... algorithm... GPU NAME
 *
 * (numbers decimal for the key, hexadecimal for cuBLASLt's opaque words). Lines are appended with
 * one write each, so that the workers of a host share a file; the last line of a key holds. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/gemm/gemm.cuh"

#define ROUNDS      9
#define TRIES       2 /* rounds after which only candidates near the best go on */
#define NEAR        1.1f
#define FLUSH_BYTES ((size_t)128 << 20)
#define LONG_MS     0.05f  /* a product that is worth it */
#define HEAT_MS     100.0f /* until a card's clock has come down to what its power allows */
#define HOT_MS      60.0f  /* of each candidate */
#define ALGO_WORDS  (sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t))

static void gpu_name(int device, char name[256])
{
    cudaDeviceProp props;
    const bool is_known = cudaGetDeviceProperties(&props, device) == cudaSuccess;
    snprintf(name, 256, "%s", is_known ? props.name : "unknown");
}

/* ---- the file ---- */

/* False: another card, version or format. */
static bool parse_line(const char *line, size_t version, const char *name,
                       struct cs_gemm_saved *out)
{
    int64_t key[CS_GEMM_KEY_FIELDS];
    uint64_t word[ALGO_WORDS];
    size_t file_version = 0;
    int used = 0;
    if (sscanf(line, "gemm2 %zu%n", &file_version, &used) != 1 || file_version != version)
        return false;
    for (size_t i = 0; i < CS_GEMM_KEY_FIELDS; i++) {
        line += used;
        if (sscanf(line, "%" SCNd64 "%n", &key[i], &used) != 1)
            return false;
    }
    for (size_t i = 0; i < ALGO_WORDS; i++) {
        line += used;
        if (sscanf(line, "%" SCNx64 "%n", &word[i], &used) != 1)
            return false;
    }
    line += used;
    const size_t length = strlen(name);
    if (line[0] != ' ' || strncmp(line + 1, name, length) != 0 || line[1 + length] != '\n')
        return false;
    memcpy(&out->key, key, sizeof key);
    memcpy(&out->algo, word, sizeof word);
    return true;
}

static bool keep_saved(struct cs_cuda_gemm_cache *cache, const struct cs_gemm_saved *one)
{
    if ((cache->n_saved & (cache->n_saved + 1)) == 0) { /* 0, 1, 3, 7 ...: room for twice as many */
        struct cs_gemm_saved *grown =
            (struct cs_gemm_saved *)realloc(cache->saved, 2 * (cache->n_saved + 1) * sizeof *grown);
        if (grown == nullptr)
            return false;
        cache->saved = grown;
    }
    cache->saved[cache->n_saved++] = *one;
    return true;
}

static enum cs_status read_file(struct cs_cuda_handle *h, const char *path, struct cs_err *err)
{
    char name[256], line[2048];
    gpu_name(h->device, name);
    FILE *file = fopen(path, "a+"); /* tells now whether it can be written later */
    if (file == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_IO, "file of GEMM plans %s: %s", path,
                            strerror(errno));
    rewind(file);
    enum cs_status status = CS_OK;
    while (status == CS_OK && fgets(line, sizeof line, file) != nullptr) {
        struct cs_gemm_saved one;
        if (parse_line(line, cublasLtGetVersion(), name, &one) && !keep_saved(h->gemm, &one))
            status =
                cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for GEMM plans");
    }
    fclose(file);
    return status;
}

/* What cannot be written is measured again next time. */
static void append_line(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p)
{
    char name[256], line[2048];
    int64_t key[CS_GEMM_KEY_FIELDS];
    uint64_t word[ALGO_WORDS];
    if (h->gemm->path == nullptr)
        return;
    gpu_name(h->device, name);
    memcpy(key, &p->key, sizeof key);
    memcpy(word, &p->algo, sizeof word);
    size_t n = (size_t)snprintf(line, sizeof line, "gemm2 %zu", cublasLtGetVersion());
    for (size_t i = 0; i < CS_GEMM_KEY_FIELDS; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, " %" PRId64, key[i]);
    for (size_t i = 0; i < ALGO_WORDS; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, " %" PRIx64, word[i]);
    n += (size_t)snprintf(line + n, sizeof line - n, " %s\n", name);
    const int fd = open(h->gemm->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return;
    const ssize_t written = write(fd, line, n);
    (void)written;
    close(fd);
}

bool cs_cuda_gemm_take_saved(const struct cs_cuda_handle *h, struct cs_gemm_plan *p)
{
    cublasLtMatmulHeuristicResult_t checked = {};
    for (size_t i = h->gemm->n_saved; i > 0; i--) {
        const struct cs_gemm_saved *one = &h->gemm->saved[i - 1];
        if (memcmp(&one->key, &p->key, sizeof p->key) != 0)
            continue;
        if (cublasLtMatmulAlgoCheck(h->blas, p->desc, p->a, p->b, p->c, p->c, &one->algo,
                                    &checked) != CUBLAS_STATUS_SUCCESS ||
            checked.workspaceSize > CS_CUDA_GEMM_BYTES)
            return false;
        p->algo = one->algo;
        return true;
    }
    return false;
}

/* ---- the measurement ---- */

/* Operands of their own: the caller's result must not change. */
struct trial {
    char *memory;
    void *a, *b, *c, *d, *flush; /* a, b: as the operators say */
    void *bias, *aux;
    cudaEvent_t begin, end;
};

static __global__ void fill_random(size_t n, bool is_bf16, void *x)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        uint32_t s = (uint32_t)i * 2654435761u + 12345u;
        float sum = -6.0f; /* of twelve uniform numbers: nearly normal */
        for (int j = 0; j < 12; j++) {
            s = s * 1664525u + 1013904223u;
            sum += (float)(s >> 8) / 16777216.0f;
        }
        if (is_bf16)
            ((__nv_bfloat16 *)x)[i] = __float2bfloat16_rn(sum);
        else
            ((float *)x)[i] = sum;
    }
}

/* Leaves clean lines in the L2: lines that must be written back would cost the product time. */
static __global__ void read_all(size_t n, const uint4 *x, uint4 *never)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    uint32_t any = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        any |= x[i].x & x[i].y & x[i].z & x[i].w;
    if (any == 0xfffffff7u) /* not in memory that is all ones or all zeros */
        *never = {};
}

static bool has_bias(int64_t epilogue)
{
    return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}

static bool has_aux(int64_t epilogue)
{
    return (epilogue & 128) != 0; /* the bit that all epilogues with an auxiliary matrix share */
}

static size_t size_of(int64_t type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

static bool make_trial(const struct cs_gemm_key *key, cudaStream_t stream, struct trial *t)
{
    const size_t rows_a = (size_t)(key->trans & 1 ? key->k : key->m);
    const size_t rows_b = (size_t)(key->trans & 2 ? key->n : key->k);
    const size_t in = size_of(key->in_type), out = size_of(key->out_type);
    const size_t elements[] = {rows_a * (size_t)key->lda,
                               rows_b * (size_t)key->ldb,
                               (size_t)key->m * (size_t)key->ldc,
                               key->beta == 2 ? (size_t)key->m * (size_t)key->ldc : 0,
                               (size_t)key->n,
                               has_aux(key->epilogue) ? (size_t)key->m * (size_t)key->n : 0};
    const size_t width[] = {in, in, out, out, out, out};
    void **const part[] = {&t->a, &t->b, &t->d, &t->c, &t->bias, &t->aux};
    size_t total = FLUSH_BYTES;
    for (int i = 0; i < 6; i++)
        total += (elements[i] * width[i] + 511) / 256 * 256;
    if (cudaMalloc(&t->memory, total) != cudaSuccess)
        return false;
    char *at = t->memory;
    t->flush = at;
    cudaMemsetAsync(at, 0, FLUSH_BYTES, stream);
    at += FLUSH_BYTES;
    for (int i = 0; i < 6; i++) {
        *part[i] = at;
        if (elements[i] > 0)
            fill_random<<<cs_blocks((int64_t)elements[i], 1024), 256, 0, stream>>>(
                elements[i], width[i] == 2, at);
        at += (elements[i] * width[i] + 511) / 256 * 256;
    }
    if (key->beta != 2)
        t->c = t->d;
    return cudaEventCreate(&t->begin) == cudaSuccess && cudaEventCreate(&t->end) == cudaSuccess;
}

static void drop_trial(struct trial *t)
{
    if (t->begin != nullptr)
        cudaEventDestroy(t->begin);
    if (t->end != nullptr)
        cudaEventDestroy(t->end);
    cudaFree(t->memory);
}

static cublasStatus_t launch(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p,
                             const struct trial *t, const cublasLtMatmulAlgo_t *algo,
                             cudaStream_t stream)
{
    const float alpha = 1.0f, beta = p->key.beta != 0 ? 1.0f : 0.0f;
    return cublasLtMatmul(h->blas, p->desc, &alpha, t->b, p->a, t->a, p->b, &beta, t->c, p->c, t->d,
                          p->c, algo, h->gemm_workspace, CS_CUDA_GEMM_BYTES, stream);
}

/* Milliseconds between the events, negative: something failed. */
static float elapsed(const struct trial *t, cublasStatus_t status)
{
    float ms = -1.0f;
    if (status == CUBLAS_STATUS_SUCCESS && cudaEventSynchronize(t->end) == cudaSuccess &&
        cudaEventElapsedTime(&ms, t->begin, t->end) == cudaSuccess)
        return ms;
    (void)cudaGetLastError();
    return -1.0f;
}

/* One run in milliseconds; negative: it failed. */
static float one_run(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p,
                     const struct trial *t, const cublasLtMatmulAlgo_t *algo, cudaStream_t stream)
{
    read_all<<<1024, 256, 0, stream>>>(FLUSH_BYTES / sizeof(uint4), (const uint4 *)t->flush,
                                       (uint4 *)t->flush);
    cudaEventRecord(t->begin, stream);
    const cublasStatus_t status = launch(h, p, t, algo, stream);
    cudaEventRecord(t->end, stream);
    return elapsed(t, status);
}

/* The same of runs one after the other that take about all_ms, of each_ms each. */
static float many_runs(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p,
                       const struct trial *t, const cublasLtMatmulAlgo_t *algo, float each_ms,
                       float all_ms, cudaStream_t stream)
{
    const int n = (int)(all_ms / each_ms) + 1;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    cudaEventRecord(t->begin, stream);
    for (int i = 0; i < n && status == CUBLAS_STATUS_SUCCESS; i++)
        status = launch(h, p, t, algo, stream);
    cudaEventRecord(t->end, stream);
    const float ms = elapsed(t, status);
    return ms < 0.0f ? ms : ms / (float)n;
}

static float median_of(float *x, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && x[j - 1] > x[j]; j--) {
            const float y = x[j];
            x[j] = x[j - 1];
            x[j - 1] = y;
        }
    return x[n / 2];
}

/* Candidates of found (n) within NEAR of the fastest of ms, which is *least, failed ones left out;
 * returns how many. */
static int keep_near(cublasLtMatmulHeuristicResult_t *found, float (*ms)[ROUNDS], int n,
                     float *least)
{
    float best = -1.0f;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        ms[i][0] = ms[i][0] < 0.0f || ms[i][0] < ms[i][1] ? ms[i][0] : ms[i][1];
        if (ms[i][0] >= 0.0f && (best < 0.0f || ms[i][0] < best))
            best = ms[i][0];
    }
    for (int i = 0; i < n; i++)
        if (ms[i][0] >= 0.0f && ms[i][0] <= best * NEAR)
            found[kept++] = found[i];
    *least = best;
    return kept;
}

/* (n) medians of runs in turns, negative: it failed */
static void time_in_turns(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p,
                          const struct trial *t, const cublasLtMatmulHeuristicResult_t *found,
                          float (*ms)[ROUNDS], int n, float *out, cudaStream_t stream)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++)
            ms[i][round] = one_run(h, p, t, &found[i].algo, stream);
    for (int i = 0; i < n; i++)
        out[i] = ms[i][0] < 0.0f ? -1.0f : median_of(ms[i], ROUNDS);
}

/* The same where the card is hot, of runs that take each_ms. */
static void time_hot(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p,
                     const struct trial *t, const cublasLtMatmulHeuristicResult_t *found,
                     float each_ms, int n, float *out, cudaStream_t stream)
{
    many_runs(h, p, t, &found[0].algo, each_ms, HEAT_MS, stream);
    for (int i = 0; i < n; i++)
        out[i] = many_runs(h, p, t, &found[i].algo, each_ms, HOT_MS, stream);
}

static void choose(const struct cs_cuda_handle *h, struct cs_gemm_plan *p, const struct trial *t,
                   int most, cudaStream_t stream)
{
    cublasLtMatmulHeuristicResult_t found[CS_GEMM_MOST];
    float ms[CS_GEMM_MOST][ROUNDS], times[CS_GEMM_MOST], least = -1.0f, best = -1.0f;
    int n = 0;
    cs_cuda_gemm_candidates(h, p, 4 * most < CS_GEMM_MOST ? 4 * most : CS_GEMM_MOST, found, &n);
    n = n < most ? n : most;
    for (int round = -1; round < TRIES; round++) /* -1: warm-up, loads the kernels */
        for (int i = 0; i < n; i++)
            ms[i][round < 0 ? 0 : round] = one_run(h, p, t, &found[i].algo, stream);
    n = keep_near(found, ms, n, &least);
    if (n > 1 && least >= LONG_MS)
        time_hot(h, p, t, found, least, n, times, stream);
    else
        time_in_turns(h, p, t, found, ms, n, times, stream);
    for (int i = 0; i < n; i++)
        if (times[i] >= 0.0f && (best < 0.0f || times[i] < best)) {
            best = times[i];
            p->algo = found[i].algo;
        }
}

/* Point the descriptor at the trial's vectors; cs_cuda_gemm_run sets the call's own afterwards.
 * What the epilogue does not use must not be set. */
static bool aim_at(struct cs_gemm_plan *p, const void *bias, const void *aux)
{
    if (has_bias(p->key.epilogue) &&
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias) != CUBLAS_STATUS_SUCCESS)
        return false;
    return !has_aux(p->key.epilogue) ||
           cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux,
                                          sizeof aux) == CUBLAS_STATUS_SUCCESS;
}

static void measure(const struct cs_cuda_handle *h, struct cs_gemm_plan *p, int candidates,
                    cudaStream_t stream)
{
    struct trial t = {};
    p->is_measured = true;
    if (make_trial(&p->key, stream, &t) && aim_at(p, t.bias, t.aux)) {
        choose(h, p, &t, candidates, stream);
        append_line(h, p);
    }
    drop_trial(&t);
    (void)cudaGetLastError(); /* short of memory: the heuristic's first stays */
}

void cs_cuda_gemm_measure(struct cs_ctx *ctx, struct cs_gemm_plan *p)
{
    const struct cs_cuda_handle *h = cs_cuda_handle_of(ctx);
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess ||
        capture != cudaStreamCaptureStatusNone)
        return;
    if (cs_cuda_gemm_take_saved(h, p))
        p->is_measured = true;
    else
        measure(h, p, h->gemm->candidates, stream);
}

static enum cs_status check_candidates(int32_t n, struct cs_err *err)
{
    return n >= 0 && n <= CS_GEMM_MOST
               ? CS_OK
               : cs_cuda_fail(err, __FILE__, __LINE__, CS_INVALID,
                              "%d candidates for GEMM plans: from 0 to %d", (int)n, CS_GEMM_MOST);
}

enum cs_status cs_cuda_tune_used(void *handle, void *stream, int32_t candidates, int64_t uses,
                                 int32_t most, int32_t *measured, struct cs_err *err)
{
    const struct cs_cuda_handle *h = (const struct cs_cuda_handle *)handle;
    const enum cs_status status = check_candidates(candidates, err);
    int32_t n = 0;
    if (status != CS_OK)
        return status;
    for (int i = 0; i < CS_GEMM_SLOTS && n < most && candidates > 0; i++) {
        struct cs_gemm_plan *p = &h->gemm->plan[i];
        if (!p->is_used || !p->has_algo || p->is_measured || p->n_uses < uses)
            continue;
        measure(h, p, candidates, (cudaStream_t)stream);
        n++;
    }
    if (measured != nullptr)
        *measured = n;
    return CS_OK;
}

enum cs_status cs_cuda_tune(void *handle, int32_t candidates, const char *path, struct cs_err *err)
{
    struct cs_cuda_handle *h = (struct cs_cuda_handle *)handle;
    struct cs_cuda_gemm_cache *cache = h->gemm;
    const enum cs_status status = check_candidates(candidates, err);
    if (status != CS_OK)
        return status;
    cache->candidates = candidates;
    cache->n_saved = 0;
    free(cache->path);
    cache->path = nullptr;
    if (path == nullptr)
        return CS_OK;
    cache->path = strdup(path);
    if (cache->path == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for GEMM plans");
    return read_file(h, path, err);
}

/* safetensors: bounded reader over mmap, and writer. Format: formats of Hugging Face safetensors
 * 0.4+ (u64 header length, JSON header, data without holes or overlap, whole file covered).
 *
 * The reader trusts nothing: header length against file size before allocating, checked products,
 * offsets monotone and gap-free, names valid UTF-8 and unique. Messages name file, expected and
 * actual size. Tensor pointers live as long as the file object.
 *
 * Reading: cs_st_read_f32 and cs_st_read_raw go through the descriptor, so a file that is cut while
 * open gives CS_CORRUPT. tensor->data is the mapping itself: quick to look at, but it may be
 * unaligned for its dtype, and touching pages that are gone raises SIGBUS. */
#ifndef CS_STORE_SAFETENSORS_H
#define CS_STORE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/status.h"

enum cs_dtype {
    CS_F32,
    CS_F16,
    CS_BF16,
    CS_F64,
    CS_I64,
    CS_I32,
    CS_I16,
    CS_I8,
    CS_U8,
    CS_BOOL,
    CS_DTYPES
};

enum { CS_MAX_DIMS = 8 };

size_t cs_dtype_bytes(enum cs_dtype dtype);
const char *cs_dtype_name(enum cs_dtype dtype); /* "F32" as in the file */

struct cs_st_tensor {
    const char *name;
    enum cs_dtype dtype;
    int n_dims;
    int64_t dim[CS_MAX_DIMS];
    int64_t count; /* elements */
    const void *data;
    const struct cs_st_file *file; /* where the bytes are, NULL: in memory only */
    uint64_t offset;               /* of the data in that file */
};

struct cs_st_file; /* one .safetensors file, mapped */

enum cs_status cs_st_open(const char *path, struct cs_st_file **out,
                          struct cs_err *err) CS_NODISCARD;
void cs_st_close(struct cs_st_file *file); /* accepts NULL */
int cs_st_count(const struct cs_st_file *file);
const struct cs_st_tensor *cs_st_at(const struct cs_st_file *file, int index); /* sorted by name */
const struct cs_st_tensor *cs_st_find(const struct cs_st_file *file,
                                      const char *name); /* or NULL */
const char *cs_st_path(const struct cs_st_file *file);

/* convert count elements starting at element first to fp32 (F32, F16, BF16, F64 only) */
enum cs_status cs_st_read_f32(const struct cs_st_tensor *tensor, int64_t first, int64_t count,
                              float *out, struct cs_err *err) CS_NODISCARD;

/* the same, and CS_CORRUPT with file, tensor and index where an element is NaN or infinite as fp32 */
enum cs_status cs_st_read_finite(const struct cs_st_tensor *tensor, int64_t first, int64_t count,
                                 float *out, struct cs_err *err) CS_NODISCARD;
/* all of it so, on several threads: the first such element is told */
enum cs_status cs_st_read_all_finite(const struct cs_st_tensor *tensor, int threads, float *out,
                                     struct cs_err *err) CS_NODISCARD;
/* that of a whole tensor of floats, its values thrown away */
enum cs_status cs_st_check_finite(const struct cs_st_tensor *tensor,
                                  struct cs_err *err) CS_NODISCARD;
/* index of the first value that is NaN or infinite, -1: none */
int64_t cs_find_not_finite(const float *values, int64_t count);

/* bytes [first_byte, first_byte + bytes) of the tensor's data as they are */
enum cs_status cs_st_read_raw(const struct cs_st_tensor *tensor, uint64_t first_byte, size_t bytes,
                              void *out, struct cs_err *err) CS_NODISCARD;

/* One number at a time, to nearest even; NaN stays NaN (quiet, sign kept). Those of bf16 are here so that loops of them
 * become vector instructions. */
static inline uint16_t cs_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u; /* rounding could turn a NaN into an infinity */
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
}

static inline float cs_f32_from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t cs_f16_from_f32(float value);
float cs_f32_from_f16(uint16_t bits);

struct cs_st_out;
/* makes the fp32 values of one tensor (all elements), called once, when its turn to be written
 * comes */
typedef enum cs_status (*cs_st_fill)(void *user, const struct cs_st_out *tensor, float *out,
                                     struct cs_err *err);

/* One tensor to write. Its values are one of: data in memory as dtype, or fp32 with is_f32; from:
 * another file's tensor, copied or converted (floats only) in small pieces; fill:
 * made on demand. */
struct cs_st_out {
    const char *name;
    enum cs_dtype dtype; /* in the file */
    int n_dims;
    int64_t dim[CS_MAX_DIMS];
    const void *data;
    int is_f32; /* data is fp32 and is rounded to dtype (to nearest even) on the way */
    const struct cs_st_tensor *from;
    cs_st_fill fill;
    void *fill_user;
};

uint64_t cs_st_out_bytes(const struct cs_st_out *tensor); /* of its values in the file */

/* Sorts as the HF writer does (descending dtype size, then name), always writes
 * __metadata__.format = "pt". Writes path.tmp-PID, fsyncs, renames. xxh3 (may be NULL): hash of the
 * whole file as 32 hex digits + NUL; bytes (may be NULL): its size. */
enum cs_status cs_st_write(const char *path, const struct cs_st_out *tensor, int n, char xxh3[33],
                           uint64_t *bytes, struct cs_err *err) CS_NODISCARD;

#endif

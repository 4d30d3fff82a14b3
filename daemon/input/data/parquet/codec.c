/* Unpacks pages: gzip by zlib, snappy and zstd by their libraries. */
#include "input/data/parquet/codec.h"

#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "core/base/system/library.h"

/* The functions that are needed of snappy-c.h and zstd.h; their names and types are fixed. */
struct snappy {
    int (*uncompressed_length)(const char *in, size_t n_in, size_t *n_out);
    int (*uncompress)(const char *in, size_t n_in, char *out, size_t *n_out);
};

struct zstd {
    size_t (*decompress)(void *out, size_t n_out, const void *in, size_t n_in);
    unsigned (*is_error)(size_t code);
};

static const struct cs_symbol snappy_symbols[] = {
    {"snappy_uncompressed_length", offsetof(struct snappy, uncompressed_length)},
    {"snappy_uncompress",          offsetof(struct snappy, uncompress)         },
};
static const struct cs_symbol zstd_symbols[] = {
    {"ZSTD_decompress", offsetof(struct zstd, decompress)},
    {"ZSTD_isError",    offsetof(struct zstd, is_error)  },
};
static const struct cs_library snappy_library = {"libsnappy.so.1", "libsnappy1v5",
                                                 "Parquet files packed with snappy", snappy_symbols,
                                                 (int)CS_ARRAY_LEN(snappy_symbols)};
static const struct cs_library zstd_library = {"libzstd.so.1", "libzstd1",
                                               "Parquet files packed with zstd", zstd_symbols,
                                               (int)CS_ARRAY_LEN(zstd_symbols)};

static enum cs_status broken(struct cs_err *err)
{
    return cs_fail(err, CS_CORRUPT, "a page that cannot be unpacked");
}

static enum cs_status unpack_none(const void *in, size_t n_in, void *out, size_t n_out,
                                  struct cs_err *err)
{
    if (n_in != n_out)
        return broken(err);
    if (n_in > 0)
        memcpy(out, in, n_in);
    return CS_OK;
}

static enum cs_status unpack_snappy(const void *in, size_t n_in, void *out, size_t n_out,
                                    struct cs_err *err)
{
    struct snappy lib;
    size_t n = 0;

    CS_TRY(cs_library_open(&snappy_library, &lib, err));
    if (lib.uncompressed_length(in, n_in, &n) != 0 || n != n_out ||
        lib.uncompress(in, n_in, out, &n) != 0 || n != n_out)
        return broken(err);
    return CS_OK;
}

static enum cs_status unpack_zstd(const void *in, size_t n_in, void *out, size_t n_out,
                                  struct cs_err *err)
{
    struct zstd lib;
    size_t n = 0;

    CS_TRY(cs_library_open(&zstd_library, &lib, err));
    n = lib.decompress(out, n_out, in, n_in);
    return lib.is_error(n) || n != n_out ? broken(err) : CS_OK;
}

static enum cs_status unpack_gzip(const void *in, size_t n_in, void *out, size_t n_out,
                                  struct cs_err *err)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in,
                  .avail_in = (uInt)n_in,
                  .next_out = out,
                  .avail_out = (uInt)n_out};
    int code = 0;

    if (inflateInit2(&z, 15 + 32) != Z_OK)
        return cs_fail(err, CS_NO_MEMORY, "no memory to unpack a page");
    code = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return code == Z_STREAM_END && z.total_out == n_out ? CS_OK : broken(err);
}

static const struct {
    const char *name;
    enum cs_status (*unpack)(const void *in, size_t n_in, void *out, size_t n_out,
                             struct cs_err *err);
} codecs[] = {
    {"none",          unpack_none  },
    {"snappy",        unpack_snappy},
    {"gzip",          unpack_gzip  },
    {"LZO",           NULL         },
    {"Brotli",        NULL         },
    {"LZ4 of Hadoop", NULL         },
    {"zstd",          unpack_zstd  },
    {"LZ4",           NULL         },
};

enum cs_status cs_pq_unpack(int codec, const void *in, size_t n_in, void *out, size_t n_out,
                            struct cs_err *err)
{
    bool is_known = codec >= 0 && (size_t)codec < CS_ARRAY_LEN(codecs);

    if (!is_known || codecs[codec].unpack == NULL)
        return cs_fail(err, CS_UNSUPPORTED,
                       "it is packed with %s; none, snappy, gzip and zstd are read",
                       is_known ? codecs[codec].name : "something unknown");
    if (n_out == 0)
        return CS_OK;
    return codecs[codec].unpack(in, n_in, out, n_out, err);
}

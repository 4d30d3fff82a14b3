/* Decodes sound files with libsndfile, which reads through our own functions: from a file or from memory. */
#include "input/media/sound/sound_file.h"

#include <math.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/base/system/library.h"

/* clang-format off */
#define FUNCTIONS(X) X(sf_open_virtual) X(sf_close) X(sf_readf_float) X(sf_error) X(sf_error_number)

/* clang-format on */

struct sndfile {

#define X(f) __typeof__(f) *f;
    FUNCTIONS(X)
#undef X
};

static const struct cs_symbol symbols[] = {

#define X(f) {#f, offsetof(struct sndfile, f)},
    FUNCTIONS(X)
#undef X
};

static const struct cs_library library = {"libsndfile.so.1", "libsndfile1", "sound files", symbols,
                                          (int)CS_ARRAY_LEN(symbols)};

/* Formats by their first bytes; libsndfile knows more, which nobody needs to be attacked through. */
static const struct {
    const char *magic, *at_8; /* at_8: what stands at byte 8, NULL: anything */
    size_t n;
    const char *name;
    int type; /* of SF_FORMAT_TYPEMASK, 0: not read */
} formats[] = {
    {"RIFF",         "WAVE", 4, "WAV",         SF_FORMAT_WAV },
    {"RF64",         "WAVE", 4, "WAV",         SF_FORMAT_RF64},
    {"FORM",         "AIFF", 4, "AIFF",        SF_FORMAT_AIFF},
    {"FORM",         "AIFC", 4, "AIFF",        SF_FORMAT_AIFF},
    {"fLaC",         NULL,   4, "FLAC",        SF_FORMAT_FLAC},
    {"OggS",         NULL,   4, "Ogg",         SF_FORMAT_OGG },
    {"ID3",          NULL,   3, "MP3",         SF_FORMAT_MPEG},
    {"\xff\xf1",     NULL,   2, "AAC",         0             },
    {"\xff\xf9",     NULL,   2, "AAC",         0             },
    {"\x1a\x45\xdf", NULL,   3, "Matroska",    0             },
    {"0&\xb2u",      NULL,   4, "WMA",         0             },
    {"#!AMR",        NULL,   5, "AMR",         0             },
    {".snd",         NULL,   4, "AU",          0             },
    {"caff",         NULL,   4, "CAF",         0             },
    {"RIFF",         "AVI ", 4, "AVI",         0             },
    {"riff\x2e\x91", NULL,   6, "Wave64",      0             },
    {"<!DO",         NULL,   4, "HTML page",   0             },
    {"<htm",         NULL,   4, "HTML page",   0             },
    {"version http", NULL,   9, "LFS pointer", 0             },
};

struct cs_sound_file {
    struct cs_sound_source source;
    int fd; /* -1: bytes */
    int64_t at, n_bytes;
    struct cs_err failed; /* of reading */
    struct sndfile lib;
    SNDFILE *decoder;
    int32_t channels;
    int64_t n_read; /* frames */
    float *block;   /* (CS_SOUND_BLOCK, channels) */
};

static size_t read_bytes(struct cs_sound_file *f, void *out, size_t n, int64_t at)
{
    size_t got = 0;

    if (at < 0 || at >= f->n_bytes)
        return 0;
    if ((int64_t)n > f->n_bytes - at)
        n = (size_t)(f->n_bytes - at);
    if (f->fd < 0) {
        memcpy(out, (const char *)f->source.bytes + at, n);
        return n;
    }
    if (cs_read_at(f->fd, f->source.name, out, n, (uint64_t)at, &got, &f->failed) != CS_OK)
        return 0;
    return got;
}

static sf_count_t get_length(void *user)
{
    return ((struct cs_sound_file *)user)->n_bytes;
}

static sf_count_t seek_to(sf_count_t offset, int whence, void *user)
{
    struct cs_sound_file *f = user;
    const int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->at : f->n_bytes;

    if (offset < -from || offset > f->n_bytes - from)
        return -1;
    f->at = from + offset;
    return f->at;
}

static sf_count_t read_next(void *to, sf_count_t n, void *user)
{
    struct cs_sound_file *f = user;
    const size_t got = n > 0 ? read_bytes(f, to, (size_t)n, f->at) : 0;

    f->at += (int64_t)got;
    return (sf_count_t)got;
}

static sf_count_t tell(void *user)
{
    return ((struct cs_sound_file *)user)->at;
}

/* A bare MPEG stream begins with eleven set bits, a version and a layer that exist. */
static bool is_mpeg_frame(const uint8_t *b, size_t n)
{
    return n >= 3 && b[0] == 0xff && (b[1] & 0xe0) == 0xe0 && (b[1] & 0x18) != 0x08 &&
           (b[1] & 0x06) != 0 && (b[2] & 0xf0) != 0xf0;
}

static enum cs_status check_format(struct cs_sound_file *f, const char **name, int *type,
                                   struct cs_err *err)
{
    uint8_t head[16] = {0};
    const size_t n = read_bytes(f, head, sizeof head, 0);

    if (f->failed.status != CS_OK)
        return cs_fail(err, f->failed.status, "%s", f->failed.text);
    if (n == 0)
        return cs_fail(err, CS_CORRUPT, "%s: an empty file, no sound", f->source.name);
    *name = NULL;
    for (size_t i = 0; i < CS_ARRAY_LEN(formats) && *name == NULL; i++)
        if (n >= formats[i].n && memcmp(head, formats[i].magic, formats[i].n) == 0 &&
            (formats[i].at_8 == NULL || (n >= 12 && memcmp(head + 8, formats[i].at_8, 4) == 0))) {
            *name = formats[i].name;
            *type = formats[i].type;
        }
    if (*name == NULL && n >= 8 && memcmp(head + 4, "ftyp", 4) == 0) {
        *name = "MP4";
        *type = 0;
    }
    if (*name == NULL && is_mpeg_frame(head, n)) {
        *name = "MP3";
        *type = SF_FORMAT_MPEG;
    }
    if (*name != NULL && *type != 0)
        return CS_OK;
    if (*name != NULL)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: %s; sounds are read from WAV, FLAC, Ogg, MP3 and AIFF, convert it",
                       f->source.name, *name);
    return cs_fail(err, CS_CORRUPT, "%s: no sound file (%lld bytes)", f->source.name,
                   (long long)f->n_bytes);
}

/* libsndfile opens by its own look at the file: what it found must be what we saw. */
static enum cs_status check_info(const char *name, int type, const SF_INFO *info,
                                 struct cs_err *err)
{
    const int found = info->format & SF_FORMAT_TYPEMASK;

    if (found != type && !(type == SF_FORMAT_WAV && found == SF_FORMAT_WAVEX))
        return cs_fail(err, CS_CORRUPT, "%s: its parts are of different formats", name);
    if (info->channels < 1 || info->channels > CS_SOUND_MAX_CHANNELS)
        return cs_fail(err, CS_LIMIT, "%s: %d channels, the limit is %d", name, info->channels,
                       CS_SOUND_MAX_CHANNELS);
    if (info->samplerate < CS_SOUND_MIN_RATE || info->samplerate > CS_SOUND_MAX_RATE)
        return cs_fail(err, CS_LIMIT, "%s: %d samples a second; from %d to %d are read", name,
                       info->samplerate, CS_SOUND_MIN_RATE, CS_SOUND_MAX_RATE);
    if (info->frames < 0)
        return cs_fail(err, CS_CORRUPT, "%s: a length of %lld samples", name,
                       (long long)info->frames);
    return CS_OK;
}

static enum cs_status open_decoder(struct cs_sound_file *f, struct cs_sound_info *info,
                                   bool *is_exact, struct cs_err *err)
{
    SF_VIRTUAL_IO io = {get_length, seek_to, read_next, NULL, tell};
    SF_INFO found = {0};
    const char *name = NULL;
    int type = 0;

    CS_TRY(check_format(f, &name, &type, err));
    CS_TRY(cs_library_open(&library, &f->lib, err));
    f->decoder = f->lib.sf_open_virtual(&io, SFM_READ, &found, f);
    if (f->failed.status != CS_OK)
        return cs_fail(err, f->failed.status, "%s", f->failed.text);
    if (f->decoder == NULL)
        return cs_fail(err, CS_CORRUPT, "%s: %s cannot be read: %s", f->source.name, name,
                       f->lib.sf_error_number(f->lib.sf_error(NULL)));
    CS_TRY(check_info(f->source.name, type, &found, err));
    f->channels = found.channels;
    *info = (struct cs_sound_info){
        .n_frames = found.frames, .rate = found.samplerate, .channels = found.channels};
    strncpy(info->format, name, sizeof info->format - 1);
    *is_exact = type != SF_FORMAT_MPEG && found.frames < SF_COUNT_MAX;
    f->block = malloc((size_t)CS_SOUND_BLOCK * (size_t)f->channels * sizeof *f->block);
    if (f->block == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for %d channels", f->source.name,
                       f->channels);
    return CS_OK;
}

static enum cs_status open_source(struct cs_sound_file *f, struct cs_err *err)
{
    uint64_t bytes = f->source.n_bytes;

    if (f->source.bytes == NULL)
        CS_TRY(cs_open_regular(f->source.name, &f->fd, &bytes, err));
    f->n_bytes = (int64_t)bytes;
    return CS_OK;
}

enum cs_status cs_sound_file_open(const struct cs_sound_source *source, struct cs_sound_file **out,
                                  struct cs_sound_info *info, bool *is_exact, struct cs_err *err)
{
    struct cs_sound_file *f = calloc(1, sizeof *f);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (f == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory to open it", source->name);
    f->source = *source;
    f->fd = -1;
    status = open_source(f, err);
    if (status == CS_OK)
        status = open_decoder(f, info, is_exact, err);
    if (status != CS_OK) {
        cs_sound_file_close(f);
        return status;
    }
    *out = f;
    return CS_OK;
}

enum cs_status cs_sound_file_next(struct cs_sound_file *f, float mono[CS_SOUND_BLOCK], int64_t *got,
                                  struct cs_err *err)
{
    const int32_t channels = f->channels;
    const float *in = f->block;

    *got = f->lib.sf_readf_float(f->decoder, f->block, CS_SOUND_BLOCK);
    if (f->failed.status != CS_OK)
        return cs_fail(err, f->failed.status, "%s", f->failed.text);
    if (*got < 0 || *got > CS_SOUND_BLOCK || f->lib.sf_error(f->decoder) != 0)
        return cs_fail(err, CS_CORRUPT, "%s: damaged after %lld samples: %s", f->source.name,
                       (long long)f->n_read, f->lib.sf_error_number(f->lib.sf_error(f->decoder)));
    for (int64_t i = 0; i < *got; i++) {
        float sum = 0.0f;
        for (int32_t c = 0; c < channels; c++)
            sum += *in++;
        mono[i] = sum / (float)channels;
        if (!isfinite(mono[i]))
            return cs_fail(err, CS_CORRUPT, "%s: sample %lld is no finite number", f->source.name,
                           (long long)(f->n_read + i));
    }
    f->n_read += *got;
    return CS_OK;
}

void cs_sound_file_close(struct cs_sound_file *f)
{
    if (f == NULL)
        return;
    if (f->decoder != NULL)
        (void)f->lib.sf_close(f->decoder);
    if (f->fd >= 0)
        close(f->fd);
    free(f->block);
    free(f);
}

/* Sounds: decoding, resampling and log-mel against transformers and librosa (tests/golden/make_sounds.py), lengths in
 * rows, damaged and odd files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/library.h"
#include "input/media/sound/features.h"
#include "store/safetensors.h"
#include "support/need.h"
#include "support/tmpdir.h"

static char *dir;

/* The same integers as signal() of make_sounds.py. */
struct signal {
    const char *name;
    int64_t n;
    uint32_t seed;
    int step, sweep, loud, noise;
};

static int16_t *make_signal(const struct signal *s)
{
    int16_t *out = malloc((size_t)s->n * sizeof *out);
    uint32_t x = s->seed;
    int64_t phase = 0;

    for (int64_t i = 0; i < s->n; i++) {
        x = x * UINT32_C(1664525) + UINT32_C(1013904223);
        phase = (phase + s->step + (i * s->sweep >> 16)) & 0xffff;
        int64_t v = ((llabs(phase - 32768) - 16384) * s->loud) >> 8;
        v += ((int64_t)(x >> 16) - 32768) >> s->noise;
        out[i] = (int16_t)(v < -32768 ? -32768 : v > 32767 ? 32767 : v);
    }
    return out;
}

static float *as_floats(const int16_t *q, int64_t n)
{
    float *out = malloc((size_t)n * sizeof *out);

    for (int64_t i = 0; i < n; i++)
        out[i] = (float)q[i] / 32768.0f;
    return out;
}

static void put(uint8_t **at, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        *(*at)++ = (uint8_t)(value >> (8 * i));
}

/* A WAV of frames (n, channels), whose channel c is rows[c]; bits 8, 16, 24, or 32 for floats. Returns its bytes. */
static uint8_t *make_wav(int16_t *const *rows, int64_t n, int channels, int rate, int bits,
                         size_t *size)
{
    const int64_t data = n * channels * bits / 8;
    uint8_t *out = malloc((size_t)data + 44), *at = out;

    memcpy(at, "RIFF", 4), at += 4;
    put(&at, (uint64_t)data + 36, 4);
    memcpy(at, "WAVEfmt ", 8), at += 8;
    put(&at, 16, 4);
    put(&at, bits == 32 ? 3 : 1, 2);
    put(&at, (uint64_t)channels, 2);
    put(&at, (uint64_t)rate, 4);
    put(&at, (uint64_t)(rate * channels * bits / 8), 4);
    put(&at, (uint64_t)(channels * bits / 8), 2);
    put(&at, (uint64_t)bits, 2);
    memcpy(at, "data", 4), at += 4;
    put(&at, (uint64_t)data, 4);
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < channels; c++) {
            const int16_t v = rows[c][i];
            const float f = (float)v / 32768.0f;
            uint32_t word = (uint32_t)(uint16_t)v;
            if (bits == 8)
                word = (uint32_t)((v >> 8) + 128);
            else if (bits == 24)
                word <<= 8;
            else if (bits == 32)
                memcpy(&word, &f, 4);
            put(&at, word, bits / 8);
        }
    *size = (size_t)data + 44;
    return out;
}

static struct cs_st_file *open_golden(void)
{
    struct cs_st_file *golden = NULL;
    struct cs_err err = {0};

    need(cs_st_open(source_path("tests/golden/sounds.safetensors"), &golden, &err), &err);
    return golden;
}

static float *golden_values(const struct cs_st_file *golden, const char *name, int64_t *n)
{
    const struct cs_st_tensor *t = cs_st_find(golden, name);
    struct cs_err err = {0};
    float *out = NULL;

    if (t == NULL)
        fail_msg("no golden %s", name);
    *n = t->count;
    out = malloc((size_t)t->count * sizeof *out);
    need(cs_st_read_f32(t, 0, t->count, out, &err), &err);
    return out;
}

static struct cs_sound_processor read_processor(const char *json)
{
    struct cs_sound_processor p = {0};
    struct cs_err err = {0};
    json_t *config = json_loads(json, 0, NULL);
    const struct cs_doc doc = {.name = "preprocessor_config.json", .where = "", .json = config};

    assert_non_null(config);
    need(cs_sound_processor_read(&doc, NULL, &p, &err), &err);
    json_decref(config);
    return p;
}

static struct cs_sound_processor whisper(int mels)
{
    char json[200];

    snprintf(json, sizeof json,
             "{\"feature_extractor_type\": \"WhisperFeatureExtractor\", \"feature_size\": %d, "
             "\"n_samples\": 480000, \"nb_max_frames\": 3000}",
             mels);
    return read_processor(json);
}

/* features of a signal -> (chunks * chunk_frames, mels) */
static float *features_of(const struct cs_sound_processor *p, enum cs_sound_family family,
                          const struct signal *s, struct cs_sound_layout *layout)
{
    int16_t *q = make_signal(s);
    float *x = as_floats(q, s->n), *values = NULL;
    struct cs_mel *mel = NULL;
    struct cs_err err = {0};

    need(cs_mel_new(p->rate, p->n_mels, p->n_fft, p->hop, &mel, &err), &err);
    need(cs_sound_layout_make(p, family, s->n, layout, &err), &err);
    values = malloc((size_t)(layout->n_items * p->chunk_frames * p->n_mels) * sizeof *values);
    need(cs_sound_features(p, mel, layout, x, values, &err), &err);
    cs_mel_free(mel);
    free(q);
    free(x);
    return values;
}

/* The largest difference from the frames that are kept of NAME. */
static double golden_difference(const struct cs_st_file *golden, const char *name,
                                const float *values, int32_t n_mels)
{
    char at_name[64];
    int64_t n = 0;
    int32_t at[64];
    double worst = 0;
    struct cs_err err = {0};
    float *want = golden_values(golden, name, &n);

    snprintf(at_name, sizeof at_name, "%s.at", name);
    const struct cs_st_tensor *rows = cs_st_find(golden, at_name);
    assert_non_null(rows);
    assert_true(rows->count <= 64 && rows->count * n_mels == n);
    need(cs_st_read_raw(rows, 0, (size_t)rows->count * 4, at, &err), &err);
    for (int64_t r = 0; r < rows->count; r++)
        for (int32_t m = 0; m < n_mels; m++) {
            const double d =
                fabs((double)values[at[r] * n_mels + m] - (double)want[r * n_mels + m]);
            if (!(d <= worst))
                worst = d;
        }
    free(want);
    return worst;
}

/* the rows of CLIPS in make_sounds.py */
static const struct signal clips[] = {
    {"sweep", 32037,  1, 900,  3000, 200, 6 },
    {"noise", 8000,   2, 0,    0,    0,   2 },
    {"quiet", 16000,  3, 1802, 0,    1,   15},
    {"zeros", 1600,   4, 0,    0,    0,   16},
    {"tiny",  160,    5, 700,  0,    128, 4 },
    {"short", 399,    6, 700,  0,    128, 4 },
    {"one",   1,      7, 700,  0,    255, 4 },
    {"long",  496000, 8, 500,  90,   160, 5 },
};

static void log_mel_equals_transformers(void **state)
{
    struct cs_st_file *golden = open_golden();

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(clips); i++)
        for (int mels = 80; mels <= 128; mels += 48) {
            const struct cs_sound_processor p = whisper(mels);
            struct cs_sound_layout layout;
            char name[32];
            float *values = features_of(&p, CS_SOUND_WHISPER, &clips[i], &layout);
            snprintf(name, sizeof name, "%s.%d", clips[i].name, mels);
            const double worst = golden_difference(golden, name, values, mels);
            if (!(worst < 1e-4))
                fail_msg("%s differs by %g", name, worst);
            assert_int_equal(layout.is_cut, clips[i].n > 480000);
            assert_int_equal(layout.rows, 1500);
            free(values);
        }
    cs_st_close(golden);
}

static void other_sizes_equal_transformers(void **state)
{
    const struct signal s = {"other", 20000, 9, 700, 500, 100, 5};
    const struct cs_sound_processor p = read_processor(
        "{\"feature_extractor_type\": \"WhisperFeatureExtractor\", \"feature_size\": 40, "
        "\"sampling_rate\": 12000, \"hop_length\": 120, \"chunk_length\": 5, \"n_fft\": 330, "
        "\"padding_value\": 0.25}");
    struct cs_st_file *golden = open_golden();
    struct cs_sound_layout layout;
    float *values = features_of(&p, CS_SOUND_WHISPER, &s, &layout);
    const double worst = golden_difference(golden, "other.40", values, 40);

    (void)state;
    if (!(worst < 1e-4))
        fail_msg("differs by %g", worst);
    assert_int_equal(layout.n_padded, 60000);
    free(values);
    cs_st_close(golden);
}

/* the files and features that were made beside the project, where they lie */
static void shared_goldens_are_met(void **state)
{
    static const char *const names[] = {"tone", "sweep", "noise", "zeros", "tiny"};
    const char *folder = source_path("../shared/golden/processors");
    char path[512];
    struct cs_st_file *golden = NULL;
    struct cs_err err = {0};

    (void)state;
    snprintf(path, sizeof path, "%s/whisper.safetensors", folder);
    if (cs_st_open(path, &golden, NULL) != CS_OK)
        skip();
    for (size_t i = 0; i < CS_ARRAY_LEN(names) * 2; i++) {
        const int mels = i % 2 == 0 ? 80 : 128;
        const struct cs_sound_processor p = whisper(mels);
        struct cs_sound_layout layout;
        struct cs_sound sound = {0};
        struct cs_mel *mel = NULL;
        int64_t n = 0;
        snprintf(path, sizeof path, "%s/audio/%s.wav", folder, names[i / 2]);
        need(cs_sound_read(&(struct cs_sound_source){.name = path}, 16000, 0, &sound, NULL, &err),
             &err);
        need(cs_sound_layout_make(&p, CS_SOUND_WHISPER, sound.n_samples, &layout, &err), &err);
        need(cs_mel_new(p.rate, mels, p.n_fft, p.hop, &mel, &err), &err);
        float *values = malloc((size_t)(p.chunk_frames * mels) * sizeof *values);
        need(cs_sound_features(&p, mel, &layout, sound.samples, values, &err), &err);
        snprintf(path, sizeof path, "%s.%d", names[i / 2], mels);
        float *want = golden_values(golden, path, &n); /* (mels, every 25th frame) */
        for (int64_t k = 0; k < n; k++) {
            const float got = values[k % 120 * 25 * mels + k / 120];
            if (!(fabsf(got - want[k]) < 1e-4f))
                fail_msg("%s: value %lld is %g, want %g", path, (long long)k, (double)got,
                         (double)want[k]);
        }
        free(values);
        free(want);
        cs_mel_free(mel);
        cs_sound_free(&sound);
    }
    cs_st_close(golden);
}

/* The range of a long sound is that of all its chunks, and windows reach over their borders. */
static void voxtral_chunks_equal_transformers(void **state)
{
    const struct cs_sound_processor p = whisper(128);
    struct cs_st_file *golden = open_golden();
    struct cs_sound_layout layout;
    float *values = features_of(&p, CS_SOUND_VOXTRAL, &clips[7], &layout);
    const double worst = golden_difference(golden, "voxtral.128", values, 128);

    (void)state;
    if (!(worst < 1e-4))
        fail_msg("differs by %g", worst);
    assert_int_equal(layout.n_items, 2);
    assert_int_equal(layout.rows, 375);
    assert_false(layout.is_cut);
    free(values);
    cs_st_close(golden);
}

/* Frames that do not count are left away, but for those that the convolutions see: a row behind them is at most two
 * convolutions of three frames wide. */
static void qwen2_audio_has_the_frames_of_its_sound(void **state)
{
    const struct cs_sound_processor p = whisper(128);
    struct cs_sound_layout all, own;
    float *whole = features_of(&p, CS_SOUND_WHISPER, &clips[1], &all);
    float *part = features_of(&p, CS_SOUND_QWEN2_AUDIO, &clips[1], &own);

    (void)state;
    assert_int_equal(all.n_frames, 3000);
    assert_int_equal(own.n_frames, 50); /* 8000 samples */
    assert_int_equal(own.rows, 12);
    assert_int_equal(own.data_frames, 51);
    assert_memory_equal(part, whole, 51 * 128 * sizeof(float));
    free(whole);
    free(part);
}

static void layouts_of_sounds_have_their_items_and_texts(void **state)
{
    const struct cs_sound_processor p = whisper(128);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_media_layout layout;
    struct cs_media_bounds most;
    struct cs_err err = {0};

    (void)state;
    need(cs_sound_media_layout(&p, CS_SOUND_QWEN2_AUDIO, 16000, arena, &layout, &err), &err);
    assert_int_equal(layout.n_items, 1);
    assert_int_equal(layout.n_rows, 25);
    assert_int_equal(layout.items[0].shape.kind, CS_ITEM_SOUND);
    assert_int_equal(layout.items[0].shape.grid[0], 100);
    assert_int_equal(layout.items[0].shape.bytes, 101 * 128 * 4);
    assert_int_equal(layout.n_pieces, 3);
    assert_string_equal(layout.pieces[0].text, "<|audio_bos|>");
    assert_true(layout.pieces[0].is_wrap && layout.pieces[0].is_token);
    assert_int_equal(layout.pieces[1].n_rows, 25);
    need(cs_sound_bounds_of(&p, CS_SOUND_QWEN2_AUDIO, 480000, &most, &err), &err);
    assert_int_equal(most.rows, 750);
    assert_int_equal(most.item_bytes, 3000 * 128 * 4);
    need(cs_sound_media_layout(&p, CS_SOUND_VOXTRAL, 960001, arena, &layout, &err), &err);
    assert_false(layout.is_cut);
    assert_int_equal(layout.n_items, 3);
    assert_int_equal(layout.n_rows, 3 * 375);
    assert_int_equal(layout.items[2].first_row, 750);
    assert_int_equal(layout.items[2].shape.grid[0], 3000);
    assert_string_equal(layout.pieces[0].text, "[BEGIN_AUDIO]");
    need(cs_sound_media_layout(&p, CS_SOUND_WHISPER, 480001, arena, &layout, &err), &err);
    assert_true(layout.is_cut);
    assert_int_equal(cs_sound_media_layout(&p, CS_SOUND_QWEN2_AUDIO, 320, arena, &layout, &err),
                     CS_INVALID);
    assert_non_null(strstr(err.text, "too short"));
    cs_arena_free(arena);
}

static uint64_t digest(uint64_t h, int32_t count)
{
    for (int i = 0; i < 4; i++)
        h = (h ^ (((uint32_t)count >> (8 * i)) & 0xff)) * UINT64_C(0x100000001b3);
    return h;
}

/* 100,000 lengths: the same numbers of rows as transformers' */
static void counts_equal_transformers(void **state)
{
    const struct cs_sound_processor p = whisper(128);
    json_t *want = json_load_file(source_path("tests/golden/sounds.json"), 0, NULL);
    static const char *const names[] = {"whisper", "qwen2_audio", "voxtral"};

    (void)state;
    assert_non_null(want);
    for (int f = 0; f < CS_SOUND_FAMILIES; f++) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        uint32_t x = 99;
        char text[20];
        enum cs_sound_family family;
        assert_true(cs_sound_family_find(names[f], &family) && (int)family == f);
        for (int i = 0; i < 100000; i++) {
            struct cs_sound_layout layout;
            x = x * UINT32_C(1664525) + UINT32_C(1013904223);
            const int64_t n = 1 + (x >> 8) % (i % 4 == 0 ? 5000 : 2000000);
            const enum cs_status status = cs_sound_layout_make(&p, family, n, &layout, NULL);
            if (status != CS_OK)
                assert_true(family == CS_SOUND_QWEN2_AUDIO && n <= 320);
            h = digest(h, status == CS_OK ? layout.rows * layout.n_items : 0);
        }
        snprintf(text, sizeof text, "%016llx", (unsigned long long)h);
        assert_string_equal(text, json_string_value(json_object_get(want, names[f])));
    }
    json_decref(want);
}

/* Rate, channels, samples and seed of STEREO in make_sounds.py; bits of the file. */
static const struct clip {
    const char *name;
    int rate, channels, bits;
    int64_t n;
    uint32_t seed;
} stereo[] = {
    {"stereo44", 44100, 2, 16, 30011, 11},
    {"stereo44", 44100, 2, 24, 30011, 11},
    {"eight",    8000,  1, 16, 9001,  12},
    {"six48",    48000, 6, 32, 20000, 13},
    {"same16",   16000, 2, 16, 5000,  14},
    {"eleven",   11025, 1, 16, 300,   15},
};

static uint8_t *stereo_wav(const struct clip *c, size_t *size)
{
    int16_t *rows[8] = {NULL};
    uint8_t *wav = NULL;

    for (int k = 0; k < c->channels; k++) {
        const struct signal s = {c->name, c->n, c->seed + (uint32_t)k, 700 + 100 * k, 2000, 150, 5};
        rows[k] = make_signal(&s);
    }
    wav = make_wav(rows, c->n, c->channels, c->rate, c->bits, size);
    for (int k = 0; k < c->channels; k++)
        free(rows[k]);
    return wav;
}

static void resampled_sounds_equal_librosa(void **state)
{
    struct cs_st_file *golden = open_golden();

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(stereo); i++) {
        char name[48];
        int64_t n_want = 0;
        int32_t length = 0;
        size_t size = 0;
        struct cs_sound sound = {0};
        struct cs_sound_info info = {0}, probed = {0};
        struct cs_err err = {0};
        uint8_t *wav = stereo_wav(&stereo[i], &size);
        const struct cs_sound_source source = {"wav", wav, size};
        snprintf(name, sizeof name, "resampled.%s", stereo[i].name);
        float *want = golden_values(golden, name, &n_want);
        strcat(name, ".n");
        need(cs_st_read_raw(cs_st_find(golden, name), 0, 4, &length, &err), &err);
        need(cs_sound_read(&source, 16000, 0, &sound, &info, &err), &err);
        need(cs_sound_probe(&source, &probed, &err), &err);
        assert_int_equal(probed.n_frames, stereo[i].n);
        assert_int_equal(probed.channels, stereo[i].channels);
        assert_int_equal(probed.rate, stereo[i].rate);
        assert_string_equal(probed.format, "WAV");
        assert_int_equal(sound.n_samples, length);
        assert_int_equal(cs_sound_resampled(stereo[i].n, stereo[i].rate, 16000), length);
        const int64_t part = length < 200 ? length : 200, middle = length / 2;
        for (int64_t k = 0; k < n_want; k++) {
            const int64_t at = n_want < 600   ? k % length
                               : k < part     ? k
                               : k < 2 * part ? middle + k - part
                                              : length - part + k - 2 * part;
            if (!(fabsf(sound.samples[at] - want[k]) < 2e-5f))
                fail_msg("%s: sample %lld is %.9g, want %.9g", stereo[i].name, (long long)at,
                         (double)sound.samples[at], (double)want[k]);
        }
        cs_sound_free(&sound);
        free(want);
        free(wav);
    }
    cs_st_close(golden);
}

/* what is read of a long sound alone is what reading all of it has there */
static void the_start_of_a_sound_is_the_same_alone(void **state)
{
    size_t size = 0;
    struct cs_sound all = {0}, start = {0};
    struct cs_err err = {0};
    uint8_t *wav = stereo_wav(&stereo[0], &size);
    const struct cs_sound_source source = {"wav", wav, size};

    (void)state;
    need(cs_sound_read(&source, 16000, 0, &all, NULL, &err), &err);
    need(cs_sound_read(&source, 16000, 3000, &start, NULL, &err), &err);
    assert_int_equal(start.n_samples, 3000);
    assert_memory_equal(start.samples, all.samples, 3000 * sizeof(float));
    cs_sound_free(&all);
    cs_sound_free(&start);
    free(wav);
}

/* Writes with libsndfile itself. */
struct writer {
    __typeof__(sf_open) *open;
    __typeof__(sf_writef_short) *write;
    __typeof__(sf_close) *close;
};

static const struct cs_symbol writer_symbols[] = {
    {"sf_open",         offsetof(struct writer, open) },
    {"sf_writef_short", offsetof(struct writer, write)},
    {"sf_close",        offsetof(struct writer, close)},
};

static const char *write_sound(const char *name, int format, int rate, const int16_t *samples,
                               int64_t n)
{
    const struct cs_library lib = {"libsndfile.so.1", "libsndfile1", "sound files", writer_symbols,
                                   3};
    struct writer w;
    struct cs_err err = {0};
    const char *path = tmpdir_path(dir, name);
    SF_INFO info = {.samplerate = rate, .channels = 1, .format = format};

    need(cs_library_open(&lib, &w, &err), &err);
    SNDFILE *file = w.open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(w.write(file, samples, n), n);
    w.close(file);
    return path;
}

/* every format: the length of what comes, and how far it is from what was written */
static void formats_are_read(void **state)
{
    static const struct {
        const char *name;
        int format;
        const char *what;
        double most;  /* mean square of the difference against that of the sound */
        int64_t more; /* samples that the coder may add */
    } files[] = {
        {"a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16,         "FLAC", 0,    0   },
        {"a.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16,         "AIFF", 0,    0   },
        {"a.rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16,         "WAV",  0,    0   },
        {"a.wavx", SF_FORMAT_WAVEX | SF_FORMAT_PCM_16,        "WAV",  0,    0   },
        {"u.wav",  SF_FORMAT_WAV | SF_FORMAT_ULAW,            "WAV",  0.01, 0   },
        {"m.wav",  SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM,        "WAV",  0.01, 2048},
        {"a.ogg",  SF_FORMAT_OGG | SF_FORMAT_VORBIS,          "Ogg",  0.05, 0   },
        {"a.opus", SF_FORMAT_OGG | SF_FORMAT_OPUS,            "Ogg",  0.10, 0   },
        {"a.mp3",  SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, "MP3",  0.05, 2304},
    };
    const struct signal s = {"formats", 48000, 21, 900, 0, 180, 10};
    int16_t *q = make_signal(&s);

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(files); i++) {
        struct cs_sound sound = {0};
        struct cs_sound_info info = {0}, probed = {0};
        struct cs_err err = {0};
        const struct cs_sound_source source = {
            .name = write_sound(files[i].name, files[i].format, 48000, q, s.n)};
        double away = 0, all = 0;
        need(cs_sound_read(&source, 48000, 0, &sound, &info, &err), &err);
        need(cs_sound_probe(&source, &probed, &err), &err);
        assert_string_equal(info.format, files[i].what);
        assert_int_equal(probed.n_frames, sound.n_samples);
        if (sound.n_samples < s.n || sound.n_samples > s.n + files[i].more)
            fail_msg("%s: %lld samples of %lld", files[i].name, (long long)sound.n_samples,
                     (long long)s.n);
        for (int64_t k = 0; k < s.n; k++) {
            const double want = (double)q[k] / 32768.0, got = (double)sound.samples[k];
            away += (got - want) * (got - want);
            all += want * want;
        }
        if (!(away <= files[i].most * all))
            fail_msg("%s: %g of its power is noise", files[i].name, away / all);
        cs_sound_free(&sound);
    }
    free(q);
}

/* the samples that libsndfile itself makes of small files in the formats that people bring */
static void files_equal_libsndfile(void **state)
{
    static const char *const names[] = {"mono.flac", "stereo.ogg", "voice.opus", "stereo.mp3",
                                        "ulaw.wav",  "float.wav",  "six.wav"};
    struct cs_st_file *golden = NULL;
    struct cs_err err = {0};

    (void)state;
    need(cs_st_open(source_path("tests/golden/media.safetensors"), &golden, &err), &err);
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        const struct cs_st_tensor *t = cs_st_find(golden, names[i]);
        char path[256];
        struct cs_sound sound = {0};
        struct cs_sound_info info = {0};
        int64_t n = 0;
        assert_non_null(t);
        const int64_t channels = t->dim[1];
        float *want = golden_values(golden, names[i], &n);
        snprintf(path, sizeof path, "%s/%s", source_path("tests/golden/media"), names[i]);
        const struct cs_sound_source source = {.name = path};
        need(cs_sound_probe(&source, &info, &err), &err);
        need(cs_sound_read(&source, info.rate, 0, &sound, NULL, &err), &err);
        assert_int_equal(info.channels, channels);
        assert_int_equal(info.n_frames, t->dim[0]);
        assert_int_equal(sound.n_samples, t->dim[0]);
        for (int64_t k = 0; k < sound.n_samples; k++) {
            double mean = 0;
            for (int64_t c = 0; c < channels; c++)
                mean += (double)want[k * channels + c] / (double)channels;
            if (!(fabs(mean - (double)sound.samples[k]) < 1e-4))
                fail_msg("%s: sample %lld is %g, want %g", names[i], (long long)k,
                         (double)sound.samples[k], mean);
        }
        free(want);
        cs_sound_free(&sound);
    }
    cs_st_close(golden);
}

static void expect_refused(const struct cs_sound_source *source, enum cs_status want,
                           const char *word)
{
    struct cs_sound sound = {0};
    struct cs_err err = {0};
    const enum cs_status status = cs_sound_read(source, 16000, 0, &sound, NULL, &err);

    if (status != want || strstr(err.text, word) == NULL || sound.samples != NULL)
        fail_msg("%s: %s \"%s\", want \"%s\"", source->name, cs_status_slug(status), err.text,
                 word);
    assert_non_null(strstr(err.text, source->name));
}

static void bad_files_are_refused_with_the_reason(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t n;
        enum cs_status status;
        const char *word;
    } files[] = {
        {"empty", "",                                 0,  CS_CORRUPT,     "an empty file" },
        {"text",  "this is no sound at all",          23, CS_CORRUPT,     "no sound file" },
        {"m4a",
         "\0\0\0\x20"
         "ftypM4A \0\0\0\0",                          16, CS_UNSUPPORTED, "MP4"           },
        {"webm",  "\x1a\x45\xdf\xa3\1\0\0\0\0\0\0\0", 12, CS_UNSUPPORTED, "Matroska"      },
        {"aac",   "\xff\xf1\x50\x80\0\0\0\0\0\0\0\0", 12, CS_UNSUPPORTED, "AAC"           },
        {"lfs",   "version https://git-lfs",          23, CS_UNSUPPORTED, "LFS"           },
        {"head",  "RIFF\0\0\0\0WAVEfmt ",             16, CS_CORRUPT,     "cannot be read"},
    };

    int16_t zeros[800] = {0}, *row = zeros;
    size_t size = 0;
    uint8_t *wav = make_wav(&row, 800, 1, 16000, 32, &size);
    const struct cs_sound_source source = {"wav", wav, size};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(files); i++)
        expect_refused(&(struct cs_sound_source){files[i].name, files[i].bytes, files[i].n},
                       files[i].status, files[i].word);
    memcpy(wav + 44 + 4 * 77, "\0\0\xc0\x7f", 4); /* NaN */
    expect_refused(&source, CS_CORRUPT, "sample 77 ");
    memcpy(wav + 24, "\x0a\0\0\0", 4); /* 10 Hz */
    expect_refused(&source, CS_LIMIT, "10 samples a second");
    free(wav);
    wav = make_wav(&row, 0, 1, 16000, 16, &size);
    expect_refused(&(struct cs_sound_source){"none", wav, size}, CS_INVALID, "without samples");
    free(wav);
    expect_refused(&(struct cs_sound_source){.name = "/no/such.wav"}, CS_NOT_FOUND, "such.wav");
}

static void a_cut_flac_is_corrupt(void **state)
{
    const struct signal s = {"cut", 40000, 22, 900, 0, 180, 4};
    int16_t *q = make_signal(&s);
    size_t n = 0;
    char *bytes =
        tmpdir_read(write_sound("cut.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, q, s.n), &n);

    (void)state;
    expect_refused(&(struct cs_sound_source){"cut.flac", bytes, n / 2}, CS_CORRUPT, "");
    free(bytes);
    free(q);
}

static void processors_that_do_otherwise_are_refused(void **state)
{
    static const struct {
        const char *key, *word;
    } rows[] = {
        {"\"dither\": 0.01",           "dither"       },
        {"\"padding_side\": \"left\"", "padding_side" },
        {"\"n_fft\": 401",             "even"         },
        {"\"hop_length\": 161",        "multiple"     },
        {"\"feature_size\": 0",        "feature_size" },
        {"\"chunk_length\": 1e9",      "chunk_length" },
        {"\"sampling_rate\": 5",       "sampling_rate"},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char json[200];
        struct cs_sound_processor p;
        struct cs_err err = {0};
        snprintf(json, sizeof json, "{\"feature_extractor_type\": \"WhisperFeatureExtractor\", %s}",
                 rows[i].key);
        json_t *config = json_loads(json, 0, NULL);
        const struct cs_doc doc = {.name = "p.json", .where = "", .json = config};
        assert_non_null(config);
        assert_int_not_equal(cs_sound_processor_read(&doc, NULL, &p, &err), CS_OK);
        if (strstr(err.text, rows[i].word) == NULL || strstr(err.text, "p.json") == NULL)
            fail_msg("%s: %s", rows[i].key, err.text);
        json_decref(config);
    }
}

static int set_up(void **state)
{
    (void)state;
    dir = tmpdir_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tmpdir_free(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_mel_equals_transformers),
        cmocka_unit_test(other_sizes_equal_transformers),
        cmocka_unit_test(shared_goldens_are_met),
        cmocka_unit_test(voxtral_chunks_equal_transformers),
        cmocka_unit_test(qwen2_audio_has_the_frames_of_its_sound),
        cmocka_unit_test(layouts_of_sounds_have_their_items_and_texts),
        cmocka_unit_test(counts_equal_transformers),
        cmocka_unit_test(resampled_sounds_equal_librosa),
        cmocka_unit_test(the_start_of_a_sound_is_the_same_alone),
        cmocka_unit_test(formats_are_read),
        cmocka_unit_test(files_equal_libsndfile),
        cmocka_unit_test(bad_files_are_refused_with_the_reason),
        cmocka_unit_test(a_cut_flac_is_corrupt),
        cmocka_unit_test(processors_that_do_otherwise_are_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* A job whose pictures have any size, two a sample, through the feeder: files, processor, plan, threads
 * and slots. What the slots must hold is worked out here from the files' sizes alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <png.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"
#include "feeder/feeder.h"
#include "input/media/resize.h"
#include "support/chat.h"
#include "support/planned.h"
#include "support/tmpdir.h"

/* pixels of a patch; of a picture, after it is resized */
enum { PATCH = 7, LEAST = 49 * 4, MOST = 49 * 40 };

enum { SAMPLES = 19, BATCH = 6, STEPS = 5, SEQ = 110, BROKEN = 5, LONG = 11, MAX_SIDE = 130 };

struct size {
    int width, height;
};

struct world {
    char *dir;
    struct cs_test_planned job;
    void *memory;
    struct cs_pool *producer, *reader;
    struct cs_feeder_config config;
    struct cs_err err;
    enum cs_status status;
    json_t *bad;
    int n_checked, met[SAMPLES];
};

static struct size size_of(int sample, int picture)
{
    uint64_t x = (uint64_t)(sample * 2 + picture) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (struct size){12 + (int)(x >> 40) % (MAX_SIDE - 12),
                         12 + (int)(x >> 50) % (MAX_SIDE - 12)};
}

/* as many pictures as fill more than a slot */
static int pictures_of(int sample)
{
    return sample == LONG ? 9 : 2;
}

static void paint(int sample, int picture, struct size s, uint8_t *rgb)
{
    for (int y = 0; y < s.height; y++)
        for (int x = 0; x < s.width; x++, rgb += 3) {
            rgb[0] = (uint8_t)(x * 255 / s.width);
            rgb[1] = (uint8_t)(y * 255 / s.height);
            rgb[2] = (uint8_t)(sample * 13 + picture * 5);
        }
}

/* Multiples of a patch with LEAST to MOST pixels; round() is half to even, as Python's. */
static struct size smart(struct size s)
{
    double h = nearbyint((double)s.height / PATCH) * PATCH;
    double w = nearbyint((double)s.width / PATCH) * PATCH;
    h = h < PATCH ? PATCH : h;
    w = w < PATCH ? PATCH : w;
    const double area = (double)s.height * s.width;
    if (h * w > MOST) {
        const double beta = sqrt(area / MOST);
        h = fmax(PATCH, floor(s.height / beta / PATCH) * PATCH);
        w = fmax(PATCH, floor(s.width / beta / PATCH) * PATCH);
    } else if (h * w < LEAST) {
        const double beta = sqrt(LEAST / area);
        h = ceil(s.height * beta / PATCH) * PATCH;
        w = ceil(s.width * beta / PATCH) * PATCH;
    }
    return (struct size){(int)w, (int)h};
}

static void write_picture(const struct world *w, int sample, int picture)
{
    const struct size s = size_of(sample, picture);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)s.width,
                       .height = (png_uint_32)s.height,
                       .format = PNG_FORMAT_RGB};
    uint8_t *rgb = malloc((size_t)(s.width * s.height) * 3);
    char name[32];
    snprintf(name, sizeof name, "%d-%d.png", sample, picture);
    paint(sample, picture, s, rgb);
    if (sample == BROKEN)
        tmpdir_write(tmpdir_path(w->dir, name), "\x89PNG\r\n\x1a\n", 8);
    else
        assert_true(png_image_write_to_file(&image, tmpdir_path(w->dir, name), 0, rgb, 0, NULL));
    free(rgb);
}

static void write_samples(const struct world *w)
{
    struct cs_buf text = {0};
    for (int s = 0; s < SAMPLES; s++) {
        cs_buf_addf(&text, "{\"id\":\"%d\",\"images\":[", s);
        for (int p = 0; p < pictures_of(s); p++) {
            cs_buf_addf(&text, "%s\"%d-%d.png\"", p > 0 ? "," : "", s, p);
            write_picture(w, s, p);
        }
        cs_buf_adds(&text, "],\"conversations\":[{\"from\":\"human\",\"value\":\"");
        for (int p = 0; p < pictures_of(s); p++)
            cs_buf_adds(&text, "<image>x");
        cs_buf_addf(&text, "\"},{\"from\":\"gpt\",\"value\":\"red %d\"}]}\n", s);
    }
    tmpdir_write(tmpdir_path(w->dir, "train.jsonl"), text.data, text.len);
    cs_buf_free(&text);
}

/* The test's small SigLIP as SigLIP 2, whose pictures have any size, with Qwen's processor. */
static json_t *document(const struct world *w)
{
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){
        .batch_samples = BATCH, .steps = STEPS, .seed = 3, .seq_tokens = SEQ, .slots = 4});
    json_t *modules = json_object_get(json_object_get(root, "model"), "modules"), *module;
    json_t *data = json_object_get(root, "data"), *config;
    size_t i;
    json_array_foreach(modules, i, module)
    {
        const char *kind = json_string_value(json_object_get(module, "kind"));
        config = json_object_get(module, "config");
        if (strcmp(kind, "llm") == 0) {
            json_object_set_new(module, "tokenizer", json_string(w->dir));
            json_object_set_new(config, "vocab_size", json_integer(300));
        } else if (strcmp(kind, "encoder") == 0) {
            json_object_set_new(config, "model_type", json_string("siglip2_vision_model"));
            json_object_set_new(config, "num_patches", json_integer(16));
            json_object_del(config, "image_size");
            json_object_set_new(module, "processor",
                                json_pack("{s:s,s:i,s:i,s:i,s:i,s:i}", "image_processor_type",
                                          "Qwen2VLImageProcessor", "patch_size", PATCH,
                                          "merge_size", 1, "temporal_patch_size", 1, "min_pixels",
                                          LEAST, "max_pixels", MOST));
            json_object_set_new(module, "items",
                                json_pack("{s:i,s:i,s:i}", "rows", 60, "patches", 60, "bytes",
                                          60 * PATCH * PATCH * 3));
        }
    }
    json_object_set_new(data, "json", json_string(tmpdir_path(w->dir, "train.jsonl")));
    json_object_set_new(data, "images", json_string(w->dir));
    json_object_set_new(data, "max_bad_fraction", json_real(0.5));
    json_object_set_new(data, "template", json_pack("{s:s}", "name", "plain"));
    return root;
}

static void set_up(struct world *w, int n_threads, size_t cache_bytes)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    const struct cs_pool_shape shape = {.n_slots = 16, .n_manifests = 4, .n_readers = 1};
    json_t *tok = chat_tokenizer_json();
    char *text = json_dumps(tok, JSON_COMPACT);
    memset(w, 0, sizeof *w);
    w->dir = tmpdir_new();
    w->bad = json_array();
    tmpdir_write(tmpdir_path(w->dir, "tokenizer.json"), text, strlen(text));
    free(text);
    json_decref(tok);
    write_samples(w);
    w->job = cs_test_plan_json(document(w), &cluster);
    const struct cs_slot_budget *budget = &w->job.plan->budget;
    const size_t bytes = cs_pool_bytes(&shape, budget);
    w->memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert_non_null(w->memory);
    cs_pool_init(w->memory, &shape, budget);
    assert_int_equal(cs_pool_attach(w->memory, bytes, budget, -1, &w->producer, &w->err), CS_OK);
    assert_int_equal(cs_pool_attach(w->memory, bytes, budget, 0, &w->reader, &w->err), CS_OK);
    w->config = (struct cs_feeder_config){.spec = w->job.spec,
                                          .graph = w->job.graph,
                                          .budget = budget,
                                          .plan = w->job.plan,
                                          .pool = w->producer,
                                          .job_dir = w->dir,
                                          .n_threads = n_threads,
                                          .cache_bytes = cache_bytes};
}

static void tear_down(struct world *w)
{
    cs_pool_detach(w->producer);
    cs_pool_detach(w->reader);
    free(w->memory);
    json_decref(w->bad);
    cs_test_planned_free(&w->job);
    tmpdir_free(w->dir);
}

static void on_message(void *user, json_t *msg)
{
    struct world *w = user;
    if (strcmp(cs_msg_type(msg), "feeder.bad") == 0)
        json_array_append(w->bad, msg);
    json_decref(msg);
}

static void *feed(void *arg)
{
    struct world *w = arg;
    w->config.send = on_message;
    w->config.user = w;
    w->status = cs_feeder_run(&w->config, &w->err);
    if (w->status != CS_OK)
        cs_pool_stop(w->producer);
    return NULL;
}

static void check_pixels(int sample, int picture, const uint8_t *got)
{
    const struct size from = size_of(sample, picture), to = smart(from);
    uint8_t *rgb = malloc((size_t)(from.width * from.height) * 3);
    uint8_t *want = malloc((size_t)(to.width * to.height) * 3);
    struct cs_err err = {0};
    paint(sample, picture, from, rgb);
    assert_int_equal(cs_resize_rgb(rgb, from.width, from.height, want, to.width, to.height,
                                   CS_RESAMPLE_BICUBIC, &err),
                     CS_OK);
    assert_memory_equal(got, want, (size_t)(to.width * to.height) * 3);
    free(rgb);
    free(want);
}

/* "<image>x<image>xred": rows of both pictures with an x behind each. Returns its rows. */
static int32_t check_sample(struct world *w, const struct cs_slot *slot, int i, int32_t *item,
                            int32_t *row, int64_t *offset)
{
    const int sample = (int)slot->sample_ids[i];
    int32_t t = slot->sample_rows[i];
    assert_int_not_equal(sample, BROKEN);
    assert_int_not_equal(sample, LONG);
    for (int p = 0; p < 2; p++) {
        const struct size to = smart(size_of(sample, p));
        const struct cs_item *it = &slot->items[0][(*item)++];
        assert_int_equal(it->shape.grid[1], to.height / PATCH);
        assert_int_equal(it->shape.grid[2], to.width / PATCH);
        assert_int_equal(it->shape.rows, to.height / PATCH * (to.width / PATCH));
        assert_int_equal(it->shape.bytes, to.height * to.width * 3);
        assert_int_equal(it->offset, *offset);
        check_pixels(sample, p, slot->data[0] + *offset);
        *offset += it->shape.bytes;
        for (int32_t r = 0; r < it->shape.rows; r++, t++) {
            assert_int_equal(slot->rows[0][(*row)++], t);
            assert_int_equal(slot->ids[t], slot->ids[slot->sample_rows[i]]);
        }
        assert_int_not_equal(slot->ids[t], slot->ids[t - 1]);
        t++;
    }
    w->met[sample]++;
    w->n_checked++;
    return slot->sample_rows[i + 1] - slot->sample_rows[i];
}

static void check_slot(struct world *w, const struct cs_manifest *m, int k,
                       const struct cs_slot *slot)
{
    int32_t item = 0, row = 0, tokens = 0;
    int64_t offset = 0;
    if (cs_slot_check_items(slot, &w->job.plan->budget, 0, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
    for (int i = 0; i < slot->head->n_samples; i++)
        tokens += check_sample(w, slot, i, &item, &row, &offset);
    assert_int_equal(item, m->slot[k].n_items[0]);
    assert_int_equal(row, m->slot[k].n_rows[0]);
    assert_int_equal(row, m->slot[k].n_patches[0]);
    assert_int_equal(tokens, m->slot[k].n_tokens);
    assert_true(tokens <= SEQ);
}

static void run(struct world *w)
{
    pthread_t thread;
    struct cs_manifest m;
    struct cs_slot slot;
    assert_int_equal(pthread_create(&thread, NULL, feed, w), 0);
    while (cs_pool_next(w->reader, &m, NULL, NULL) == CS_OK) {
        for (int k = 0; k < m.n_slots; k++) {
            cs_pool_slot(w->reader, &m, k, &slot);
            check_slot(w, &m, k, &slot);
            cs_pool_release(w->reader, &m, k);
        }
        if ((m.flags & CS_STEP_LAST) != 0)
            break;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (w->status != CS_OK)
        fail_msg("%s", w->err.text);
}

static void check_bad(const struct world *w)
{
    const json_t *msg;
    size_t i;
    assert_int_equal(json_array_size(w->bad), 2);
    json_array_foreach(w->bad, i, msg)
    {
        const char *reason = json_string_value(json_object_get(msg, "reason"));
        const int index = (int)json_integer_value(json_object_get(msg, "index"));
        assert_true(index == BROKEN || index == LONG);
        assert_non_null(
            strstr(reason, index == LONG ? "rows after expansion, seq_tokens is 110" : "5-0.png"));
    }
}

static void pictures_of_any_size_fill_slots(void **state)
{
    static const struct {
        int n_threads;
        size_t cache;
    } ways[] = {
        {1, 0      },
        {3, 1 << 20},
        {2, 9000   }, /* some of the pictures */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(ways); i++) {
        struct world w;
        set_up(&w, ways[i].n_threads, ways[i].cache);
        assert_int_equal(w.job.plan->budget.enc[0].rows, SEQ);
        assert_int_equal(w.job.plan->budget.enc[0].item_rows, 60);
        run(&w);
        assert_int_equal(w.n_checked, STEPS * BATCH);
        for (int s = 0; s < SAMPLES; s++)
            assert_true(s == BROKEN || s == LONG || w.met[s] > 0);
        check_bad(&w);
        tear_down(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_of_any_size_fill_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

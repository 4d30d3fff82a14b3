/* How fast the feeder prepares data, without any training beside it: where the time of one thread goes, then the whole
 * feeder against a pool whose one reader takes slots at once.
 * Usage: bench_feeder_rate JSON IMAGES TOKENIZER [THREADS [SAMPLES [SIDE]]]
 *   IMAGES      folder of the pictures; -: samples of text alone
 *   THREADS     1,2,4: feeders with so many threads, one after the other (1,2)
 *   SAMPLES     of each (256), in steps of 32; no picture is kept, so that every one is decoded
 *   SIDE        pixels that SigLIP sees (384), patches of 14
 * Times are CPU time of the threads. Beside its peers: feeder_peer.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/wire/wire.h"
#include "feeder/feeder.h"
#include "input/data/source.h"
#include "input/picture/image.h"
#include "support/planned.h"

/* FRESH: steps until the memory of the pool was written once, which takes longer than later */
enum { BATCH = 32, SLOTS = 8, SEQ = 4096, MOST_WAYS = 16, FRESH = 8 };

struct bench {
    const char *json, *images, *tokenizer;
    int threads[MOST_WAYS], n_ways;
    int samples, side;
    struct cs_test_planned job;
};

/* CPU time of the stages of one thread, in ns */
struct stages {
    int64_t record, file, decode, resize, text;
    int64_t n_samples, n_pictures, n_tokens;
};

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "bench_feeder_rate: %s\n", err->text);
    exit(1);
}

/* --- the job -------------------------------------------------------------------------------------- */

static int32_t vocab_of(const char *dir)
{
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    must(cs_tokenizer_open(dir, &tok, &err), &err);
    const int32_t vocab = cs_tokenizer_vocab(tok);
    cs_tokenizer_close(tok);
    return vocab;
}

static void plan_job(struct bench *b)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    const bool is_text = strcmp(b->images, "-") == 0;
    char keys[160];
    json_t *root, *modules, *module, *data;
    size_t i;

    snprintf(keys, sizeof keys, "{\"image_size\": %d, \"patch_size\": 14}", b->side);
    root = cs_test_spec_json(&(struct cs_test_spec){.n_encoders = is_text ? -1 : 1,
                                                    .vision_keys = keys,
                                                    .seq_tokens = SEQ,
                                                    .slots = SLOTS,
                                                    .batch_samples = BATCH,
                                                    .steps = (b->samples + BATCH - 1) / BATCH,
                                                    .seed = 1});
    modules = json_object_get(json_object_get(root, "model"), "modules");
    json_array_foreach(
        modules, i,
        module) if (strcmp(json_string_value(json_object_get(module, "kind")), "llm") == 0)
    {
        json_object_set_new(module, "tokenizer", json_string(b->tokenizer));
        json_object_set_new(json_object_get(module, "config"), "vocab_size",
                            json_integer(vocab_of(b->tokenizer)));
    }
    data = json_object_get(root, "data");
    json_object_set_new(data, "json", json_string(b->json));
    json_object_set_new(data, "images", json_string(is_text ? "" : b->images));
    json_object_set_new(data, "template",
                        json_pack("{s:s, s:s}", "name", "chatml", "default_system", ""));
    b->job = cs_test_plan_json(root, &cluster);
}

/* --- one thread, stage by stage ---------------------------------------------------------------- */

static int64_t since(int64_t *begin)
{
    const int64_t now = cs_thread_cpu_ns(), ns = now - *begin;

    *begin = now;
    return ns;
}

/* Its picture's bytes and pixels once more, so that these are known apart from all the rest. */
static void decode_files(const struct bench *b, const struct cs_record *record, struct stages *s)
{
    struct cs_err err = {0};

    for (int i = 0; i < record->n_files[0]; i++) {
        int64_t at = cs_thread_cpu_ns();
        struct cs_buf bytes = {0};
        struct cs_image image = {0};
        char path[CS_PATH_CAP];
        must(cs_path(path, &err, "%s/%s", b->images, record->files[0][i].name), &err);
        must(cs_read_file(path, CS_IMAGE_MAX_FILE_BYTES, &bytes, &err), &err);
        s->file += since(&at);
        must(cs_image_decode(bytes.data, bytes.len, path, 0, &image, &err), &err);
        s->decode += since(&at);
        cs_image_free(&image);
        cs_buf_free(&bytes);
    }
}

static void one_sample(const struct bench *b, struct cs_source *source, uint64_t index,
                       struct stages *s)
{
    struct cs_err err = {0};
    struct cs_loaded loaded;
    struct cs_record *record = NULL;
    const int64_t known = s->file + s->decode;
    int64_t at = cs_thread_cpu_ns(), record_ns = 0, text_ns = 0;

    must(cs_source_record(source, index, &record, &err), &err);
    record_ns = since(&at);
    decode_files(b, record, s);
    cs_record_free(record);
    at = cs_thread_cpu_ns();
    must(cs_source_load_text(source, index, NULL, &loaded, &err), &err);
    text_ns = since(&at);
    cs_loaded_free(&loaded);
    at = cs_thread_cpu_ns();
    must(cs_source_load(source, index, NULL, &loaded, &err), &err);
    s->resize += since(&at) - text_ns - (s->file + s->decode - known);
    s->record += record_ns;
    s->text += text_ns - record_ns;
    s->n_samples++;
    s->n_pictures += loaded.sample.n_media;
    s->n_tokens += loaded.sample.n_tokens;
    cs_loaded_free(&loaded);
}

static void measure_stages(const struct bench *b)
{
    const struct cs_source_options options = {.budget = &b->job.plan->budget};
    struct cs_source *source = NULL;
    struct cs_err err = {0};
    struct stages s = {0};
    uint64_t n = 0;

    must(cs_source_open(b->job.spec, b->job.graph, &b->job.spec->data, &options, &source, &err),
         &err);
    n = cs_source_count(source);
    for (int i = 0; i < b->samples; i++)
        one_sample(b, source, (uint64_t)i % n, &s);
    const double per = 1e3 * (double)s.n_samples;
    printf("one thread, us a sample: record %.1f, text to tokens %.1f, files %.1f, decode %.1f, "
           "resize and "
           "place %.1f; all %.1f\n",
           (double)s.record / per, (double)s.text / per, (double)s.file / per,
           (double)s.decode / per, (double)s.resize / per,
           (double)(s.record + s.text + s.file + s.decode + s.resize) / per);
    printf("%.1f tokens and %.2f pictures a sample\n", (double)s.n_tokens / (double)s.n_samples,
           (double)s.n_pictures / (double)s.n_samples);
    cs_source_close(source);
}

/* --- the feeder -------------------------------------------------------------------------------- */

struct feed {
    struct cs_feeder_config config;
    struct cs_pool *reader;
    int64_t first_ns, first_cpu_ns; /* data sets are open */
    int64_t first_own_ns;           /* of the thread that packs; after FRESH steps */
    int64_t last_ns, last_cpu_ns, last_own_ns;
    int64_t n_steps, n_samples, n_fresh; /* n_fresh: samples of the first FRESH steps */
};

static int64_t process_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* On the feeder's own thread, the one that packs. */
static void on_message(void *user, json_t *msg)
{
    struct feed *f = user;

    if (strcmp(cs_msg_type(msg), "feeder.ready") == 0) {
        f->first_ns = cs_now_ns();
        f->first_cpu_ns = process_cpu_ns();
    } else if (strcmp(cs_msg_type(msg), "feeder.step") == 0) {
        f->n_samples += cs_msg_int(msg, "samples", 0);
        f->last_ns = cs_now_ns();
        f->last_cpu_ns = process_cpu_ns();
        f->last_own_ns = cs_thread_cpu_ns();
        if (++f->n_steps == FRESH) {
            f->n_fresh = f->n_samples;
            f->first_own_ns = f->last_own_ns;
        }
    }
    json_decref(msg);
}

static void *read_slots(void *arg)
{
    struct feed *f = arg;
    struct cs_manifest manifest = {0};

    while ((manifest.flags & CS_STEP_LAST) == 0 &&
           cs_pool_next(f->reader, &manifest, NULL, NULL) == CS_OK)
        for (int k = 0; k < manifest.n_slots; k++)
            cs_pool_release(f->reader, &manifest, k);
    return NULL;
}

static void measure_feeder(const struct bench *b, int n_threads)
{
    const struct cs_slot_budget *budget = &b->job.plan->budget;
    const struct cs_pool_shape shape = {.n_slots = BATCH + SLOTS, .n_manifests = 4, .n_readers = 1};
    const size_t bytes = cs_pool_bytes(&shape, budget);
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    char dir[] = "/tmp/bench_feeder.XXXXXX", path[CS_PATH_CAP];
    struct cs_pool *pool = NULL;
    struct feed f = {0};
    struct cs_err err = {0};
    pthread_t thread;

    if (memory == NULL || mkdtemp(dir) == NULL) {
        fprintf(stderr, "bench_feeder_rate: no memory for the pool, or no folder in /tmp\n");
        exit(1);
    }
    cs_pool_init(memory, &shape, budget);
    must(cs_pool_attach(memory, bytes, budget, -1, &pool, &err), &err);
    must(cs_pool_attach(memory, bytes, budget, 0, &f.reader, &err), &err);
    f.config = (struct cs_feeder_config){.spec = b->job.spec,
                                         .graph = b->job.graph,
                                         .budget = budget,
                                         .plan = b->job.plan,
                                         .pool = pool,
                                         .job_dir = dir,
                                         .n_threads = n_threads,
                                         .send = on_message,
                                         .user = &f};
    if (pthread_create(&thread, NULL, read_slots, &f) != 0)
        exit(1);
    must(cs_feeder_run(&f.config, &err), &err);
    (void)pthread_join(thread, NULL);
    const double n = (double)f.n_samples, wall_s = (double)(f.last_ns - f.first_ns) / 1e9;
    const double own_us =
        (double)(f.last_own_ns - f.first_own_ns) / 1e3 / (double)(f.n_samples - f.n_fresh);
    printf("%2d threads: %8.1f samples/s, %.0f us of CPU a sample", n_threads, n / wall_s,
           (double)(f.last_cpu_ns - f.first_cpu_ns) / 1e3 / n);
    if (f.n_steps > FRESH)
        printf("; of these on the one thread that packs %.1f us (at most %.0f samples/s)", own_us,
               1e6 / own_us);
    printf("\n");
    cs_pool_detach(pool);
    cs_pool_detach(f.reader);
    free(memory);
    if (cs_path(path, &err, "%s/quarantine.jsonl", dir) == CS_OK)
        (void)remove(path);
    (void)remove(dir);
}

int main(int argc, char **argv)
{
    struct bench b = {.samples = argc > 5 ? atoi(argv[5]) : 256,
                      .side = argc > 6 ? atoi(argv[6]) : 384};
    const char *ways = argc > 4 ? argv[4] : "1,2";

    if (argc < 4 || b.samples < 1 || b.side < 14) {
        fprintf(stderr,
                "usage: bench_feeder_rate JSON IMAGES TOKENIZER [THREADS [SAMPLES [SIDE]]]\n");
        return 1;
    }
    b.json = argv[1];
    b.images = argv[2];
    b.tokenizer = argv[3];
    for (const char *at = ways; at != NULL && b.n_ways < MOST_WAYS; at = strchr(at, ',')) {
        at += *at == ',';
        b.threads[b.n_ways++] = atoi(at);
        if (b.threads[b.n_ways - 1] < 1 || b.threads[b.n_ways - 1] > CS_SPEC_MAX_DATA_THREADS) {
            fprintf(stderr, "bench_feeder_rate: THREADS \"%s\": numbers from 1 to %d\n", ways,
                    CS_SPEC_MAX_DATA_THREADS);
            return 1;
        }
    }
    plan_job(&b);
    measure_stages(&b);
    for (int i = 0; i < b.n_ways; i++)
        measure_feeder(&b, b.threads[i]);
    cs_test_planned_free(&b.job);
    return 0;
}
